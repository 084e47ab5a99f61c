"""Which half messages are pending: after appends, op messages, and starts on stores that RocketMQ wrote."""

import shutil
from pathlib import Path

import pytest

from broker_core.formats.message_properties import TAGS, TRANSACTION_ID, encode
from broker_core.options import Options
from broker_core.store.commit_log import PendingMessage
from broker_core.store.message_store import MessageStore
from broker_core.store.transactional_message_service import HALF_TOPIC, OP_BATCH_NS, OP_TOPIC
from tests.fakes.golden_store import STORES, unpack
from tests.fakes.store_cases import at, open_store


def message(topic: str, body: bytes = b"", prepared_offset: int = 0, **properties: str) -> PendingMessage:
    return PendingMessage(
        topic=topic,
        queue_id=0,
        body=body,
        properties=encode(properties),
        flag=0,
        sys_flag=8 if prepared_offset else 0,
        born_timestamp=0,
        born_host="127.0.0.1",
        born_port=0,
        prepared_transaction_offset=prepared_offset,
    )


def store_with(root: Path, *messages: PendingMessage) -> MessageStore:
    """A store with these messages, in which transactions are not loaded yet."""
    store = open_store(root)
    for one in messages:
        store.append([one], at(0))
    store.reput()
    return store


def halves(count: int) -> list[PendingMessage]:
    return [message(HALF_TOPIC, **{TRANSACTION_ID: f"id {number}"}) for number in range(count)]


def op(body: bytes, tag: str = "d") -> PendingMessage:
    return message(OP_TOPIC, body, **{TAGS: tag})


@pytest.mark.parametrize(
    ("bodies", "half_offset", "op_offset", "pending"),
    [
        ([], None, None, [0, 1, 2, 3]),
        ([b"0,2,"], None, None, [1, 3]),
        ([b"0", b"1"], None, None, [2, 3]),  # RocketMQ 4
        ([b"0,2,", b"1,"], 2, 0, [3]),
        ([b"0,", b"3,"], 1, 1, [1, 2]),
        ([b"0,,x,-1,99999999999999999999999,2"], None, None, [1, 3]),
        ([b""], None, None, [0, 1, 2, 3]),
        ([], 4, 0, []),
        ([], 9, 9, []),
        ([b"0,"], -5, -5, [1, 2, 3]),
    ],
)
def test_a_start_goes_on_where_the_last_broker_stopped(
    tmp_path: Path, bodies: list[bytes], half_offset: int | None, op_offset: int | None, pending: list[int]
) -> None:
    store = store_with(tmp_path, *halves(4), *map(op, bodies))
    store.transactions.load(half_offset, op_offset)
    assert list(store.transactions.pending) == pending


def test_a_message_of_another_tag_in_the_op_topic_ends_nothing(tmp_path: Path) -> None:
    store = store_with(tmp_path, *halves(1), op(b"0,", tag="x"))
    store.transactions.load(None, None)
    assert list(store.transactions.pending) == [0]


def test_an_offset_beyond_the_queue_is_reported(tmp_path: Path) -> None:
    store = store_with(tmp_path, *halves(1))
    ((step, detail),) = store.transactions.load(7, None)
    assert step == "transactions" and "7" in detail and "ends at 1" in detail


def test_a_copy_in_the_log_ends_its_half_message(tmp_path: Path) -> None:
    store = store_with(tmp_path, *halves(3))
    store.transactions.load(None, None)
    physical = [half.physical_offset for half in store.transactions.pending.values()]
    store.close(at(0))
    store = open_store(tmp_path)
    store.append([message("T", prepared_offset=physical[1])], at(0))
    store.append([message("T", prepared_offset=physical[2] + 1)], at(0))
    store.reput()
    store.transactions.load(None, None)
    assert list(store.transactions.pending) == [0, 2]


@pytest.mark.parametrize(("transaction", "pending"), [("id 0", []), ("id 1", [0]), ("", [0])])
def test_the_copy_of_the_logs_first_record_is_known_by_its_transaction(
    tmp_path: Path, transaction: str, pending: list[int]
) -> None:
    """Its physical offset is 0, which also stands for no transaction."""
    copy = message("T", **{TRANSACTION_ID: transaction or "none"})
    copy.sys_flag = 8
    store = store_with(tmp_path, *halves(1), copy)
    store.transactions.load(None, None)
    assert list(store.transactions.pending) == pending


def test_progress_names_what_the_next_start_needs(tmp_path: Path) -> None:
    store = store_with(tmp_path, *halves(4), op(b"0,"), op(b"1,3,"), op(b"9,"))
    store.transactions.load(None, None)
    assert store.transactions.progress(0) == (2, 1), "the second op message counts, for half message 3"
    store.transactions.end(2, store.appended_offset, 0)
    assert store.transactions.progress(0) == (2, 1), "no op message lists half message 2 yet"


def test_an_op_message_lists_only_what_is_on_the_disk(tmp_path: Path) -> None:
    store = store_with(tmp_path, *halves(3))
    service = store.transactions
    service.load(None, None)
    for offset, physical_end in ((0, 1000), (2, 2000)):
        service.end(offset, physical_end, 7)
    assert (service.op_bodies(999), service.ops_due_ns(999)) == ([], None)
    assert service.op_bodies(1999) == [(b"0,", [0])]
    assert service.op_bodies(2000) == [(b"0,2,", [0, 2])]
    assert service.ops_due_ns(1000) == 7 + OP_BATCH_NS
    service.pause(1 << 60)
    assert service.ops_due_ns(1000) == 1 << 60


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize(("half_offset", "op_offset"), [(None, None), (4, 1), (0, 0), (0, 1)])
def test_a_store_that_rocketmq_wrote(tmp_path: Path, name: str, half_offset: int | None, op_offset: int | None) -> None:
    """Two transactions were committed and two rolled back. Without the op message the copies show the first two."""
    golden = unpack(tmp_path / "golden")
    root = Path(shutil.copytree(golden / name, tmp_path / "store"))
    store = open_store(root, Options(max_hash_slot_num=5000, max_index_num=20_000), adopt=True)
    store.transactions.load(half_offset, op_offset)
    assert list(store.transactions.pending) == ([1, 3] if (half_offset, op_offset) == (0, 1) else [])


def test_an_op_message_ends_no_half_message_that_was_stored_after_it(tmp_path: Path) -> None:
    """A power cut took the half message for which it was stored, and the next one got its offset."""
    store = store_with(tmp_path, op(b"0,1,"), *halves(1), op(b"1,"), *halves(1))
    store.transactions.load(None, None)
    assert list(store.transactions.pending) == [0, 1]

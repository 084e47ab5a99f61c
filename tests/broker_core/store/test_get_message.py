from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.filters.filter_factory import make_filter
from broker_core.filters.message_filter import MessageFilter
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.tags_code import tags_code
from broker_core.options import Options
from broker_core.store.get_message import EVALUATED_BYTES_MAX
from broker_core.store.message_store import Arrival, MessageStore
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import at, message, open_store

ROOT = Path("/store")


class OneTag:
    """A tag filter that distinguishes tags with the same hash."""

    expression, work = "a tag", 1
    reads_properties: ClassVar[bool] = False

    def __init__(self, tag: str, code: int | None = None) -> None:
        self._text = f"TAGS\x01{tag}\x02".encode()
        self._code = tags_code(tag) if code is None else code

    def matches_tags_code(self, tags_code: int) -> bool:
        return tags_code == self._code

    def matches_record(self, properties: bytes) -> bool:
        return self._text in properties


def flags(records: bytes) -> list[int]:
    return [record.flag for record in decode_all(records)]


@pytest.fixture
def trimmed() -> MessageStore:
    """A queue with no message left, because all segments were removed."""
    store = open_store(ROOT, files=SimulatedFiles())
    for number in range(10):
        store.append([message(number, size=64_000)], at(number))
    for number in range(10, 20):
        store.append([message(number, tag="a")], at(number))
    store.reput()
    for file in store._log.mapped_files.all()[:-1]:
        store._log.mapped_files.take_out(file)
    assert store.min_offset("T", 0) == 9
    store.append([message(0, size=65_000, queue_id=1)], at(30))
    store._log.mapped_files.take_out(store._log.mapped_files.all()[0])
    return store


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [(0, "OFFSET_TOO_SMALL", 20), (20, "OFFSET_OVERFLOW_ONE", 20), (21, "OFFSET_OVERFLOW_BADLY", 20)],
)
def test_a_queue_without_any_remaining_message(
    trimmed: MessageStore, offset: int, status: str, next_offset: int
) -> None:
    result = trimmed.get_message("T", 0, offset, 32, 1 << 20, None)
    assert (result.status, result.next_begin_offset, result.min_offset, result.max_offset) == (
        status,
        next_offset,
        20,
        20,
    )


def test_statuses_in_rocketmqs_order() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    assert store.get_message("none", 0, 5, 32, 1 << 20, None).status == "NO_MATCHED_LOGIC_QUEUE"
    store.append([message(number, tag="a") for number in range(20)], at(1))
    result = store.get_message("T", 0, 5, 32, 1 << 20, None)
    assert (result.status, result.next_begin_offset, result.max_offset) == ("NO_MESSAGE_IN_QUEUE", 0, 0)
    store.reput()
    for offset, status, next_offset in ((20, "OFFSET_OVERFLOW_ONE", 20), (21, "OFFSET_OVERFLOW_BADLY", 20)):
        result = store.get_message("T", 0, offset, 32, 1 << 20, None)
        assert (result.status, result.next_begin_offset) == (status, next_offset)
    result = store.get_message("T", 0, 3, 5, 1 << 20, None)
    assert (result.status, result.next_begin_offset, result.message_count) == ("FOUND", 8, 5)
    assert (result.first_offset, result.last_offset) == (3, 7)
    assert flags(result.records) == [3, 4, 5, 6, 7]
    result = store.get_message("T", 0, 3, 5, 1 << 20, OneTag("b"))
    assert (result.status, result.next_begin_offset, result.records) == ("NO_MATCHED_MESSAGE", 20, b"")


def test_a_missing_queue_file_leads_to_the_next_one() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    store.append([message(number) for number in range(250)], at(1))
    store.reput()
    files = store._queues.table["T", 0].mapped_files
    files.take_out(files.all()[1])
    result = store.get_message("T", 0, 130, 32, 1 << 20, None)
    assert (result.status, result.next_begin_offset) == ("OFFSET_FOUND_NULL", 200)


def test_tags_are_sampled_from_two_files() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    store.append([message(number, tag="ab"[number % 2]) for number in range(250)], at(1))
    store.reput()
    sample, codes = store.reader.sample, frozenset([tags_code("a")])
    assert sample("T", 0, 0, 3, codes) == [True, False, True]
    assert sum(sample("T", 0, 50, 100, codes)) == 50, "a file of this store has 100 units"
    assert len(sample("T", 0, 240, 100, codes)) == 10
    assert sample("T", 0, 250, 1, codes) == sample("T", 9, 0, 1, codes) == []


def test_units_of_a_removed_segment_are_skipped() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    store.append([message(number, size=30_000) for number in range(5)], at(1))
    store.reput()
    middle = store._log.mapped_files.all()[1]
    store._log.mapped_files.take_out(middle)
    result = store.get_message("T", 0, 2, 2, 1 << 20, None)
    assert (result.status, result.next_begin_offset) == ("MESSAGE_WAS_REMOVING", 4)
    assert flags(store.get_message("T", 0, 1, 4, 1 << 20, None).records) == [1, 4]
    assert flags(store.get_message("T", 0, 1, 4, 1 << 20, OneTag("x")).records) == []


def test_a_pull_is_limited_by_the_requested_messages_and_bytes() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    size = store.append([message(number) for number in range(50)], at(1)).requests[0].size
    store.reput()

    def count(max_msg_nums: int, max_msg_bytes: int, message_filter: OneTag | None = None) -> int:
        return store.get_message("T", 0, 0, max_msg_nums, max_msg_bytes, message_filter).message_count

    assert count(100, 1 << 20) == 32
    assert count(0, 1 << 20) == 1
    assert count(7, 1 << 20) == 7
    assert count(32, 3 * size) == 3
    assert count(32, 4 * size - 1) == 3
    assert count(32, 1) == 1


@pytest.mark.parametrize("interleaved", [False, True])
def test_the_older_part_of_the_log_is_read_in_smaller_portions(interleaved: bool) -> None:
    files = SimulatedFiles()
    files.memory = 100_000  # 40 % of it: the last 40,000 bytes are recent
    store = open_store(ROOT, files=files)
    for number in range(300):
        store.append([message(number, size=300, queue_id=queue_id) for queue_id in range(1 + interleaved)], at(1))
    store.reput()
    assert store.get_message("T", 0, 0, 32, 1 << 20, None).message_count == 8
    assert store.get_message("T", 0, 290, 32, 1 << 20, None).message_count == 10
    across = 300 - 40_000 // (420 * (1 + interleaved)) - 20
    assert 8 <= store.get_message("T", 0, across, 32, 1 << 20, None).message_count < 32


@pytest.mark.parametrize("message_filter", [None, OneTag("a")])
def test_the_options_limit_bytes_from_the_recent_part(message_filter: OneTag | None) -> None:
    options = Options(
        mapped_file_size_commit_log=65_536,
        max_transfer_bytes_on_message_in_memory=1000,
        max_transfer_count_on_message_in_memory=9,
    )
    store = open_store(ROOT, options, files=SimulatedFiles())
    size = store.append([message(number, tag="a") for number in range(50)], at(1)).requests[0].size
    store.reput()
    assert store.get_message("T", 0, 0, 32, 1 << 20, message_filter).message_count == min(9, 1000 // size)
    store.append([message(1, tag="a", size=5000, queue_id=1)], at(1))
    store.reput()
    assert store.get_message("T", 1, 0, 32, 1 << 20, message_filter).message_count == 1


def test_a_filtered_pull_examines_800_units_or_the_requested_number() -> None:
    options = Options(mapped_file_size_commit_log=1 << 20)
    store = open_store(ROOT, options, files=SimulatedFiles())
    for _ in range(10):
        store.append([message(number, tag="a") for number in range(200)], at(1))
    store.append([message(7, tag="b")], at(1))
    store.reput()
    for offset, asked, next_offset in ((0, 32, 800), (800, 32, 1600), (0, 900, 900)):
        result = store.get_message("T", 0, offset, asked, 1 << 20, OneTag("b"))
        assert (result.status, result.next_begin_offset) == ("NO_MATCHED_MESSAGE", next_offset)
    result = store.get_message("T", 0, 1600, 32, 1 << 20, OneTag("b"))
    assert (result.status, result.next_begin_offset, flags(result.records)) == ("FOUND", 2001, [7])


def test_two_tags_with_the_same_hash_are_distinguished_by_the_record() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    assert tags_code("Aa") == tags_code("BB")
    store.append([message(1, tag="Aa"), message(2, tag="BB"), message(3)], at(1))
    store.reput()
    result = store.get_message("T", 0, 0, 32, 1 << 20, OneTag("BB"))
    assert (flags(result.records), result.next_begin_offset, result.first_offset) == ([2], 3, 1)


def test_one_answer_contains_records_from_two_segments() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    store.append([message(number, size=20_000, queue_id=number % 2) for number in range(10)], at(9))
    store.reput()
    result = store.get_message("T", 1, 0, 32, 1 << 20, None)
    assert flags(result.records) == [1, 3, 5, 7, 9]
    assert result.oldest_store_timestamp == 1_700_000_000_009


def test_limits_may_change_while_the_store_is_open() -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    store.append([message(number) for number in range(50)], at(1))
    store.reput()
    store.change_options(Options(max_transfer_count_on_message_in_memory=5))
    assert store.get_message("T", 0, 0, 32, 1 << 20, None).message_count == 5


appends = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["", "a", "Aa", "BB"]), st.sampled_from([20, 9000])),
    min_size=1,
    max_size=3,
)
steps = st.lists(st.one_of(appends, st.sampled_from(["cut", "delete"])), min_size=1, max_size=40)


BY_SQL = make_filter("TAGS = 'a'", "SQL92", property_filter=True)


@given(steps, st.sampled_from([None, OneTag("a"), OneTag("BB"), BY_SQL]), st.integers(1, 3))
def test_reading_from_an_arrival_equals_reading_from_the_queue(
    steps: list[list[tuple[int, str, int]] | str], message_filter: MessageFilter | None, looks: int
) -> None:
    """``get_arrived`` returns what ``get_message`` returns, or None, even if more was appended since the arrival."""
    store = open_store(ROOT, files=SimulatedFiles())
    recent: list[Arrival] = []
    for number, step in enumerate(steps):
        if step == "delete":
            store.delete_topic("T")
        elif step == "cut" and len(store._log.mapped_files) > 1:
            store._log.mapped_files.take_out(store._log.mapped_files.all()[0])
        elif isinstance(step, list):
            store.append(
                [message(number, queue_id=queue_id, tag=tag, size=size) for queue_id, tag, size in step], at(number)
            )
            if number % 3:  # otherwise it is dispatched with the next append, as one arrival
                recent += store.reput()
        for arrival in recent[-looks:]:
            for offset in range(arrival.from_offset - 1, arrival.to_offset + 2):
                from_arrival = store.get_arrived(arrival, offset, message_filter)
                if from_arrival is not None:
                    assert from_arrival == store.get_message("T", arrival.queue_id, offset, 32, 1 << 20, message_filter)


@pytest.mark.parametrize("message_filter", [None, OneTag("a"), BY_SQL])
def test_a_single_arrival_is_returned_without_reading_the_queue(message_filter: MessageFilter | None) -> None:
    store = open_store(ROOT, files=SimulatedFiles())
    for number in range(3):
        store.append([message(number, tag="a")], at(number))
        (arrival,) = store.reput()
        from_arrival = store.get_arrived(arrival, number, message_filter)
        assert from_arrival is not None and flags(from_arrival.records) == [number]
        assert from_arrival == store.get_message("T", 0, number, 32, 1 << 20, message_filter)
    assert store.get_arrived(arrival, 2, OneTag("b")) is None
    store.append([message(3, tag="a")], at(3))
    store.reput()
    assert store.get_arrived(arrival, 2, None) is None, "by now there is more to return"


def test_messages_of_the_recent_part_of_the_log_are_in_memory() -> None:
    files = SimulatedFiles()
    files.memory = 100_000  # 40 % of it: the last 40,000 bytes are recent
    store = open_store(ROOT, files=files)
    assert not store.is_in_memory("T", 0, 0)
    for number in range(300):
        store.append([message(number, size=300)], at(1))
        store.reput()
        assert store.is_in_memory("T", 0, number) and not store.is_in_memory("T", 0, number + 1)
    assert not store.is_in_memory("T", 0, 0) and not store.is_in_memory("T", 0, -1)


def test_a_removed_message_is_not_in_memory(trimmed: MessageStore) -> None:
    assert not trimmed.is_in_memory("T", 0, 0)


def test_queue_units_are_returned_as_stored(trimmed: MessageStore) -> None:
    store = open_store(ROOT, Options(mapped_file_size_consume_queue=60), files=SimulatedFiles())
    assert store.reader.earliest_store_time() is None
    for number in range(5):
        store.append([message(number, tag="a")], at(number))
        store.reput()
    units = store.reader.queue_units("T", 0, 1, 3)
    records = [store.look_message_by_offset(place) for place, _, _ in units]
    assert [flags(record or b"") for record in records] == [[1], [2], [3]]
    assert [(size, code) for _, size, code in units] == [(len(record or b""), tags_code("a")) for record in records]
    assert len(store.reader.queue_units("T", 0, 3, 99)) == 2 and store.reader.queue_units("T", 7, 0, 9) == []
    assert store.reader.earliest_store_time() == at(0).wall_ms
    assert trimmed.reader.queue_units("T", 0, 0, 99) == []


def test_a_pull_ends_when_evaluating_its_filter_has_become_too_much_for_one_turn() -> None:
    store = open_store(ROOT, Options(mapped_file_size_consume_queue=4000), files=SimulatedFiles())
    long = {"a": "x" * 30_000}
    for number in range(0, 100, 10):
        messages = [message(n, extra=long | {"b": "1" if n == 99 else "0"}) for n in range(number, number + 10)]
        store.append(messages, at(number))
        store.reput()
    wanted = make_filter("a = 'y' OR b = '1' OR c = 'z'", "SQL92", property_filter=True)
    assert wanted is not None
    offset, results = 0, []
    while offset < 100:
        results.append(store.get_message("T", 0, offset, 32, 1 << 20, wanted))
        assert offset < results[-1].next_begin_offset <= offset + EVALUATED_BYTES_MAX // (wanted.work * 30_000) + 1
        offset = results[-1].next_begin_offset
    assert [result.status for result in results] == ["NO_MATCHED_MESSAGE"] * 16 + ["FOUND"]
    assert flags(results[-1].records) == [99] and sum(result.passed_over for result in results) == 99

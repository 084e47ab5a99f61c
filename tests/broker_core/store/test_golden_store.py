"""Stores written by RocketMQ 5.4.0: reading them in place, adopting, rebuilding and continuing them."""

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any, ClassVar

import pytest

from broker_core.consumers.consumer_filter_manager import ConsumerFilterManager
from broker_core.filters.filter_factory import make_filter
from broker_core.formats import message_body, message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, decode, decode_all
from broker_core.formats.message_id import encode_offset_message_id
from broker_core.formats.tags_code import EXT_ADDRESS_MAX
from broker_core.options import Options
from broker_core.store.commit_log import Arrival
from broker_core.store.commit_log_dispatcher_calc_bit_map import CommitLogDispatcherCalcBitMap
from broker_core.store.config_tables import load_table
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.files import RealFiles
from broker_core.store.index.index_file import IndexFile
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.mapped_file_queue import file_name
from broker_core.store.message_store import MessageStore
from tests.fakes.golden_store import STORES, fingerprint, sent, unpack
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import at, flush, message, open_store, query_message

COUNTS = {
    "debian-packages": 3203,
    "debian-ordered": 100,
    "debian-delayed": 3,
    "debian-transactions": 2,
    "RMQ_SYS_TRANS_HALF_TOPIC": 4,
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1,
    "SCHEDULE_TOPIC_XXXX": 4,
    "%RETRY%golden_retry_group": 1,
    "%DLQ%golden_retry_group": 1,
}
LOG_END = 1_048_576 + 1_027_176


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture(params=STORES)
def root(request: pytest.FixtureRequest, golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden / request.param, tmp_path / "store"))


def records_of(store: MessageStore, topic: str, queue_id: int) -> list[CommitLogRecord]:
    found: list[CommitLogRecord] = []
    while len(found) < store.max_offset(topic, queue_id):
        result = store.get_message(topic, queue_id, len(found), 32, 1 << 20, None)
        assert result.status == "FOUND"
        found += decode_all(result.records)
    return found


def all_records(store: MessageStore) -> dict[tuple[str, int], list[CommitLogRecord]]:
    return {(topic, queue_id): records_of(store, topic, queue_id) for topic, queue_id in sorted(store.queues())}


def check_against(log: bytes, store: MessageStore, answers: list[dict[str, Any]]) -> None:
    """Every message of every queue equals its record in the log file, at the position in the producer's answer."""
    queues = all_records(store)
    counts: dict[str, int] = defaultdict(int)
    for (topic, queue_id), records in queues.items():
        counts[topic] += len(records)
        for offset, record in enumerate(records):
            assert (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, offset)
            data = store.look_message_by_offset(record.physical_offset)
            assert data == log[record.physical_offset : record.physical_offset + record.size]
    assert counts == COUNTS
    for answer in answers:
        if answer["offsetMsgId"] == "null" or "," in answer["offsetMsgId"] or answer["kind"].startswith("delay"):
            continue
        record = queues[answer["topic"], answer["queue"]][answer["offset"]]
        properties = message_properties.decode(record.properties)
        assert properties["UNIQ_KEY"] == answer["msgId"]
        assert properties.get("TAGS", "") == answer["tag"]
        assert properties.get("KEYS", "") == answer["keys"]
        assert (
            encode_offset_message_id(record.store_host, record.store_port, record.physical_offset)
            == answer["offsetMsgId"]
        )
        assert len(message_body.decompress(record.body, record.sys_flag, 1 << 20)) == answer["bodyLength"]


def log_of(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))


def test_every_message_is_read_without_changing_a_byte(root: Path, golden: Path) -> None:
    before = fingerprint(root)
    store = open_store(root, Options())
    assert store.read_only
    assert store.appended_offset == store.dispatched_offset == LOG_END
    check_against(log_of(root), store, sent(golden))
    store.close(at(1))
    assert fingerprint(root) == before


@pytest.mark.parametrize(
    "lost",
    [("consumequeue",), ("consumequeue/debian-packages/2",), ("index",), ("consumequeue", "index", "checkpoint")],
)
def test_missing_queues_and_index_are_built_in_memory(root: Path, golden: Path, lost: tuple[str, ...]) -> None:
    for name in lost:
        path = root / name
        path.unlink() if path.is_file() else shutil.rmtree(path)
    before = fingerprint(root)
    store = open_store(root, Options(max_hash_slot_num=5000, max_index_num=20_000))
    check_against(log_of(root), store, sent(golden))
    assert len(query_message(store, "debian-packages", "vitetris", 9, 0, 1 << 62)) == 2
    assert fingerprint(root) == before


def test_sql92_matches_what_rocketmq_noted_in_its_bitmaps(root: Path) -> None:
    """golden_sql_group's filter has these bits. RocketMQ computed bitmaps from its first heartbeat on.

    After an unclean stop nobody knows which units were on the disk: the queues are rebuilt without them.
    """
    message_filter = make_filter("size > 1000 AND section = 'python'", "SQL92", property_filter=True)
    assert message_filter is not None
    store = open_store(root)
    matches: list[bool] = []
    if (root / "abort").exists():
        codes = {
            unit[2] for queue_id in range(4) for unit in store.reader.queue_units("debian-packages", queue_id, 0, 999)
        }
        raw = [store._queues.table["debian-packages", 0].unit(offset)[2] for offset in range(800)]
        assert min(raw) > EXT_ADDRESS_MAX and set(raw) <= codes
        return
    for queue_id in range(4):
        ext = store._queues._ext["debian-packages", queue_id]
        for record in records_of(store, "debian-packages", queue_id):
            unit = ext.unit(store._queues.table["debian-packages", queue_id].unit(record.queue_offset)[2])
            if unit is not None and unit.bitmap:
                is_noted = all(unit.bitmap[bit // 8] >> bit % 8 & 1 for bit in (78, 90, 108))
                matches.append(message_filter.matches_record(record.properties.encode()))
                assert matches[-1] == is_noted, record.properties
    assert (len(matches), sum(matches)) == (3203, 1)


def test_the_extension_gets_the_same_bytes_that_rocketmq_wrote(golden: Path) -> None:
    """The units of all messages, dispatched with the filter of golden_sql_group, whose bits RocketMQ wrote too."""
    root = golden / "clean-shutdown"
    store = open_store(root)
    table = load_table(RealFiles(), root / "config", "consumerFilter")
    options = Options(mapped_file_size_consume_queue_ext=65_536)
    filters = ConsumerFilterManager(options, table, at(0))
    wanted = filters.get("debian-packages", "golden_sql_group")
    assert wanted is not None and wanted.bloom.bit_pos == [78, 90, 108]
    files, maps = SimulatedFiles(), OpenMaps(8)
    queues = ConsumeQueueStore(files, maps, Path("/ours"), 20_000, 65_536)
    queues.set_filters("debian-packages", (wanted,))
    calc_bit_map = CommitLogDispatcherCalcBitMap(store.commit_log, queues, options)
    for queue_id in range(4):
        queue = queues.find("debian-packages", queue_id)
        for offset, (place, size, code) in enumerate(store.reader.queue_units("debian-packages", queue_id, 0, 9999)):
            arrival = Arrival(queue, queue.topic, queue_id, offset, offset + 1, 0, size, [place, size, code])
            calc_bit_map.start_turn(offset)
            queue.put(offset, calc_bit_map.dispatch(arrival))
        for kind in ("consumequeue", "consumequeue_ext"):
            name = Path(kind, "debian-packages", str(queue_id), file_name(0))
            ours = files.read(Path("/ours") / name)
            assert ours is not None and ours.rstrip(b"\0") == (root / name).read_bytes().rstrip(b"\0"), name


def test_tags_are_filtered_through_the_ext_queue(root: Path) -> None:
    class OnlyGames:
        expression, work = "games", 1
        reads_properties: ClassVar[bool] = False

        def matches_tags_code(self, tags_code: int) -> bool:
            return tags_code == 98_120_385  # "games"

        def matches_record(self, properties: bytes) -> bool:
            assert b"TAGS\x01games\x02" in properties
            return True

    store = open_store(root)
    games = [
        record
        for record in records_of(store, "debian-packages", 0)
        if message_properties.find(record.properties, "TAGS") == "games"
    ]
    found: list[CommitLogRecord] = []
    offset = 0
    while offset < 810:
        result = store.get_message("debian-packages", 0, offset, 32, 1 << 20, OnlyGames())
        found += decode_all(result.records)
        offset = result.next_begin_offset
    assert found == games
    assert len(found) > 5


def test_an_adopted_store_accepts_messages(root: Path, golden: Path) -> None:
    log = log_of(root)
    store = open_store(root, Options(), adopt=True)
    assert not store.read_only
    answers = sent(golden)
    check_against(log, store, answers)
    for number in range(3000):
        store.append([message(number, topic="debian-packages", queue_id=number % 4, size=400)], at(1))
    store.reput()
    flush(store)
    store.close(at(1))
    assert len(log_of(root)[:LOG_END]) == LOG_END
    assert log_of(root)[:LOG_END] == log[:LOG_END]
    assert {path.stat().st_size for path in (root / "commitlog").iterdir()} == {1_048_576}
    assert {path.stat().st_size for path in (root / "consumequeue").rglob("*") if path.is_file()} == {20_000}
    again = open_store(root)
    assert not again.read_only
    assert [again.max_offset("debian-packages", queue_id) for queue_id in range(4)] == [1560, 1541, 1541, 1561]
    assert decode(query_message(again, "debian-packages", "ID002999", 1, 0, 1 << 62)[0]).flag == 2999
    assert len(query_message(again, "debian-packages", "vitetris", 9, 0, 1 << 62)) == 2


def test_a_rebuilt_index_agrees_with_rocketmqs(root: Path) -> None:
    original = next((root / "index").iterdir()).read_bytes()
    shutil.rmtree(root / "index")
    store = open_store(root, Options(max_hash_slot_num=5000, max_index_num=20_000), adopt=True)
    store.close(at(1))
    rebuilt = next((root / "index").iterdir())
    (root / "original").write_bytes(original)
    ours, theirs = _index(rebuilt), _index(root / "original")
    assert ours.header == theirs.header
    numbers = range(1, ours.header.index_count)
    assert [ours.entry(number) for number in numbers] == [theirs.entry(number) for number in numbers]
    assert rebuilt.read_bytes() == original


def _index(path: Path) -> IndexFile:
    file = IndexFile(RealFiles(), OpenMaps(8), path, 5000, 20_000)
    file.load()
    return file


def test_rebuilt_queues_agree_with_rocketmqs(root: Path) -> None:
    """Except for the tagsCode field, which contains addresses of ext units here."""
    originals = {path.relative_to(root): path.read_bytes() for path in (root / "consumequeue").rglob("0000*")}
    shutil.rmtree(root / "consumequeue")
    open_store(root, Options(mapped_file_size_consume_queue=20_000), adopt=True).close(at(1))
    assert {path.relative_to(root) for path in (root / "consumequeue").rglob("0000*")} == set(originals)
    for path, original in originals.items():
        rebuilt = (root / path).read_bytes()
        assert len(rebuilt) == len(original)
        for unit in range(0, len(original), 20):
            assert rebuilt[unit : unit + 12] == original[unit : unit + 12]

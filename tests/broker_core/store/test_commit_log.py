from pathlib import Path

import pytest

from broker_core.errors import RequestError
from broker_core.formats.commit_log_record import MAGIC_V2, decode, is_blank
from broker_core.formats.tags_code import tags_code
from broker_core.store.commit_log import CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.delay_level import DelayLevels
from broker_core.store.mapped_file import OpenMaps
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import message

ROOT = Path("/store")


class Logs:
    def __init__(self, store_host: str = "10.0.0.1") -> None:
        self.files = SimulatedFiles()
        maps = OpenMaps(8)
        self.queues = ConsumeQueueStore(self.files, maps, ROOT, 2000)
        self.log = CommitLog(self.files, maps, ROOT / "commitlog", 65_536, store_host, 10_911, DelayLevels("1s"))


def test_a_record_never_spans_segments_and_the_gap_is_filled() -> None:
    logs = Logs()
    batch = logs.log.append([message(number, size=20_000) for number in range(8)], 99, logs.queues.find)
    positions = [stored.physical_offset for stored in batch.requests]
    assert [position // 65_536 for position in positions] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert positions[3] == 65_536
    assert [stored.queue_offset for stored in batch.requests] == list(range(8))
    end = positions[2] + batch.requests[2].size
    file = logs.log.mapped_files.find(0)
    assert file is not None
    assert is_blank(file.buffer, end)
    assert int.from_bytes(file.buffer[end : end + 4], "big") == 65_536 - end
    assert batch.end == logs.log.max_offset == positions[-1] + batch.requests[-1].size


def test_a_record_fits_only_if_the_filler_fits_too() -> None:
    for spare, rolls in ((8, False), (7, True)):
        logs = Logs()
        overhead = logs.log.append([message(1, size=0)], 1, logs.queues.find).requests[0].size
        logs.log.append([message(2, size=65_536 - 2 * overhead - spare)], 1, logs.queues.find)
        assert (logs.log.max_offset > 65_536) is rolls


def test_a_batch_contains_the_arrivals_of_each_queue() -> None:
    logs = Logs()
    logs.log.append([message(0)], 1, logs.queues.find)
    tags = ["", "TagA", "TagB"]
    batch = logs.log.append(
        [message(number, queue_id=number % 2, tag=tags[number]) for number in range(3)], 7, logs.queues.find
    )
    first, second, third = batch.requests
    even, odd = batch.arrivals
    assert (even.queue_id, even.from_offset, even.to_offset, even.store_timestamp) == (0, 1, 3, 7)
    assert (odd.queue_id, odd.from_offset, odd.to_offset) == (1, 0, 1)
    assert even.fields == [first.physical_offset, first.size, 0, third.physical_offset, third.size, tags_code("TagB")]
    assert (even.size, odd.size) == (first.size + third.size, second.size)
    assert logs.queues.find("T", 0).next_offset == 3


def test_long_topics_and_ipv6_hosts_use_their_record_shapes() -> None:
    logs = Logs("2001:db8::1")
    pending = message(1, topic="t" * 128)
    pending.born_host = "::7"
    record = decode(logs.log.record(logs.log.append([pending], 5, logs.queues.find).requests[0].physical_offset) or b"")
    assert (record.magic, record.topic) == (MAGIC_V2, "t" * 128)
    assert (record.born_host, record.store_host, record.sys_flag) == ("::7", "2001:db8::1", 0x30)
    assert logs.log.store_timestamp(0) == 5


def test_a_born_host_that_is_not_an_ip_address_is_refused() -> None:
    logs = Logs()
    pending = message(1)
    pending.born_host = "localhost"
    with pytest.raises(RequestError, match="IP address"):
        logs.log.append([pending], 1, logs.queues.find)


def test_reading_outside_the_log_returns_none() -> None:
    logs = Logs()
    end = logs.log.append([message(1)], 1, logs.queues.find).end
    assert logs.log.read(0, end) == logs.log.record(0)
    assert logs.log.read(0, end + 1) is None
    assert logs.log.read(1 << 30, 1) is None
    assert logs.log.record(5) is None
    assert logs.log.store_timestamp(end) is None
    assert logs.log.min_offset == 0


@pytest.mark.parametrize("call", ["create", "allocate"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_full_disk_leaves_the_log_unchanged(call: str, nth: int) -> None:
    logs = Logs()
    logs.log.append([message(1)], 1, logs.queues.find)
    before = logs.log.max_offset
    logs.files.fail(call, nth, 28)
    batch = [message(number, size=30_000, queue_id=number) for number in range(5)]
    with pytest.raises(OSError, match="simulated"):
        logs.log.append(batch, 1, logs.queues.find)
    assert logs.log.max_offset == before
    assert logs.queues.find("T", 0).next_offset == 1
    again = logs.log.append(batch, 1, logs.queues.find)
    assert [stored.queue_offset for stored in again.requests] == [1, 0, 0, 0, 0]

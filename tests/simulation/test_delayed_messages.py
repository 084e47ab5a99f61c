"""Delayed and sent-back messages over power cuts, kills and restarts at any moment.

Every message acknowledged under SYNC_FLUSH is delivered to its topic at least once and never early, and after the last
restart no message is left waiting. Under ASYNC_FLUSH this holds for messages that were on the disk before a power cut.
"""

import random
from collections.abc import Iterator

import pytest

from broker_core import commands as c
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from broker_core.formats.message_properties import encode, find
from broker_core.options import Options
from broker_core.store.delay_level import SCHEDULE_TOPIC, DelayLevels
from tests.fakes.engine import Bench, send

LEVELS = DelayLevels(Options().message_delay_level).ms
FIRST_RETRY_LEVEL = 3
FLUSH_DISK_TIMEOUT = 10
Key = tuple[str, bytes]
"""(topic, body, number of the try)"""


class World:
    """An engine on files that lose unsynced data, and a list of the messages that it must deliver."""

    def __init__(self, seed: int, mode: str) -> None:
        self.chance = random.Random(seed)
        self.options = {
            "flush_disk_type": mode,
            "mapped_file_size_commit_log": 65_536,
            "flush_delay_offset_interval": 3000,
            "message_index_enable": self.chance.random() < 0.5,
            "file_reserved_time": 1000,
        }
        self.bench = Bench(seed=seed, **self.options)
        self.bench.call(c.UpdateAndCreateTopic(topic="orders"))  # the other topic is created by a send, and may be lost
        self.bench.file_work()
        self.number = 0
        self.unanswered: dict[int, Key] = {}
        self.due: dict[Key, int] = {}
        self.promised: set[Key] = set()

    # --- clients ---

    def send(self) -> None:
        batch: list[c.Command] = []
        plan: list[tuple[str, bytes, int]] = []
        for _ in range(self.chance.choice((1, 1, 5, 150))):
            self.number += 1
            level, topic = self.chance.choice((0, 1, 1, 1, 2, 3, 3, 9)), self.chance.choice(("orders", "others"))
            body = b"%d." % self.number + b"x" * self.chance.choice((0, 0, 10, 3000))
            queue_id = self.chance.randrange(4) if topic == "orders" else 0
            batch.append(send(topic, body, queue_id=queue_id, properties=encode({"DELAY": str(level)})))
            plan.append((topic, body, self.wall_ms + (LEVELS[level - 1] if level else 0)))
        self.submit(batch, plan)

    def send_back(self) -> None:
        """A group sends back some of the messages that it can read."""
        store = self.bench.context.store
        queues = [queue for queue in store.queues() if queue[0] in ("orders", "others", "%RETRY%g")]
        if not queues:
            return
        topic, queue_id = self.chance.choice(queues)
        end = store.max_offset(topic, queue_id)
        if not end:
            return
        found = store.get_message(topic, queue_id, self.chance.randrange(end), 3, 1 << 20, None)
        batch: list[c.Command] = []
        plan = []
        for record in decode_all(found.records):
            dead = record.reconsume_times >= 2
            batch.append(
                c.ConsumerSendMsgBack(group="g", physical_offset=record.physical_offset, max_reconsume_times=2)
            )
            wait = 0 if dead else LEVELS[FIRST_RETRY_LEVEL + record.reconsume_times - 1]
            times = b" %d" % (record.reconsume_times + 1)
            plan.append(("%DLQ%g" if dead else "%RETRY%g", record.body + times, self.wall_ms + wait))
        self.submit(batch, plan)

    def submit(self, batch: list[c.Command], plan: list[tuple[str, bytes, int]]) -> None:
        for request, (topic, body, due) in zip(self.bench.submit(*batch), plan, strict=True):
            self.unanswered[request] = (topic, body)
            self.due[topic, body] = min(due, self.due.get((topic, body), due))
        self.note_answers()

    def note_answers(self) -> None:
        for request, key in list(self.unanswered.items()):
            reply = self.bench.final(request)
            if reply is not None:
                assert isinstance(reply, c.Done) or reply.code in (0, FLUSH_DISK_TIMEOUT), reply
                if isinstance(reply, c.Done) or reply.code == 0:
                    self.promised.add(key)
                del self.unanswered[request]

    # --- the broker ---

    @property
    def wall_ms(self) -> int:
        return self.bench.clock.now().wall_ms

    def wait(self) -> None:
        self.bench.tick(self.chance.choice((1, 400, 1000, 4000, 12_000)))

    def flush(self) -> None:
        self.bench.flush()
        self.note_answers()

    def file_work(self) -> None:
        self.bench.file_work()

    def half_a_flush(self) -> None:
        flush = self.bench.engine.next_flush(self.bench.clock.now())
        if flush is not None:
            flush.run()
            self.power_cut()

    def half_a_table(self) -> None:
        work = self.bench.engine.next_file_work(self.bench.clock.now())
        if work is not None:
            work.run()
            self.power_cut()

    def table_without_flush(self) -> None:
        """Write the table without a flush before: it must not contain progress that is only in memory."""
        self.bench.tick(self.chance.choice((3000, 12_000)))
        self.bench.file_work()
        self.power_cut()

    def kill(self) -> None:
        self.bench.files.kill()
        self.reopen()

    def power_cut(self) -> None:
        if self.options["flush_disk_type"] == "ASYNC_FLUSH":
            # Messages that are not on the disk were not promised. They may include copies, but no originals.
            before = self.on_disk()
            self.bench.files.crash()
            self.promised &= before
        else:
            self.bench.files.crash()
        self.reopen()

    def on_disk(self) -> set[Key]:
        """The messages in the flushed part of the log, in their own topic or still delayed."""
        end = self.bench.context.store.flushed_offset
        return {key_of(record) for record in self.records() if record.physical_offset + record.size <= end}

    def records(self) -> Iterator[CommitLogRecord]:
        """All messages of all queues."""
        store = self.bench.context.store
        for topic, queue_id in store.queues():
            for offset in range(store.max_offset(topic, queue_id)):
                yield from decode_all(store.get_message(topic, queue_id, offset, 1, 1 << 20, None).records)

    def restart(self) -> None:
        self.bench.take(self.bench.engine.drain(self.bench.clock.now()))
        self.bench.take(self.bench.engine.close(self.bench.clock.now()))
        self.note_answers()
        if self.chance.random() < 0.5:
            self.bench.files.crash()
        self.reopen()

    def reopen(self) -> None:
        self.unanswered.clear()
        self.bench = Bench(files=self.bench.files, clock=self.bench.clock, seed=self.number, **self.options)

    # --- checks ---

    def check(self) -> None:
        """Let every message become due, then check that it was delivered, and not early."""
        for _ in range(40):
            self.bench.tick(3_600_000)
            self.bench.flush()
        assert all(done == end for done, end in self.bench.context.store.delayed.progress().values())
        appeared = set()
        for record in self.records():
            if record.topic != SCHEDULE_TOPIC:
                appeared.add(key_of(record))
                assert record.store_timestamp >= self.due[key_of(record)], record
        assert self.promised <= appeared, sorted(self.promised - appeared)[:5]


def key_of(record: CommitLogRecord) -> Key:
    """The key of a message as clients know it: under its real topic, with the number of the try."""
    topic = find(record.properties, "REAL_TOPIC") if record.topic == SCHEDULE_TOPIC else record.topic
    return topic, record.body + b" %d" % record.reconsume_times if record.reconsume_times else record.body


@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.seeds(25)
def test_nothing_that_was_promised_is_lost(seed: int, mode: str) -> None:
    world = World(seed, mode)
    steps = (
        (world.send,) * 5
        + (world.send_back,) * 3
        + (world.wait,) * 6
        + (world.flush,) * 6
        + (world.file_work,) * 4
        + (
            world.half_a_flush,
            world.half_a_table,
            world.table_without_flush,
            world.kill,
            world.power_cut,
            world.restart,
        )
    )
    for _ in range(60):
        world.chance.choice(steps)()
    world.check()

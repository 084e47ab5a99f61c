"""Messages for an exact time over kills, power cuts, restarts and a clock that is set ahead and back.

Every message acknowledged under SYNC_FLUSH is delivered, and never before its time. One whose recall was answered with
success is never delivered, neither before that answer nor after it. Under ASYNC_FLUSH this holds for messages and
recalls that were on the disk before a power cut.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import encode, find
from broker_core.store.timer.timer_message import TIMER_DEL_UNIQKEY
from tests.fakes.engine import Bench, send
from tests.fakes.timers import small_wheel

__all__ = ["small_wheel"]

FLUSH_DISK_TIMEOUT = 10
DELAYS_MS = (1, 300, 1000, 1500, 4000, 9000, 25_000, 45_000)
WAITS_MS = (1, 90, 500, 999, 1000, 3000, 12_000)
STEPS_MS = (-3_600_000, -20_000, -1500, -400, 400, 1500, 20_000, 3_600_000)
ROUNDS = 300
"""Of 15 minutes, more than the steps can set the clock back."""


class World:
    """An engine on files that lose unsynced data; what it promised, by the keys of the messages."""

    def __init__(self, seed: int, mode: str) -> None:
        self.chance = random.Random(seed)
        self.options: dict[str, Any] = {
            "flush_disk_type": mode,
            "mapped_file_size_commit_log": 65_536,
            "timer_roll_window_slot": self.chance.choice((2, 3, 10, 1000)),
            "file_reserved_time": 1000,
        }
        self.bench = Bench(seed=seed, **self.options)
        self.bench.call(c.UpdateAndCreateTopic(topic="orders"))
        self.bench.file_work()
        self.number = 0
        self.unanswered: dict[int, str] = {}
        """By request: the key of a message, with a ``-`` before it for its recall."""
        self.due: dict[str, int] = {}
        self.handles: dict[str, str] = {}
        self.promised: set[str] = set()

    # --- clients ---

    def send(self) -> None:
        batch: list[c.Command] = []
        keys = []
        for _ in range(self.chance.choice((1, 1, 3, 60))):
            self.number += 1
            key, delay_ms = f"K{self.number}", self.chance.choice(DELAYS_MS)
            self.due[key] = self.wall_ms + delay_ms
            properties = {"UNIQ_KEY": key, "TIMER_DELIVER_MS": str(self.due[key])}
            batch.append(send("orders", b"x", queue_id=0, properties=encode(properties)))
            keys.append(key)
        self.submit(batch, keys)

    def recall(self) -> None:
        """Recall some messages, most of them of those that are due next."""
        pending = sorted(self.handles, key=self.due.__getitem__)
        waiting = [key for key in pending if self.due[key] > self.wall_ms]
        some = [self.chance.choice(waiting[: self.chance.choice((3, 1000))]) for _ in range(3) if waiting]
        if pending:
            some.append(self.chance.choice(pending))
        recalls = [c.RecallMessage(topic="orders", recall_handle=self.handles[key]) for key in some]
        self.submit(list[c.Command](recalls), ["-" + key for key in some])

    def submit(self, batch: list[c.Command], keys: list[str]) -> None:
        self.unanswered |= dict(zip(self.bench.submit(*batch), keys, strict=True))
        self.note_answers()

    def note_answers(self) -> None:
        for request, key in list(self.unanswered.items()):
            reply = self.bench.final(request)
            if isinstance(reply, c.Sent):
                self.handles[key] = reply.messages[0].recall_handle
            if isinstance(reply, c.Recalled) or (isinstance(reply, c.Sent) and reply.code == 0):
                self.promised.add(key)
            if reply is not None:
                del self.unanswered[request]

    # --- the broker ---

    @property
    def wall_ms(self) -> int:
        return self.bench.clock.now().wall_ms

    def wait(self) -> None:
        self.bench.tick(self.chance.choice(WAITS_MS))
        self.note_answers()

    def wait_for_the_next(self) -> None:
        """Until a message is due, or shortly before."""
        waiting = [ms for ms in self.due.values() if ms > self.wall_ms]
        if waiting:
            self.bench.tick(max(1, min(waiting) - self.wall_ms - self.chance.choice((0, 1, 500, 1001))))

    def one_turn(self) -> None:
        """Time passes, but the engine has only one turn in it."""
        now = self.bench.clock.advance(self.chance.choice(WAITS_MS))
        self.bench.take(self.bench.engine.tick(now))

    def set_clock(self) -> None:
        self.bench.clock.step_wall(self.chance.choice(STEPS_MS))

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

    def kill(self) -> None:
        self.bench.files.kill()
        self.reopen()

    def power_cut(self) -> None:
        before = self.on_disk() if self.options["flush_disk_type"] == "ASYNC_FLUSH" else self.promised
        self.bench.files.crash()
        self.promised &= before
        self.reopen()

    def on_disk(self) -> set[str]:
        """The messages and recalls in the flushed part of the log."""
        store = self.bench.context.store
        return {name for name, _, end in self.records() if end <= store.flushed_offset}

    def records(self) -> list[tuple[str, int, int]]:
        """(key, time if it was delivered, physical end) of each record in the log."""
        store, found = self.bench.context.store, []
        for topic, queue_id in store.queues():
            for offset in range(store.max_offset(topic, queue_id)):
                for record in decode_all(store.get_message(topic, queue_id, offset, 1, 1 << 20, None).records):
                    recalled = find(record.properties, TIMER_DEL_UNIQKEY)
                    key = "-" + recalled if recalled else find(record.properties, "UNIQ_KEY")
                    at = record.store_timestamp if topic == "orders" else 0
                    found.append((key, at, record.physical_offset + record.size))
        return found

    def restart(self) -> None:
        self.bench.take(self.bench.engine.drain(self.bench.clock.now()))
        self.bench.take(self.bench.engine.close(self.bench.clock.now()))
        self.note_answers()
        self.reopen()

    def reopen(self) -> None:
        self.unanswered.clear()
        self.bench = Bench(files=self.bench.files, clock=self.bench.clock, seed=self.number, **self.options)

    # --- checks ---

    def check(self) -> None:
        """Let every message become due, then check that it was delivered, and not early."""
        latest_ms = max(self.due.values(), default=0)  # the clock may be hours behind it
        for _ in range(ROUNDS):
            is_past = self.wall_ms > latest_ms
            self.bench.tick(900_000)
            self.bench.flush()
            self.note_answers()
            if is_past and not self.bench.engine.counters.timer_messages_now:
                break
        delivered = {}
        for key, at_ms, _ in self.records():
            if at_ms:
                assert at_ms >= self.due[key], f"{key} was delivered {self.due[key] - at_ms} ms before its time"
                delivered[key] = at_ms
        recalled = {key[1:] for key in self.promised if key[0] == "-"}
        both = sorted(recalled & delivered.keys())
        assert not both, f"{both} were delivered though their recalls were answered with success"
        lost = {key for key in self.promised if key[0] == "K"} - delivered.keys()
        lost -= {key[1:] for key, *_ in self.records() if key[0] == "-"}
        assert not lost, f"{sorted(lost)} are lost"
        assert self.bench.engine.counters.timer_messages_now == 0


STEPS = {
    World.send: 6,
    World.recall: 5,
    World.wait: 4,
    World.wait_for_the_next: 5,
    World.one_turn: 3,
    World.set_clock: 2,
    World.flush: 5,
    World.file_work: 1,
    World.half_a_flush: 1,
    World.kill: 1,
    World.power_cut: 1,
    World.restart: 1,
}


Schedule = list[tuple[Callable[[World], None], int]]
"""Steps, each with the seed of its choices: so a schedule may be shrunk."""


def schedule_of(seed: int) -> Schedule:
    chance = random.Random(seed)
    steps = chance.choices(list(STEPS), list(STEPS.values()), k=60)
    return [(step, chance.randrange(1 << 30)) for step in steps]


def run_schedule(seed: int, mode: str, schedule: Schedule) -> None:
    """Check a schedule. AssertionError if a promise is broken."""
    world = World(seed, mode)
    for step, choices in schedule:
        world.chance.seed(choices)
        step(world)
    world.check()


@pytest.mark.parametrize("mode", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.seeds(6)
def test_a_recall_that_was_answered_wins_and_nothing_else_is_lost(seed: int, mode: str) -> None:
    run_schedule(seed, mode, schedule_of(seed))

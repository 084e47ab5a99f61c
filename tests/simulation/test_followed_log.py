"""A copy of another broker's log over kills, power cuts, a full disk and a stream that is cut and damaged anywhere.

At any moment the copy is the beginning of the followed log, byte for byte. When the faults end, it becomes equal, and
its queues are those of the followed broker.
"""

import random

import pytest

from broker_core import commands as c
from broker_core.remoting.ha_transfer import TRANSFER, HaSlave, TransferError
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import Bench
from tests.fakes.followed import SEGMENT, follower, log_of, master, transfers
from tests.fakes.simulated_files import SimulatedFiles

STEPS = 60
QUEUES = [(topic, queue) for topic in ("orders", "payments") for queue in range(3)]


class World:
    """A master whose log grows, and a follower whose process, disk and connection fail."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = SimulatedFiles(self.chance)
        self.master = master(20, size=300)
        self.copy = follower(files=self.files)

    def grow(self) -> None:
        self.master.clock.advance(1)
        topic, queue = self.chance.choice(QUEUES)
        body = b"x" * self.chance.choice((0, 100, 3000, 20_000))
        self.master.send(topic, *[body] * self.chance.randint(1, 6), queue_id=queue)

    def connect(self, *, damaged: bool = False) -> None:
        """One connection, which ends anywhere; the follower appends what is whole."""
        log = log_of(self.master)
        end = self.copy.call(c.GetLogEnd())
        assert isinstance(end, c.LogEnd)
        begin = end.end or 0
        slave = HaSlave(begin, SEGMENT)
        if damaged and self.chance.random() < 0.5:  # a master with another log
            log = log[self.chance.randint(1, 5000) :] + log[:100]
        sizes = self.chance.choices((0, 1, 37, 700, 9000), k=20)
        stream = bytearray(b"".join(transfers(log, slave.received, sizes)))
        if damaged and stream:
            stream[self.chance.randrange(TRANSFER.size)] ^= 1 << self.chance.randrange(8)
        stream = stream[: self.chance.randint(0, 2 * len(stream))]
        position = 0
        while position < len(stream):
            size = self.chance.choice((1, 11, 900, 30_000))
            try:
                blocks = slave.feed(bytes(stream[position : position + size]))
            except TransferError:
                return
            position += size
            for block in blocks:
                reply = self.copy.call(
                    c.AppendToCommitLog(offset=block.offset, data=block.data, store_timestamp=block.store_timestamp)
                )
                if isinstance(reply, c.Failed):
                    assert reply.kind == "unavailable", reply
                    return

    def restart(self, fault: str) -> None:
        if fault == "stop" and not self.files.full:
            self.copy.engine.close(self.copy.clock.now())
        elif fault == "power":
            self.files.crash()
        self.files.kill()
        self.files.full = False
        clock = VirtualClock()
        clock.advance(1)
        self.copy = follower(files=self.files, clock=clock)

    def flush(self) -> None:
        self.copy.clock.advance(2000)
        self.copy.tick()
        if not self.files.full:
            self.copy.file_work()
            while self.copy.flush():
                pass

    def step(self) -> None:
        what = self.chance.choice(("grow", "grow", "connect", "connect", "damaged", "flush", "full", "restart"))
        if what == "restart":
            self.restart(self.chance.choice(("kill", "power", "stop")))
        elif what == "full":
            self.files.full = not self.files.full
        elif what == "damaged":
            self.connect(damaged=True)
        else:
            {"grow": self.grow, "connect": self.connect, "flush": self.flush}[what]()


def ends(bench: Bench) -> list[int]:
    return [bench.context.store.max_offset(*queue) for queue in QUEUES]


@pytest.mark.seeds(12)
def test_a_copy_is_the_beginning_of_the_log_whatever_fails(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        copied = log_of(world.copy)
        assert log_of(world.master).startswith(copied)
    world.files.full = False
    for _ in range(100):
        world.flush()
        world.connect()
        if log_of(world.copy) == log_of(world.master):
            break
    world.flush()
    assert log_of(world.copy) == log_of(world.master)
    assert ends(world.copy) == ends(world.master)

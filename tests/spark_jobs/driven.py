"""A store with a poll journal that the engine itself wrote, under a clock that a test moves: all figures are known."""

from pathlib import Path
from typing import Any

from broker_core import commands as c
from broker_core.server.poll_journal import PollJournal
from tests.fakes.engine import ROOT, Bench
from tests.fakes.simulated_files import SimulatedFiles

BEGIN_MS = 1_700_000_000_000 - 1_700_000_000_000 % 60_000 + 60_000
"""When a driven store begins, a whole minute."""


class Driven:
    """An engine that is listened to. Times are in ms from the beginning."""

    def __init__(self, **options: Any) -> None:
        self.files = SimulatedFiles()
        self.bench = Bench(files=self.files, **options)
        self.bench.clock.step_wall(BEGIN_MS - self.bench.clock.now().wall_ms)
        self.journal = PollJournal(self.files, self.bench.clock)
        assert self.journal.open(self.bench.engine)

    def at(self, ms: int) -> None:
        """Let time pass up to then, doing what is due on the way."""
        while (due := self.bench.engine.next_deadline()) is not None:
            now = self.bench.clock.now()
            wait_ms = (due - now.mono_ns) / 1_000_000
            if now.wall_ms + wait_ms > BEGIN_MS + ms:
                break
            self.bench.tick(max(wait_ms, 0))
        self.bench.tick(BEGIN_MS + ms - self.bench.clock.now().wall_ms)

    def send(self, topic: str, count: int = 1, *, queue: int = 0, born_before: int = 0, **more: Any) -> None:
        """Messages of 10 bytes, born so many ms ago."""
        born = self.bench.clock.now().wall_ms - born_before
        reply = self.bench.call(
            c.SendMessage(
                topic=topic,
                messages=[
                    c.OutgoingMessage(body=b"0123456789", queue_id=queue, born_timestamp=born, **more)
                    for _ in range(count)
                ],
            )
        )
        assert isinstance(reply, c.Sent), reply

    def pull(self, topic: str, offset: int, group: str, client: str, *, queue: int = 0, wait_ms: int = 15_000) -> int:
        """A pull of one client; its connection is called as the client."""
        return self.bench.pull(
            topic,
            offset,
            connection=client,
            queue_id=queue,
            consumer_group=group,
            client_id=client,
            suspend_timeout_ms=wait_ms,
        )

    def commit(self, topic: str, offset: int, group: str, client: str, *, queue: int = 0) -> None:
        self.bench.call(
            c.UpdateConsumerOffset(group=group, client_id=client, offsets=[c.QueueOffset(topic, queue, offset)]),
            connection=client,
        )

    def save(self, folder: Path) -> Path:
        """The store as files below ``folder``."""
        self.journal.write()
        self.bench.file_work()
        while self.bench.flush():
            pass
        copy(self.files, ROOT, folder)
        return folder


def copy(files: SimulatedFiles, source: Path, target: Path) -> None:
    """Files in memory as files on the disk."""
    for name in files.names(source):
        path = source / name
        if files.exists(path):
            target.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(files.read(path) or b"")
        else:
            copy(files, path, target / name)


def story(folder: Path) -> Path:
    """Two groups and two queues of ``orders``, in ms from the beginning.

          0  c1 of ``fast`` asks for orders@0 from 0 on, and is held
      1,500  two messages in orders@0, born 40 ms before: c1 is woken
      1,600  c1 commits 2, and asks again: held
     16,600  c1 is answered without a message, after 15 s
     16,700  c1 asks again: held
     20,000  c1 is gone, after 3,300 ms
     30,000  a message in orders@0, three in orders@1
     60,000  c2 of ``slow`` asks for both queues from 0 on: three messages each, at once
     65,000  c2 commits 1 in orders@0
     90,000  c2 commits 3 in orders@0; c3 of ``slow`` asks for orders@1 from 3 on and does not wait: nothing
    120,500  a message for orders@0, delayed by 1 s
    121,530  it is delivered, 30 ms late
    """
    driven = Driven()
    driven.bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=2, write_queues=2))
    driven.pull("orders", 0, "fast", "c1")
    driven.at(1_500)
    driven.send("orders", 2, born_before=40)
    driven.at(1_600)
    driven.commit("orders", 2, "fast", "c1")
    driven.pull("orders", 2, "fast", "c1")
    driven.at(16_700)
    driven.pull("orders", 2, "fast", "c1")
    driven.at(20_000)
    driven.bench.call(c.CloseConnection(), connection="c1")
    driven.at(30_000)
    driven.send("orders")
    driven.send("orders", 3, queue=1)
    driven.at(60_000)
    driven.pull("orders", 0, "slow", "c2")
    driven.pull("orders", 0, "slow", "c2", queue=1)
    driven.at(65_000)
    driven.commit("orders", 1, "slow", "c2")
    driven.at(90_000)
    driven.commit("orders", 3, "slow", "c2")
    driven.pull("orders", 3, "slow", "c3", queue=1, wait_ms=0)
    driven.at(120_500)
    driven.send("orders", properties="DELAY\x011\x02")
    driven.bench.tick(1_030)
    return driven.save(folder)

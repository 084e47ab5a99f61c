"""Messages for an exact time: how late they are, and the longest turn of the engine that they cause.

    python benchmarks/timers.py [--pending N] [--rate N]

1. ``--pending`` messages wait, and ``--rate`` of them are due in each second. How late each copy was
   stored. Goal: 50 ms at most for 99 of 100.
2. As many messages are due in one second, and a tenth of them are recalled. The longest turn of each step, in processor
   time, among them the start and the stop. Goal: 2 ms, as for all work that is done in pieces.
"""

import argparse
import gc
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import percentile, spread, title

from broker_core.clock import Now, SystemClock
from broker_core.commands import OutgoingMessage, RecallMessage, SendMessage, Sent
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.server.garbage_collection import freeze
from broker_core.store.files import RealFiles

A_BATCH = 32
TOPIC = "orders"


class BenchClock:
    """The system's clock, ``ahead_ms`` later; or a clock that only ``ahead_ms`` moves."""

    def __init__(self, *, stands_still: bool) -> None:
        self.ahead_ms = 0
        self._clock = SystemClock()
        self._start = self._clock.now() if stands_still else None

    def now(self) -> Now:
        """The time in this benchmark."""
        now = self._start or self._clock.now()
        return Now(now.wall_ms + self.ahead_ms, now.mono_ns + self.ahead_ms * 1_000_000)

    mono_ns = staticmethod(SystemClock.mono_ns)


class Bench:
    """An engine that is driven as its runner does it, with the processor time of each turn."""

    def __init__(self, root: Path, *, stands_still: bool = False) -> None:
        self.clock = BenchClock(stands_still=stands_still)
        self.root = root
        self.turns: list[float] = []
        self.keys = 0
        self.open()

    def open(self) -> None:
        keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
        self.engine = Engine.open(self.root, Options(), RealFiles(), self.clock, keys.next)

    def timed(self, work: Callable[[], Any]) -> Any:
        began = time.thread_time_ns()
        result = work()
        self.turns.append((time.thread_time_ns() - began) / 1e6)
        return result

    def tick(self) -> bool:
        """Do what is due; False if nothing is."""
        now = self.clock.now()
        due = self.engine.next_deadline()
        if due is None or due > now.mono_ns:
            return False
        self.timed(lambda: self.engine.tick(now))
        return True

    def flush(self) -> None:
        """Flush what is due, in no turn of the engine."""
        now = self.clock.now()
        flush = self.engine.next_flush(now)
        if flush is not None:
            flush.run()
            self.timed(lambda: self.engine.flushed(flush, 0, self.clock.now()))

    def settle(self) -> None:
        """Run the engine until nothing is due."""
        while self.tick():
            self.flush()

    def report(self, name: str) -> None:
        """Print the longest turn since the last report."""
        longest, most = max(self.turns, default=0), percentile(self.turns or [0.0], 0.99)
        print(f"  {name:30} {longest:8.2f} ms, p99 {most:6.2f} ms, of {len(self.turns):,} turns", flush=True)
        self.turns.clear()

    def properties(self, due_ms: int) -> str:
        """Of a message with a key of its own: a clock that stands still would make the broker's keys repeat."""
        self.keys += 1
        return f"UNIQ_KEY\1{self.keys:032X}\2TIMER_DELIVER_MS\1{due_ms}\2"

    def send(self, due: list[int]) -> list[str]:
        """Send a message for each time, wall ms. Returns the recall handles."""
        handles = []
        for start in range(0, len(due), A_BATCH):
            commands = [
                (
                    "p",
                    number,
                    SendMessage(
                        topic=TOPIC,
                        messages=[OutgoingMessage(body=b"x" * 128, queue_id=0, properties=self.properties(ms))],
                    ),
                )
                for number, ms in enumerate(due[start : start + A_BATCH])
            ]
            out = self.timed(lambda commands=commands: self.engine.handle_batch(commands, self.clock.now()))  # type: ignore[misc]
            handles += [reply.messages[0].recall_handle for _, _, reply in out.replies if isinstance(reply, Sent)]
            self.tick()
            self.flush()
        self.settle()
        return handles


def lateness(root: Path, pending: int, rate: int) -> None:
    """Print how late messages are that are due at this rate."""
    bench = Bench(root)
    first_ms = bench.clock.now().wall_ms + 60_000 + pending // 5
    bench.send([first_ms + number * 1000 // rate for number in range(pending)])
    bench.clock.ahead_ms += first_ms - 1000 - bench.clock.now().wall_ms
    gc.collect()
    freeze()
    late: list[float] = []
    append = bench.engine._context.store.append

    def noted(messages, now):  # type: ignore[no-untyped-def]
        batch = append(messages, now)
        for request in batch.requests:
            due = int(request.properties.partition("TIMER_DELIVER_MS\1")[2].partition("\2")[0])
            late.append(request.store_timestamp - due)
        return batch

    bench.engine._context.store.append = noted  # type: ignore[method-assign]
    bench.turns.clear()
    while len(late) < pending:
        if not bench.tick():
            time.sleep(0.0005)
        bench.flush()
    spread(f"late, {rate:,} a second, {pending:,} pending", late, "ms")
    print(f"  longest turn {max(bench.turns):.1f} ms, p99 {percentile(bench.turns, 0.99):.1f} ms")
    print(f"  processor time of a message {sum(bench.turns) / pending * 1000:.0f} us", flush=True)
    bench.engine.close(bench.clock.now())


def turns(root: Path, pending: int) -> None:
    """Print the longest turns with as many messages in one second, and as many in the seconds around it."""
    bench = Bench(root, stands_still=True)
    due_ms = bench.clock.now().wall_ms // 1000 * 1000 + 3_600_000
    handles = bench.send([due_ms + 1 + number % 1000 for number in range(pending)])
    bench.send([due_ms + 1001 + number % 20_000 for number in range(pending)])
    bench.report("sent")
    gc.collect()
    freeze()
    for number, handle in enumerate(handles[::10]):
        command = RecallMessage(topic=TOPIC, recall_handle=handle)
        bench.timed(lambda command=command: bench.engine.handle_batch([("p", 0, command)], bench.clock.now()))  # type: ignore[misc]
        if number % 32 == 0:
            bench.tick()
            bench.flush()
    bench.settle()
    bench.report("recalled")
    bench.timed(lambda: bench.engine.close(bench.clock.now()))
    bench.report("stop")
    bench.timed(bench.open)
    bench.report("start: opened")
    bench.settle()
    bench.report("start: the turns after it")
    bench.clock.ahead_ms += due_ms - 500 - bench.clock.now().wall_ms
    bench.settle()
    bench.report("the second before")
    bench.clock.ahead_ms += due_ms + 300 - bench.clock.now().wall_ms
    for _ in range(300):
        bench.tick()
        bench.flush()
    bench.report("300 turns of the second")
    bench.timed(lambda: bench.engine.close(bench.clock.now()))
    bench.report("stop in the second")
    bench.timed(bench.open)
    bench.report("start: opened")
    bench.clock.ahead_ms += 30_000
    bench.settle()
    bench.report("all delivered")
    delivered = bench.engine.queue_view(TOPIC, 0).max_offset
    print(f"  {delivered:,} delivered")
    bench.engine.close(bench.clock.now())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="glassmq-bench-") as folder:
        title("Turns of the engine with messages for an exact time, processor time of the longest")
        turns(Path(folder) / "turns", arguments.pending)
        title("Messages for an exact time: how late they are")
        lateness(Path(folder) / "late", arguments.pending, arguments.rate)


if __name__ == "__main__":
    main()

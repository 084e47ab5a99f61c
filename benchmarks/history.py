"""The history of 10,000 groups: processor time and bytes on the disk.

    python -m benchmarks.history [--groups 10000] [--active 10]

The engine's part: one sample of an engine with that many groups, each with 4 queues; the given percentage of them had
wake-ups in the last 10 s. The web process's part: samples in which this percentage of groups changes, the others having
a lag that stands still. Then each tier is filled with more steps than it keeps, which repeat these samples, and the
files are measured.
"""

import argparse
import gc
import random
import tempfile
import time
from pathlib import Path

from bridge.history.history import History
from bridge.history.history_file import BLOCK
from bridge.history.rollup import GROUP, TIERS, Step, Table
from broker_core import commands as c
from broker_core.clock import Now
from broker_core.commands import HistorySample
from broker_core.wakeup_stats import SLOT_MS
from tests.fakes.engine import Bench

START_S = 1_800_000_000
QUEUES = 4
SAMPLES = 130


class Load:
    """Samples of many groups. Active groups get and consume messages; their lag goes up and down."""

    def __init__(self, groups: int, active_percent: int) -> None:
        self.random = random.Random(7)
        self.names = [f"consumer-group-of-team-{number:05}" for number in range(groups)]
        self.active = groups * active_percent // 100
        self.delivered = [0] * groups
        self.lag = [self.random.choice((0, 0, 0, 41, 20_000)) for _ in self.names]
        self.woken = [0] * groups
        self.wake_p99_us: list[int | None] = [None] * groups

    def next(self) -> HistorySample:
        gauss = self.random.gauss
        for row in range(self.active):
            self.delivered[row] += max(0, int(gauss(300 + row % 3000, 40)))
            self.woken[row] += max(0, int(gauss(100 + row % 1000, 20)))
            self.wake_p99_us[row] = self.random.choice((100, 150, 200, 300, 500))
            self.lag[row] = max(0, self.lag[row] + int(gauss(0, 60)))
        names = self.names
        return HistorySample(
            broker="broker-a",
            epoch=1,
            stored=sum(self.delivered),
            delivered=sum(self.delivered),
            woken=sum(self.woken),
            holds=len(names),
            wake_p99_us=300,
            lag=sum(self.lag),
            groups=names,
            group_columns=[
                list(self.delivered),
                list(self.woken),
                [4 - (row < self.active and row % 5 == 0) for row in range(len(names))],
                list(self.wake_p99_us),
                list(self.lag),
            ],
            topics=[],
            topic_columns=[[], [], [], [], [], []],
            groups_left_out=0,
            topics_left_out=0,
        )


def engine_part(groups: int, active: int) -> None:
    bench = Bench(default_topic_queue_nums=QUEUES)
    for topic in range(20):
        for queue in range(QUEUES):
            bench.send(f"topic-{topic}", b"x", queue_id=queue)
    for number in range(groups):
        entries = [c.QueueOffset(topic=f"topic-{number % 20}", queue_id=queue, offset=0) for queue in range(QUEUES)]
        bench.call(c.UpdateConsumerOffset(group=f"consumer-group-of-team-{number:05}", offsets=entries))
    now, wakeups = bench.clock.now(), bench.context.counters.wakeups
    for number in range(groups * active // 100):
        for wake_us in (40, 90, 400):
            wakeups.add(
                (f"topic-{number % 20}", f"consumer-group-of-team-{number:05}", wake_us, now.wall_ms - SLOT_MS // 2)
            )
    began = time.process_time()
    wakeups.settle()
    print(
        f"engine: {(time.process_time() - began) * 1e6 / max(1, groups * active // 100 * 3):.1f} us to count a wake-up"
    )
    gc.collect()
    gc.freeze()
    longest, began = 0.0, time.process_time()
    for _ in range(5):
        steps = bench.engine.walk(c.GetHistorySample(), bench.clock.now())
        while True:
            turn = time.thread_time()
            try:
                next(steps)
            except StopIteration:
                break
            finally:
                longest = max(longest, time.thread_time() - turn)
    spent = (time.process_time() - began) / 5
    print(f"engine: {spent * 1000:.0f} ms of processor time a sample, {spent * 10:.2f} % of a core at one in 10 s")
    print(f"engine: longest piece {longest * 1000:.2f} ms")


def history_part(groups: int, active: int, folder: Path) -> None:
    history = History(folder / "broker-a.sqlite3")
    tables: list[Table] = []
    add = history._rollups[0].add

    def keep(at_s: int, table: Table, *, counted: bool) -> Step | None:
        tables.append(table)
        return add(at_s, table, counted=counted)

    history._rollups[0].add = keep  # type: ignore[method-assign]
    load = Load(groups, active)
    spent, at_s = 0.0, START_S
    for _ in range(SAMPLES):
        sample = load.next()
        began = time.process_time()
        history.record(sample, Now(at_s * 1000, at_s * 1_000_000_000))
        spent += time.process_time() - began
        at_s += TIERS[0].step_s
        assert not history.problem, history.problem
    cost = spent / SAMPLES
    print(f"web process: {cost * 1000:.1f} ms of processor time a sample, {cost * 10:.2f} % of a core")
    file = history._file
    assert file is not None
    for tier, (step_s, slots, _) in enumerate(TIERS):
        for number in range(slots + BLOCK):
            file.write([(tier, Step(at_s + number * step_s, tables[number % SAMPLES]))], [])
        blocks = file._blocks[tier]
        steps, size = sum(block.steps for block in blocks), sum(block.size for block in blocks)
        began, end = time.process_time(), TIERS[tier].start(at_s + (slots + BLOCK) * step_s)
        history.read(GROUP, [load.names[17]], tier, end - slots * step_s, end)
        reading = time.process_time() - began
        print(
            f"steps of {step_s} s: {steps} of {slots} are kept, {size / 1e6:.1f} MB, {size / steps:.0f} bytes a step; "
            f"reading them for one group takes {reading * 1000:.0f} ms"
        )
    history.close()
    print(f"files: {sum(file.stat().st_size for file in folder.iterdir()) / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=10, help="percent of the groups that change in each sample")
    arguments = parser.parse_args()
    engine_part(arguments.groups, arguments.active)
    with tempfile.TemporaryDirectory() as folder:
        history_part(arguments.groups, arguments.active, Path(folder))


if __name__ == "__main__":
    main()

"""Reports over logs, and the lake, compared with NumPy and DuckDB.

    python benchmarks/spark.py [--keep DIR] [--small-gib 1] [--mixed-gib 2] [--growth GIB]

The engine makes stores of 1 GiB (bodies of 128 B) and 2 GiB (128 B to 1 KiB). Each task runs twice to warm up and then
three times, in one Spark session of two cores; the median counts. The yardstick, the same sums by NumPy alone in two
processes, is measured in the same run, right before. Besides the time, the busy time of the processors is printed; it
is the better figure if something else runs on the machine.

``--keep DIR`` keeps the stores there, or uses existing ones. ``--growth 10`` continues to logs of that size, making a
lake at each doubling, to measure time and memory.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from common import title
from make_store import BEGIN_MS, make_store
from numpy_yardstick import yardstick

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from spark_jobs.inputs import RunInputs, StoreInputs
from spark_jobs.job import BrokerStore, Job
from spark_jobs.lake.lake import find_lake
from spark_jobs.lake.tables import fill
from spark_jobs.reports import throughput
from spark_jobs.run import run_report
from spark_jobs.sources.commit_log_segments import plan_log
from spark_jobs.spark.session import get_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = 3
CORES = 2
INCREMENT = 50 * 1000 * 1000
GIB = 1 << 30
MINUTE_MS = 60_000
DUCK_SQL = """select topic, store_ts // 60000 as minute, count(*), sum(total_size), max(queue_offset),
    max(store_ts - born_ts) from read_parquet({paths}) group by all"""


class Took(NamedTuple):
    """Time and busy processor time of a task, s, of this process and all its descendants."""

    wall: float
    cpu: float


def timed(work: Callable[[], Any]) -> Took:
    busy, began = sum(own.cpu for own in processes()), time.perf_counter()
    work()
    took = time.perf_counter() - began
    return Took(took, sum(own.cpu for own in processes()) - busy)


def median(work: Callable[[], Any], runs: int = RUNS) -> Took:
    """Run twice to warm up, then return the median of ``runs`` runs."""
    work()
    work()
    return middle([timed(work) for _ in range(runs)])


def middle(runs: list[Took]) -> Took:
    return Took(statistics.median(run.wall for run in runs), statistics.median(run.cpu for run in runs))


class Process(NamedTuple):
    """Seconds that a process was busy, and bytes of memory of its own."""

    cpu: float
    memory: int


def processes() -> list[Process]:
    """This process and all its running descendants."""
    found: dict[int, Process] = {}
    children: dict[int, list[int]] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            status = (path / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        memory = status.partition("RssAnon:")[2].split()
        children.setdefault(int(fields[1]), []).append(int(path.name))
        found[int(path.name)] = Process(sum(map(int, fields[11:15])) / tick, int(memory[0]) << 10 if memory else 0)
    todo, mine = [os.getpid()], []
    while todo:
        number = todo.pop()
        todo += children.get(number, [])
        if number in found:
            mine.append(found[number])
    return mine


def line(name: str, took: Took, messages: int, said: str = "") -> None:
    rate = f"{messages / took.wall / 1e6:6.2f} M/s" if messages else " " * 10
    print(f"  {name:<47}{took.wall:7.3f} s  {took.cpu:6.2f} s busy  {rate}  {said}".rstrip(), flush=True)


def times(took: Took, bare: Took) -> str:
    return f"{took.wall / bare.wall:.2f} x the yardstick, {took.cpu / bare.cpu:.2f} x as busy"


def goal(reached: bool, wanted: str) -> str:
    return f"goal {wanted}: {'reached' if reached else 'MISSED'}"


def store_at(folder: Path, name: str, size: int, body: tuple[int, int]) -> Path:
    """The store of that name, made if it does not exist."""
    path = folder / name
    if not (path / "made").exists():
        shutil.rmtree(path, ignore_errors=True)
        count = make_store(path, size, body=body)
        (path / "made").write_text(str(count))
    return path


class Bench:
    """One Spark session and one folder for output."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def lake(self, store: Path) -> Any:
        found = find_lake(self.lakes, store)
        assert found is not None
        return found

    @property
    def lakes(self) -> Path:
        return self.folder / "lakes"

    def fill(self, store: Path) -> int:
        """Fill the lake; returns the number of new messages in it."""
        return fill(self.spark, str(store), self.lakes, lambda: BEGIN_MS, lambda percent, doing: None).messages

    def fill_anew(self, store: Path) -> int:
        shutil.rmtree(self.lakes, ignore_errors=True)
        return self.fill(store)

    def facts(self, store: Path, *, of_lake: bool) -> None:
        """Compute the sums for the report ``throughput``."""
        lake = self.lake(store) if of_lake else None
        inputs = RunInputs(
            self.spark, [StoreInputs(self.spark, "a", store, throughput.REPORT, lake)], throughput.REPORT
        )
        throughput.facts(inputs.of(throughput.REPORT))["stored"].toArrow()

    def report(self, store: Path, *, of_lake: bool, from_ms: int | None = None, to_ms: int | None = None) -> int:
        """Make the whole report: its tables, page and files."""
        source, broker = "lake" if of_lake else "log", BrokerStore("a", store)
        job = Job("throughput", (broker,), self.folder / "report", from_ms, to_ms, lakes=self.lakes, source=source)
        summary = run_report(job, self.spark, lambda: datetime.now(UTC), lambda percent, doing, until=0: None)
        return int(summary["total"]["messages"])

    def duck(self, store: Path) -> Callable[[], Any]:
        """The yardstick's sums, by DuckDB over the lake's messages."""
        import duckdb

        paths = [file.path for file in self.lake(store).messages]
        connection = duckdb.connect(config={"threads": CORES})
        return lambda: connection.sql(DUCK_SQL.format(paths=paths)).to_arrow_table()

    def spark_sql(self, store: Path) -> Callable[[], Any]:
        """The same query, by Spark."""
        from pyspark.sql import functions as F

        from spark_jobs.lake.tables import lake_messages

        columns = ("topic", "store_ts", "total_size", "queue_offset", "born_ts")

        def query() -> None:
            lake_messages(self.spark, self.lake(store), columns).groupBy(
                "topic", (F.col("store_ts") / 60_000).cast("long")
            ).agg(
                F.count("*"), F.sum("total_size"), F.max("queue_offset"), F.max(F.col("store_ts") - F.col("born_ts"))
            ).toArrow()

        return query

    def store(self, store: Path) -> None:
        """Measure everything about one store."""
        messages = int((store / "made").read_text())
        print(f"\n  {store.name}: {messages:,} messages, {plan_log(store).end / GIB:.2f} GiB", flush=True)
        with get_context("fork").Pool(CORES) as pool:
            assert yardstick(store, pool) == messages
            bare = median(lambda: yardstick(store, pool))
        line("NumPy alone, 2 processes (the yardstick)", bare, messages)
        took = median(lambda: self.facts(store, of_lake=False))
        line(
            "throughput from the log: its sums",
            took,
            messages,
            f"{times(took, bare)}; " + goal(took.wall <= 3 * bare.wall, "3 x"),
        )
        assert self.report(store, of_lake=False) == messages
        took = median(lambda: self.report(store, of_lake=False))
        line("throughput from the log: all tables and pages", took, messages, times(took, bare))
        assert self.fill_anew(store) == messages
        took = median(lambda: self.fill_anew(store))
        size = sum(file.size for file in self.lake(store).messages)
        line(
            "log to lake, headers and properties",
            took,
            messages,
            f"{size / messages:.1f} B a message; " + goal(messages / took.wall >= 0.7e6, "0.7 M/s"),
        )
        took = median(lambda: self.facts(store, of_lake=True))
        line("throughput from the lake: its sums", took, messages)
        assert self.report(store, of_lake=True) == messages
        took = median(lambda: self.report(store, of_lake=True))
        line("throughput from the lake: all tables and pages", took, 0, goal(took.wall < 1.5, "1.5 s for 3 M messages"))
        line("a query over the lake's messages, Spark", median(self.spark_sql(store)), messages)
        line("the same, DuckDB", median(self.duck(store)), messages)

    def increment(self, store: Path) -> None:
        """Measure filling the lake after 50 MB more of messages."""
        self.fill_anew(store)
        runs, added = [], 0
        for _ in range(RUNS):
            added = make_store(store, plan_log(store).end + INCREMENT)
            found: list[int] = []
            runs.append(timed(lambda found=found: found.append(self.fill(store))))
            assert found == [added]
        line("an increment of 50 MB", middle(runs), added)

    def growth(self, folder: Path, gib: int) -> None:
        """Measure a log that grows by a GiB at a time; whenever it has doubled, a lake is made of all of it."""
        print(f"\n  growth to {gib} GiB, bodies of 128 B to 1 KiB: a lake made of all of it", flush=True)
        store, size = folder / "growth", 1
        while True:
            size = min(size, gib)
            make_store(store, size * GIB, body=(128, 1024))
            shutil.rmtree(self.lakes, ignore_errors=True)
            found: list[int] = []
            took = timed(lambda found=found: found.append(self.fill(store)))
            memory = sum(own.memory for own in processes()) / 1e6
            line(
                f"{size:3d} GiB",
                took,
                found[0],
                f"{took.wall / size:.2f} s a GiB, {took.cpu / size:.2f} s busy; {memory:,.0f} MB of memory",
            )
            if size == gib:
                break
            size *= 2
        begin = self.lake(store).messages[-1].max_ms // MINUTE_MS * MINUTE_MS - MINUTE_MS
        took = median(lambda: self.report(store, of_lake=True, from_ms=begin, to_ms=begin + MINUTE_MS))
        line("throughput of its last whole minute", took, 0, goal(took.wall < 2, "2 s"))
        shutil.rmtree(store)


@contextmanager
def session(scratch: Path) -> "Iterator[SparkSession]":
    """A session on two cores, which ends with its Java."""
    spark = get_session(f"local[{CORES}]", scratch)
    java = spark.sparkContext._gateway.proc
    try:
        yield spark
    finally:
        stop_session()
        java.stdin.close()
        java.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description="Reports over logs, and the lake, compared with NumPy and DuckDB.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder in which the stores are kept")
    parser.add_argument("--small-gib", type=float, default=1.0, help="size of the log of small messages")
    parser.add_argument("--mixed-gib", type=float, default=2.0, help="size of the log of mixed messages; 0 for none")
    parser.add_argument("--growth", type=int, default=0, metavar="GIB", help="continue to a log of this size")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="glassmq-bench-") as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        stores = [store_at(folder, "small", int(chosen.small_gib * GIB), (128, 128))]
        if chosen.mixed_gib:
            stores.append(store_at(folder, "mixed", int(chosen.mixed_gib * GIB), (128, 1024)))
        title(f"Spark over stored logs, local[{CORES}], warm, median of {RUNS}")
        with session(Path(scratch) / "spark") as spark:
            bench = Bench(spark, Path(scratch))
            for store in stores:
                bench.store(store)
            grown = store_at(Path(scratch), "grown", 100 * 1000 * 1000, (128, 128))
            bench.increment(grown)
            if chosen.growth:
                bench.growth(Path(scratch), chosen.growth)


if __name__ == "__main__":
    main()

"""The goals of reports and lake, and the same questions by NumPy and DuckDB.

    python benchmarks/spark.py [--parts install,cold,log,lake,growth] [--gib 1] [--growth 10] [--keep DIR]

Each part prints how long it took. On two cores all of them take less than 20 minutes:

    install   bytes of the installed requirements                                      1 s
    cold      the command on a RocketMQ store of 2.7 MB, from no Java to all files     2 min
    log       throughput of 1 GiB from the log, beside the NumPy yardstick             3 min, with making the store
    lake      log to lake; throughput from the lake; a query by Spark and DuckDB       3 min
    growth    a log and its lake grow from 1 to 10 GiB: memory; a one-minute window   10 min

Warm parts share one Spark session of two cores. A task first runs twice to warm up; then the median counts. Ratios are
the median of pairs: yardstick and report run in turns, so that a slow moment of the machine affects both. Besides the
time, the busy time of the processors is printed; it is the better figure if something else runs on the machine.

``--keep DIR`` keeps the stores there, or uses existing ones.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, files
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from common import ROOT, title
from make_store import BEGIN_MS, make_store
from numpy_yardstick import yardstick

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from spark_jobs.job import BrokerStore, Job
from spark_jobs.lake.lake import find_lake
from spark_jobs.lake.tables import fill
from spark_jobs.run import run_report
from spark_jobs.spark.session import get_session, stop_session
from tests.fakes import golden_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE_S = 180
"""How long writing the archive of Spark's classes may take."""
PARTS = ("install", "cold", "log", "lake", "growth")
RUNS, PAIRS = 5, 7
CORES = 2
GIB = 1 << 30
MINUTE_MS = 60_000
COLD_GOALS_S = {"throughput": 12, "daily_summary": 25}
FLAT = 1.25
"""Memory is flat if it grows by no more than this factor."""
DUCK_SQL = """select topic, epoch_ms(store_ts) // 60000 as minute, count(*), sum(total_size), max(queue_offset),
    max(epoch_ms(store_ts) - epoch_ms(born_ts)) from read_parquet({paths}) group by all"""


class Took(NamedTuple):
    """Time and busy processor time of a task, s, of this process and all its descendants."""

    wall: float
    cpu: float


def timed(work: Callable[[], Any]) -> Took:
    busy, began = busy_s(), time.perf_counter()
    work()
    return Took(time.perf_counter() - began, busy_s() - busy)


def median(work: Callable[[], Any], runs: int = RUNS) -> Took:
    """Run twice to warm up, then return the median of ``runs`` runs."""
    work()
    work()
    return middle([timed(work) for _ in range(runs)])


def middle(runs: list[Took]) -> Took:
    return Took(statistics.median(run.wall for run in runs), statistics.median(run.cpu for run in runs))


def busy_s() -> float:
    """Seconds that this process and all its running descendants were busy."""
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(path.name))
        seconds[int(path.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    todo, found = [os.getpid()], 0.0
    while todo:
        number = todo.pop()
        todo += children.get(number, [])
        found += seconds.get(number, 0.0)
    return found


def line(name: str, took: Took, messages: int, said: str = "") -> None:
    rate = f"{messages / took.wall / 1e6:6.2f} M/s" if messages else " " * 10
    print(f"  {name:<47}{took.wall:7.3f} s  {took.cpu:6.2f} s busy  {rate}  {said}".rstrip(), flush=True)


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
    """One Spark session and one folder for stores and output."""

    def __init__(self, spark: "SparkSession", stores: Path, folder: Path) -> None:
        self.spark = spark
        self.stores = stores
        self.folder = folder
        self.lakes = folder / "lakes"

    def lake(self) -> Any:
        found = find_lake(self.lakes, "a")
        assert found is not None
        return found

    def fill_anew(self, store: Path) -> int:
        """Fill a new lake; returns the number of messages in it."""
        shutil.rmtree(self.lakes, ignore_errors=True)
        count, is_all = 0, False
        while not is_all:
            done = fill(self.spark, str(store), "a", self.lakes, BEGIN_MS, lambda percent, doing: None)
            count, is_all = count + done.messages, done.is_all
        return count

    def report(self, store: Path, *, of_lake: bool, from_ms: int | None = None, to_ms: int | None = None) -> int:
        """Compute ``throughput`` with all tables, page and files; returns the number of messages in it."""
        lakes, stores = self.lakes if of_lake else None, (BrokerStore("a", store),)
        job = Job("throughput", stores, self.folder / "report", from_ms, to_ms, lakes=lakes, needs_lake=of_lake)
        summary = run_report(
            job, lambda _: nullcontext(self.spark), lambda: datetime.now(UTC), lambda percent, doing, until=0: None
        )
        return int(summary["total"]["messages"])

    def duck(self) -> Callable[[], Any]:
        """The yardstick's sums, by DuckDB over the lake's messages."""
        import duckdb

        paths = [file.path for file in self.lake().messages]
        connection = duckdb.connect(config={"threads": CORES})
        return lambda: connection.sql(DUCK_SQL.format(paths=paths)).to_arrow_table()

    def spark_sql(self) -> Callable[[], Any]:
        """The same query, by Spark."""
        from pyspark.sql import functions as F

        from spark_jobs.lake.tables import lake_messages

        columns = ("topic", "store_ts", "total_size", "queue_offset", "born_ts")

        def query() -> None:
            lake_messages(self.spark, self.lake(), columns).groupBy(
                "topic", (F.col("store_ts") / 60_000).cast("long")
            ).agg(
                F.count("*"), F.sum("total_size"), F.max("queue_offset"), F.max(F.col("store_ts") - F.col("born_ts"))
            ).toArrow()

        return query

    def driver_memory(self) -> float:
        """Memory of the driver, MB: what its Java keeps after a collection, and this process's own."""
        java: Any = self.spark.sparkContext._jvm.java.lang
        java.System.gc()
        runtime = java.Runtime.getRuntime()
        own = Path("/proc/self/status").read_text().partition("RssAnon:")[2].split()[0]
        return float((runtime.totalMemory() - runtime.freeMemory()) / 1e6 + int(own) * 1024 / 1e6)

    def log(self, store: Path) -> None:
        """Measure ``throughput`` from the log beside the yardstick."""
        messages = int((store / "made").read_text())
        with get_context("fork").Pool(CORES) as pool:
            for _ in range(2):
                assert yardstick(store, pool) == self.report(store, of_lake=False) == messages
            pairs = [
                (timed(lambda: yardstick(store, pool)), timed(lambda: self.report(store, of_lake=False)))
                for _ in range(PAIRS)
            ]
        line("NumPy alone, 2 processes (the yardstick)", middle([bare for bare, _ in pairs]), messages)
        ratio, busy = (statistics.median(took[field] / bare[field] for bare, took in pairs) for field in (0, 1))
        said = f"{ratio:.2f} x the yardstick, {busy:.2f} x as busy; " + goal(ratio <= 3, "3 x")
        line("throughput from the log: tables, page and files", middle([took for _, took in pairs]), messages, said)

    def of_lake(self, store: Path) -> None:
        """Measure how the lake is filled and read."""
        messages = int((store / "made").read_text())
        assert self.fill_anew(store) == messages
        took = middle([timed(lambda: self.fill_anew(store)) for _ in range(RUNS)])
        size = sum(file.size for file in self.lake().messages)
        said = f"{size / messages:.1f} B a message; " + goal(messages / took.wall >= 0.7e6, "0.7 M/s")
        line("log to lake, headers and properties", took, messages, said)
        assert self.report(store, of_lake=True) == messages
        took = median(lambda: self.report(store, of_lake=True))
        said = goal(took.wall < 1.5, f"1.5 s for 3 M messages; these are {messages / 1e6:.1f} M")
        line("throughput from the lake: tables, page and files", took, messages, said)
        line("a query over the lake's messages, Spark", median(self.spark_sql()), messages)
        line("the same, DuckDB", median(self.duck()), messages)

    def growth(self, gib: float) -> None:
        """Fill a lake from a log that grows tenfold, to ``gib``; then read one minute of it."""
        store, memory = self.stores / "growth", list[float]()
        grown, messages = 0.0, 0
        for size in (gib / 10, gib / 5, gib / 2.5, gib / 1.25, gib):
            begin_ms = BEGIN_MS + messages  # a message is stored each millisecond
            messages += make_store(store, int((size - grown) * GIB), body=(128, 1024), begin_ms=begin_ms)
            grown = size
            found: list[int] = []
            took = timed(lambda found=found: found.append(self.fill_anew(store)))
            self.report(store, of_lake=False)
            memory.append(self.driver_memory())
            said = f"{took.wall / size:.2f} s a GiB; driver {memory[-1]:,.0f} MB after it and a report from the log"
            line(f"{size:.3g} GiB, log to lake", took, found[0], said)
        ratio = memory[-1] / memory[0]
        print(f"  memory of the driver, of ten times as much: {ratio:.2f} x; {goal(ratio <= FLAT, f'{FLAT} x')}")
        begin = max(file.max_ms for file in self.lake().messages) // MINUTE_MS * MINUTE_MS - MINUTE_MS
        took = median(lambda: self.report(store, of_lake=True, from_ms=begin, to_ms=begin + MINUTE_MS))
        line(f"throughput of one minute of the lake of {gib:.3g} GiB", took, 0, goal(took.wall < 2, "2 s"))
        shutil.rmtree(store)


def install() -> None:
    """Print the bytes of the packages that reports need beside those of the broker."""
    names = {
        path.stem: {line.partition("==")[0].strip() for line in path.read_text().splitlines() if "==" in line}
        for path in ((ROOT / "requirements" / name) for name in ("base.txt", "spark.txt"))
    }
    sizes = {name: installed_bytes(name) for name in names["spark"] - names["base"]}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:6]
    parts = ", ".join(f"{name} {sizes[name] / 1e6:,.0f}" for name in largest)
    print(
        f"  {sum(sizes.values()) / 1e6:,.0f} MB installed for reports: {parts} MB, {len(sizes) - len(largest)} others"
    )


def installed_bytes(package: str) -> int:
    try:
        return sum(Path(file.locate()).stat().st_size for file in files(package) or () if file.locate().exists())
    except PackageNotFoundError:
        return 0


def archive_classes(store: Path, folder: Path, environment: dict[str, str]) -> None:
    """Have an installation's first two starts of Spark behind, by which it has the archive of Spark's classes."""
    command = [sys.executable, "manage.py", "report", "run", "--all", "--store", store, "--out", folder / "first"]
    for number in (1, 2):
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
        print(f"  all reports, start {number} of an installation: {time.perf_counter() - began:.1f} s")
    deadline = time.monotonic() + ARCHIVE_S
    while not any((folder / "data" / "spark").glob("classes-*.jsa")):
        if time.monotonic() > deadline:
            print("  The archive of Spark's classes was not written.")
            return
        time.sleep(1)


def cold(folder: Path) -> None:
    """Measure the command, from a process without Java to all files of the report."""
    store = golden_store.unpack(folder / "golden") / golden_store.STORES[0]
    environment = os.environ | {"GLASSMQ_DATA_DIR": str(folder / "data")}
    archive_classes(store, folder, environment)
    for name, wanted_s in COLD_GOALS_S.items():
        command = [sys.executable, "manage.py", "report", "run", name, "--store", store, "--out", folder / name]
        runs = []
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
            runs.append(time.perf_counter() - began)
        took = statistics.median(runs)
        print(f"  {name}, cold, of a store of 2.7 MB: {took:.1f} s; {goal(took <= wanted_s, f'{wanted_s} s')}")


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


def part(name: str, work: Callable[[], Any]) -> None:
    """Carry a part out, and print how long it took."""
    print(f"\n  {name}", flush=True)
    began = time.perf_counter()
    work()
    print(f"  ({name}: {time.perf_counter() - began:.0f} s in all)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="The goals of reports and lake, beside NumPy and DuckDB.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder in which the stores are kept")
    parser.add_argument("--parts", default=",".join(PARTS), help="default: %(default)s")
    parser.add_argument("--gib", type=float, default=1.0, help="size of the log of the parts log and lake")
    parser.add_argument("--growth", type=float, default=10.0, metavar="GIB", help="size that the log of growth reaches")
    chosen = parser.parse_args()
    parts = chosen.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}, but {', '.join(PARTS)}")
    title(f"Reports and lake, local[{CORES}]: medians")
    with tempfile.TemporaryDirectory(prefix="glassmq-bench-") as scratch:
        folder = Path(scratch)
        stores = chosen.keep or folder / "stores"
        stores.mkdir(parents=True, exist_ok=True)
        if "install" in parts:
            part("install", install)
        if "cold" in parts:
            part("cold", lambda: cold(folder))
        if not {"log", "lake", "growth"} & set(parts):
            return
        with session(folder / "spark") as spark:
            bench = Bench(spark, stores, folder)
            if {"log", "lake"} & set(parts):
                part("making the store", lambda: store_at(stores, "small", int(chosen.gib * GIB), (128, 128)))
            if "log" in parts:
                part("log", lambda: bench.log(stores / "small"))
            if "lake" in parts:
                part("lake", lambda: bench.of_lake(stores / "small"))
            if "growth" in parts:
                part("growth", lambda: bench.growth(chosen.growth))


if __name__ == "__main__":
    main()

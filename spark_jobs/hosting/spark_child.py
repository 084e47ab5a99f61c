"""The process that has the Spark session: ``python -m spark_jobs.hosting.spark_child``, started by ``spark_process``.

It takes lines of JSON from standard input, one job at a time, and answers in its output, where each line of JSON has
MARK before it; everything else there, Java's words among them, is log.

    in     {"job": "report", "master": "local[*]", "scratch": "/…", "group": "…", "arguments": {…}}
           {"cancel": true}
    out    {"progress": [40, "reading the log"]}        any number of these, then one of
           {"done": {…}, "memory": 1400000000}
           {"failed": "a sentence", "passing": false}
           {"cancelled": true}

Standard input is a leash as well: when it ends, so does this process, and its Java with it.
"""

import json
import logging
import os
import queue
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from spark_jobs.spark import connect
from spark_jobs.spark.failures import is_passing, sentence
from spark_jobs.spark.job_group import JobGroup, job_group
from spark_jobs.spark.session import end_spark, get_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

MARK = "\x1e"
LOOK_S = 0.2
GIVE_UP_S = 15.0

Say = Callable[[dict[str, Any]], None]


class Progress(Protocol):
    """Whom to tell how far a job is."""

    def __call__(self, percent: int, doing: str, until: int = 0) -> None:
        """``until``: up to there the percent bar is the scan that begins now, and goes on as its tasks end."""


class CancelledError(Exception):
    """Somebody does not want the result any more."""


def report(arguments: dict[str, Any], spark: "SparkSession", progress: Progress) -> dict[str, Any]:
    """One report; the arguments are ``Job``'s."""
    from django.utils import timezone

    from spark_jobs.run import Job, run_report

    paths: dict[str, Any] = {name: Path(arguments[name]) for name in ("store", "folder", "lakes") if name in arguments}
    summary = run_report(Job(**arguments | paths), spark, timezone.now, progress)
    return {
        "messages": summary["input"].get("messages"),
        "result": {name: summary[name] for name in ("words", "headlines", "notes")},
    }


def lake(arguments: dict[str, Any], spark: "SparkSession", progress: Progress) -> dict[str, Any]:
    """One round of filling the lake of a store: ``store``, ``lakes``, ``with_bodies``, and ``keep_days`` if not all."""
    from django.utils import timezone

    from spark_jobs.lake.tables import fill

    def told(percent: int, doing: str) -> None:
        progress(percent, doing, until=99)  # of this round, as its tasks end

    synced = fill(
        spark,
        arguments["store"],
        Path(arguments["lakes"]),
        lambda: int(timezone.now().timestamp() * 1000),
        told,
        with_bodies=arguments["with_bodies"],
        rounds=1,
        keep_days=arguments.get("keep_days", 0),
    )
    return synced._asdict() | {"lake": str(synced.lake)}


JOBS: dict[str, Callable[[dict[str, Any], "SparkSession", Progress], dict[str, Any]]] = {"report": report, "lake": lake}
"""What can be asked for: each gets its arguments, the session and whom to tell how far it is."""


class Child:
    """One job after the other. ``say`` sends an answer; ``cancel`` is called by another thread."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._wanted = True
        self._jobs: JobGroup | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._percent = 0
        self._scan = (0, 0)
        self._doing = ""

    def prepare(self) -> None:
        """A job comes; a cancel from now on is its."""
        self._wanted = True
        self._idle.clear()

    def cancel(self) -> None:
        """End the job under way, if there is one."""
        self._wanted = False
        jobs = self._jobs
        if jobs is not None:
            jobs.cancel()

    def give_up(self) -> None:
        """The process ends. What a job keeps at a server, which goes on for others, it takes away before that."""
        if connect.current_session() is not None:
            self.cancel()
            self._idle.wait(GIVE_UP_S)

    def run(self, order: dict[str, Any]) -> None:
        """Carry the order out, whatever comes of it."""
        self._percent, self._scan = 0, (0, 0)
        try:
            self._progress(0, "starting Spark")
            spark = get_session(order["master"], Path(order["scratch"]))
            with job_group(spark, order["group"]) as self._jobs:
                self._progress(1, "Spark is there")
                with self._scan_watched(self._jobs):
                    done = JOBS[order["job"]](order["arguments"], spark, self._progress)
            self._say({"done": done, "memory": memory(spark)})
        except Exception as error:
            if self._wanted:
                logger.exception("%s failed.", order["group"])
                self._say({"failed": sentence(error), "passing": is_passing(error)})
            else:
                self._say({"cancelled": True})
        finally:
            self._jobs = None
            self._idle.set()

    def _progress(self, percent: int, doing: str, until: int = 0) -> None:
        if not self._wanted:
            raise CancelledError
        if until and self._jobs is not None:
            self._jobs.begin_scan()
        self._percent, self._doing, self._scan = max(self._percent, percent), doing, (percent, until)
        self._say({"progress": [self._percent, doing]})

    @contextmanager
    def _scan_watched(self, jobs: JobGroup) -> Iterator[None]:
        """Meanwhile, tell how far the scan is."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(LOOK_S):
                begin, until = self._scan
                if self._percent < until:
                    with suppress(Exception):  # a session that ends says so elsewhere
                        done, total = jobs.scan_progress()
                        percent = begin + (until - begin) * done // max(total, 1)
                        if percent > self._percent:
                            self._percent = percent
                            self._say({"progress": [percent, self._doing]})

        thread = threading.Thread(target=watch, name="scan", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def memory(spark: "SparkSession") -> int:
    """Bytes that this process had at most and that its Java's heap takes, if it has one."""
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if connect.is_of_connect(spark):
        return own
    java: Any = spark.sparkContext._jvm
    heap: int = java.java.lang.Runtime.getRuntime().totalMemory()
    return own + heap


def serve(orders: BinaryIO, say: Say) -> None:
    """Carry out what comes until nothing comes any more."""
    child = Child(say)
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen() -> None:
        for line in orders:
            order = json.loads(line)
            if "cancel" in order:
                with suppress(Exception):  # a session that ends has nothing to cancel
                    child.cancel()
            else:
                child.prepare()
                waiting.put(order)
        with suppress(Exception):
            child.give_up()  # whoever asked is gone, or needs this process no more
        end_spark()
        os._exit(0)

    threading.Thread(target=listen, name="orders", daemon=True).start()
    while True:
        child.run(waiting.get())


def main() -> None:
    """The process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    speaking = threading.Lock()

    def say(answer: dict[str, Any]) -> None:
        line = f"{MARK}{json.dumps(answer)}\n".encode()
        with speaking, suppress(BrokenPipeError):  # whoever asked is gone
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(1, line)

    serve(sys.stdin.buffer, say)


if __name__ == "__main__":
    main()

"""The process that has the Spark session: ``python -m spark_jobs.hosting.spark_child``, started by ``spark_process``.

It reads orders from standard input, one job after the other, and writes answers to standard output, each a line of
JSON. Standard error is the log.

    in     {"job": "report", "master": "local[*]", "scratch": "/…", "arguments": {…}}
    out    {"progress": [40, "reading the log"]}        any number of these, then one of
           {"done": {…}}
           {"failed": "a sentence", "passing": false}

The process ends on SIGTERM, and when standard input ends, which is when the report worker has died. Its Java ends with
it.
"""

import json
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from spark_jobs.job import BrokerStore, Job, Progress
from spark_jobs.spark.failures import is_passing, sentence
from spark_jobs.spark.progress import watch_tasks
from spark_jobs.spark.session import end_java, get_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

END_GRACE_S = 5.0
_is_ending = threading.Event()
Say = Callable[[dict[str, Any]], None]
StartSpark = Callable[[bool], "AbstractContextManager[SparkSession]"]
"""Starts Spark, unless it has started; the argument says whether little is read (``get_session``)."""


class ProgressLines:
    """Sends the progress of a job. The percentage never decreases. Several threads call this."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._percent = self._start = self._until = 0
        self._doing = ""

    def __call__(self, percent: int, doing: str, until: int = 0) -> None:
        with self._lock:
            self._start, self._until, self._doing = percent, until, doing
            self._percent = max(self._percent, percent)
            self._say({"progress": (self._percent, doing)})

    def tell_tasks(self, finished: int, tasks: int) -> None:
        """The tasks of the scan under way, if there is one."""
        with self._lock:
            percent = self._start + (self._until - self._start) * finished // max(tasks, 1)
            if percent > self._percent:
                self._percent = percent
                self._say({"progress": (percent, self._doing)})


def report(arguments: dict[str, Any], start_spark: StartSpark, progress: Progress) -> dict[str, Any]:
    """Run one report. ``arguments`` are the fields of ``Job``."""
    from spark_jobs.run import run_report

    stores = tuple(BrokerStore(broker, Path(store)) for broker, store in arguments["stores"])
    job = Job(**arguments | {"folder": Path(arguments["folder"]), "stores": stores})
    summary = run_report(job, start_spark, timezone.now, progress)
    messages = [source["messages"] for source in summary["inputs"] if "messages" in source]
    return {
        "messages": sum(messages) if messages else None,
        "result": {name: summary[name] for name in ("words", "headlines", "notes")},
    }


def lake(arguments: dict[str, Any], start_spark: StartSpark, progress: Progress) -> dict[str, Any]:
    """Fill the lake from each store once. Returns ``messages`` written, ``is_all`` if no fill is to follow, and
    as ``result`` where each log ended.

    ``arguments``: ``stores`` as (broker, path), ``lakes``, ``with_bodies``, ``keep_days``. If a store fails, the
    others are filled to their ends first, and the store is tried again in every round.
    """
    from spark_jobs.lake.tables import fill

    done, failure, count = [], None, len(arguments["stores"])
    with start_spark(False) as spark:
        for index, (broker, store) in enumerate(arguments["stores"]):

            def tell(percent: int, doing: str, index: int = index) -> None:
                progress((100 * index + percent) // count, doing, until=99 * (index + 1) // count)

            try:
                done.append(
                    fill(
                        spark,
                        store,
                        broker,
                        arguments["lakes"],
                        int(timezone.now().timestamp() * 1000),
                        tell,
                        with_bodies=arguments["with_bodies"],
                        keep_days=arguments["keep_days"],
                    )
                )
            except Exception as error:
                logger.exception("The lake could not be filled from %s.", store)
                failure = failure or error
    is_all = all(one.is_all for one in done)
    if failure is not None and is_all:
        raise failure
    ends = {one.broker: {"ended_by": one.ended_by, "segments_unread": one.segments_unread} for one in done}
    return {"messages": sum(one.messages for one in done), "is_all": is_all, "result": ends}


JOBS: dict[str, Callable[[dict[str, Any], StartSpark, Progress], dict[str, Any]]] = {"report": report, "lake": lake}


def carry_out(order: dict[str, Any], say: Say) -> None:
    """Carry out one job, and send its result or its error. SystemExit if the process is ending."""
    progress = ProgressLines(say)

    @contextmanager
    def start_spark(reads_little: bool) -> "Iterator[SparkSession]":
        progress(0, "starting Spark")
        spark = get_session(order["master"], Path(order["scratch"]), reads_little)
        progress(1, "Spark has started")
        with watch_tasks(spark, progress.tell_tasks):
            yield spark

    try:
        say({"done": JOBS[order["job"]](order["arguments"], start_spark, progress)})
    except Exception as error:
        if _is_ending.is_set():  # pyspark asks Java once more while it cleans up, and its error replaces SystemExit
            sys.exit()
        logger.exception("The job %s failed.", order["job"])
        say({"failed": sentence(error), "passing": is_passing(error)})


def read_orders(orders: "queue.SimpleQueue[dict[str, Any]]") -> None:
    """Pass on the worker's orders. When standard input has ended, end this process within END_GRACE_S."""
    with open(0, "rb", buffering=0) as lines:  # Python cannot end while a thread waits in a buffered file
        for line in lines:
            orders.put(json.loads(line))
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    threading.Event().wait(END_GRACE_S)
    os._exit(1)


def on_terminate(*_: object) -> None:
    """End Java first, because the job's clean-up would otherwise wait for the tasks that still run.

    A second signal changes nothing: a parent that terminates this process often closes standard input as well, and
    `read_orders` then sends one in the middle of the clean-up. A clean-up that takes longer than END_GRACE_S is
    abandoned.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _is_ending.set()
    end_java()
    abandon = threading.Timer(END_GRACE_S, os._exit, (0,))
    abandon.daemon = True
    abandon.start()
    sys.exit()


def main() -> None:
    """Carry out orders until the process is ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, on_terminate)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Java and libraries print goes to the log
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=read_orders, args=(orders,), name="orders", daemon=True).start()
    while True:
        carry_out(orders.get(), lambda answer: print(json.dumps(answer), file=answers, flush=True))


if __name__ == "__main__":
    main()

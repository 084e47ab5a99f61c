"""A lake that real processes fill, each of which is ended in the middle: by SIGKILL, and by Ctrl-C.

About 40 s on two idle cores, most of it the starts of four Javas.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyarrow import parquet

from broker_core.formats import lake_position
from spark_jobs.lake.lake import Lake, find_lake
from spark_jobs.lake.tables import fill
from tests.conftest import PROJECT
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import Written, make_store, publish_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

RECORDS, ENTRIES, JOURNAL_FILES = 1500, 60, 3
SEGMENT = 8192


class Moment(NamedTuple):
    """What is to be seen on the disk, in words, and whether it is."""

    what: str
    is_now: Callable[[], bool]


class Filling:
    """A store, its lake, and processes that fill it."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self.store, self.lakes = root / "store", root / "lakes"
        self.written: Written = make_store(self.store, RECORDS, segment=SEGMENT)
        publish_end(self.store, self.written.end)
        (self.store / "glassmq").write_text("1")
        each = ENTRIES // JOURNAL_FILES
        make_journal(
            self.store, *([entry(number) for number in range(first, first + each)] for first in range(0, ENTRIES, each))
        )
        self._environment = environment | {
            "GLASSMQ_SPARK_MASTER": "local[2]",
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
        }
        self._started: list[subprocess.Popen[str]] = []

    def ended_at(self, moment: Moment, how: signal.Signals) -> tuple[int, str]:
        """Start a process and send the signal to it and what it has started; its exit code and its words."""
        process = subprocess.Popen(
            [
                sys.executable,
                str(PROJECT / "tests/spark_jobs/lake_filler.py"),
                "lake",
                "sync",
                "--store",
                str(self.store),
                "--lake",
                str(self.lakes),
            ],
            cwd=PROJECT,
            env=self._environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        look = threading.Event()
        while not moment.is_now():
            if process.poll() is not None:
                pytest.fail(f"it ended before there were {moment.what}: {process.communicate()[0]}")
            look.wait(0.02)
        if how == signal.SIGKILL:
            process.kill()  # alone: its Java sees by itself that it is gone
        else:
            os.killpg(process.pid, how)  # as a terminal does
        said, _ = process.communicate(timeout=60)
        wait_until_gone(process.pid)
        return process.returncode, said

    def end(self) -> None:
        for process in self._started:
            for left in of_session(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)

    def lake(self) -> Lake | None:
        return find_lake(self.lakes, self.store)

    def position(self) -> int:
        lake = self.lake()
        return lake.position or 0 if lake else 0

    def files(self) -> set[str]:
        return {str(path) for path in self.lakes.glob("*/date=*/*/*.parquet")}

    def drafts(self) -> set[str]:
        """Files that were not committed."""
        found, lake = self.files(), self.lake()
        return found - ({file.path for file in (*lake.messages, *lake.polls)} if lake else set())

    def rows(self, table: str) -> list[dict[str, Any]]:
        lake = self.lake()
        assert lake is not None
        return [
            row
            for file in (lake.messages if table == "messages" else lake.polls)
            for row in parquet.ParquetFile(file.path).read().to_pylist()
        ]

    def offsets(self) -> list[int]:
        return sorted(row["physical_offset"] for row in self.rows("messages"))

    def expect_whole(self) -> None:
        """Everything is there once, nothing else is."""
        lake = self.lake()
        assert lake is not None
        assert self.offsets() == [record[2] for record in self.written.records]
        assert sorted(row["client_id"] for row in self.rows("polls")) == sorted(f"c{n}" for n in range(ENTRIES))
        told = lake_position.decode((self.store / lake_position.FILE_NAME).read_bytes())
        assert told is not None and told.physical_offset == self.position() == self.written.end
        assert lake.notes.gaps == lake.notes.missing_journal_files == []

    def expect_part(self) -> None:
        """What counts is the beginning, each record of it once, and it is not all."""
        found = self.offsets()
        assert found == [record[2] for record in self.written.records][: len(found)]
        assert len(found) < RECORDS


def of_session(process: int) -> list[int]:
    """What a process that leads a session has started, whatever has become of itself."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,sid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [int(pid) for pid, session, state in rows if int(session) == process and not state.startswith("Z")]


def wait_until_gone(process: int) -> None:
    """Until nothing of its session runs any more, half a minute at most."""
    look = threading.Event()
    for _ in range(300):
        if not of_session(process):
            return
        look.wait(0.1)
    pytest.fail(f"still there: {of_session(process)}")


@pytest.fixture
def filling(tmp_path: Path, clean_environment: dict[str, str]) -> Iterator[Filling]:
    made = Filling(tmp_path, clean_environment)
    yield made
    made.end()


def test_however_it_is_ended_the_next_one_goes_on_and_everything_is_there_once(
    filling: Filling, spark: "SparkSession"
) -> None:
    half = filling.written.end // 2
    code, said = filling.ended_at(
        Moment("files, and nothing that counts", lambda: bool(filling.drafts()) and filling.position() == 0),
        signal.SIGKILL,
    )
    assert (code, filling.position()) == (-signal.SIGKILL, 0), said
    code, said = filling.ended_at(
        Moment("drafts behind what counts", lambda: filling.position() > 0 and bool(filling.drafts())), signal.SIGKILL
    )
    assert code == -signal.SIGKILL, said
    killed_at, killed = filling.position(), filling.drafts()
    filling.expect_part()

    code, said = filling.ended_at(
        Moment("more than half of it", lambda: filling.position() > half and bool(filling.drafts())), signal.SIGINT
    )
    assert (code, "Traceback" in said) == (130, False), said
    assert "Cancelled. What was written before counts" in said
    assert 0 < killed_at < half < filling.position() < filling.written.end
    filling.expect_part()
    left = filling.drafts()
    assert left == killed, "only files of killed processes, which vacuum removes later"

    fill(spark, str(filling.store), filling.lakes, lambda: 7, lambda percent, doing: None)
    filling.expect_whole()

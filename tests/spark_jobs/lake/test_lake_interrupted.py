"""A lake that a real process fills, which Ctrl-C ends in the middle. Every other end is simulated in ``test_sync``."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyarrow import parquet

from broker_core.formats import lake_position
from spark_jobs.lake.lake import Lake, find_lake
from tests.conftest import PROJECT
from tests.spark_jobs.lakes import fill
from tests.spark_jobs.stores import make_store, publish_end

pytestmark = pytest.mark.torture

FILLER = "import manage; from spark_jobs.lake import sync; sync.ROUND_BYTES = 16384; manage.main()"
"""``manage.py`` with a lake that is filled in small steps, so that a test can end it between two of them."""


def left_of_session(process: int) -> list[int]:
    """What still runs of a process that led a session, and of all that it started."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,sid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return [int(pid) for pid, session, state in rows if int(session) == process and not state.startswith("Z")]


def offsets(lake: Lake | None) -> list[int]:
    """The physical offsets of the messages that count."""
    files = lake.messages if lake else []
    return sorted(at for file in files for at in parquet.read_table(file.path)["physical_offset"].to_pylist())


def test_ctrl_c_keeps_what_was_written_and_the_next_fill_goes_on_there(
    tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    written = make_store(store, 1500, segment=8192)
    publish_end(store, written.end)
    (store / "glassmq").write_text("1")
    filler = subprocess.Popen(
        [sys.executable, "-c", FILLER, "lake", "sync", "--store", str(store), "--lake", str(lakes)],
        cwd=PROJECT,
        env=clean_environment | {"GLASSMQ_SPARK_MASTER": "local[2]"},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    look = threading.Event()
    try:
        while not offsets(find_lake(lakes, "store")):
            assert filler.poll() is None, filler.communicate()[0]
            look.wait(0.02)
        os.killpg(filler.pid, signal.SIGINT)  # as a terminal does
        said, _ = filler.communicate(timeout=60)
        for _ in range(1200):
            if left_of_session(filler.pid):
                look.wait(0.1)
        assert left_of_session(filler.pid) == []
    finally:
        for process in left_of_session(filler.pid):
            os.kill(process, signal.SIGKILL)
    assert (filler.returncode, "Traceback" in said) == (130, False), said
    assert "Cancelled. What was written before counts" in said
    expected = [offset for _, _, offset, _ in written.records]
    found = offsets(find_lake(lakes, "store"))
    assert 0 < len(found) < len(expected) and found == expected[: len(found)]

    while not fill(store, lakes).is_all:
        pass
    assert offsets(find_lake(lakes, "store")) == expected
    position = lake_position.decode((store / lake_position.FILE_NAME).read_bytes())
    assert position is not None and position.physical_offset == written.end

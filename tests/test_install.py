"""`make run` installs Spark in the background, with a stand-in for pip and for the broker."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_jobs.errors import NoSparkError
from spark_jobs.spark import session
from tests.conftest import PROJECT

PYTHON = f"""#!/bin/sh
case "$1 $2" in
"-c "*) exec {sys.executable} "$@" ;;
"manage.py broker") echo "broker"; [ ! -e stay ] || exec sleep 600 ;;
"-m pip")
    case "$*" in *--quiet*) exit ;; esac
    echo "begins" >>pips
    while [ ! -e go ]; do sleep 0.1; done
    echo "ends" >>pips
    [ ! -e broken ] ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout on a fresh machine, with a Python that notes when its pip begins and ends."""
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # of the make that runs the tests
        monkeypatch.delenv(name, raising=False)
    shutil.copy(PROJECT / "Makefile", tmp_path)
    shutil.copytree(PROJECT / "scripts", tmp_path / "scripts")
    (tmp_path / "requirements").mkdir()
    for name in ("base", "spark"):
        (tmp_path / "requirements" / f"{name}.txt").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    yield tmp_path
    (tmp_path / "go").touch()  # no pip is left behind


def make_run(checkout: Path) -> str:
    """What `make run` prints until its broker has ended."""
    command = ["make", "run"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True, timeout=120).stdout


def pips(checkout: Path) -> list[str]:
    notes = checkout / "pips"
    return notes.read_text().split() if notes.exists() else []


def wait_until(is_so: Callable[[], bool]) -> None:
    """Two minutes at most."""
    look = threading.Event()
    for _ in range(1200):
        if is_so():
            return
        look.wait(0.1)
    pytest.fail("it has not come so far")


def test_spark_is_installed_in_the_background_once_and_goes_on_after_ctrl_c(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp, log = checkout / ".venv" / "spark-installed", checkout / ".venv" / "spark-install.log"
    monkeypatch.setattr(session, "INSTALL_LOCK", checkout / ".venv" / "install.lock")
    session.require_packages("local[2]")
    (checkout / "stay").touch()
    # in the background of a shell, SIGINT may be ignored, and children inherit that
    command = ["env", "--default-signal=INT", "make", "run"]
    first = subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert first.stdout is not None
    while first.stdout.readline() != "broker\n":
        pass
    wait_until(lambda: pips(checkout) == ["begins"])
    os.killpg(first.pid, signal.SIGINT)
    first.communicate(timeout=60)
    (checkout / "stay").unlink()
    assert "Installing Spark in the background" in make_run(checkout)
    wait_until(lambda: "Waiting for another installation" in log.read_text())
    with pytest.raises(NoSparkError, match="Packages are being installed here"):
        session.require_packages("local[2]")
    assert not stamp.exists()
    (checkout / "go").touch()
    wait_until(lambda: pips(checkout) == ["begins", "ends"] * 2)
    wait_until(lambda: stamp.exists() and not session.is_installing())
    assert make_run(checkout) == "broker\n"


def test_an_installation_that_failed_is_tried_again_by_the_next_start(checkout: Path) -> None:
    stamp, log = checkout / ".venv" / "spark-installed", checkout / ".venv" / "spark-install.log"
    for name in ("go", "broken"):
        (checkout / name).touch()
    make_run(checkout)
    wait_until(lambda: log.exists() and "Error 1" in log.read_text())
    assert not stamp.exists()
    (checkout / "broken").unlink()
    assert "Installing Spark in the background" in make_run(checkout)
    wait_until(stamp.exists)

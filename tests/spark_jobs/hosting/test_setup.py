"""Getting Spark, with a stand-in for the program that installs."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from spark_jobs.errors import NoJavaError
from spark_jobs.hosting import setup
from spark_jobs.hosting.setup import SILENCE, read_environment, write_environment
from spark_jobs.models import SparkEnvironment, SparkState
from tests.conftest import PROJECT


def says(*lines: str, code: int = 0) -> list[str]:
    """A program that writes these lines and ends with that code."""
    return [sys.executable, "-c", f"import sys; print({chr(10).join(lines)!r}); sys.exit({code})"]


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    with open(tmp_path / "lock", "w") as file:
        yield file.fileno()


def test_an_installation_says_why_it_failed(lock: int) -> None:
    assert setup.install(says("Collecting x", "Successfully installed x"), lock) == ""
    failure = setup.install(says("Collecting x", "ERROR: No space left on device", code=1), lock)
    assert "(ERROR: No space left on device)" in failure
    assert "neither pip nor uv" in setup.install([], lock)


def test_only_what_is_pinned_by_hash_is_installed() -> None:
    command = setup.install_command()
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert "--require-hashes" in command
    assert command[-1] == str(setup.REQUIREMENTS)
    assert setup.REQUIREMENTS.exists()


def test_uv_installs_where_pip_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_spec", lambda name: None)
    monkeypatch.setattr(setup.shutil, "which", lambda name: "/usr/bin/uv")
    assert setup.install_command()[:3] == ["/usr/bin/uv", "pip", "install"]
    monkeypatch.setattr(setup.shutil, "which", lambda name: None)
    assert setup.install_command() == []


@pytest.mark.django_db
def test_a_silent_installation_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lock: int) -> None:
    write_environment(SparkState.INSTALLING, "")
    SparkEnvironment.objects.update(updated=timezone.now() - timedelta(days=1))
    now, is_alive = timezone.now, tmp_path / "alive"

    def write_sign() -> Any:
        is_alive.touch()
        return now()

    monkeypatch.setattr(setup, "SIGN_OF_LIFE_S", 0.01)
    monkeypatch.setattr(setup.timezone, "now", write_sign)
    code = f"import pathlib, time\nwhile not pathlib.Path({str(is_alive)!r}).exists(): time.sleep(0.01)"
    assert setup.install([sys.executable, "-c", code], lock) == ""
    assert read_environment().state == SparkState.INSTALLING


@pytest.mark.django_db
def test_the_environment_is_what_was_written_last() -> None:
    assert read_environment() == (SparkState.ABSENT, "No report worker has started yet.")
    write_environment(SparkState.INSTALLING, "Downloading")
    assert read_environment() == (SparkState.INSTALLING, "Downloading")
    SparkEnvironment.objects.update(updated=timezone.now() - SILENCE - timedelta(seconds=1))
    assert read_environment().state == SparkState.FAILED
    write_environment(SparkState.READY, "Spark 4 is ready.")
    assert read_environment() == (SparkState.READY, "Spark 4 is ready.")
    assert SparkEnvironment.objects.count() == 1


@pytest.mark.django_db
def test_an_environment_with_all_packages_is_ready_at_once(
    settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.GLASSMQ_DATA_DIR = tmp_path
    caplog.set_level("INFO")
    assert setup.begin() is None
    assert caplog.messages == [], "nobody has to know"
    assert read_environment() == (SparkState.READY, "Spark 4.3.0 is ready.")
    assert setup.is_ready()


@pytest.mark.django_db
def test_the_problem_names_the_missing_java(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java(*_: Any) -> Path:
        raise NoJavaError("No Java.")

    settings.GLASSMQ_DATA_DIR = tmp_path
    monkeypatch.setattr(setup, "find_java_home", no_java)
    assert setup.problem() == "No Java."
    assert not setup.is_ready()


@pytest.mark.django_db
def test_the_log_says_that_missing_packages_are_being_installed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(setup, "problem", lambda: "No pyspark.")
    monkeypatch.setattr(setup, "set_up", lambda: None)
    caplog.set_level("INFO")
    installing = setup.begin()
    assert installing is not None
    installing.join()
    assert read_environment() == (SparkState.INSTALLING, setup.INSTALLING)
    [said] = caplog.messages
    assert "630 MB" in said and "/reports" in said


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("after", "failure", "expected", "said"),
    [
        ("", "", (SparkState.READY, "Spark 4.3.0 is ready."), "Spark 4.3.0 is ready."),
        ("", "pip failed.", (SparkState.FAILED, "pip failed."), "Spark cannot be set up: pip failed."),
        ("Still no Java.", "", (SparkState.FAILED, "Still no Java."), "Spark cannot be set up: Still no Java."),
    ],
)
def test_an_installation_ends_in_a_state_and_says_so(
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    after: str,
    failure: str,
    expected: tuple[SparkState, str],
    said: str,
) -> None:
    problems = ["No pyspark.", after]
    settings.GLASSMQ_DATA_DIR = tmp_path
    monkeypatch.setattr(setup, "problem", lambda: problems.pop(0))
    monkeypatch.setattr(setup, "install", lambda command, lock: failure)
    monkeypatch.setattr(setup.connection, "close", lambda: None)
    caplog.set_level("INFO")
    setup.set_up()
    assert read_environment() == expected
    assert caplog.messages == [said]


def test_the_terminal_of_a_broker_shows_it() -> None:
    """The report worker's own level is WARNING."""
    code = """
import django, logging
django.setup()
from config.celery import app
app.log.setup(loglevel="WARNING")
logging.getLogger("spark_jobs").info("something else")
logging.getLogger("spark_jobs.hosting.setup").info("Spark is ready.")
"""
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"},
    )
    assert said.stderr.strip().endswith("INFO    spark_jobs.hosting.setup: Spark is ready.")
    assert "something else" not in said.stderr


@pytest.mark.django_db
def test_the_second_installer_waits_for_the_first(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GLASSMQ_DATA_DIR = tmp_path
    steps: list[str] = []
    monkeypatch.setattr(setup, "problem", lambda: steps.append("second") or "")
    monkeypatch.setattr(setup.connection, "close", lambda: None)
    setup.scratch_folder().mkdir()
    with open(setup.scratch_folder() / "setup.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        flock = fcntl.flock

        def release_first(file: Any, how: int) -> None:
            with pytest.raises(BlockingIOError):
                flock(file, how | fcntl.LOCK_NB)
            steps.append("first")
            flock(held, fcntl.LOCK_UN)
            flock(file, how)

        monkeypatch.setattr(setup.fcntl, "flock", release_first)
        setup.set_up()
    assert steps[:2] == ["first", "second"]

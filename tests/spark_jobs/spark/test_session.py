"""One session per process, and what it is told."""

import logging
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from spark_jobs.errors import NoSparkError
from spark_jobs.spark import session
from spark_jobs.spark.cluster_workers import PACKAGES
from spark_jobs.spark.leftovers import UNUSED_S
from tests.conftest import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_asked_twice_it_is_the_same(spark: "SparkSession", tmp_path: Path) -> None:
    assert session.get_session("local[2]", tmp_path) is spark


def test_without_pyspark_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(NoSparkError, match=r"requirements/spark\.txt"):
        session.get_session("local[2]", tmp_path)


@pytest.mark.parametrize("package", [*session.OWN_PACKAGES, *PACKAGES])
def test_what_else_is_missing_is_named_as_well(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None if name == package else find_spec(name))
    with pytest.raises(NoSparkError, match=rf"^{package} is not installed here"):
        session.require_packages("local[2]")


def test_only_a_server_takes_what_speaks_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None if name == "grpc" else find_spec(name))
    session.require_packages("spark://m:7077")
    with pytest.raises(NoSparkError, match=r"^grpc is not installed here"):
        session.require_packages("sc://m")


def test_tasks_get_the_modules_that_they_import(tmp_path: Path) -> None:
    with ZipFile(session.pack_sources(tmp_path)) as archive:
        archive.extractall(tmp_path / "sent")
    code = "import spark_jobs.sources.commit_log_source as s; print(s.__file__)"
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "sent",
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert str(tmp_path / "sent") in said.stdout
    assert session.pack_sources(tmp_path) in list(tmp_path.iterdir())


def test_what_was_sent_of_older_sources_is_removed_after_a_month(tmp_path: Path) -> None:
    current = session.pack_sources(tmp_path)
    old, recent = (tmp_path / f"glassmq_sources_{digit * 12}.zip" for digit in "01")
    then = current.stat().st_mtime - UNUSED_S - 60
    for path in (current, old, recent):
        path.touch()
    for path in (current, old):
        os.utime(path, (then, then))
    assert session.pack_sources(tmp_path) == current
    assert current.stat().st_mtime > then
    assert sorted(tmp_path.iterdir()) == sorted((current, recent))


LOST_JAVA = """
import os, signal, sys
from pathlib import Path
from spark_jobs.spark.session import get_session, is_alive

first = get_session("local[1]", Path(sys.argv[1]))
os.kill(first.sparkContext._gateway.proc.pid, signal.SIGKILL)
first.sparkContext._gateway.proc.wait()
assert not is_alive()
print("rows", get_session("local[1]", Path(sys.argv[1])).range(5).count())
"""


def test_a_session_whose_java_died_is_made_again(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", LOST_JAVA, str(tmp_path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.stdout.strip().endswith("rows 5"), said.stderr


TOLD = """
import sys
from pathlib import Path
from spark_jobs.spark.session import get_session

java = get_session("local[1]", Path(sys.argv[1]))._jvm
logger = java.org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.Something")
logger.warn("a warning")
logger.error("an error", java.java.lang.RuntimeException("of a reason"))
"""


def test_of_what_java_has_to_say_errors_are_told(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", TOLD, str(tmp_path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    ours = [line for line in said.stderr.splitlines() if not line.startswith(("NOTE: ", "WARNING: Using incubator"))]
    assert ours[0].endswith("ERROR   Something: an error")
    assert ours[1] == "java.lang.RuntimeException: of a reason"
    assert all(line.startswith("\tat ") for line in ours[2:])


def test_who_configures_what_java_says_is_left_alone(tmp_path: Path) -> None:
    assert session.LOGGING.as_uri() in session.java_options(None)
    assert session.LOGGING.as_uri() in session.java_options(str(tmp_path))
    (tmp_path / "log4j2.properties").touch()
    assert session.java_options(str(tmp_path)) == session.JAVA_OPTIONS


def test_what_py4j_gives_to_the_root_logger_is_known() -> None:
    for path, kept in (("/x/site-packages/py4j/java_gateway.py", False), ("/x/py4j.py", True)):
        assert session.is_not_py4js(logging.makeLogRecord({"pathname": path})) is kept


def test_without_pyspark_there_is_nothing_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    session.end_spark()

"""One session per process, and what it is told."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
from pyspark import cloudpickle

from spark_jobs.errors import NoSparkError, PassingError
from spark_jobs.lake.tasks import carry_out_in_spark, read_remote
from spark_jobs.sources.commit_log_source import CommitLogSource
from spark_jobs.sources.poll_journal_source import PollJournalSource
from spark_jobs.spark import session
from tests.conftest import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_asked_twice_it_is_the_same_and_its_tasks_run_on_as_many_cores_as_there_are(
    spark: "SparkSession", tmp_path: Path
) -> None:
    assert session.get_session("local[2]", tmp_path) is spark
    assert session.parallelism(spark) == 2


@pytest.mark.parametrize(("master", "package"), [*(("local", name) for name in session.PACKAGES), ("sc://m", "grpc")])
def test_each_missing_package_is_named(
    master: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lack in ("is not installed", "is only partly installed"):
        monkeypatch.setattr(session, "lack_of", lambda name, lack=lack: lack if name == package else "")
        with pytest.raises(NoSparkError, match=rf"^{package} {lack} here.*requirements/spark\.txt"):
            session.get_session(master, tmp_path)
    if package == "grpc":
        session.require_packages("spark://m:7077")  # only a Connect server takes what speaks to it


def test_tasks_get_the_modules_that_they_import(tmp_path: Path) -> None:
    with ZipFile(session.pack_sources(tmp_path)) as archive:
        archive.extractall(tmp_path / "sent")
    code = "import pickle, sys; print(*{sys.modules[f.__module__].__file__ for f in pickle.load(sys.stdin.buffer)})"
    said = subprocess.run(
        [sys.executable, "-c", code],
        input=cloudpickle.dumps([CommitLogSource, PollJournalSource, carry_out_in_spark, read_remote]),
        cwd=tmp_path / "sent",
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    files = said.stdout.decode().split()
    assert len(files) == 3 and all(file.startswith(str(tmp_path / "sent")) for file in files)


def test_the_modules_for_tasks_have_a_new_name_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "spark_jobs" / "a.py"
    source.parent.mkdir()
    monkeypatch.setattr(session, "SENT_TO_TASKS", (SimpleNamespace(__path__=[str(source.parent)]),))
    source.write_text("1")
    first = session.pack_sources(tmp_path)
    assert session.pack_sources(tmp_path) == first
    source.write_text("2")
    assert session.pack_sources(tmp_path) != first
    assert first.is_file(), "a driver may still read it"


def test_a_log4j2_configuration_of_the_user_is_used(tmp_path: Path) -> None:
    for conf in (None, str(tmp_path)):
        assert session.LOGGING.as_uri() in session.java_options(conf, reads_little=True)
    (tmp_path / "log4j2.properties").touch()
    assert session.java_options(str(tmp_path), reads_little=True).endswith(session.FOR_LITTLE)
    assert session.java_options(str(tmp_path), reads_little=False).endswith(session.FOR_MUCH)


@pytest.mark.parametrize("reads_little", [True, False])
def test_java_has_room_for_the_code_of_all_reports(tmp_path: Path, reads_little: bool) -> None:
    java = session.find_java_home(session.current_java_home(), tmp_path) / "bin" / "java"
    command = [java, *session.java_options(None, reads_little).split(), "-XX:+PrintFlagsFinal", "-version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout
    flags = {name: value for name, equals, value in (line.split()[1:4] for line in printed.splitlines()[1:])}
    assert int(flags["ReservedCodeCacheSize"]) >= 240 << 20


def test_folders_of_processes_that_were_killed_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own = session.local_folder(tmp_path)
    assert own.name == str(os.getpid())
    for name in (own.name, str(os.getppid()), str(ended.pid), f"host-{ended.pid}", "mine"):
        (tmp_path / name).mkdir()
    assert session.local_folder(tmp_path) == own
    assert {path.name for path in tmp_path.iterdir()} == {own.name, str(os.getppid()), "mine"}


@pytest.mark.parametrize(
    ("master", "shown"),
    [
        ("sc://spark.example:443/;use_ssl=true;token=hush", "sc://spark.example:443"),
        ("sc://[::1]:7/;token=a/;b", "sc://[::1]:7"),
        ("spark://one:7077,two:7077", "spark://one:7077,two:7077"),
    ],
)
def test_a_token_in_the_url_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, shown: str
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionRefusedError("nobody there")

    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "connect", refuse)
    monkeypatch.setattr(session, "start", refuse)
    with pytest.raises(PassingError) as raised:
        session.get_session(master, tmp_path)
    assert str(raised.value).startswith(f"Spark did not start on {shown} (GLASSMQ_SPARK_MASTER): Spark's Java has")


WHOLE_LIFE = """
import sys
from pathlib import Path
from spark_jobs.spark.session import get_session

scratch = Path(sys.argv[1])
session = get_session("local[1]", scratch)
logger = session._jvm.org.apache.logging.log4j.LogManager.getLogger("org.apache.spark.Something")
logger.warn("a warning")
logger.error("an error", session._jvm.java.lang.RuntimeException("of a reason"))
session.range(5).repartition(2).count()
print(session.sparkContext._gateway.proc.pid, len(list((scratch / "local").glob("*/blockmgr-*"))))
"""


def test_java_prints_errors_alone_and_removes_its_files_before_the_process_ends(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", WHOLE_LIFE, str(tmp_path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"},
    )
    ours = [line for line in said.stderr.splitlines() if not line.startswith(("NOTE: ", "WARNING: Using incubator"))]
    assert ours[0].endswith("ERROR   Something: an error")
    assert ours[1] == "java.lang.RuntimeException: of a reason"
    assert all(line.startswith("\tat ") for line in ours[2:])
    java, folders = map(int, said.stdout.split())
    assert folders == 1
    assert not session.is_running(java)
    assert list((tmp_path / "local").glob("*/*")) == []
    (classes,) = tmp_path.glob("classes-*.list")
    assert "org/apache/spark/sql/" in classes.read_text(), "from which the next start writes an archive"


def test_an_archive_of_classes_with_which_java_does_not_start_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    def refuse(_: object) -> None:
        raise RuntimeError("Java gateway process exited")

    for name in ("JAVA_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    home = session.find_java_home(session.current_java_home(), tmp_path)
    archive = session.ClassArchive(home, tmp_path, tmp_path).file
    archive.touch()
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    for gateway, is_kept in ((object(), True), (None, False)):
        monkeypatch.setattr(SparkContext, "_gateway", gateway)
        with pytest.raises(RuntimeError, match="gateway"):
            session.start("spark://nobody:1", tmp_path, True)
        assert archive.exists() is is_kept


def test_log_records_of_py4j_are_recognized() -> None:
    for path, kept in (("/x/site-packages/py4j/java_gateway.py", False), ("/x/py4j.py", True)):
        assert session.is_not_py4js(logging.makeLogRecord({"pathname": path})) is kept

"""What every test may use."""

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests.fakes.ports import unused_broker_port, unused_ports

SLOW_IS_NO_FAILURE = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("glassmq", **SLOW_IS_NO_FAILURE, derandomize="CI" in os.environ)
hypothesis.settings.register_profile("torture", **SLOW_IS_NO_FAILURE, max_examples=1000)
hypothesis.settings.load_profile("glassmq")
"""How long it takes to make or to try an example says something about the machine, nothing about the code. CI must not
fail by chance. ``make torture`` has the other profile: a property has 100 examples at most in ``make test``."""

PROJECT = Path(__file__).resolve().parent.parent
JAVA_OPTIONS = ("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")
"""For Javas that tests start. They live for seconds: compiling their code well takes longer than running it. They share
two cores with the tests, so a thread for each of Java's collectors gains nothing. With -Xshare
no archive of Spark's classes is written."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", type=int, default=0, help="try so many seeds in tests that take one, instead of a few")
    parser.addoption("--torture", action="store_true", help="run the tests marked as torture too (make torture)")
    parser.addoption("--idle-seconds", type=float, default=0, help="how long an engine behind Redis is left idle")
    parser.addoption(
        "--compat",
        action="store_true",
        help="run what stock clients do against Apache RocketMQ too, and the long ones (make compat)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked ``seeds(n)`` take a ``seed``: n of them, or as many as ``--seeds`` says (``make torture``)."""
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is not None:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds") or marker.args[0]))


class LoadFileOneSpark(LoadFileScheduling):
    """pytest-xdist's ``loadfile``, but one worker runs all files of the shared Spark session: one Java is enough."""

    def _split_scope(self, nodeid: str) -> str:
        """The group that a worker runs as a whole: a file, or ``spark``."""
        file: str = super()._split_scope(nodeid)
        return "spark" if takes_shared_spark(file) else file


@pytest.hookimpl(optionalhook=True)  # ``make mutants`` runs without pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileOneSpark | None:
    """Take the place of pytest-xdist's own ``--dist loadfile``; other ways to distribute tests stay."""
    return LoadFileOneSpark(config, log) if config.getvalue("dist") == "loadfile" else None


@functools.cache
def takes_shared_spark(file: str) -> bool:
    """Whether tests of ``file``, relative to the project, take the Spark session that tests share."""
    text = (PROJECT / file).read_text()
    signs = ('spark: "SparkSession"', 'usefixtures("spark")', "finished_report")
    return file.startswith("tests/spark_jobs/") and any(sign in text for sign in signs)


@functools.cache
def starts_programs(file: str) -> bool:
    """Whether tests of ``file``, relative to the project, start brokers, browsers or other programs."""
    text = (PROJECT / file).read_text()
    return any(sign in text for sign in ("manage: ", "subprocess", "SparkProcess", "tests.compat", "playwright"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave ``torture`` out. Start with the longest files, so that no worker ends long after the others.

    First shared Spark, then files with a ``slow`` test, then those that start programs, which wait and need much time.
    """
    if not config.getoption("--torture"):
        left_out = [item for item in items if item.get_closest_marker("torture")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("torture")]
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def order(item: pytest.Item) -> int:
        database = item.get_closest_marker("django_db")
        if database and database.kwargs.get("transaction"):
            return 3  # it empties the tables, so it comes last, where pytest-django has put it
        file = str(item.path.relative_to(PROJECT))
        return 0 if takes_shared_spark(file) else 1 if item.path in slow else 2 if starts_programs(file) else 3

    items.sort(key=order)


@pytest.fixture
def free_ports() -> list[int]:
    """Eight ports of 127.0.0.1 that nobody listens on."""
    return unused_ports(8)


@pytest.fixture
def clean_environment(tmp_path: Path, free_ports: list[int]) -> dict[str, str]:
    """``environment_of`` this test."""
    return environment_of(tmp_path, free_ports)


def environment_of(folder: Path, ports: list[int]) -> dict[str, str]:
    """An environment for a GlassMQ process that shares nothing with any other: folder and ports of its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("GLASSMQ_", "DJANGO_"))} | {
        "PYTHONUNBUFFERED": "1",
        JAVA_OPTIONS[0]: JAVA_OPTIONS[1],
        "GLASSMQ_DATA_DIR": str(folder / "data"),
        "GLASSMQ_WEB_PORT": str(ports[0]),
        "GLASSMQ_BROKER_PORT": str(unused_broker_port()),
        "GLASSMQ_NAMESRV_PORT": str(ports[2]),
    }


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that is up to date, to be copied: to migrate a new one takes a fifth of a broker's start.

    All workers of a run share it. ``tests/test_wheel.py`` and ``tests/compat`` start brokers without one.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    path = folder / "migrated" / "glassmq.sqlite3"
    with (folder / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            runner = Manage(environment_of(folder, unused_ports(8)) | {"GLASSMQ_DATA_DIR": str(folder / "migrating")})
            assert runner.run("migrate", "--verbosity", "0") == (0, "")
            (folder / "migrating").rename(path.parent)
    return path


@pytest.fixture(scope="module")
def shared_manage(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> Iterator["Manage"]:
    """``manage`` for a broker that all tests of a file use, each with topics and groups of its own."""
    runner = Manage(environment_of(tmp_path_factory.mktemp("shared"), unused_ports(8)), migrated_database)
    yield runner
    runner.kill_all()


@pytest.fixture
def manage(clean_environment: dict[str, str], migrated_database: Path) -> Iterator["Manage"]:
    """Starts ``manage.py`` commands; whatever still runs at the end of the test is ended."""
    runner = Manage(clean_environment, migrated_database)
    yield runner
    runner.kill_all()


class Manage:
    """Real ``manage.py`` processes. A broker without a data folder gets one with a copy of ``database``, if any."""

    def __init__(self, environment: dict[str, str], database: Path | None = None) -> None:
        self.environment = environment
        self._database = database
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command and leave it running; its output, errors included, is in ``.stdout``."""
        folder = Path(self.environment["GLASSMQ_DATA_DIR"])
        if arguments[0] == "broker" and self._database is not None and not folder.exists():
            folder.mkdir(mode=0o700, parents=True)
            shutil.copy(self._database, folder)
        process = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=PROJECT,
            env=self.environment | environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run a command to its end: (exit code, output)."""
        process = self.start(*arguments, **environment)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    def kill_all(self) -> None:
        """End what still runs. Children of a broker see its end by themselves."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=60)

"""Brokers for the stock clients: GlassMQ always, Apache RocketMQ beside it with ``--compat`` (``make compat``)."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from tests.compat.real_rocketmq import CannotRun, has_route, real_rocketmq
from tests.conftest import PROJECT
from tests.fakes.ports import unused_broker_port, unused_ports

START_SECONDS = 120
T = TypeVar("T")

left_out: list[str] = []
"""Why programs were not run."""


class Address(NamedTuple):
    """Where a broker is: name server and broker as host:port, and GlassMQ's web server."""

    namesrv: str
    broker: str
    web: str = ""


def needs(make: Callable[[], T]) -> T:
    """What ``make`` returns; where the programs for it cannot be had, the test is skipped, and the run ends with a
    line about it that nobody overlooks."""
    try:
        return make()
    except CannotRun as error:
        left_out.append(str(error))
        pytest.skip(str(error))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason in dict.fromkeys(left_out):
        terminalreporter.section("STOCK CLIENTS WERE NOT TESTED", sep="!", red=True, bold=True)
        terminalreporter.write_line(reason, red=True)


def wait_ready(url: str, process: subprocess.Popen[str], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError(f"the broker is not ready:\n{log.read_text()[-4000:]}")


@contextmanager
def glassmq_process(**environment: str) -> Iterator[Address]:
    """``manage.py broker`` on free ports, in a folder that goes away."""
    web, namesrv = unused_ports(2)
    broker = unused_broker_port()
    with tempfile.TemporaryDirectory(prefix="glassmq-compat-", ignore_cleanup_errors=True) as folder:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GLASSMQ_", "DJANGO_"))}
        log = Path(folder) / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "broker", "--no-schedules"], cwd=PROJECT, text=True,
                env=clean | {"PYTHONUNBUFFERED": "1", "GLASSMQ_DATA_DIR": f"{folder}/data",
                             "GLASSMQ_WEB_PORT": str(web), "GLASSMQ_BROKER_PORT": str(broker),
                             "GLASSMQ_NAMESRV_PORT": str(namesrv)} | environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            wait_ready(f"http://127.0.0.1:{web}/readyz", process, log)
            while not has_route(namesrv, "TBW102"):
                time.sleep(0.05)
            yield Address(f"127.0.0.1:{namesrv}", f"127.0.0.1:{broker}", f"http://127.0.0.1:{web}")
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said = log.read_text()
        assert "Traceback" not in said, f"the broker's log has an exception:\n{said[-6000:]}"


@pytest.fixture(scope="session")
def glassmq() -> Iterator[Address]:
    """A running GlassMQ."""
    with glassmq_process() as address:
        yield address


@pytest.fixture(scope="session")
def rocketmq() -> Iterator[Address]:
    """A running Apache RocketMQ."""
    with real_rocketmq() as servers:
        yield Address(servers.namesrv.address, servers.broker.address)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a ``server`` is run with GlassMQ, and with ``--compat`` with RocketMQ first."""
    if "server" in metafunc.fixturenames:
        names = ["rocketmq", "glassmq"] if metafunc.config.getoption("--compat") else ["glassmq"]
        metafunc.parametrize("server", names, indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Address:
    """The broker that ``request.param`` names."""
    address: Address = request.getfixturevalue(request.param)
    return address


@pytest.fixture
def everything(request: pytest.FixtureRequest) -> bool:
    """Whether the long ones are wanted too."""
    return bool(request.config.getoption("--compat"))

"""Brokers for the stock clients: GlassMQ always, Apache RocketMQ beside it with ``--compat`` (``make compat``)."""

from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

import pytest

from tests.compat import feature_table
from tests.compat.glassmq_broker import Address
from tests.compat.glassmq_broker import glassmq as running_glassmq
from tests.compat.real_rocketmq import CannotRun, real_rocketmq

T = TypeVar("T")

left_out: list[str] = []
"""Why programs were not run."""


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


@pytest.fixture(scope="session")
def glassmq() -> Iterator[Address]:
    """A running GlassMQ."""
    with running_glassmq() as broker:
        yield broker.address


@pytest.fixture(scope="session")
def rocketmq() -> Iterator[Address]:
    """A running Apache RocketMQ."""
    with real_rocketmq() as servers:
        yield Address(servers.namesrv.address, servers.broker.address)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call":
        report.user_properties.append(("cases", feature_table.take_cases()))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In a run with workers, the process that starts them gets all reports."""
    if report.when == "call" and not report.skipped and "tests/compat/" in report.nodeid:
        cases: Any = dict(report.user_properties).get("cases", [])
        feature_table.note_test(report.nodeid, cases, passed=report.passed)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--compat") and not hasattr(session.config, "workerinput"):
        feature_table.write_if_complete()


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

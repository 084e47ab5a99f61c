"""The broker ends and comes back under stock clients that send and consume: they go on, and nothing is lost."""

import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.compat import go_program, java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address, glassmq
from tests.compat.real_rocketmq import RealRocketMQ

Restart = Callable[[signal.Signals], None]


@contextmanager
def restartable(name: str) -> Iterator[tuple[Address, Restart]]:
    """A broker with its name server, and what ends and starts both."""
    if name == "glassmq":
        with glassmq() as ours:

            def restart(how: signal.Signals) -> None:
                ours.stop(how)
                ours.start()

            yield ours.address, restart
        return
    with tempfile.TemporaryDirectory(prefix="glassmq-real-rocketmq-", ignore_cleanup_errors=True) as folder:
        theirs = RealRocketMQ(Path(folder))

        def start_again(how: signal.Signals) -> None:
            theirs.stop(how)
            theirs.start()

        try:
            theirs.start()
            yield Address(theirs.namesrv.address, theirs.broker.address), start_again
        finally:
            theirs.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--compat")
    metafunc.parametrize("name", ["rocketmq", "glassmq"] if everything else ["glassmq"])
    metafunc.parametrize(
        "how", [signal.SIGKILL, signal.SIGTERM] if everything else [signal.SIGKILL], ids=lambda how: how.name
    )


def test_clients_go_on_and_nothing_acknowledged_is_lost(name: str, how: signal.Signals, everything: bool) -> None:
    needs(java_program.classes)
    needs(go_program.program)
    with restartable(name) as (address, restart), ExitStack() as stack:
        clients = [stack.enter_context(java_program.start_program("outage", "--namesrv", address.namesrv))]
        if everything:  # Go's heartbeats are 30 s apart, and as long its pulls are refused
            clients.append(
                stack.enter_context(
                    go_program.start_program("outage", "-namesrv", address.namesrv, "-broker", address.broker)
                )
            )
        for client in clients:
            assert client.line() == {"said": "running"}
        restart(how)
        for client in clients:
            client.write_line("the broker is back")
        for client in clients:
            summary = client.line()
            assert summary["acknowledged"] >= 300, summary  # how many failed is up to how long it was away
            assert summary["lost"] == [0, 0] and summary["ordered"], summary

"""GlassMQ as a real process, for stock clients: ``manage.py broker`` on free ports, in a folder of its own."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.compat.real_rocketmq import brokers_of
from tests.conftest import PROJECT
from tests.fakes.ports import unused_broker_port, unused_ports

START_SECONDS = 120
STOP_SECONDS = 30
PATIENT = ("waitTimeMillsInSendQueue=10000",)
"""A slow machine answers no send SYSTEM_BUSY; the real broker of these tests has the same value."""


class Address(NamedTuple):
    """Where a broker is: name server and broker as host:port, and GlassMQ's web server."""

    namesrv: str
    broker: str
    web: str = ""


class GlassMQ:
    """One, or a cluster of so many ``brokers``. It can be started again: ports and store stay the same."""

    def __init__(self, folder: Path, brokers: int = 1, *, tls: bool = False, options: Sequence[str] = PATIENT) -> None:
        """``tls``: nobody is served without it. ``options`` are lines of its broker.conf."""
        web, self.namesrv_port = unused_ports(2)
        port = unused_broker_port(brokers)
        self.address = Address(f"127.0.0.1:{self.namesrv_port}", f"127.0.0.1:{port}", f"http://127.0.0.1:{web}")
        self._log = folder / "log"
        self._command = [sys.executable, "manage.py", "broker", "--no-schedules"]
        if brokers > 1:
            self._command.append("--cluster")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GLASSMQ_", "DJANGO_"))}
        self._environment = clean | {
            "PYTHONUNBUFFERED": "1",
            "GLASSMQ_DATA_DIR": f"{folder}/data",
            "GLASSMQ_WEB_PORT": str(web),
            "GLASSMQ_BROKER_PORT": str(port),
            "GLASSMQ_NAMESRV_PORT": str(self.namesrv_port),
            "GLASSMQ_BROKERS": str(brokers),
        }
        self._tls = tls
        self._conf = folder / "broker.conf"
        self.set_options(*options, *(["tlsMode=enforcing"] if tls else []))
        self._environment["GLASSMQ_BROKER_CONF"] = str(self._conf)
        self._process: subprocess.Popen[str] | None = None

    def set_options(self, *lines: str) -> None:
        """Write the broker.conf that the next start reads."""
        self._conf.write_text("".join(f"{line}\n" for line in lines))

    def start(self) -> None:
        """Start it, and return when it serves."""
        self.launch()
        assert self._process is not None
        until = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the broker is not ready:\n{self.output[-4000:]}")
            time.sleep(0.05)

    def launch(self) -> None:
        """Start it, and return at once."""
        with self._log.open("a") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=PROJECT,
                text=True,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        with (
            suppress(urllib.error.URLError, ConnectionError, TimeoutError),
            urllib.request.urlopen(f"{self.address.web}/readyz", timeout=5),
        ):
            return bool(brokers_of(self.namesrv_port, "TBW102", tls=self._tls))
        return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait for that; SIGKILL ends all its processes in this moment."""
        if self._process is None:
            return
        if how is signal.SIGKILL:
            for group in self.groups:
                os.killpg(group, how)
        else:
            self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            for group in self.groups:
                os.killpg(group, signal.SIGKILL)
            self._process.wait()
        self._process = None

    def reap(self) -> None:
        """After a signal that somebody else has sent to the parent: wait for its end."""
        if self._process is not None:
            self._process.wait(STOP_SECONDS)
            self._process = None

    @property
    def groups(self) -> list[int]:
        """The process groups of it and of all that it has started: an engine is the leader of its own."""
        return sorted({os.getpgid(pid) for pid in self.processes})

    @property
    def processes(self) -> list[int]:
        """The ids of its processes: the parent, which serves the web, and its children."""
        assert self._process is not None
        return list(_family(self._process.pid))

    @property
    def output(self) -> str:
        """What the broker wrote to its terminal."""
        return self._log.read_text()


def _family(pid: int) -> Iterator[int]:
    """A process, its children, and theirs."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))


@contextmanager
def glassmq(brokers: int = 1, *, tls: bool = False) -> Iterator[GlassMQ]:
    """One that runs, in a folder that goes away. AssertionError when an exception is in what it wrote."""
    with tempfile.TemporaryDirectory(prefix="glassmq-compat-", ignore_cleanup_errors=True) as folder:
        broker = GlassMQ(Path(folder), brokers, tls=tls)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()
        output = broker.output
        assert "Traceback" not in output, f"the broker's log has an exception:\n{output[-6000:]}"

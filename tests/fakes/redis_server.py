"""A real redis-server for tests, on a free port and with its own folder."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.ports import unused_ports


class RedisServer:
    """It can be killed and restarted on the same port. It keeps no data then, as is usual for a channel layer."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.fail(
                "redis-server is not installed: `apt-get install redis-server` or `brew install redis`, then "
                "run the tests again"
            )
        [self.port] = unused_ports(1)
        self._command = [
            program,
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(folder),
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and return when it accepts connections."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            if "Ready to accept connections" in line:
                return
        pytest.fail(f"redis-server did not start:\n{''.join(said)}")

    def kill(self) -> None:
        """End it at once, like a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A running redis-server for one test."""
    with tempfile.TemporaryDirectory(prefix="glassmq-redis-") as folder:
        server = RedisServer(Path(folder))
        server.start()
        yield server
        server.kill()

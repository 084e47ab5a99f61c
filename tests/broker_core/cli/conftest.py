"""The command ``glassmq`` in this process, at a broker of its own."""

import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from broker_core.cli.main import run
from broker_core.testing.running_broker import RunningBroker


class Done(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Glassmq = Callable[..., Done]


@pytest.fixture(scope="session")
def broker() -> Iterator[RunningBroker]:
    """One broker for the whole folder; a test uses topics and groups of its own."""
    with RunningBroker() as running:
        yield running


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Glassmq:
    """Runs a command line and returns its outcome. ``stdin`` is its standard input."""
    for name in ("NAMESRV_ADDR", "GLASSMQ_URL", "GLASSMQ_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin), isatty=lambda: False))
        code = run(arguments)
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def glassmq(run_command: Glassmq, broker: RunningBroker) -> Glassmq:
    """The command at the broker; no HTTP API answers it."""
    return lambda *arguments, **more: run_command(
        "--namesrv", broker.namesrv_addr, "--url", "http://127.0.0.1:1", *arguments, **more
    )


class Web:
    """A web server with set answers. ``answers[path]`` is (status, JSON value or text); ``asked`` are the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked.append((self.command, self.path, {name.lower(): text for name, text in self.headers.items()}))
                status, value = web.answers.get(self.path.partition("?")[0], (404, {"title": "Not Found"}))
                body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def web() -> Iterator[Web]:
    """Stands in for GlassMQ's HTTP API."""
    web = Web()
    thread = threading.Thread(target=web.server.serve_forever, args=(0.01,))
    thread.start()
    yield web
    web.server.shutdown()
    thread.join()
    web.server.server_close()

"""Clients that ask for large answers and do not read them, and one that reads slowly, at a real broker."""

import base64
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from api.http.limits import MAX_MESSAGE_BODY, MAX_UNREAD_ANSWERS, MIB
from tests.conftest import Manage
from tests.e2e.conftest import wait_until_ready

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

CLIENTS = 400
PATH = "/api/v1/topics/large/queues/0/messages?offset=0"
SLOW_READ, PAUSE_S = 20_000, 0.1
"""200 KB/s: the answer takes longer than the 20 s after which a client that reads nothing is cut off."""
OVERHEAD = 128 * MIB
"""Memory of a process beside the answers: copies that are being made, and what the allocator keeps."""


def processes(pid: int) -> Iterator[int]:
    """A process, its children, and theirs."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from processes(int(child))


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def asked(port: int) -> socket.socket:
    """A connection that has asked for the large message, with a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    client.settimeout(120)
    client.connect(("127.0.0.1", port))
    client.sendall(f"GET {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    return client


class SlowReader(threading.Thread):
    """Reads one answer at a steady 200 KB/s; ``received`` is its body's size if it arrived whole, else -1."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.received = -1
        self.has_begun = threading.Event()
        self._port = port

    def run(self) -> None:
        with closing(asked(self._port)) as client:
            answer = http.client.HTTPResponse(client)
            answer.begin()
            self.has_begun.set()
            size = 0
            while part := answer.read(SLOW_READ):
                size += len(part)
                time.sleep(PAUSE_S)
            if size == int(answer.headers["content-length"]):
                self.received = size


@pytest.mark.slow
def test_unread_answers_take_bounded_memory_and_others_are_served(manage: Manage) -> None:
    process = manage.start("broker", "--no-schedules")
    broker = wait_until_ready(manage, process)
    port = int(manage.environment["GLASSMQ_WEB_PORT"])
    broker.publish("large", base64.b64encode(b"x" * MAX_MESSAGE_BODY).decode(), body_encoding="base64")
    web, engine = processes(process.pid)
    idle = {pid: resident(pid) for pid in (web, engine)}
    peak = dict(idle)
    reader = SlowReader(port)
    reader.start()
    assert reader.has_begun.wait(60)
    with ExitStack() as unread:
        for _ in range(CLIENTS):
            unread.enter_context(closing(asked(port)))
        until = time.monotonic() + 60
        while broker.call("GET", "/readyz") != {"status": "ok"}:  # the engine reads 1.6 GB first
            assert time.monotonic() < until
        while reader.is_alive():
            assert broker.call("GET", "/readyz") == {"status": "ok"}
            peak = {pid: max(peak[pid], resident(pid)) for pid in peak}
            reader.join(0.5)
        assert reader.received > MAX_MESSAGE_BODY
    assert peak[web] - idle[web] < MAX_UNREAD_ANSWERS + OVERHEAD
    assert peak[engine] - idle[engine] < 64 * MIB + OVERHEAD
    with closing(asked(port)) as client:
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert len(answer.read()) == reader.received

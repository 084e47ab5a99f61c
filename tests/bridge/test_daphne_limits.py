"""What the web server refuses before the application is asked, and how it closes, on a real broker."""

import asyncio
import base64
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from types import SimpleNamespace
from typing import Any

import pytest
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet.abstract import FileDescriptor
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from bridge.daphne_limits import LINGER_S, Arrival, LimitedServer, LimitedWebSocket, too_large, unsent_bytes
from bridge.limits import ArrivalLimits
from bridge.management.commands.broker import WEBSOCKET_MAX_BYTES
from bridge.message_view import INFLATED_BYTES_MAX
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from broker_core.formats.message_body import COMPRESSED
from tests.conftest import Manage
from tests.fakes.ports import unused_ports

PATIENCE_S = 120
MIB = 1 << 20
BODY_LIMIT = 8 * MIB
COMPRESSED_SEND = {"a": "P", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": str(COMPRESSED), "g": "0", "h": "0"}
"""SendMessageRequestHeaderV2: producer group, topic, default topic and its queues, queue, sysFlag, born time, flag."""


class Broker:
    """A started broker, seen from its sockets."""

    def __init__(self, process: subprocess.Popen[str], port: int, remoting_port: int) -> None:
        self.process = process
        self.port = port
        self.remoting_port = remoting_port

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def send(self, method: str, path: str, body: object) -> None:
        url, headers = f"http://127.0.0.1:{self.port}{path}", {"content-type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    def put_topic(self, topic: str, **config: int) -> None:
        self.send("PUT", f"/api/v1/topics/{topic}", config)

    def publish(self, topic: str, body: bytes) -> None:
        message = {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
        self.send("POST", f"/api/v1/topics/{topic}/messages", message)

    def resident_mib(self) -> int:
        shown = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self.process.pid)], capture_output=True, text=True, check=True
        ).stdout
        return int(shown) // 1024

    @contextmanager
    def posting(self, *headers: str) -> Iterator[socket.socket]:
        """A connection on which the headers of a POST were sent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as client:
            client.sendall(
                "\r\n".join(
                    [
                        "POST /api/v1/topics/orders/messages HTTP/1.1",
                        "host: 127.0.0.1",
                        "content-type: application/json",
                        *headers,
                        "",
                        "",
                    ]
                ).encode()
            )
            yield client


def answer_on(client: socket.socket) -> tuple[HTTPResponse, bytes]:
    answer = HTTPResponse(client)
    answer.begin()
    return answer, answer.read()


def sent_until_it_is_not_taken(client: socket.socket, data: bytes, times: int) -> int:
    """Bytes that could be sent of ``data``, many times, before the other side let them wait or reset the connection."""
    sent = 0
    try:
        while sent < times * len(data):
            sent += client.send(data[sent % len(data) :])
    except OSError:
        pass
    return sent


def assert_too_large(client: socket.socket) -> None:
    answer, body = answer_on(client)
    assert answer.status == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (413, "MESSAGE_ILLEGAL")
    assert str(BODY_LIMIT) in problem["detail"]
    assert client.recv(1) == b"", "nothing more comes: not 100 Continue, no second answer"


def wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def started(manage: Manage, **environment: str) -> Broker:
    """A broker that is ready."""
    process = manage.start("broker", "--no-schedules", **environment)
    ports = (int(manage.environment[name]) for name in ("GLASSMQ_WEB_PORT", "GLASSMQ_BROKER_PORT"))
    broker = Broker(process, *ports)

    def is_ready() -> bool:
        assert process.poll() is None, process.communicate()[0]
        try:
            return bool(broker.get("/readyz"))
        except OSError:
            return False

    wait_until(is_ready)
    return broker


@pytest.fixture
def start(manage: Manage) -> Callable[..., Broker]:
    """Starts a broker of the test's own."""
    return partial(started, manage)


@pytest.fixture(scope="module")
def broker(shared_manage: Manage) -> Broker:
    """One for all tests that leave it as it was."""
    return started(shared_manage)


def test_the_answer_to_a_large_body_is_one_that_the_api_could_give() -> None:
    head, _, body = too_large(5).partition(b"\r\n\r\n")
    assert re.match(rb"HTTP/1\.1 413 [A-Z][A-Za-z ]+\r\n", head)
    assert f"content-length: {len(body)}".encode() in head.split(b"\r\n")
    assert set(json.loads(body)) == {"type", "title", "status", "code", "detail", "instance", "errors"}


@pytest.mark.parametrize("expect", [(), ("expect: 100-continue",)], ids=["unasked", "asked"])
def test_a_body_announced_too_large_is_not_read(broker: Broker, expect: tuple[str, ...]) -> None:
    before = broker.resident_mib()
    with broker.posting(f"content-length: {100 * MIB}", *expect) as client:
        client.setblocking(False)
        sent = sent_until_it_is_not_taken(client, b"x" * MIB, 100)
        client.settimeout(PATIENCE_S)
        assert broker.get("/livez") == {"status": "ok"}
        assert_too_large(client)
    assert sent < 50 * MIB, "more than the system's socket buffers hold"
    assert broker.resident_mib() - before < 20


def test_a_chunked_body_is_cut_where_it_grows_too_large(broker: Broker) -> None:
    before = broker.resident_mib()
    with broker.posting("transfer-encoding: chunked") as client:
        chunk = f"{MIB:x}\r\n".encode() + b"x" * MIB + b"\r\n"
        client.sendall(chunk * 4)
        assert broker.get("/livez") == {"status": "ok"}
        assert sent_until_it_is_not_taken(client, chunk, 56) < 50 * MIB
        assert broker.get("/livez") == {"status": "ok"}
    assert broker.resident_mib() - before < 20


def test_a_chunked_body_that_is_just_too_large_is_answered(broker: Broker) -> None:
    with broker.posting("transfer-encoding: chunked") as client:
        client.sendall(f"{BODY_LIMIT:x}\r\n".encode() + b"x" * BODY_LIMIT + b"\r\n" + b"1\r\nx\r\n0\r\n\r\n")
        assert_too_large(client)


def test_a_body_as_large_as_allowed_reaches_the_application(broker: Broker) -> None:
    connection = HTTPConnection("127.0.0.1", broker.port, timeout=PATIENCE_S)
    connection.request(
        "POST", "/api/v1/topics/orders/messages", b" " * BODY_LIMIT, {"content-type": "application/json"}
    )
    answer = connection.getresponse()
    assert (answer.status, "not JSON" in json.load(answer)["detail"]) == (400, True)
    connection.close()


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_client_that_reads_after_it_has_sent_all_gets_the_refusal(is_chunked: bool) -> None:
    """As Python's http.client does. Beyond LINGER_BYTES such a client is cut."""
    with limited_server() as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        body = b"x" * (12 * MIB)
        connection.request("POST", "/", iter([body]) if is_chunked else body)
        answer = connection.getresponse()
        assert (answer.status, json.load(answer)["code"]) == (413, "MESSAGE_ILLEGAL")
        connection.close()


@pytest.mark.parametrize(
    "headers",
    [[f"x-long: {'x' * 20_000}"], [f"x-{n}: {'y' * 1000}" for n in range(64)], [f"x-{n}: y" for n in range(600)]],
    ids=["long", "large", "many"],
)
def test_too_large_headers_are_answered_431(broker: Broker, headers: list[str]) -> None:
    with broker.posting("content-length: 0", *headers) as client:
        answer, body = answer_on(client)
        assert client.recv(1) == b"", "one answer, and then an orderly end"
    assert (answer.status, answer.headers["connection"]) == (431, "close")
    assert "16384 bytes" in json.loads(body)["detail"]


def test_a_request_that_is_not_http_is_answered_400(broker: Broker) -> None:
    with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S) as client:
        client.sendall(b"hello\r\n\r\n" + b"x" * 100_000)
        answer, body = answer_on(client)
    assert (answer.status, json.loads(body)["code"]) == (400, "INVALID_PARAMETER")


def test_idle_clients_leave_room_for_others_at_the_limit_of_requests(start: Callable[..., Broker]) -> None:
    broker = start(GLASSMQ_MAX_CONNECTIONS="1")
    idle = HTTPConnection("127.0.0.1", broker.port, timeout=PATIENCE_S)
    idle.request("GET", "/readyz")
    idle.getresponse().read()
    for _ in range(3):
        assert broker.get("/readyz") == {"status": "ok"}
    idle.close()


def test_at_the_limit_of_requests_further_ones_are_answered_503_and_livez_200(start: Callable[..., Broker]) -> None:
    broker = start(GLASSMQ_MAX_CONNECTIONS="1")
    broker.put_topic("orders")
    path = "/api/v1/topics/orders/queues/0/messages?offset=0&wait_ms=30000"
    with socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S) as holding:
        wait_until(lambda: broker.get("/livez"))
        holding.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        refused = answered_503(broker.port)
        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("5", "close")
        assert broker.get("/livez") == {"status": "ok"}
    wait_until(lambda: status_of(broker.port, "/readyz") == 200)
    broker.process.terminate()
    output, _ = broker.process.communicate(timeout=PATIENCE_S)
    assert "1 requests are being answered or held" in output
    assert "Traceback" not in output


def status_of(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path)
    with connection.getresponse() as answer:
        status = answer.status
    connection.close()
    return status


def answered_503(port: int) -> HTTPResponse:
    """The answer of a server that is full, or will be soon."""
    wait_until(lambda: status_of(port, "/readyz") == 503)
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    problem = json.load(answer)
    assert (answer.status, problem["status"], problem["code"]) == (503, 503, "SYSTEM_BUSY")
    assert "GLASSMQ_MAX_CONNECTIONS" in problem["detail"]
    connection.close()
    return answer


async def test_a_websocket_counts_once_and_gives_its_place_back(start: Callable[..., Broker]) -> None:
    broker = await asyncio.to_thread(start, GLASSMQ_MAX_CONNECTIONS="1")
    url = f"ws://127.0.0.1:{broker.port}/ws/v1/consumer"
    for _ in range(6):
        async with asyncio.timeout(PATIENCE_S), connect(url) as socket:
            await socket.send('{"type": "hello"}')
            assert json.loads(await socket.recv())["type"] == "welcome"
        await asyncio.to_thread(wait_until, lambda: status_of(broker.port, "/readyz") == 200)


async def test_at_the_end_held_pulls_are_answered_and_sockets_closed_with_1012(start: Callable[..., Broker]) -> None:
    broker = await asyncio.to_thread(start)
    await asyncio.to_thread(broker.put_topic, "orders")
    url = f"ws://127.0.0.1:{broker.port}/ws/v1"
    frames: list[dict[str, Any]] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        connect(f"{url}/consumer", subprotocols=[Subprotocol("rmq.v1.json")]) as consumer,
        connect(f"{url}/events") as events,
    ):
        await consumer.send('{"type": "hello", "client_id": "c"}')
        await consumer.send(
            '{"type": "pull", "id": 7, "topic": "orders", "queue_id": 0, "offset": 0, "group": "g","wait_ms": 30000}'
        )
        while not await asyncio.to_thread(lambda: broker.get("/api/v1/holds")["holds"]):
            await asyncio.sleep(0.02)
        broker.process.terminate()
        with suppress(ConnectionClosed):
            while True:
                frames.append(json.loads(await consumer.recv()))
        assert (consumer.close_code, consumer.close_reason) == (1012, "the server is restarting")
        await events.wait_closed()
        assert events.close_code == 1012
    types = [frame["type"] for frame in frames]
    assert types[-1] == "bye"
    [pulled] = [frame for frame in frames if frame["type"] == "pulled"]
    assert (pulled["id"], pulled["hold"]["wake_cause"]) == (7, "shutdown")
    output, _ = await asyncio.to_thread(broker.process.communicate, timeout=PATIENCE_S)
    assert broker.process.returncode == 0, output
    assert "Traceback" not in output


async def publish_large(broker: Broker) -> list[bytes]:
    """Publish messages to the one queue of ``orders`` whose JSON is large; their bodies, in order."""
    zeros, quotes, text = bytes(1_500_000), b'"' * INFLATED_BYTES_MAX, b"x" * 4 * MIB
    await asyncio.to_thread(broker.put_topic, "orders", queues=1)
    await asyncio.to_thread(broker.publish, "orders", zeros)
    client = RemotingClient("127.0.0.1", broker.remoting_port)
    for body in (zeros, quotes, text, text):
        answer = await client.invoke(RequestCode.SEND_MESSAGE_V2, COMPRESSED_SEND, zlib.compress(body))
        assert answer.code == 0, answer.remark
    await client.close()
    await asyncio.to_thread(broker.publish, "orders", text)
    await asyncio.to_thread(broker.publish, "orders", b"small")
    return [zeros, zeros, quotes, text, text, text, b"small"]


def body_of(message: dict[str, Any]) -> bytes:
    body: str = message["body"]
    return base64.b64decode(body) if message["body_encoding"] == "base64" else body.encode()


async def test_every_message_reaches_consumers_through_every_door(start: Callable[..., Broker]) -> None:
    broker = await asyncio.to_thread(start)
    bodies = await publish_large(broker)
    url = f"ws://127.0.0.1:{broker.port}/ws/v1/consumer"
    async with asyncio.timeout(PATIENCE_S), connect(url, max_size=None) as socket:

        async def ask(**frame: Any) -> dict[str, Any]:
            await socket.send(json.dumps(frame))
            return json.loads(await socket.recv())  # type: ignore[no-any-return]

        assert (await ask(type="hello"))["type"] == "welcome"
        assigned = await ask(type="subscribe", id="s", topic="orders", group="billing", **{"from": "first"})
        assert assigned["type"] == "assigned"
        await socket.send('{"type": "permit", "id": "s", "n": 100}')
        messages = [json.loads(await socket.recv()) for _ in bodies]
        assert [body_of(message) for message in messages] == bodies

        offset, pulled = 0, []
        while offset < len(bodies):
            answer = await ask(type="pull", id=offset, topic="orders", queue_id=0, offset=offset, wait_ms=0)
            pulled += [body_of(message) for message in answer["messages"]]
            offset = answer["next_offset"]
        assert pulled == bodies

    offset, pulled = 0, []
    while offset < len(bodies):
        path = f"/api/v1/topics/orders/queues/0/messages?offset={offset}&wait_ms=0"
        answer = await asyncio.to_thread(broker.get, path)
        pulled += [body_of(message) for message in answer["messages"]]
        offset = answer["next_offset"]
    assert pulled == bodies


async def test_a_message_above_the_limit_is_refused_with_1009(start: Callable[..., Broker]) -> None:
    broker = await asyncio.to_thread(start)
    async with asyncio.timeout(PATIENCE_S), connect(f"ws://127.0.0.1:{broker.port}/ws/v1/consumer") as socket:
        with suppress(ConnectionClosed):
            await socket.send("x" * (WEBSOCKET_MAX_BYTES + 1))
        await socket.wait_closed()
        assert socket.close_code == 1009
        assert "exceeds payload limit" in socket.close_reason


def test_a_warning_is_given_once_until_there_is_room_again(caplog: pytest.LogCaptureFixture) -> None:
    server = LimitedServer(None, endpoints=["tcp:0"], max_body=1, max_connections=1, reserve=0)
    assert [server.connection_opened() for _ in range(3)] == [True, False, False]
    assert len(caplog.records) == 1
    for _ in range(3):
        server.connection_closed(has_place=False)
    assert [server.connection_opened() for _ in range(2)] == [True, False]
    assert (len(caplog.records), server.open_connections) == (2, 2)


def test_a_place_is_taken_once_and_given_back(caplog: pytest.LogCaptureFixture) -> None:
    server = LimitedServer(None, endpoints=["tcp:0"], max_body=1, max_connections=2)
    assert [server.take_place() for _ in range(4)] == [True, True, False, False]
    assert len(caplog.records) == 1
    server.connection_closed(has_place=False)
    assert not server.take_place()
    server.connection_closed(has_place=True)
    assert [server.take_place() for _ in range(2)] == [True, False]
    assert (len(caplog.records), server.places_taken) == (2, 2)


# --- Answers, on a server of their own ---

SOCKET_BUFFERS = 16
"""MiB; more than the system keeps for one connection."""


@contextmanager
def limited_server(
    stall_seconds: float = PATIENCE_S,
    arrival_seconds: float = PATIENCE_S,
    connections: int = 100,
    reserve: int = 0,
    linger_seconds: float = LINGER_S,
) -> Iterator[int]:
    """A LimitedServer in a process of its own; its port."""
    port = unused_ports(1)[0]
    options = map(str, (stall_seconds, arrival_seconds, connections, reserve, linger_seconds, port))
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bridge.limited_server", *options],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            yield port
        finally:
            process.kill()


@pytest.fixture(scope="module")
def patient() -> Iterator[int]:
    with limited_server() as port:
        yield port


@pytest.fixture(scope="module")
def impatient() -> Iterator[int]:
    with limited_server(stall_seconds=1) as port:
        yield port


def number_at(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path)
    with connection.getresponse() as answer:
        number = int(answer.read())
    connection.close()
    return number


def asking(port: int, path: str) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    client.settimeout(PATIENCE_S)
    client.connect(("127.0.0.1", port))
    client.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    return client


def read_all(client: socket.socket) -> int:
    answer = HTTPResponse(client)
    answer.begin()
    size = 0
    while part := answer.read(MIB):
        size += len(part)
    return size


@pytest.mark.parametrize("path", ["/parts", "/whole"])
def test_an_application_sends_no_faster_than_its_client_reads(patient: int, path: str) -> None:
    port = patient
    sent_before = number_at(port, "/sent")
    with asking(port, f"{path}?n=64") as client:
        assert client.recv(1) == b"H"
        for _ in range(20):
            assert number_at(port, "/sent") - sent_before < SOCKET_BUFFERS
        while data := client.recv(MIB):
            last = data
    assert last
    wait_until(lambda: number_at(port, "/sent") - sent_before == 64)


@pytest.mark.parametrize("path", ["/parts", "/whole"])
def test_every_byte_arrives(patient: int, path: str) -> None:
    with asking(patient, f"{path}?n=20") as client:
        assert read_all(client) == 20 * MIB


def test_a_client_that_reads_nothing_is_cut(impatient: int) -> None:
    with asking(impatient, "/parts?n=64") as client:
        assert client.recv(1) == b"H"
        wait_until(lambda: number_at(impatient, "/open") == 1)


def test_a_slow_client_is_not_cut(impatient: int) -> None:
    """It reads for many times the second after which one that reads nothing is cut."""
    with asking(impatient, "/whole?n=12") as client:
        size = 0
        while data := client.recv(96 * 1024):
            size += len(data)
            time.sleep(0.05)
    assert size > 12 * MIB


# --- Requests that arrive slowly ---

SLOTS = 200
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
BEGINNINGS = {"nothing": b"", "head": GET[:-2] + b"x-slow: ", "body": POST + b"x", "next": GET + GET[:10]}
"""What a slow sender sends of a request, by what is incomplete."""


def test_a_connection_is_late_when_its_first_request_does_not_come() -> None:
    arrival = Arrival(ArrivalLimits(head=10), 1000)
    arrival.begin(1009)
    assert arrival.lateness(1009.9, 0) == ""
    assert "headers did not arrive within 10 s" in arrival.lateness(1010, 0)


def test_a_connection_may_be_silent_between_requests() -> None:
    arrival = Arrival(ArrivalLimits(head=10), 1000)
    arrival.end_head(1001)
    arrival.expect()
    assert arrival.lateness(5000, 0) == ""
    arrival.begin(5000)
    arrival.begin(5009)
    assert arrival.lateness(5009, 0) == "" != arrival.lateness(5010, 0)


def test_a_body_is_late_when_it_is_slower_than_the_minimum_rate() -> None:
    arrival = Arrival(ArrivalLimits(head=10, body=5, body_rate=100), 1000)
    arrival.end_head(1009)
    assert arrival.lateness(1013.9, 0) == ""
    assert "arrived too slowly" in arrival.lateness(1014, 0)
    assert arrival.lateness(1014, 1) == ""
    assert arrival.lateness(2013, 100_000) == "" != arrival.lateness(2014, 100_000)


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_a_sender_that_drips_is_answered_408_and_closed(kind: str) -> None:
    with (
        limited_server(arrival_seconds=1) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client,
    ):
        client.sendall(BEGINNINGS[kind])
        if kind == "next":
            assert answer_on(client)[0].status == 200
        client.settimeout(0.05)
        received = b""
        for _ in range(1200):  # for a minute at most
            with suppress(TimeoutError):
                received = client.recv(4096)
                break
            with suppress(OSError):
                client.send(b"x" if kind != "nothing" else b"")
        assert received.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        answered = json.loads(received.partition(b"\r\n\r\n")[2])
        assert (answered["status"], answered["code"]) == (408, "SYSTEM_BUSY")
        wait_until(lambda: number_at(port, "/open") == 1)


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_others_are_served_while_slow_senders_have_every_place(kind: str) -> None:
    with limited_server(connections=SLOTS) as port, ExitStack() as attack:
        for _ in range(SLOTS):
            client = attack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            client.sendall(BEGINNINGS[kind])
            if kind == "next":
                assert answer_on(client)[0].status == 200
        for _ in range(20):
            assert number_at(port, "/open") in (SLOTS, SLOTS + 1)


def test_a_connection_keeps_its_place_while_its_request_is_handled() -> None:
    with limited_server(connections=3) as port, ExitStack() as holds:
        holding = [holds.enter_context(asking(port, "/hold")) for _ in range(3)]
        for client in holding:
            assert client.recv(MIB).startswith(b"HTTP/1.1 200 ")
        for _ in range(5):
            with pytest.raises(ConnectionError):
                number_at(port, "/open")
        for client in holding:
            client.settimeout(0.01)
            with suppress(TimeoutError):
                assert client.recv(MIB), "it was closed"


def test_a_full_server_refuses_until_a_request_ends() -> None:
    with limited_server(connections=3, reserve=20) as port, ExitStack() as holds:
        holding = [holds.enter_context(asking(port, "/hold")) for _ in range(3)]
        for client in holding:
            assert client.recv(MIB).startswith(b"HTTP/1.1 200 ")
        for _ in range(5):
            assert (status_of(port, "/open"), status_of(port, "/livez?n=0")) == (503, 200)
        holding[0].close()
        wait_until(lambda: status_of(port, "/open") == 200)


def test_refused_clients_that_stay_do_not_use_up_the_reserve() -> None:
    with limited_server(connections=1, reserve=3, linger_seconds=10 * PATIENCE_S) as port, ExitStack() as clients:
        assert clients.enter_context(asking(port, "/hold")).recv(MIB).startswith(b"HTTP/1.1 200 ")

        def is_refused() -> bool:
            with suppress(ConnectionError):  # its system has not acknowledged the answers of the earlier ones yet
                return clients.enter_context(asking(port, "/open")).recv(MIB).startswith(b"HTTP/1.1 503 ")
            return False

        for _ in range(6):
            wait_until(is_refused)


def test_a_refused_websocket_at_livez_gives_no_place_away() -> None:
    """It would give back a place that it had not taken, and the limit would grow."""
    handshake = (
        b"GET /livez HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
    with limited_server(connections=1, reserve=20) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
            client.sendall(handshake)
            assert client.recv(MIB).startswith(b"HTTP/1.1 403 ")
        wait_until(lambda: status_of(port, "/open") == 200)
        with asking(port, "/hold") as holding:
            assert holding.recv(MIB).startswith(b"HTTP/1.1 200 ")
            assert status_of(port, "/open") == 503


def test_a_client_that_still_reads_its_answer_keeps_its_place() -> None:
    with limited_server(connections=1) as port, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        client.settimeout(PATIENCE_S)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /whole?n=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(1) == b"H"
        with pytest.raises(ConnectionError):
            number_at(port, "/open")
        size = 1
        while size < MIB:
            data = client.recv(MIB)
            assert data, "it was cut"
            size += len(data)


def test_a_closed_transport_has_its_buffered_bytes_unsent() -> None:
    """A closed one has the descriptor -1, for which the system cannot be asked."""
    transport = FileDescriptor()
    transport.dataBuffer, transport.offset = b"12345", 2
    assert transport.fileno() == -1
    assert unsent_bytes(transport) == 3


def test_a_lost_websocket_keeps_no_unsent_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transport stays until the next full garbage collection."""
    monkeypatch.setattr(WebSocketProtocol, "connectionLost", lambda *_: None)
    lost = LimitedWebSocket()
    lost.factory = SimpleNamespace(server_class=SimpleNamespace(connection_closed=lambda **_: None))
    lost.transport = FileDescriptor()
    lost.transport.dataBuffer, lost.transport.offset = b"12345", 2
    lost.transport._tempDataBuffer, lost.transport._tempDataLen = [b"678"], 3
    lost.connectionLost()
    assert (unsent_bytes(lost.transport), lost.transport.dataBuffer, lost.transport._tempDataBuffer) == (0, b"", [])

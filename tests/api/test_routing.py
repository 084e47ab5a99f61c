"""What the server mounts."""

import json
import re
import subprocess
import sys
import time
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from typing import Any

import httpx
import pytest
from channels.routing import URLRouter
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from api.routing import API_PREFIXES, ROUTES, close_websockets, websocket_urlpatterns
from tests.conftest import PROJECT, Manage
from tests.fakes.fake_port import FakePort
from tests.fakes.websocket import WebsocketCommunicator

TOKEN = "a-token-of-sixteen"
ROUTER = URLRouter(websocket_urlpatterns)


def test_every_route_is_under_a_prefix() -> None:
    assert all(route.path.startswith(API_PREFIXES) for route in ROUTES)


async def test_the_application_answers(client: httpx.AsyncClient) -> None:
    assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(("path", "first"), [("/ws/v1/consumer", "problem"), ("/ws/v1/events", "snapshot")])
async def test_websockets_are_found(port: FakePort, path: str, first: str) -> None:
    socket = WebsocketCommunicator(ROUTER, path + "?int64=number")
    assert (await socket.connect())[0]
    await socket.send_json_to({"type": "snapshot"})
    assert (await socket.receive_json_from())["type"] == first
    await close_websockets()
    while (message := await socket.receive_output())["type"] == "websocket.send":
        pass
    assert message["code"] == 1012


@pytest.mark.parametrize("path", ["/ws/v1/other", "/ws/v1/consumer/x", "/"])
async def test_other_paths_are_refused(port: FakePort, path: str) -> None:
    assert await WebsocketCommunicator(ROUTER, path).connect() == (False, 4404)


# Over a real Daphne and a real engine


@pytest.fixture
def site(manage: Manage) -> str:
    """The address of a broker of its own that asks for a token."""
    start_broker(manage)
    return site_of(manage)


def site_of(manage: Manage) -> str:
    return f"127.0.0.1:{manage.environment['GLASSMQ_WEB_PORT']}"


def start_broker(manage: Manage) -> "subprocess.Popen[str]":
    process = manage.start("broker", "--no-schedules", GLASSMQ_API_TOKEN=TOKEN)
    assert process.stdout is not None
    for line in process.stdout:
        if "To stop" in line:
            break
    return process


def heard(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame of a type."""
    while True:
        frame: dict[str, Any] = json.loads(socket.recv(timeout=60))
        if frame["type"] == kind:
            return frame


def test_publish_hold_and_wake_across_http_and_websocket(site: str) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with (
        httpx.Client(base_url=f"http://{site}/api/v1", headers=bearer, timeout=60) as http,
        connect(f"ws://{site}/ws/v1/consumer", additional_headers=bearer, subprotocols=["rmq.v1.json"]) as consumer,
    ):
        http.put("/topics/orders", json={"queues": 1}).raise_for_status()
        consumer.send(json.dumps({"type": "hello", "client_id": "c-1"}))
        assert heard(consumer, "welcome")["broker"] == "broker-a"
        consumer.send(json.dumps({"type": "pull", "id": 1, "topic": "orders", "queue_id": 0, "offset": 0}))
        hold_id = heard(consumer, "held")["hold_id"]
        held = http.get("/holds").json()["holds"]
        assert [(hold["id"], hold["client_id"], hold["protocol"]) for hold in held] == [(hold_id, "c-1", "websocket")]
        published = http.post("/topics/orders/messages", json={"body": "hi", "tag": "A"}).json()["messages"][0]
        assert heard(consumer, "woken")["cause"] == "arrival"
        pulled = heard(consumer, "pulled")
        assert [message["message_id"] for message in pulled["messages"]] == [published["message_id"]]
        again = http.get("/topics/orders/queues/0/messages?offset=0&wait_ms=0").json()
        assert again["messages"] == pulled["messages"]
        assert http.get(f"/messages/{published['message_id']}").json() == again["messages"][0]
        refused = http.get("/topics/orders/queues/0/messages?offset=0&filter=A||").json()
        assert refused["code"] == "SUBSCRIPTION_PARSE_FAILED"
        sql: dict[str, str | int] = {"offset": 0, "wait_ms": 0, "filter_type": "sql92"}
        queue = "/topics/orders/queues/0/messages"
        assert http.get(queue, params=sql | {"filter": "TAGS = 'A'"}).json()["messages"] == again["messages"]
        assert http.get(queue, params=sql | {"filter": "TAGS = 'B'"}).json()["status"] == "no_match"
        refused = http.get(queue, params=sql | {"filter": "TAGS ="}).json()
        assert refused["code"] == "SUBSCRIPTION_PARSE_FAILED" and "ends at character 7" in refused["detail"]
        consumer.send(json.dumps({"type": "pull", "id": 2, "topic": "orders", "queue_id": 0, "offset": 1}))
        heard(consumer, "held")
        consumer.send(json.dumps({"type": "cancel", "id": 2}))
        heard(consumer, "cancelled")
        assert http.get("/holds").json()["holds"] == []
        with pytest.raises(httpx.ReadTimeout):
            http.get("/topics/orders/queues/0/messages?offset=1", timeout=0.3)
        released = http.get("/topics/orders/queues/0/messages?offset=1&wait_ms=0")
        assert released.json()["status"] == "no_new"
        subscribe = {"type": "subscribe", "topic": "orders", "group": "red", "filter_type": "sql92", "from": "first"}
        consumer.send(json.dumps(subscribe | {"id": 7, "filter": "color ="}))
        assert heard(consumer, "problem")["code"] == "SUBSCRIPTION_PARSE_FAILED"
        http.post("/topics/orders/messages", json={"body": "sky", "properties": {"color": "blue"}}).raise_for_status()
        http.post("/topics/orders/messages", json={"body": "rose", "properties": {"color": "red"}}).raise_for_status()
        consumer.send(json.dumps(subscribe | {"id": 8, "filter": "color = 'red'"}))
        consumer.send(json.dumps({"type": "permit", "id": 8, "n": 5}))
        assert heard(consumer, "message")["body"] == "rose"
        receive_over_both(http, consumer)
        assert output_of_the_guides_consumer(site) == "hi\nsky\nrose\nlast\nhello\n"


def receive_over_both(http: httpx.Client, consumer: ClientConnection) -> None:
    """Group pop gets the messages that are there over HTTP, and the next one over the socket, which waits for it."""
    group = {"topic": "orders", "group": "pop"}
    first = http.post("/topics/orders/receive", json={"group": "pop", "n": 32}).json()["messages"]
    assert [message["body"] for message in first] == ["hi", "sky", "rose"]
    consumer.send(json.dumps({"type": "receive", "id": 9, **group}))
    hold_id = heard(consumer, "held")["hold_id"]
    (held,) = held_pops(http)
    assert (held["id"], held["client_id"], held["queue_id"], held["protocol"]) == (hold_id, "c-1", -1, "websocket")
    http.post("/topics/orders/messages", json={"body": "last"}).raise_for_status()
    (last,) = heard(consumer, "received")["messages"]
    consumer.send(json.dumps({"type": "acknowledge", "id": 10, **group, "receipts": [first[0]["receipt"]]}))
    assert heard(consumer, "acknowledged")["outcomes"][0]["outcome"] == "acknowledged"
    acked = http.post("/topics/orders/ack", json={"group": "pop", "receipts": [last["receipt"], first[0]["receipt"]]})
    assert [outcome["outcome"] for outcome in acked.json()["outcomes"]] == ["acknowledged", "late"]
    with pytest.raises(httpx.ReadTimeout):
        http.post("/topics/orders/receive", json={"group": "pop"}, timeout=0.3)
    deadline = time.monotonic() + 60
    while held_pops(http) and time.monotonic() < deadline:
        pass
    assert held_pops(http) == []


def held_pops(http: httpx.Client) -> list[Any]:
    return [hold for hold in http.get("/holds").json()["holds"] if hold["group"] == "pop"]


def programs_of_the_guide(site: str) -> list[str]:
    """The Python programs of docs/api.md, for this site."""
    guide = (PROJECT / "docs" / "api.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    return [program.replace("localhost:8000", site) for program in found]


def output_of_the_guides_consumer(site: str) -> str:
    program, _ = programs_of_the_guide(site)
    program = program.replace("httpx.Client(", f"httpx.Client(headers={{'Authorization': 'Bearer {TOKEN}'}}, ")
    with redirect_stdout(StringIO()) as printed:
        exec(program, {})
    return printed.getvalue()


def test_the_guides_member_acknowledges_what_it_prints_and_connects_again(manage: Manage) -> None:
    broker, site = start_broker(manage), site_of(manage)
    _, program = programs_of_the_guide(site)
    header = f"additional_headers={{'Authorization': 'Bearer {TOKEN}'}}, "
    command = [sys.executable, "-u", "-c", program.replace("max_size", f"{header}max_size")]
    with httpx.Client(
        base_url=f"http://{site}/api/v1", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60
    ) as http:

        def publish(*bodies: str) -> None:
            messages = [{"body": body, "queue_id": 0} for body in bodies]
            http.post("/topics/orders/messages", json={"messages": messages}).raise_for_status()

        def committed() -> list[int]:
            offsets = http.get("/groups/mailing/offsets").raise_for_status().json()["offsets"]
            return [one["offset"] for one in offsets if (one["topic"], one["queue_id"]) == ("orders", 0)]

        without_topic = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (without_topic.returncode, without_topic.stdout) == (1, "") and "topic orders" in without_topic.stderr
        publish(*"abc")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as member:
            try:
                assert member.stdout is not None
                assert [member.stdout.readline() for _ in range(3)] == ["a\n", "b\n", "c\n"]
                broker.terminate()
                broker.communicate(timeout=60)
                start_broker(manage)
                publish("d")
                lines = iter(member.stdout.readline, "")
                assert next(line for line in lines if line not in ("a\n", "b\n", "c\n")) == "d\n"
                deadline = time.monotonic() + 60
                while committed() != [4] and time.monotonic() < deadline:
                    time.sleep(0.1)
                assert committed() == [4]
            finally:
                member.kill()


def test_without_the_token_nothing_but_the_probes(site: str) -> None:
    get = partial(httpx.get, timeout=60)
    assert get(f"http://{site}/livez").status_code == 200
    assert get(f"http://{site}/api/v1/topics").status_code == 401
    page = get(f"http://{site}/api/docs", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=/api/docs")
    assert get(f"http://{site}/api/v1/topics", headers={"Host": "evil.example"}).status_code == 400
    with connect(f"ws://{site}/ws/v1/events") as socket, pytest.raises(ConnectionClosedError) as closed:
        socket.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for path, origin, subprotocol, status, reason in (
        ("events", "http://evil.example", "rmq.v1.json", 403, "the Origin is not this broker"),
        ("other", None, "rmq.v1.json", 404, "no WebSocket has this path; the paths are"),
        ("consumer", None, "mqtt", 400, "offer the subprotocol rmq.v1.json, or none"),
    ):
        with pytest.raises(InvalidStatus) as refused:
            connect(
                f"ws://{site}/ws/v1/{path}",
                origin=origin,  # type: ignore[arg-type]
                subprotocols=[subprotocol],  # type: ignore[list-item]
                additional_headers=bearer,
            )
        assert refused.value.response.status_code == status
        assert refused.value.response.reason_phrase.startswith(reason)
    with httpx.Client(base_url=f"http://{site}", timeout=60) as browser:
        assert browser.post("/login", data={"token": TOKEN}).status_code == 303
        assert browser.get("/api/v1/broker").json()["broker"] == "broker-a"

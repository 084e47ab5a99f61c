"""What both WebSockets share: frames that are none, limits, the end."""

import asyncio
import json
from typing import Any

import pytest

from api.consumer import socket as consumer_socket
from api.consumer.socket import ConsumerSocket, consumer_application
from api.http.limits import FRAME_OVERHEAD, MAX_FRAME
from api.http.outbox import Outbox
from api.websockets.frames import Pong
from api.websockets.socket import Socket, close_all
from bridge.port import commands, set_port
from tests.fakes.fake_port import FakePort, pulled
from tests.fakes.websocket import WebsocketCommunicator


def communicator(
    app: Any = consumer_application, path: str = "/ws/v1/consumer", subprotocols: list[str] | None = None
) -> WebsocketCommunicator:
    return WebsocketCommunicator(app, path, subprotocols=subprotocols)


async def opened(**arguments: Any) -> WebsocketCommunicator:
    socket = communicator(**arguments)
    accepted, _ = await socket.connect()
    assert accepted
    return socket


async def close_code(socket: WebsocketCommunicator) -> int:
    while True:
        message = await socket.receive_output()
        if message["type"] == "websocket.close":
            return int(message["code"])


@pytest.mark.parametrize(
    ("offered", "accepted", "chosen"),
    [
        (["rmq.v1.json"], True, "rmq.v1.json"),
        (["other", "rmq.v1.json"], True, "rmq.v1.json"),
        (None, True, None),
        (["other"], False, 4400),
    ],
)
async def test_the_subprotocol(port: FakePort, offered: list[str] | None, accepted: bool, chosen: object) -> None:
    socket = communicator(subprotocols=offered)
    assert await socket.connect() == (accepted, chosen)
    await socket.disconnect()


async def test_the_memory_of_small_frames_counts_as_unsent() -> None:
    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    socket = ConsumerSocket({"path": "/ws/v1/consumer"}, never, never)
    for _ in range(100):
        socket.put(Pong(id=1))
    assert socket.outbox.unsent >= 100 * FRAME_OVERHEAD


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"type":"dance"}', '{"id":1}', "nul"])
async def test_frames_of_another_protocol_are_refused_and_then_close_the_socket(port: FakePort, text: str) -> None:
    socket = await opened()
    for _ in range(5):
        await socket.send_to(text_data=text)
        frame = await socket.receive_json_from()
        assert (frame["type"], frame["status"], frame["code"]) == ("problem", 400, "INVALID_PARAMETER")
    await socket.send_to(text_data=text)
    assert await close_code(socket) == 4400
    assert not port.connections[0].is_open


async def test_binary_frames_are_accepted_and_invalid_utf8_is_not(port: FakePort) -> None:
    socket = await opened()
    await socket.send_to(bytes_data=b'{"type":"ping","id":1}')
    assert await socket.receive_json_from() == {"type": "pong", "id": 1}
    await socket.send_to(bytes_data=b'{"type":"ping","id":"\xff"}')
    assert (await socket.receive_json_from())["status"] == 400
    await socket.disconnect()


async def test_a_wrong_field_is_refused_by_id_and_never_closes_the_socket(port: FakePort) -> None:
    socket = await opened()
    for number in range(10):
        await socket.send_json_to({"type": "pull", "id": number, "topic": "T", "queue_id": 0, "offset": "x"})
        frame = await socket.receive_json_from()
        assert (frame["id"], frame["errors"][0]["pointer"]) == (number, "/offset")
    await socket.disconnect()


async def test_a_lone_surrogate_is_named_and_refused_by_id(port: FakePort) -> None:
    socket = await opened()
    for number in range(10):
        await socket.send_to(text_data=rf'{{"type": "publish", "id": {number}, "topic": "T", "body": "\ud83d"}}')
        frame = await socket.receive_json_from()
        assert (frame["id"], frame["status"]) == (number, 400)
        assert r"\ud83d, which is half of a surrogate pair" in frame["detail"]
    for _ in range(5):
        await socket.send_to(text_data=r'{"type": "\ud83d')
        assert "id" not in await socket.receive_json_from()
    await socket.send_to(text_data=r'{"type": "\ud83d')
    assert await close_code(socket) == 4400


async def test_a_frame_that_is_too_large(port: FakePort) -> None:
    socket = await opened()
    await socket.send_to(text_data=json.dumps({"type": "ping", "id": "x" * MAX_FRAME}))
    assert await close_code(socket) == 4413


async def test_an_idle_client_without_holds_is_closed(port: FakePort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerSocket, "idle_seconds", 0.01)
    assert await close_code(await opened()) == 4408


async def test_an_idle_client_stays_while_a_pull_is_held(port: FakePort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerSocket, "idle_seconds", 0.01)
    socket = communicator()
    monkeypatch.setattr(ConsumerSocket, "busy", lambda self: len(port.held) == 1 or not port.commands)
    await socket.connect()
    await socket.send_json_to({"type": "pull", "id": 1, "topic": "T", "queue_id": 0, "offset": 0})
    assert (await socket.receive_json_from())["type"] == "held"
    port.wake(port.held[0], cause="timeout")
    assert [(await socket.receive_json_from())["type"] for _ in range(2)] == ["woken", "pulled"]
    assert await close_code(socket) == 4408


async def test_without_an_engine_the_socket_ends(port: FakePort) -> None:
    set_port(None)
    socket = await opened()
    assert (await socket.receive_json_from())["status"] == 503
    assert await close_code(socket) == 1012


async def test_a_defect_ends_the_socket(port: FakePort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "connection", None)
    assert await close_code(await opened()) == 1011


async def test_a_writer_that_fails_closes_the_socket(
    port: FakePort, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Outbox) -> None:
        raise ValueError("the frame cannot be sent")

    socket = await opened()
    monkeypatch.setattr(Outbox, "_wait_for_server_buffer", fail)
    await socket.send_json_to({"type": "ping"})
    assert await close_code(socket) == 1011
    assert "the task 'writer of /ws/v1/consumer' failed" in caplog.text
    assert "the frame cannot be sent" in caplog.text
    assert not port.connections[0].is_open


async def test_a_task_that_fails_closes_the_socket(
    port: FakePort, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any) -> None:
        raise ValueError("no answer can be built")

    monkeypatch.setattr(consumer_socket, "read_pull", fail)
    port.replies[commands.PullMessage] = pulled()
    socket = await opened()
    await socket.send_json_to({"type": "pull", "id": 1, "topic": "T", "queue_id": 0, "offset": 0})
    assert await close_code(socket) == 1011
    assert "the task 'pull of T of /ws/v1/consumer' failed" in caplog.text


async def test_a_server_that_stops_sends_bye(port: FakePort) -> None:
    socket = await opened()
    await socket.send_json_to({"type": "pull", "id": 1, "topic": "T", "queue_id": 0, "offset": 0})
    await socket.receive_json_from()
    await close_all("restart")
    assert await socket.receive_json_from() == {"type": "bye", "reason": "restart"}
    assert await close_code(socket) == 1012
    await port.until_held(0)
    assert not list(Socket.live)


async def test_an_application_that_is_cancelled_leaves_nothing(port: FakePort) -> None:
    socket = await opened()
    await socket.send_json_to({"type": "pull", "id": 1, "topic": "T", "queue_id": 0, "offset": 0})
    await socket.receive_json_from()
    socket.future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await socket.future
    await port.until_held(0)
    assert not port.connections[0].is_open

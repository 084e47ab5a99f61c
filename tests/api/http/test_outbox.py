"""Frames in order, bounds, and a client that does not read: over a scripted server, and over a real Daphne."""

import asyncio
import contextlib
import functools
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.client import connect

from api.http.answer_memory import AnswerMemory, Share
from api.http.limits import MAX_SENT_FRAME, SERVER_BUFFER, SMALL_ANSWER
from api.http.outbox import SCOPE_KEY, Outbox, server_buffer
from tests.conftest import PROJECT


class Transport:
    """Twisted's, as far as it is looked at."""

    def __init__(self, size: int = 0) -> None:
        self.dataBuffer = b"x" * size
        self.offset = 0
        self._tempDataLen = 0


class Wire:
    """A server's ``send`` that can be stopped."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.free = asyncio.Event()
        self.free.set()
        self.moved = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        await self.free.wait()
        self.sent.append(message["n"])
        self.moved.set()


def outbox(wire: Wire, slow: list[str], scope: dict[str, Any] | None = None, **limits: Any) -> Outbox:
    return Outbox(scope or {}, wire.send, slow.append, **limits)


async def test_frames_are_sent_in_order_and_counted() -> None:
    wire, slow = Wire(), list[str]()
    box = outbox(wire, slow)
    for number in range(3):
        box.put({"n": number}, 10)
    assert box.unsent == 30
    task = asyncio.ensure_future(box.run())
    await box.flush(5)
    assert (wire.sent, box.unsent, slow) == ([0, 1, 2], 0, [])
    task.cancel()


@pytest.mark.parametrize("limits", [{"max_unsent": 25}, {"max_frames": 2}])
async def test_a_client_is_cut_once_when_too_much_waits(limits: dict[str, Any]) -> None:
    wire, slow = Wire(), list[str]()
    box = outbox(wire, slow, **limits)
    for number in range(5):
        box.put({"n": number}, 10)
    assert slow == ["30 bytes in 3 frames wait to be read"]
    assert box.unsent == 0
    await box.run()  # has nothing left to do
    assert wire.sent == []


@pytest.mark.parametrize("large", [0, MAX_SENT_FRAME], ids=["alone", "behind a large frame"])
async def test_at_most_4_mib_of_small_frames_wait(large: int) -> None:
    wire, slow = Wire(), list[str]()
    box = outbox(wire, slow)
    if large:
        box.put({"n": 0}, large)
    for number in range(4096):
        box.put({"n": number}, 1024)
    assert (box.unsent, slow) == (large + (4 << 20), [])
    box.put({"n": 0}, 1)
    assert (box.unsent, len(slow)) == (0, 1)


async def test_only_one_large_frame_waits_beside_the_limit() -> None:
    wire, slow = Wire(), list[str]()
    box = outbox(wire, slow)
    for _ in range(2):
        box.put({"n": 0}, 3 << 20)
    assert (box.unsent, slow) == (6 << 20, [])
    box.put({"n": 0}, 3 << 20)
    assert (box.unsent, len(slow)) == (0, 1)


async def test_a_large_frame_that_was_sent_makes_no_more_room() -> None:
    wire, slow = Wire(), list[str]()
    box = outbox(wire, slow)
    task = asyncio.ensure_future(box.run())
    box.put({"n": 0}, MAX_SENT_FRAME)
    await box.flush(5)
    for _ in range(5):
        box.put({"n": 1}, 1 << 20)
    assert len(slow) == 1
    await task


async def test_there_is_room_again_when_enough_was_sent() -> None:
    wire = Wire()
    box = outbox(wire, [])
    wire.free.clear()
    box.put({"n": 0}, 5 << 20)
    waiting = asyncio.ensure_future(box.room())
    task = asyncio.ensure_future(box.run())
    await asyncio.sleep(0)
    assert not waiting.done()
    wire.free.set()
    await waiting
    task.cancel()


async def test_large_frames_wait_for_their_turn() -> None:
    wire, slow = Wire(), list[str]()
    box = outbox(wire, slow, max_unsent=11 << 20)
    wire.free.clear()
    sent = asyncio.Semaphore(0)

    async def write(number: int) -> None:
        async with box.turn():
            await asyncio.sleep(0)  # while it is made
            box.put({"n": number}, 6 << 20)
            sent.release()

    writers = [asyncio.ensure_future(write(number)) for number in range(5)]
    task = asyncio.ensure_future(box.run())
    await sent.acquire()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (box.unsent, sent.locked()) == (6 << 20, True)
    wire.free.set()
    await asyncio.gather(*writers)
    await box.flush(5)
    assert (wire.sent, slow) == ([0, 1, 2, 3, 4], [])
    task.cancel()


async def test_a_send_that_fails_ends_the_outbox() -> None:
    async def send(message: dict[str, Any]) -> None:
        raise ValueError("broken")

    slow = list[str]()
    box = Outbox({}, send, slow.append)
    box.put({"n": 0}, 5 << 20)
    with pytest.raises(ValueError, match="broken"):
        await box.run()
    box.put({"n": 1}, 5 << 20)
    async with box.turn():
        await box.flush(5)
    assert (box.unsent, slow) == (0, [])


async def test_a_send_that_waits_too_long_cuts_the_client() -> None:
    wire, slow = Wire(), list[str]()
    wire.free.clear()
    box = outbox(wire, slow, stall_seconds=0)
    box.put({"n": 0}, 1)
    await box.run()
    assert slow == ["nothing was read for 0 s"]
    await box.flush(0)


async def test_frames_wait_while_the_servers_buffer_is_full() -> None:
    wire, slow, left = Wire(), list[str](), [2 << 20]
    box = outbox(wire, slow, {SCOPE_KEY: lambda: left[0]})
    box.put({"n": 0}, 1)
    assert box.unsent == (2 << 20) + 1
    task = asyncio.ensure_future(box.run())
    await asyncio.sleep(0)
    assert wire.sent == []
    left[0] = 0
    await wire.moved.wait()
    task.cancel()


async def test_a_buffer_that_does_not_shrink_cuts_the_client() -> None:
    wire, slow = Wire(), list[str]()
    box = outbox(wire, slow, {SCOPE_KEY: lambda: 2 << 20}, stall_seconds=0)
    box.put({"n": 0}, 1)
    await box.run()
    assert (slow, wire.sent) == (["nothing was read for 0 s"], [])


async def test_a_buffer_that_shrinks_slowly_is_waited_for() -> None:
    wire, slow = Wire(), list[str]()
    sizes = iter(range(SERVER_BUFFER + 200_000, SERVER_BUFFER - 100_000, -20_000))
    box = outbox(wire, slow, {SCOPE_KEY: lambda: next(sizes)}, stall_seconds=0)
    box.put({"n": 0}, 1)
    task = asyncio.ensure_future(box.run())
    await wire.moved.wait()
    assert slow == []
    task.cancel()


# The memory for the frames of all clients

LARGE = 2 * SMALL_ANSWER


async def made(box: Outbox, size: int, calls: list[int]) -> Share:
    """A share for a frame of so many bytes; ``calls`` gets the size each time that the frame is made."""

    async def make() -> int:
        calls.append(size)
        return size

    return (await box.make(make, lambda frame: frame))[1]


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("end", ["read", "cut", "cancelled"])
async def test_a_large_frame_has_its_memory_until_it_is_read_or_dropped(end: str) -> None:
    memory, unread, slow = AnswerMemory(LARGE), [0], list[str]()

    async def send(message: dict[str, Any]) -> None:
        unread[0] = 2 * SERVER_BUFFER

    box = Outbox({SCOPE_KEY: lambda: unread[0]}, send, slow.append, memory=memory, max_frames=1)
    task = asyncio.ensure_future(box.run())
    box.put({"n": 0}, LARGE, await made(box, LARGE, []))
    await turns()
    assert (unread[0], memory.taken) == (2 * SERVER_BUFFER, LARGE)
    calls = list[int]()
    other = asyncio.ensure_future(made(outbox(Wire(), [], memory=memory), LARGE, calls))
    await turns()
    assert (calls, other.done()) == ([LARGE], False)
    if end == "read":
        unread[0] = 0
    elif end == "cut":
        box.put({"n": 1}, 1)
        box.put({"n": 2}, 1)
        assert len(slow) == 1
    else:
        task.cancel()
    (await other).shrink(0)
    assert (calls, memory.taken) == ([LARGE, LARGE], 0)
    task.cancel()


async def test_a_dropped_frame_gives_its_memory_back() -> None:
    memory, slow = AnswerMemory(LARGE), list[str]()
    box = outbox(Wire(), slow, memory=memory, max_frames=1)
    box.put({"n": 0}, LARGE, await made(box, LARGE, []))
    box.put({"n": 1}, 1)
    assert (len(slow), memory.taken) == (1, 0)
    box.put({"n": 2}, LARGE, await made(box, LARGE, []))
    assert memory.taken == 0


async def test_small_frames_need_no_memory_of_all_clients() -> None:
    memory = AnswerMemory(LARGE)
    box = outbox(Wire(), [], memory=memory)
    await made(box, LARGE, [])
    await made(box, SMALL_ANSWER, [])
    assert memory.taken == LARGE


async def test_a_frame_that_cannot_be_made_takes_no_memory() -> None:
    async def make() -> int:
        raise ValueError("broken")

    memory = AnswerMemory(LARGE)
    with pytest.raises(ValueError, match="broken"):
        await outbox(Wire(), [], memory=memory).make(make, lambda frame: frame)
    assert memory.taken == 0


def test_the_buffer_is_found_through_the_protocol_and_through_tls() -> None:
    class Protocol:
        transport: Any = None

    async def handle_reply(protocol: Any, message: Any) -> None:
        """As in Daphne."""

    protocol = Protocol()
    protocol.transport = Transport(5)
    protocol.transport._tempDataLen = 2
    found = server_buffer({}, functools.partial(handle_reply, protocol))
    assert found is not None
    assert found() == 7
    tls = Protocol()
    tls.transport = protocol
    found = server_buffer({}, functools.partial(handle_reply, tls))
    assert found is not None
    assert found() == 7
    assert server_buffer({}, Wire.send) is None  # type: ignore[arg-type]
    assert server_buffer({SCOPE_KEY: None}, functools.partial(handle_reply, protocol)) is None


# Over a real Daphne


@pytest.fixture
def daphne(free_ports: list[int]) -> Iterator[int]:
    """A Daphne whose pulls bring 256 KiB each, patient for five seconds only."""
    port = free_ports[0]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.api.served", str(port)], cwd=PROJECT, text=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "listening\n"
    yield port
    process.terminate()
    process.communicate(timeout=60)


def pull(number: int) -> str:
    return json.dumps({"type": "pull", "id": number, "topic": "T", "queue_id": 0, "offset": 0})


def shake_hands(raw: socket.socket) -> None:
    """Open a WebSocket by hand, to be able to do with it what no library does."""
    raw.settimeout(60)
    raw.sendall(
        b"GET /ws/v1/consumer HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b"101 Switching Protocols" in raw.recv(4096)


def resident_kib(port: int) -> int:
    with connect(f"ws://127.0.0.1:{port}/memory") as asked:
        return int(asked.recv())


def test_a_client_that_never_reads_is_cut_and_costs_little(daphne: int) -> None:
    before = resident_kib(daphne)
    with socket.create_connection(("127.0.0.1", daphne)) as raw:
        shake_hands(raw)
        for number in range(1000):
            text = pull(number).encode()
            raw.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
        with connect(f"ws://127.0.0.1:{daphne}/closings") as asked:
            assert asked.recv(timeout=60) == "4429"  # as soon as it has happened
        assert resident_kib(daphne) - before < 40 * 1024


def test_a_client_that_reads_gets_all_of_it_beside_one_that_does_not(daphne: int) -> None:
    with (
        connect(f"ws://127.0.0.1:{daphne}/ws/v1/consumer", max_size=None, close_timeout=0.1) as lazy,
        connect(f"ws://127.0.0.1:{daphne}/ws/v1/consumer", max_size=None) as reader,
    ):
        for number in range(100):
            lazy.send(pull(number))
            reader.send(pull(number))
        frames = [json.loads(reader.recv(timeout=60)) for _ in range(100)]
    assert sorted(frame["id"] for frame in frames) == list(range(100))
    assert all(len(frame["messages"][0]["body"]) == 256 * 1024 for frame in frames)


def test_a_frame_of_a_hundred_megabytes_ends_one_socket_and_no_other(daphne: int) -> None:
    with connect(f"ws://127.0.0.1:{daphne}/ws/v1/consumer") as other:
        with socket.create_connection(("127.0.0.1", daphne)) as raw:
            shake_hands(raw)
            size = 100_000_000
            raw.sendall(bytes([0x81, 0xFF]) + size.to_bytes(8, "big") + bytes(4))
            with contextlib.suppress(ConnectionResetError):
                while raw.recv(65_536):
                    pass  # until the server has closed
        other.send('{"type":"ping"}')
        assert other.recv(timeout=60) == '{"type":"pong"}'

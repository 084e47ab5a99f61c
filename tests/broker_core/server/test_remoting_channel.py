"""Connections over real sockets."""

import asyncio
import logging
import os
import socket
import ssl
import struct
from typing import Any

import pytest

from broker_core.codes import RequestCode
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.server.remoting_channel import Channel
from broker_core.server.remoting_limits import State
from broker_core.server.tls import TlsOptions
from tests.broker_core.remoting.test_frame_decoder import GOLDEN
from tests.fakes.remoting_peer import NotingSession, request, serving, until


def trusting() -> ssl.SSLContext:
    """A client's TLS as RocketMQ's clients have it: nothing is verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


# --- Frames in and out ------------------------------------------------------------------------------------------------


async def test_a_request_is_answered_and_the_channel_knows_its_client() -> None:
    async with serving() as running:
        peer = await running.connect()
        assert (await peer.ask(7, b"hello")).body == b"hello"
        channel = running.sessions[0].channel
        assert (channel.remote_host, channel.remote_port) == peer.writer.get_extra_info("sockname")
        assert str(channel) == f"127.0.0.1:{channel.remote_port}"
        assert not channel.tls


async def test_all_frames_of_one_read_are_passed_on_together() -> None:
    async with serving() as running:
        peer = await running.connect()
        peer.write(*(request(opaque, b"body") for opaque in range(100)))
        assert [(await peer.receive()).opaque for _ in range(100)] == list(range(100))
        assert running.sessions[0].reads == [list(range(100))]


async def test_a_frame_in_many_reads_and_what_follows_it() -> None:
    async with serving() as running:
        peer = await running.connect()
        frame = request(5, os.urandom(300_000)).encode()
        peer.writer.write(frame[:3])
        await peer.writer.drain()
        await until(lambda: bool(running.sessions))
        assert running.server.shared.unfinished == 3
        peer.writer.write(frame[3:-1])
        await until(lambda: running.server.shared.unfinished == len(frame) - 1)
        peer.writer.write(frame[-1:] + request(6).encode())
        assert (await peer.receive()).encode()[-300_000:] == frame[-300_000:]
        assert (await peer.receive()).opaque == 6
        assert running.server.shared.unfinished == 0


async def test_the_frames_of_one_turn_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    write = Channel._write
    monkeypatch.setattr(Channel, "_write", lambda channel, data: (writes.append(len(data)), write(channel, data)))
    async with serving() as running:
        peer = await running.connect()
        peer.write(*(request(opaque, b"body") for opaque in range(100)))
        for _ in range(100):
            await peer.receive()
        assert len(writes) == 1


async def test_delay_is_off() -> None:
    async with serving() as running:
        peer = await running.connect()
        await peer.ask(1)
        raw = running.sessions[0].channel._transport.get_extra_info("socket")
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_session_is_notified_once_that_its_client_left() -> None:
    async with serving() as running:
        peer = await running.connect()
        await peer.ask(1)
        peer.writer.write(GOLDEN[0][:20])
        await until(lambda: running.server.shared.unfinished == 20)
        peer.writer.close()
        (session,) = running.sessions
        await until(lambda: session.closings == 1)
        assert running.server.shared.unfinished == 0
        assert not running.server.channels
        session.channel.send(b"too late")
        session.channel.close()
    assert session.closings == 1


async def test_a_session_may_close_after_its_answers() -> None:
    class Last(NotingSession):
        def answer(self, command: RemotingCommand) -> None:
            super().answer(command)
            self.channel.close()
            self.channel.send(b"not this")

    async with serving(Last) as running:
        peer = await running.connect()
        body = os.urandom(5_000_000)
        peer.write(request(1, body))
        assert (await peer.rest())[-len(body) :] == body
        await until(lambda: running.sessions[0].closings == 1)


# --- What is wrong ----------------------------------------------------------------------------------------------------

BAD = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    struct.pack(">i", 0),
    struct.pack(">i", -1),
    struct.pack(">i", 16 * 1024 * 1024 + 1),
    struct.pack(">i", (1 << 31) - 1),
    struct.pack(">iI", 104, 101),
    struct.pack(">iI", 8, 4) + b"none",
    struct.pack(">iI", 8, 4 | 7 << 24) + b"none",
    b"\xff" * 100,
]


@pytest.mark.parametrize("garbage", BAD)
async def test_garbage_closes_its_connection_and_no_other(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as running:
        good, bad = await running.connect(), await running.connect()
        await good.ask(1)
        bad.writer.write(garbage)
        assert await bad.rest() == b""
        assert (await good.ask(2, b"still there")).body == b"still there"
        assert running.server.counters.protocol_errors == 1
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert len(running.server.channels) == 1


async def test_requests_before_the_garbage_are_answered() -> None:
    async with serving() as running:
        peer = await running.connect()
        peer.writer.write(request(1).encode() + request(2).encode() + BAD[0])
        assert (await peer.receive()).opaque == 1
        assert (await peer.receive()).opaque == 2
        assert await peer.rest() == b""


async def test_every_truncation_of_every_golden_frame_then_an_end_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as running:
        good = await running.connect()
        for golden in GOLDEN:
            for end in range(1, len(golden), 7):
                peer = await running.connect()
                peer.writer.write(golden[:end])
                peer.writer.write_eof()
                assert await peer.rest() == b""
        assert (await good.ask(1)).opaque == 1
        await until(lambda: len(running.server.channels) == 1)
        assert running.server.shared.unfinished == 0
    assert not caplog.records


async def test_garbage_leaves_no_descriptor_behind() -> None:
    async with serving() as running:
        for garbage in BAD:
            peer = await running.connect()
            peer.writer.write(garbage)
            await peer.rest()
        await until(lambda: not running.server.channels)
        before = len(os.listdir("/dev/fd"))
        for _ in range(20):
            for garbage in BAD:
                peer = await running.connect()
                peer.writer.write(garbage)
                await peer.rest()
        await until(lambda: not running.server.channels)
        await asyncio.sleep(0)
        assert len(os.listdir("/dev/fd")) <= before + 2


async def test_warnings_about_clients_are_few(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as running:
        for _ in range(25):
            peer = await running.connect()
            peer.writer.write(BAD[0])
            await peer.rest()
        assert running.server.counters.protocol_errors == 25
    assert [record.message.partition(" (")[2] for record in caplog.records] == ["1 so far)", "10 so far)"]


async def test_a_defect_of_a_session_ends_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    class Defect(NotingSession):
        def answer(self, command: RemotingCommand) -> None:
            if command.opaque == 13:
                raise ZeroDivisionError
            super().answer(command)

    async with serving(Defect) as running:
        good, bad = await running.connect(), await running.connect()
        bad.write(request(13))
        await bad.rest()
        assert (await good.ask(2)).opaque == 2
        assert sum(session.closings for session in running.sessions) == 1
    assert ["could not be handled" in record.message for record in caplog.records] == [True]


# --- Clients that do not read -----------------------------------------------------------------------------------------


class Flood(NotingSession):
    """Answers with as many bytes as the request's opaque says."""

    def answer(self, command: RemotingCommand) -> None:
        self.channel.send(command.response(0, body=bytes(command.opaque)).encode())


SMALL: dict[str, Any] = {"behind": 65_536, "unsent": 1_000_000}
SYSTEM = 15 * 1024 * 1024
"""More than the system's own buffers of two sockets take."""


async def test_a_client_that_never_reads_is_not_read_from_either_and_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Flood, **SMALL) as running:
        good, lazy = await running.connect(), await running.connect()
        lazy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        lazy.write(request(SYSTEM))
        await until(lambda: bool(running.sessions))
        session = running.sessions[0]
        await until(lambda: bool(session.reads))
        lazy.write(request(5))
        assert (await good.ask(3)).body == bytes(3)
        assert len(session.reads) == 1  # the second request stays where it is
        session.channel.send(b"one more")
        await until(lambda: session.closings == 1)
        assert running.server.counters.cut == 1
        assert (await good.ask(4)).body == bytes(4)
        lazy.writer.transport.abort()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "does not read" in caplog.records[0].message


async def test_a_client_that_reads_nothing_for_a_while_is_cut_off() -> None:
    async with serving(Flood, **SMALL, stalled=0.02) as running:
        lazy = await running.connect()
        lazy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        lazy.write(request(SYSTEM))
        await until(lambda: bool(running.sessions) and running.sessions[0].closings == 1)
        assert running.server.counters.cut == 1
        lazy.writer.transport.abort()


class Generous(NotingSession):
    """Answers each question with as much as the largest message."""

    def answer(self, command: RemotingCommand) -> None:
        self.channel.send(command.response(0, body=bytes(4 * 1024 * 1024)).encode())


async def test_a_client_may_receive_the_largest_messages_of_many_queues_at_once() -> None:
    async with serving(Generous) as running:
        peer = await running.connect()
        peer.write(*(request(number) for number in range(40)))
        for number in range(40):
            assert (await peer.receive()).opaque == number
        assert (running.server.counters.cut, running.server.shared.unsent) == (0, 0)


class Pulls(NotingSession):
    """Answers each question with as much as a pull."""

    def answer(self, command: RemotingCommand) -> None:
        self.channel.send(command.response(0, body=bytes(256 * 1024)).encode())


async def test_at_most_4_mib_are_held_for_a_client_that_pulls_and_never_reads() -> None:
    async with serving(Pulls) as running:
        lazy = await running.connect()
        lazy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        lazy.write(*(request(number) for number in range(200)))
        await until(lambda: running.server.shared.unsent > 0)
        (session,) = running.sessions
        assert session.channel.unsent <= 4 * 1024 * 1024
        assert sum(map(len, session.reads)) < 200
        lazy.writer.transport.abort()


class Larger(NotingSession):
    """Answers each question with 8 MiB."""

    def answer(self, command: RemotingCommand) -> None:
        self.channel.send(command.response(0, body=bytes(8 * 1024 * 1024)).encode())


@pytest.mark.parametrize("fits", [True, False])
async def test_the_limit_of_unsent_bytes_follows_the_largest_answer(fits: bool) -> None:
    async with serving(Larger, unsent=SYSTEM, questions=4, small_questions=4) as running:
        largest = 0
        running.server.shared._largest_answer = lambda: largest
        peer = await running.connect()
        await peer.ask(1)
        largest = 9 * 1024 * 1024 if fits else 0  # it may change at any time
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.write(*(request(number) for number in range(4)))
        await until(lambda: len(running.sessions[0].reads) == 2)
        if fits:
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert [(await peer.receive()).opaque for _ in range(4)] == [0, 1, 2, 3]
        else:
            await until(lambda: running.sessions[0].closings == 1)
        assert running.server.counters.cut == (not fits)
        peer.writer.transport.abort()


class Slow(NotingSession):
    """Handles what it was given when the test says so."""

    handled = True

    @property
    def ready(self) -> bool:
        return self.handled


async def test_more_requests_are_read_when_the_earlier_ones_were_handled() -> None:
    async with serving(Slow, questions=4, small_questions=4) as running:
        peer = await running.connect()
        await peer.ask(0)
        (session,) = running.sessions
        assert isinstance(session, Slow)
        session.handled = False
        peer.write(*(request(number) for number in range(1, 11)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert session.reads == [[0]]
        session.handled = True
        assert [(await peer.receive()).opaque for _ in range(10)] == list(range(1, 11))
        assert session.reads == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


async def test_questions_of_small_reads_wait_too_and_what_has_a_body_does_not() -> None:
    async with serving(Slow, questions=4, small_questions=4) as running:
        peer = await running.connect()
        await peer.ask(0)
        (session,) = running.sessions
        assert isinstance(session, Slow)
        session.handled = False
        for number in (1, 2):  # nothing waits for them: a body is the request's, and the answer is small
            assert (await peer.ask(number, b"body")).opaque == number
        for number in range(3, 8):
            peer.write(request(number, b"body" if number == 7 else b""))
            for _ in range(5):
                await asyncio.sleep(0)
        assert session.reads == [[0], [1], [2]]
        session.handled = True
        assert [(await peer.receive()).opaque for _ in range(5)] == [3, 4, 5, 6, 7]


async def test_all_acknowledgements_of_a_read_come_to_the_session_at_once() -> None:
    async with serving(Slow, questions=4, small_questions=4) as running:
        peer = await running.connect()
        await peer.ask(0)
        (session,) = running.sessions
        peer.write(*(request(number, code=RequestCode.ACK_MESSAGE) for number in range(1, 11)))
        assert [(await peer.receive()).opaque for _ in range(10)] == list(range(1, 11))
        assert session.reads == [[0], list(range(1, 11))]


class Overloaded(Slow):
    """Has more requests than its share."""

    @property
    def delayed(self) -> bool:
        return not self.handled


async def test_a_client_that_sends_more_than_its_share_is_not_read_from() -> None:
    async with serving(Overloaded) as running:
        peer = await running.connect()
        await peer.ask(0, b"body")
        (session,) = running.sessions
        assert isinstance(session, Overloaded)
        session.handled = False
        for number in range(1, 4):
            peer.write(request(number, b"body"))
            for _ in range(20):
                await asyncio.sleep(0)
        assert session.reads == [[0]]
        assert not session.channel._transport.is_reading()
        session.handled = True
        assert [(await peer.receive()).opaque for _ in range(3)] == [1, 2, 3]
        await until(session.channel._transport.is_reading)


@pytest.mark.parametrize("end", ["end of tls", "invalid tls", "garbage"])
async def test_requests_of_a_delayed_client_are_handled_after_it_closed(end: str) -> None:
    async with serving(Overloaded, tls=TlsOptions()) as running:
        peer = await running.connect(context=trusting() if "tls" in end else None)
        await peer.ask(0, b"body")
        (session,) = running.sessions
        assert isinstance(session, Overloaded)
        session.handled = False
        session.channel._transport.pause_reading()  # so that all of it is one read
        peer.write(*(request(number, b"body") for number in range(1, 4)))
        if end == "end of tls":
            peer.writer.close()
        for _ in range(20):
            await asyncio.sleep(0)
        if end != "end of tls":
            os.write(peer.writer.get_extra_info("socket").fileno(), BAD[0])
        session.channel._transport.resume_reading()
        await until(lambda: bool(session.channel._waiting) or session.closings > 0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (session.reads, session.closings) == ([[0]], 0)
        session.handled = True
        await until(lambda: session.closings == 1)
        assert session.reads == [[0], [1, 2, 3]]
        assert running.server.counters.protocol_errors == (end != "end of tls")
        peer.writer.transport.abort()


async def test_too_much_unsent_in_all_ends_the_connection_that_has_most_of_it() -> None:
    async with serving(Flood, **(SMALL | {"unsent": SYSTEM}), unsent_in_all=2 * SYSTEM) as running:
        lazy = [await running.connect() for _ in range(4)]
        for number, peer in enumerate(lazy):
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            peer.write(request(SYSTEM - 1000 + number))
            await until(lambda: sum(len(session.reads) for session in running.sessions) > number)  # noqa: B023
        await until(lambda: running.server.counters.cut > 0)
        await until(lambda: sum(session.closings for session in running.sessions) == running.server.counters.cut)
        assert running.server.counters.cut < 4
        assert running.server.shared.unsent == sum(channel.unsent for channel in running.server.channels) <= 2 * SYSTEM
        for peer in lazy:
            peer.writer.transport.abort()
        await until(lambda: not running.server.channels)
        assert running.server.shared.unsent == 0


async def test_a_client_that_reads_late_gets_everything_and_is_read_from_again() -> None:
    async with serving(Flood, **SMALL) as running:
        late = await running.connect()
        late.writer.transport.pause_reading()  # type: ignore[attr-defined]
        late.write(request(SYSTEM))
        await until(lambda: bool(running.sessions) and running.sessions[0].channel._limits.state is State.BEHIND)
        late.write(request(5))
        late.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len((await late.receive()).body) == SYSTEM
        assert len((await late.receive()).body) == 5
        assert running.server.counters.cut == 0


async def test_questions_come_to_the_session_a_few_at_a_time_and_no_more_while_the_client_is_behind() -> None:
    async with serving(Flood, behind=65_536, unsent=SYSTEM, questions=4) as running:
        peer = await running.connect()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.write(*(request(SYSTEM // 8 - number) for number in range(20)))
        await until(lambda: bool(running.sessions) and running.sessions[0].channel._limits.state is State.BEHIND)
        for _ in range(10):
            await asyncio.sleep(0)
        session = running.sessions[0]
        behind = sum(map(len, session.reads))
        assert behind < 20
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(20):
            assert len((await peer.receive()).body) == SYSTEM // 8 - number
        assert max(map(len, session.reads)) == 4
        assert (await peer.ask(3)).body == bytes(3)


async def test_after_small_answers_the_session_gets_more_questions_at_once() -> None:
    async with serving(Flood, behind=16 * SYSTEM, unsent=32 * SYSTEM, small=1000) as running:
        peer = await running.connect()

        async def handed_over(*sizes: int) -> list[int]:
            """How many questions came together, for answers of these sizes."""
            before = len(running.sessions[0].reads) if running.sessions else 0
            peer.write(*map(request, sizes))
            for size in sizes:
                assert len((await peer.receive()).body) == size
            return [len(read) for read in running.sessions[0].reads[before:]]

        assert await handed_over(*[1] * 14) == [4, 8, 2], "at first nothing is known about the answers"
        assert await handed_over(*[5000] * 17) == [8, 4, 4, 1]
        assert await handed_over(*[1] * 13) == [4, 8, 1]


async def test_frames_with_a_body_do_not_count_as_questions() -> None:
    async with serving(questions=2, small_questions=2) as running:
        peer = await running.connect()
        frames = [request(opaque, b"" if opaque % 10 == 0 else b"body") for opaque in range(60)]
        peer.write(*frames)
        assert [(await peer.receive()).opaque for _ in frames] == list(range(60))
        assert running.sessions[0].reads == [list(range(20)), list(range(20, 40)), list(range(40, 60))]


@pytest.mark.parametrize("context", [None, trusting()], ids=["plain", "tls"])
async def test_a_sender_that_drips_is_cut_off(context: ssl.SSLContext | None) -> None:
    async with serving(tls=TlsOptions(), frame=0.05) as running:
        peer = await running.connect(context=context)
        await peer.ask(1)
        for byte in request(2, bytes(2000)).encode():  # for some seconds, if it were not cut off
            if running.sessions[0].closings:
                break
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(0.002)
        assert running.sessions[0].closings == 1
        assert running.server.counters.cut == 1
        await peer.rest()


async def test_a_silent_client_makes_room_before_a_busy_one_whose_reads_end_within_frames() -> None:
    async with serving(connections=2) as running:
        busy = await running.connect()
        frame = request(1, b"body").encode()
        busy.writer.write(frame[:10])
        await until(lambda: running.server.shared.unfinished == 10)
        silent = await running.connect()
        await until(lambda: len(running.server.channels) == 2)
        busy.writer.write(frame[10:] + frame[:7])
        await busy.receive()
        third = await running.connect()
        assert (await third.ask(1)).opaque == 1
        busy.writer.write(frame[7:])
        assert (await busy.receive()).opaque == 1
        assert await silent.rest() == b""


async def test_half_a_tls_record_is_no_activity() -> None:
    async with serving(tls=TlsOptions()) as running:
        peer = await running.connect(context=trusting())
        await peer.ask(1)
        channel = running.sessions[0].channel
        active_at = channel._limits._active_at
        channel.data_received(bytes.fromhex("17 0303 1000 00"))
        assert channel._limits._active_at == active_at
        peer.writer.transport.abort()


# --- TLS --------------------------------------------------------------------------------------------------------------


async def test_plain_and_tls_at_one_port() -> None:
    async with serving(tls=TlsOptions()) as running:
        plain, secret = await running.connect(), await running.connect(context=trusting())
        body = os.urandom(700_000)
        for peer in (plain, secret):
            assert (await peer.ask(1, body)).body == body
        assert [session.channel.tls for session in running.sessions] == [False, True]
        secret.writer.close()
        await until(lambda: running.sessions[1].closings == 1)
    assert running.server.counters.protocol_errors == 0


async def test_the_server_ends_tls_in_order() -> None:
    class Last(NotingSession):
        def answer(self, command: RemotingCommand) -> None:
            super().answer(command)
            self.channel.close()

    async with serving(Last, tls=TlsOptions()) as running:
        peer = await running.connect(context=trusting())
        await peer.ask(1, b"body")
        assert await peer.reader.read() == b""


@pytest.mark.parametrize(("mode", "context"), [("disabled", trusting()), ("enforcing", None)])
async def test_connections_that_the_tls_mode_does_not_allow_are_closed(
    mode: Any, context: ssl.SSLContext | None
) -> None:
    async with serving(tls=TlsOptions(mode=mode)) as running:
        try:
            peer = await running.connect(context=context)
            peer.write(request(1))
            assert await peer.rest() == b""
        except (ConnectionError, ssl.SSLError):
            pass
        assert running.server.counters.protocol_errors == 1
        assert not running.sessions


async def test_enforcing_takes_tls() -> None:
    async with serving(tls=TlsOptions(mode="enforcing")) as running:
        peer = await running.connect(context=trusting())
        assert (await peer.ask(1)).opaque == 1


async def test_half_a_hello_is_closed_when_its_time_is_over() -> None:
    async with serving(tls=TlsOptions(), handshake=0.02) as running:
        peer = await running.connect()
        peer.writer.write(bytes.fromhex("16 0301 0200 010001fc 0303"))
        assert len(await peer.rest()) < 10
        assert running.server.counters.protocol_errors == 1
        assert not running.sessions


async def test_a_connection_with_invalid_tls_is_closed() -> None:
    async with serving(tls=TlsOptions()) as running:
        peer = await running.connect()
        peer.writer.write(b"\x16" * 100)
        assert len(await peer.rest()) < 10
        assert running.server.counters.protocol_errors == 1


async def test_garbage_within_tls_is_closed() -> None:
    async with serving(tls=TlsOptions()) as running:
        peer = await running.connect(context=trusting())
        peer.writer.write(BAD[0])
        assert await peer.rest() == b""
        assert running.server.counters.protocol_errors == 1


# --- Idle connections -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [b"", GOLDEN[0]])
async def test_a_connection_without_any_traffic_is_closed(first: bytes) -> None:
    async with serving(idle=0.02) as running:
        peer = await running.connect()
        peer.writer.write(first)
        await peer.rest()
        await until(lambda: not running.server.channels)
        assert running.server.counters.idle == 1
        assert all(session.closings == 1 for session in running.sessions)

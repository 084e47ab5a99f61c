"""Listening, limits that hold for all connections together, and stopping in order."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable

import pytest
import uvloop

from broker_core.remoting.remoting_command import MAX_FRAME, RemotingCommand
from broker_core.server.remoting_server import CannotServe, RemotingServer
from broker_core.server.tls import TlsOptions
from tests.fakes.ports import unused_ports
from tests.fakes.remoting_peer import NotingSession, request, serving, until

SLOTS = 200


async def test_every_port_serves_requests() -> None:
    async with serving() as running:
        for port in running.ports:
            peer = await running.connect(port=port)
            assert (await peer.ask(1)).opaque == 1
        assert running.server.counters.accepted == 2


async def test_a_taken_port_is_refused_with_a_sentence_and_closes_the_others() -> None:
    first, taken = unused_ports(2)
    with socket.create_server(("127.0.0.1", taken)):
        server = RemotingServer(NotingSession, "127.0.0.1", [first, taken])
        with pytest.raises(CannotServe, match=f"^Port {taken} of .* is taken.*listenPort={first + 10}$"):
            await server.start()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", first))


async def test_an_address_that_is_not_ours_is_a_sentence() -> None:
    server = RemotingServer(NotingSession, "192.0.2.1", unused_ports(1), tls=TlsOptions(mode="disabled"))
    with pytest.raises(CannotServe, match=r"^Nothing can listen on 192\.0\.2\.1:"):
        await server.start()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_ports_can_be_bound_before_clients_are_served(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(first_to_listen_serves())


async def first_to_listen_serves() -> None:
    [port] = unused_ports(1)
    first, second = (
        RemotingServer(NotingSession, "127.0.0.1", [port], tls=TlsOptions(mode="disabled")) for _ in range(2)
    )
    await first.bind()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)
    await first.start()
    with pytest.raises(CannotServe, match="is taken"):
        await second.start()
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await first.stop()


async def test_ports_that_were_only_bound_are_released() -> None:
    [port] = unused_ports(1)
    server = RemotingServer(NotingSession, "127.0.0.1", [port], tls=TlsOptions(mode="disabled"))
    await server.bind()
    await server.stop()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))


async def test_a_certificate_that_cannot_be_used_is_a_sentence() -> None:
    server = RemotingServer(NotingSession, "127.0.0.1", unused_ports(1), tls=TlsOptions(cert_path="/nowhere"))
    with pytest.raises(CannotServe, match="tlsCertPath"):
        await server.start()


async def test_a_connection_beyond_the_limit_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(connections=2) as running:
        first, second = await running.connect(), await running.connect()
        await first.ask(1)
        await second.ask(1)
        third = await running.connect()
        assert await third.rest() == b""
        assert running.server.counters.refused == 1
        assert len(running.sessions) == 2
        first.writer.close()
        await until(lambda: len(running.server.channels) == 1)
        fourth = await running.connect()
        assert (await fourth.ask(1)).opaque == 1
        assert (await second.ask(2)).opaque == 2
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("first", ["nothing", "part", "whole and part"])
async def test_others_are_served_while_slow_senders_have_every_place(first: str) -> None:
    frame = request(1, b"body").encode()
    async with serving(connections=SLOTS) as running:
        attackers = [await running.connect() for _ in range(SLOTS)]
        for attacker in attackers:
            if first == "whole and part":
                await attacker.ask(1)
            attacker.writer.write(frame[: 0 if first == "nothing" else 9])
        await until(lambda: running.server.shared.unfinished == (0 if first == "nothing" else 9 * SLOTS))
        others = [await running.connect() for _ in range(20)]
        for number, peer in enumerate(others):
            assert (await peer.ask(number)).opaque == number
        assert (running.server.counters.cut, running.server.counters.refused) == (20, 0)
        for peer in attackers + others:
            peer.writer.transport.abort()


async def test_frames_that_never_become_whole_have_a_bound_over_all_connections() -> None:
    frame = request(1, bytes(MAX_FRAME - 1000)).encode()
    async with serving(unfinished=1_000_000) as running:
        small, large = await running.connect(), await running.connect()
        small.writer.write(frame[:1000])
        await until(lambda: running.server.shared.unfinished == 1000)
        large.writer.write(frame[:-1])
        await large.rest()
        await until(lambda: running.server.shared.unfinished == 1000)
        assert running.server.counters.cut == 1
        assert len(running.server.channels) == 1


async def test_stopping_sends_what_is_unsent() -> None:
    body = os.urandom(5_000_000)
    async with serving() as running:
        peer = await running.connect()
        peer.write(request(1))
        await peer.receive()
        session = running.sessions[0]
        session.channel.send(request(2, body).encode())
        running.server.stop_listening()
        with pytest.raises(ConnectionError):
            await running.connect()
        session.channel.send(request(3).encode())
        stopping = asyncio.create_task(running.server.stop())
        assert (await peer.receive()).body == body
        assert (await peer.receive()).opaque == 3
        assert await peer.rest() == b""
        await stopping
        assert session.closings == 1


async def test_stopping_does_not_wait_for_clients_that_do_not_read() -> None:
    class Flood(NotingSession):
        def answer(self, command: RemotingCommand) -> None:
            self.channel.send(command.response(0, body=bytes(MAX_FRAME - 1000)).encode())

    async with serving(Flood, last_replies=0.02) as running:
        peer = await running.connect()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        peer.write(request(1))
        await until(lambda: bool(running.sessions) and bool(running.sessions[0].reads))
        await running.server.stop()
        await until(lambda: running.sessions[0].closings == 1)
        assert not running.server.channels
        peer.writer.transport.abort()


async def test_a_server_can_be_stopped_without_connections_and_twice() -> None:
    async with serving() as running:
        await running.server.stop()
        await running.server.stop()

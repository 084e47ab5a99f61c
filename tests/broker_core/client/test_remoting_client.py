import asyncio
from typing import Any

import pytest

from broker_core.client import remoting_client
from broker_core.client.remoting_client import RemotingClient
from broker_core.remoting.remoting_command import RemotingCommand
from tests.fakes.ports import unused_ports
from tests.fakes.remoting_peer import NotingSession, Serving, serving, until

FIELDS = {"a": "b"}


def client_of(running: Serving) -> RemotingClient:
    return RemotingClient("127.0.0.1", running.ports[0])


class Silent(NotingSession):
    """Answers nothing."""

    def answer(self, command: RemotingCommand) -> None:
        pass


class Backwards(NotingSession):
    """Answers the first of two requests after the second, and asks something of its own between them."""

    def __init__(self, channel: object) -> None:
        super().__init__(channel)  # type: ignore[arg-type]
        self.first: RemotingCommand | None = None

    def answer(self, command: RemotingCommand) -> None:
        if self.first is None:
            self.first = command
            return
        super().answer(command)
        self.channel.send(RemotingCommand.request(40, {}, opaque=self.first.opaque).encode())
        super().answer(self.first)


class Garbage(NotingSession):
    def answer(self, command: RemotingCommand) -> None:
        self.channel.send(command.response(0, body=b"last").encode() + b"\xff" * 20 if command.body else b"\xff" * 20)


async def test_calls_share_one_connection() -> None:
    async with serving() as running:
        client = client_of(running)
        answers = await asyncio.gather(*(client.invoke(10, FIELDS, str(n).encode()) for n in range(20)))
        assert [answer.body for answer in answers] == [str(n).encode() for n in range(20)]
        assert len(running.sessions) == 1 and client.connected
        await client.close()
        assert not client.connected
        await until(lambda: running.sessions[0].closings == 1)


async def test_answers_come_in_any_order() -> None:
    async with serving(Backwards) as running:
        client = client_of(running)
        one, two = await asyncio.gather(client.invoke(10, FIELDS, b"1"), client.invoke(10, FIELDS, b"2"))
        assert (one.body, two.body) == (b"1", b"2")
        await client.close()


async def test_one_way_requests_are_not_answered() -> None:
    async with serving(Silent) as running:
        client = client_of(running)
        await client.oneway(10, FIELDS)
        await until(lambda: bool(running.sessions and running.sessions[0].reads))
        await client.close()


async def test_no_answer_in_time_ends_the_connection_and_the_next_call_makes_another() -> None:
    async with serving(Silent) as running:
        client = client_of(running)
        other = asyncio.ensure_future(client.invoke(10, FIELDS, timeout_s=60))
        await until(lambda: bool(running.sessions and running.sessions[0].reads))
        with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
            await client.invoke(10, FIELDS, timeout_s=0.01)
        with pytest.raises(ConnectionError, match="no answer within"):
            await other
        await client.oneway(10, FIELDS)
        await until(lambda: len(running.sessions) == 2 and bool(running.sessions[1].reads))
        await client.close()


async def test_a_server_that_goes_away() -> None:
    async with serving(Silent) as running:
        client = client_of(running)
        await client.wait_closed()
        call = asyncio.ensure_future(client.invoke(10, FIELDS, timeout_s=60))
        await until(lambda: bool(running.sessions and running.sessions[0].reads))
        ended = asyncio.ensure_future(client.wait_closed())
        running.sessions[0].channel.close()
        with pytest.raises(ConnectionError, match="the server closed the connection"):
            await call
        await ended
        with pytest.raises(ConnectionError):
            client._connection.write(RemotingCommand.request(1, {}, opaque=1))  # type: ignore[union-attr]


class Truncating(NotingSession):
    """Answers with a part of a frame, and goes away."""

    def answer(self, command: RemotingCommand) -> None:
        self.channel.send(command.response(0, body=command.body).encode()[:-3])
        self.channel.close()


async def test_an_answer_that_ends_in_the_middle_is_none() -> None:
    async with serving(Truncating) as running:
        client = client_of(running)
        with pytest.raises(ConnectionError):
            await client.invoke(10, FIELDS, b"a body", timeout_s=60)
        await client.close()


class Twice(NotingSession):
    """Answers every request twice, but keeps a late one."""

    late: RemotingCommand

    def answer(self, command: RemotingCommand) -> None:
        if command.body == b"late":
            self.late = command
            return
        super().answer(command)
        super().answer(command)


async def test_answers_that_nobody_waits_for_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Twice) as running:
        client = client_of(running)
        call = asyncio.ensure_future(client.invoke(10, FIELDS, b"late", timeout_s=60))
        await until(lambda: bool(running.sessions and running.sessions[0].reads))
        call.cancel()
        for _ in range(3):
            await client.invoke(10, FIELDS)
        session = running.sessions[0]
        assert isinstance(session, Twice)
        NotingSession.answer(session, session.late)
        await until(lambda: client.unmatched_answers == 4)
        assert caplog.text.count("that nobody waits for") == 1
        await client.close()


async def test_a_call_that_is_late_ends_no_connection_on_which_others_are_answered() -> None:
    async with serving(Twice) as running:
        client = client_of(running)
        await client.invoke(10, FIELDS, timeout_s=60)
        late = asyncio.ensure_future(client.invoke(10, FIELDS, b"late", timeout_s=1))
        await asyncio.sleep(0)  # it is sent
        await client.invoke(10, FIELDS, timeout_s=60)
        with pytest.raises(TimeoutError, match="no answer within"):
            await late
        assert client.connected and len(running.sessions) == 1
        await client.close()


async def test_requests_of_the_server_are_answered() -> None:
    async with serving(Silent) as running:
        asked: list[int] = []

        def on_request(request: RemotingCommand) -> RemotingCommand | None:
            asked.append(request.code)
            if request.code == 40:
                return None
            return request.response(0, body=b"info" if request.code == 307 else bytes(17 << 20))

        client = RemotingClient("127.0.0.1", running.ports[0], on_request)
        await client.oneway(10, FIELDS)
        await until(lambda: bool(running.sessions and running.sessions[0].reads))
        session = running.sessions[0]
        received: list[RemotingCommand] = []
        session.receive = received.extend  # type: ignore[method-assign]
        for code in (40, 307, 308):
            session.channel.send(RemotingCommand.request(code, {}, opaque=code).encode())
        session.channel.send(RemotingCommand.request(307, {}, opaque=1, oneway=True).encode())
        await until(lambda: len(asked) == 4 and len(received) == 2)
        assert [(answer.opaque, answer.code, answer.body) for answer in received] == [(307, 0, b"info"), (308, 1, b"")]
        await client.close()


async def test_calls_wait_for_a_server_that_does_not_read() -> None:
    async with serving() as running:
        client = client_of(running)
        await client.invoke(10, FIELDS)
        assert client._connection is not None
        client._connection.pause_writing()
        with pytest.raises(TimeoutError, match="has not read what was sent"):
            await client.invoke(10, FIELDS, timeout_s=0.01)
        waiting = client.begin(10, FIELDS, b"x", timeout_s=60)
        await asyncio.sleep(0)
        assert running.sessions[0].reads == [[1]]
        client._connection.resume_writing()
        assert (await waiting).body == b"x"
        await client.close()


async def test_a_call_is_begun_without_a_task_when_the_connection_is_open() -> None:
    async with serving() as running:
        client = client_of(running)
        first = client.begin(10, FIELDS, b"1", timeout_s=60)
        assert isinstance(first, asyncio.Task) and (await first).body == b"1"
        second = client.begin(10, FIELDS, b"2", timeout_s=60)
        assert not isinstance(second, asyncio.Task) and (await second).body == b"2"
        await client.close()


async def test_a_refused_connection_is_an_error() -> None:
    client = RemotingClient("127.0.0.1", unused_ports(1)[0])
    with pytest.raises(ConnectionRefusedError):
        await client.invoke(10, FIELDS)
    await client.close()


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no such host", 1), ("a" * 64 + ".b", 1)])
async def test_an_address_that_cannot_be(host: str, port: int) -> None:
    with pytest.raises(OSError):  # noqa: PT011  # the system's own words
        await RemotingClient(host, port).invoke(10, FIELDS)


async def test_a_server_that_never_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(remoting_client, "CONNECT_SECONDS", 0.01)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    with pytest.raises(TimeoutError, match=r"no connection within 0\.01 s"):
        await RemotingClient("127.0.0.1", 1).invoke(10, FIELDS)


async def test_all_calls_share_an_attempt_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    async def never(*_: object) -> None:
        attempts.append(1)
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    client = RemotingClient("127.0.0.1", 1)
    with pytest.raises(TimeoutError, match=r"no connection within 0\.01 s"):
        await client.invoke(10, FIELDS, timeout_s=0.01)
    calls = [asyncio.create_task(client.invoke(10, FIELDS)) for _ in range(5)]
    calls[0].cancel()
    await asyncio.sleep(0)
    await client.close()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, *[ConnectionError] * 4]
    assert len(attempts) == 1
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("connect to")]


async def test_a_failed_attempt_to_connect_is_repeated_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as running:
        client = client_of(running)

        async def refuse(*_: object) -> None:
            raise ConnectionRefusedError

        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", refuse)
        results = await asyncio.gather(*(client.invoke(10, FIELDS) for _ in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionRefusedError] * 3
        monkeypatch.undo()
        assert (await client.invoke(10, FIELDS, b"x")).body == b"x"
        await client.close()


async def test_a_server_of_something_else() -> None:
    async with serving(Garbage) as running:
        client = client_of(running)
        assert (await client.invoke(10, FIELDS, b"x")).body == b"last"
        with pytest.raises(ConnectionError, match="does not speak RocketMQ's protocol"):
            await client.invoke(10, FIELDS)


async def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remoting_client, "MAX_CALLS", 0)
    async with serving() as running:
        client = client_of(running)
        with pytest.raises(OSError, match="0 calls wait"):
            await client.invoke(10, FIELDS)
        monkeypatch.setattr(remoting_client, "MAX_CALLS", 1)
        with pytest.raises(OSError, match="longer than"):
            await client.invoke(10, FIELDS, bytes(17 << 20))
        assert (await client.invoke(10, FIELDS, b"x")).body == b"x"
        await client.close()


class _CountingTransport:
    """A transport that notes how long each write is."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.writes: list[int] = []

    def write(self, data: bytes) -> None:
        self.writes.append(len(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_the_requests_of_a_turn_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remoting_client, "TURN_BYTES", 1000)
    async with serving() as running:
        client = client_of(running)
        await client.invoke(10, FIELDS)
        connection: Any = client._connection
        connection._transport = counting = _CountingTransport(connection._transport)
        await client.invoke(10, FIELDS)
        assert len(counting.writes) == 1
        counting.writes.clear()
        await asyncio.gather(*(client.invoke(10, FIELDS, b"%d" % n) for n in range(10)))
        assert len(counting.writes) == 3  # the first two at once, the others together
        counting.writes.clear()
        waiting = client.begin(10, FIELDS, timeout_s=60)
        for n in range(100):
            await client.oneway(11, FIELDS, b"%d" % n)  # which never yields
        assert len(counting.writes) > 5 and max(counting.writes) < 1200  # what waits has a limit
        await waiting
        await until(lambda: client.unmatched_answers == 100)  # this server answers one-way requests too
        await client.close()

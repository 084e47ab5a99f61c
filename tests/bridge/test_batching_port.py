import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from bridge import wire
from bridge.batching_port import BatchingPort
from bridge.limits import Limits
from bridge.port import NotFoundError, PortTimeout, PortUnavailable, RequestError, UnavailableError
from bridge.transport import TransportFull, TransportLost
from broker_core.codes import ResponseCode
from broker_core.commands import (
    NOTICE_ID,
    CancelPull,
    CloseConnection,
    Command,
    ConsumerIdsChanged,
    Done,
    Failed,
    GetBroker,
    GetTopics,
    Held,
    Notice,
    OutgoingMessage,
    PopMessage,
    PullMessage,
    Reply,
    SendMessage,
)
from tests.fakes.clock import VirtualClock
from tests.fakes.fake_engine import QUICK, FakeEngine, NotingWatcher, delta

PULL = PullMessage(topic="t", queue_id=0, queue_offset=0, suspend_timeout_ms=15_000)
POP = PopMessage(topic="t", consumer_group="g", poll_ms=15_000)
SEND = SendMessage(topic="t", messages=[OutgoingMessage(body=b"x" * 1000)])


def silent(command: Command) -> Reply | None:
    return None


@asynccontextmanager
async def started(
    engine: FakeEngine,
    limits: Limits = QUICK,
    clock: VirtualClock | None = None,
) -> AsyncIterator[BatchingPort]:
    port = BatchingPort(engine, limits=limits, clock=clock)
    await port.start()
    try:
        yield port
    finally:
        await port.stop()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def call_soon(port: BatchingPort, command: Command | None = None) -> "asyncio.Task[Reply]":
    return asyncio.create_task(port.call(command or GetBroker()))


async def test_commands_gather_while_a_send_is_under_way() -> None:
    engine = FakeEngine()
    async with started(engine) as port:
        engine.gate.clear()
        calls = [call_soon(port) for _ in range(3)]
        await engine.until(lambda: len(engine.batches) == 1)
        calls += [call_soon(port) for _ in range(5)]
        await asyncio.sleep(0)
        engine.gate.set()
        assert await asyncio.gather(*calls) == [Done()] * 8
        request_ids = [[request_id for _, request_id, _, _ in batch.requests] for batch in engine.batches]
        assert request_ids == [[1, 2, 3], [4, 5, 6, 7, 8]]
        assert [batch.number for batch in engine.batches] == [1, 2]


async def test_a_batch_is_limited() -> None:
    engine = FakeEngine()
    async with started(engine, msgspec.structs.replace(QUICK, batch_count=4, batch_bytes=3000)) as port:
        await asyncio.gather(*(port.call(GetTopics()) for _ in range(10)))
        assert [len(batch.requests) for batch in engine.batches] == [4, 4, 2]
        engine.batches.clear()
        await asyncio.gather(*(port.call(SEND) for _ in range(4)))
        assert [len(batch.requests) for batch in engine.batches] == [3, 1]


async def test_failed_becomes_the_corresponding_error() -> None:
    engine = FakeEngine(lambda command: Failed(code=ResponseCode.TOPIC_NOT_EXIST, remark="no", kind="not_found"))
    async with started(engine) as port:
        with pytest.raises(NotFoundError) as caught:
            await port.call(GetTopics())
        assert caught.value.code == ResponseCode.TOPIC_NOT_EXIST


NO_ROOM = Failed(code=ResponseCode.SYSTEM_BUSY, remark="full", kind="no_room", retry_after_ms=1)


async def test_readers_whose_answers_find_no_room_ask_again_until_there_is_some() -> None:
    room = 0

    def limited(command: Command) -> Reply | None:
        nonlocal room
        if not isinstance(command, PullMessage):
            return Done()
        room -= 1
        return Done() if room >= 0 else NO_ROOM

    engine = FakeEngine(limited)
    async with started(engine) as port:
        readers = [call_soon(port, PULL) for _ in range(20)]
        await engine.until(lambda: room < -30)
        assert not any(reader.done() for reader in readers)
        room = 100
        assert await asyncio.gather(*readers) == [Done()] * 20


async def test_a_repeated_pull_that_is_held_lets_other_readers_read() -> None:
    """Its messages may be gone meanwhile. Then it waits for the next message, and no longer for room."""
    answers: list[Reply] = [NO_ROOM, NO_ROOM, Held(hold_id=1, deadline_ms=1), Done()]
    engine = FakeEngine(lambda command: answers.pop(0) if isinstance(command, PullMessage) else Done())
    holds: list[Held] = []
    async with started(engine) as port:
        readers = [asyncio.create_task(port.connection().call(PULL, on_held=holds.append)) for _ in range(2)]
        done, waiting = await asyncio.wait(readers, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert [reader.result() for reader in done] == [Done()] and len(holds) == len(waiting) == 1
        (number, request_id, _, _) = engine.batches[1].requests[0]
        answers += [NO_ROOM, Done()]
        engine.say((number, request_id, NO_ROOM))
        async with asyncio.timeout(60):
            assert await asyncio.gather(*waiting) == [Done()]


async def test_a_reader_that_finds_no_room_in_time_gives_up() -> None:
    limits = msgspec.structs.replace(QUICK, room_wait_ms=20)
    async with started(FakeEngine(lambda command: NO_ROOM), limits) as port:
        with pytest.raises(UnavailableError, match="full"):
            await port.connection().call(PULL)


async def test_a_lost_reply_is_a_time_out() -> None:
    async with started(FakeEngine(silent)) as port:
        with pytest.raises(PortTimeout):
            await port.call(SEND, timeout_ms=1)


async def test_the_deadline_is_sent_with_the_command() -> None:
    engine, clock = FakeEngine(), VirtualClock()
    async with started(engine, clock=clock) as port:
        await port.call(PULL)
        await port.call(POP)
        await port.call(SEND)
        deadlines = [deadline - clock.now().wall_ms for batch in engine.batches for _, _, deadline, _ in batch.requests]
        assert deadlines == [25_000, 25_000, 10_000]


@pytest.mark.parametrize(
    "end",
    [
        lambda call: call.cancel(),
        lambda call: None,  # its deadline
    ],
)
@pytest.mark.parametrize("command", [PULL, POP], ids=["pull", "pop"])
async def test_what_may_be_held_and_is_abandoned_is_cancelled_at_the_engine(
    end: Callable[["asyncio.Task[Reply]"], None], command: Command
) -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        connection = port.connection()
        call = asyncio.create_task(connection.call(command, request_id=7, timeout_ms=50))
        await engine.until(lambda: len(engine.batches) == 1)
        end(call)
        with pytest.raises((asyncio.CancelledError, PortTimeout)):
            await call
        await engine.until(lambda: len(engine.batches) == 2)
        ((number, request_id, _, cancel),) = engine.batches[1].requests
        assert (number, request_id, cancel) == (connection.number, 0, CancelPull(request_id=7))


async def test_a_call_that_was_cancelled_before_it_was_sent_is_not_sent() -> None:
    engine = FakeEngine()
    async with started(engine) as port:
        engine.gate.clear()
        first = call_soon(port)
        await engine.until(lambda: len(engine.batches) == 1)
        second = asyncio.create_task(port.connection().call(PULL))
        await asyncio.sleep(0)
        second.cancel()
        engine.gate.set()
        await first
        await call_soon(port, GetTopics())
        assert engine.commands == [GetBroker(), GetTopics()]


async def test_an_answer_after_the_cancellation_is_ignored() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        connection = port.connection()
        call = asyncio.create_task(connection.call(PULL, request_id=7))
        await engine.until(lambda: len(engine.batches) == 1)
        call.cancel()
        engine.say((connection.number, 7, Done()), (99, 1, Done()))
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_closing_ends_the_calls_and_is_reported_once() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        connection, unused = port.connection(), port.connection()
        calls = [asyncio.create_task(connection.call(PULL)) for _ in range(2)]
        await engine.until(lambda: len(engine.batches) == 1)
        connection.close()
        connection.close()
        unused.close()
        for call in calls:
            with pytest.raises(PortUnavailable):
                await call
        await engine.until(lambda: len(engine.batches) == 2)
        assert engine.batches[1].closed == [connection.number]
        assert engine.batches[1].requests == []
        with pytest.raises(PortUnavailable):
            await connection.call(GetBroker())


async def test_a_close_that_cannot_be_sent_is_sent_later() -> None:
    engine = FakeEngine()
    async with started(engine) as port:
        connection = port.connection()
        await connection.call(GetBroker())
        engine.error = TransportFull()
        connection.close()
        await engine.until(lambda: len(engine.batches) == 3)  # tried again with a sign of life
        engine.error = None
        seen = len(engine.batches)
        await engine.until(lambda: len(engine.batches) > seen)
        assert engine.batches[-1].closed == [connection.number]


async def test_close_connection_cannot_be_called() -> None:
    async with started(FakeEngine()) as port:
        with pytest.raises(RequestError):
            await port.connection().call(CloseConnection())


@pytest.mark.parametrize("error", [TransportFull(), TransportLost("gone"), OSError("broken")])
async def test_a_full_or_broken_transport_is_unavailable(error: Exception) -> None:
    engine = FakeEngine()
    async with started(engine) as port:
        engine.error = error
        with pytest.raises(PortUnavailable) as caught:
            await port.call(SEND)
        assert caught.value.retry_after_ms > 0
        engine.error = None
        assert await port.call(SEND) == Done()


@pytest.mark.parametrize(
    "limits", [msgspec.structs.replace(QUICK, waiting_count=3), msgspec.structs.replace(QUICK, waiting_bytes=4200)]
)
async def test_waiting_calls_are_limited_and_cancelled_ones_make_room(limits: Limits) -> None:
    engine = FakeEngine()
    async with started(engine, limits) as port:
        engine.gate.clear()
        calls = [call_soon(port, SEND)]
        await engine.until(lambda: len(engine.batches) == 1)
        calls += [call_soon(port, SEND) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(PortUnavailable):
            await port.call(SEND)
        calls.pop().cancel()
        await asyncio.sleep(0)
        calls.append(call_soon(port, SEND))
        await asyncio.sleep(0)
        engine.gate.set()
        assert await asyncio.gather(*calls) == [Done()] * 4


async def test_the_time_of_the_last_answer_stays_while_the_engine_is_silent() -> None:
    clock = VirtualClock()
    assert BatchingPort(FakeEngine(silent), clock=clock).answered_ms is None
    engine = FakeEngine(silent)
    async with started(engine, clock=clock) as port:
        answered_ms = clock.now().wall_ms
        assert port.answered_ms == answered_ms
        clock.advance(60_000)
        assert port.answered_ms == answered_ms


async def test_open_calls_are_limited() -> None:
    engine = FakeEngine(silent)
    async with started(engine, msgspec.structs.replace(QUICK, calls=2)) as port:
        calls = [call_soon(port) for _ in range(2)]
        await engine.until(lambda: len(engine.commands) == 2)
        with pytest.raises(PortUnavailable):
            await port.call(GetBroker())
        for call in calls:
            call.cancel()


async def test_the_bytes_of_open_calls_are_limited() -> None:
    engine = FakeEngine(silent)
    async with started(engine, msgspec.structs.replace(QUICK, call_bytes=3000)) as port:
        for _ in range(3):
            calls = [call_soon(port, SEND) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(PortUnavailable):
                await port.call(SEND)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


async def test_the_port_waits_for_the_last_replies_of_a_stopping_engine() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        await port.last_replies()  # nothing is open
        call = call_soon(port, PULL)
        await engine.until(lambda: len(engine.batches) == 1)
        waiting = asyncio.create_task(port.last_replies())
        await asyncio.sleep(0)
        assert not waiting.done()
        engine.say((0, engine.batches[0].requests[0][1], Done()), leaving=True)
        await waiting
        assert await call == Done()
        await port.last_replies()  # it has left


async def test_the_wait_for_the_last_replies_is_limited() -> None:
    engine = FakeEngine(silent)
    async with started(engine, msgspec.structs.replace(QUICK, drain_ms=5)) as port:
        call = call_soon(port, PULL)
        await engine.until(lambda: len(engine.batches) == 1)
        await port.last_replies()
        call.cancel()


async def test_a_command_larger_than_a_message_is_the_callers_fault() -> None:
    async with started(FakeEngine(), msgspec.structs.replace(QUICK, message_bytes=1500)) as port:
        with pytest.raises(RequestError):
            await port.call(SEND)


async def test_a_request_id_in_use_is_refused() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        connection = port.connection()
        call = asyncio.create_task(connection.call(PULL, request_id=1))
        await engine.until(lambda: len(engine.batches) == 1)
        with pytest.raises(RequestError):
            await connection.call(PULL, request_id=1)
        call.cancel()


async def test_a_hold_is_reported_before_the_answer() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        connection = port.connection()
        reported: list[Held] = []
        call = asyncio.create_task(connection.call(PULL, request_id=1, on_held=reported.append))
        await engine.until(lambda: len(engine.batches) == 1)
        held = Held(hold_id=5, deadline_ms=9)
        engine.say((connection.number, 1, held))
        assert reported == [held]
        assert not call.done()
        engine.say((connection.number, 1, Done()))
        assert await call == Done()


async def test_a_failing_on_held_callback_does_not_affect_the_answer() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        connection = port.connection()
        call = asyncio.create_task(connection.call(PULL, request_id=1, on_held=lambda held: 1 / 0))  # type: ignore[arg-type,return-value]
        await engine.until(lambda: len(engine.batches) == 1)
        engine.say((connection.number, 1, Held(hold_id=5, deadline_ms=9)), (connection.number, 1, Done()))
        assert await call == Done()


async def test_a_notice_reaches_its_connection() -> None:
    engine, notice = FakeEngine(silent), ConsumerIdsChanged(group="g")
    async with started(engine) as port:
        connection, other, deaf = port.connection(), port.connection(), port.connection()
        heard: list[Notice] = []
        connection.on_notice = heard.append
        other.on_notice = lambda notice: 1 / 0  # type: ignore[assignment,return-value]
        engine.say(*((number, NOTICE_ID, notice) for number in (other.number, deaf.number, 999, connection.number)))
        assert heard == [notice]
        connection.close()
        engine.say((connection.number, NOTICE_ID, notice))
        assert heard == [notice]


async def test_an_answer_with_the_notice_id_is_not_a_notice() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        connection = port.connection()
        heard: list[Notice] = []
        connection.on_notice = heard.append
        engine.say((connection.number, NOTICE_ID, Done()))
        assert heard == []


async def test_after_a_restart_older_calls_end_and_newer_ones_continue() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        pull, send = call_soon(port, PULL), call_soon(port, SEND)
        await engine.until(lambda: len(engine.commands) == 2)
        later = call_soon(port, GetTopics())
        await engine.until(lambda: len(engine.batches) == 2)
        engine.first, engine.epoch = 2, 2  # the first batch was lost with the engine before
        engine.say()
        with pytest.raises(PortUnavailable):
            await pull
        with pytest.raises(PortTimeout):  # nobody knows whether it was stored
            await send
        engine.say((0, engine.batches[1].requests[0][1], Done()))
        assert await later == Done()


async def test_a_silent_engine_is_away_until_its_next_message() -> None:
    engine, clock, watcher = FakeEngine(silent), VirtualClock(), NotingWatcher()
    async with started(engine, clock=clock) as port:
        port.watch(watcher, deltas=True)
        pull = call_soon(port, PULL)
        await engine.until(lambda: len(engine.batches) == 1)
        engine.alive = False
        clock.advance(QUICK.engine_silence_ms + 1)
        with pytest.raises(PortUnavailable):
            await pull
        with pytest.raises(PortUnavailable):
            await port.call(GetBroker())
        assert len(watcher.lost) == 1
        engine.alive, engine.answer = True, lambda command: Done()
        await watcher.until(lambda: len(watcher.lost) == 2)
        assert await port.call(GetBroker()) == Done()


async def test_a_refused_call_says_how_long_the_engine_has_been_silent() -> None:
    engine, clock = FakeEngine(), VirtualClock()
    async with started(engine, clock=clock) as port:
        engine.alive = False
        for silence_s in (60, 120):
            clock.advance(60_000)
            sent = len(engine.alives)
            await engine.until(lambda sent=sent: len(engine.alives) > sent + 1)  # type: ignore[misc]
            with pytest.raises(PortUnavailable, match=f"has not answered for {silence_s} s"):
                await port.call(GetBroker())


async def test_without_an_engine_calls_are_refused_at_once() -> None:
    engine = FakeEngine(alive=False)
    async with started(engine, msgspec.structs.replace(QUICK, start_wait_ms=1)) as port:
        with pytest.raises(PortUnavailable):
            await port.call(GetBroker())
    assert engine.byes == 1


async def test_a_stopping_engine_is_noticed() -> None:
    engine, watcher = FakeEngine(silent), NotingWatcher()
    async with started(engine) as port:
        port.watch(watcher, events=True)
        call = call_soon(port, PULL)
        await engine.until(lambda: len(engine.batches) == 1)
        engine.alive = False
        engine.say((0, 1, Done()), leaving=True)
        assert await call == Done()
        assert watcher.lost
        with pytest.raises(UnavailableError):
            await port.call(GetBroker())


async def test_a_lost_connection_ends_sent_calls() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        call = call_soon(port, PULL)
        await engine.until(lambda: len(engine.batches) == 1)
        engine.on_lost("cut")
        with pytest.raises(PortUnavailable, match="cut"):
            await call


async def test_a_pop_whose_answer_is_lost_may_have_been_executed() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        call = call_soon(port, POP)
        await engine.until(lambda: len(engine.batches) == 1)
        engine.on_lost("cut")
        with pytest.raises(PortTimeout, match="may or may not have been executed"):
            await call


async def test_stopping_ends_every_call() -> None:
    engine = FakeEngine(silent)
    async with started(engine) as port:
        calls = [call_soon(port, PULL) for _ in range(3)]
        await engine.until(lambda: len(engine.commands) == 3)
        await port.stop()
        for call in calls:
            with pytest.raises(PortUnavailable):
                await call


async def test_malformed_messages_are_counted_and_ignored() -> None:
    engine = FakeEngine()
    async with started(engine) as port:
        engine.on_message(b"\xc1nonsense")
        assert port.malformed == 1
        assert await port.call(GetBroker()) == Done()


async def test_watching_is_reported_at_once() -> None:
    engine, watcher = FakeEngine(), NotingWatcher()
    async with started(engine, msgspec.structs.replace(QUICK, alive_ms=60_000)) as port:
        assert [(alive.deltas, alive.events) for alive in engine.alives] == [(False, False)]
        end = port.watch(watcher, deltas=True)
        await engine.until(lambda: len(engine.alives) == 2)
        engine.say(deltas=(delta(1, 3),))
        assert watcher.deltas == [delta(1, 3)]
        end()
        await engine.until(lambda: len(engine.alives) == 3)
        assert [(alive.deltas, alive.events) for alive in engine.alives[1:]] == [(True, False), (False, False)]
        engine.say(deltas=(delta(4, 4),))
        assert len(watcher.deltas) == 1


async def test_the_heartbeat_contains_the_number_of_sent_batches() -> None:
    engine = FakeEngine()
    async with started(engine) as port:
        await port.call(GetBroker())
        await port.call(GetBroker())
        seen = len(engine.alives)
        await engine.until(lambda: len(engine.alives) > seen)
        assert isinstance(engine.alives[-1], wire.Alive)
        assert engine.alives[-1].number == 2

import asyncio
from pathlib import Path

import msgspec
import pytest

from bridge import wire
from bridge.engine_host import EngineHost
from bridge.event_fanout import EventFanout
from bridge.limits import Limits
from broker_core.clock import SystemClock
from broker_core.commands import (
    CancelPull,
    Done,
    Failed,
    GetBroker,
    GetConsumerRunningInfo,
    GetSnapshot,
    Held,
    Pulled,
    Sent,
    Snapshot,
)
from broker_core.server.engine_runner import MAX_QUESTIONS
from tests.bridge.conftest import new_host, pull, send, until
from tests.fakes.engine import context_of
from tests.fakes.fake_engine import QUICK
from tests.fakes.fake_web import FAR, NotingLink, Web
from tests.fakes.following import empty_copy


@pytest.fixture
def link() -> NotingLink:
    return NotingLink()


@pytest.fixture
def web(host: EngineHost, link: NotingLink) -> Web:
    return Web(host, link)


async def test_a_hold_does_not_delay_other_commands(web: Web) -> None:
    web.ask((0, 1, send()), (5, 1, pull(1, report_hold=True)), (0, 2, GetBroker()))
    assert isinstance(await web.answer(0, 1), Sent)
    await web.answer(0, 2)
    assert await web.holds() == 1
    web.ask((0, 3, send(b"more")))
    pulled = await web.answer(5, 1)
    assert isinstance(pulled, Pulled)
    assert pulled.hold is not None
    assert pulled.hold.wake_cause == "arrival"
    assert isinstance(web.link.replies()[5, 1][0], Held)


async def test_a_command_received_after_its_deadline_is_not_executed(web: Web) -> None:
    now_ms = SystemClock().now().wall_ms
    web.ask((0, 1, send()), deadline_ms=now_ms - QUICK.clock_grace_ms - 1)
    late = await web.answer(0, 1)
    assert isinstance(late, Failed)
    assert late.kind == "unavailable"
    web.ask((0, 2, send()), deadline_ms=now_ms - 1)  # within what clocks may differ
    assert isinstance(await web.answer(0, 2), Sent)


async def test_closed_connections_release_their_holds(web: Web) -> None:
    web.ask((0, 1, send()))
    web.ask((5, 1, pull(1)), (5, 2, pull(1)), (6, 1, pull(1)))
    assert await web.holds() == 3
    web.ask(closed=(5, 77))
    assert await web.holds() == 1
    web.ask((6, 2, CancelPull(request_id=1)))
    assert await web.answer(6, 2) == Done()
    assert isinstance(await web.answer(6, 1), Failed)


async def test_a_web_process_that_says_good_bye_is_removed(host: EngineHost, web: Web, link: NotingLink) -> None:
    other = Web(host, link, "other")
    web.ask((0, 1, send()))
    other.ask((5, 1, pull(1)))
    assert await web.holds() == 1
    host.receive(wire.encode_to_engine(wire.Bye("other")), link)
    host.receive(wire.encode_to_engine(wire.Bye("nobody")), link)
    assert await web.holds() == 0


async def test_a_silent_web_process_is_removed(tmp_path: Path, link: NotingLink) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, peer_silence_ms=300))
    await host.start()
    web, dead = Web(host, link), Web(host, link, "dead")
    web.ask((0, 1, send()))
    dead.ask((5, 1, pull(1)))
    assert await web.holds() == 1
    holds = context_of(host.runner.engine).holds
    async with asyncio.timeout(60):
        while len(holds):
            web.alive()
            await asyncio.sleep(0.02)
    assert isinstance(await web.answer(0, 1), Sent)
    dead.ask((5, 2, GetBroker()))  # it was only asleep: what it asked before is lost, and it is told so
    await dead.answer(5, 2)
    assert link.messages["dead"][-1].first == 2
    await host.stop()


async def test_replies_contain_the_first_batch_that_reached_this_engine(web: Web) -> None:
    web.number = 41
    web.alive()
    await until(lambda: bool(web.link.messages))
    assert [message.first for message in web.link.messages["web"]] == [42]
    web.ask((0, 1, GetBroker()))
    await web.answer(0, 1)
    assert web.link.messages["web"][-1].first == 42


async def test_web_processes_are_removed_with_their_link(host: EngineHost, web: Web) -> None:
    other_link = NotingLink()
    other = Web(host, other_link, "other")
    web.ask((0, 1, send()), (5, 1, pull(1)))
    other.ask((5, 1, pull(1)))
    assert await web.holds() == 2
    host.link_lost(other_link)
    assert await web.holds() == 1


async def test_a_web_process_on_another_link_is_a_new_one(host: EngineHost, web: Web) -> None:
    web.ask((0, 1, send()), (5, 1, pull(1)))
    assert await web.holds() == 1
    again = Web(host, NotingLink())
    again.number = web.number
    assert await again.holds() == 0


async def test_malformed_messages_are_counted_and_ignored(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    for data in (b"", b"\xc1", b"nonsense"):
        web.host.receive(data, web.link)
    assert web.host.malformed == 3
    strange = msgspec.Raw(msgspec.msgpack.encode({"t": "BrewCoffee"}))
    web.host.receive(wire.encode_to_engine(wire.EncodedRequests("web", "web", 1, [], [(0, 1, FAR, strange)])), web.link)
    assert isinstance(await web.answer(0, 1), Failed)


async def test_stopping_answers_the_holds_and_is_reported(tmp_path: Path, link: NotingLink) -> None:
    host = new_host(tmp_path / "store")
    await host.start()
    web = Web(host, link)
    web.ask((0, 1, send()), *((5, number, pull(1)) for number in range(1, 501)))
    while await web.holds() < 500:  # they take some turns
        pass
    await host.stop()
    answer = await web.answer(5, 1)
    assert isinstance(answer, Pulled)
    assert answer.hold is not None
    assert answer.hold.wake_cause == "shutdown"
    assert [message.leaving for message in link.messages["web"]][-1]
    assert [message.leaving for message in link.messages["web"]].count(True) == 1
    web.ask((0, 2, GetBroker()))  # too late: nobody is there
    assert (0, 2) not in link.replies()


async def test_deltas_and_events_are_sent_to_their_watchers(host: EngineHost, web: Web, link: NotingLink) -> None:
    idle = Web(host, link, "idle")
    idle.alive()
    web.alive(deltas=True, events=True)
    web.ask((0, 1, send()), (5, 1, pull(1)))
    await until(lambda: any(message.deltas for message in link.messages.get("web", [])))
    (first,) = [delta for message in link.messages["web"] for delta in message.deltas][:1]
    assert [hold.pull_from_offset for hold in first.holds_added] == [1]
    events = [event for message in link.messages["web"] for batch in message.events for event in batch.events]
    assert "pull_held" in [kind for _, kind, _ in events]
    assert not any(message.deltas or message.events for message in link.messages["idle"])
    assert host.runner.engine.events._listeners
    web.alive()
    assert not host.runner.engine.events._listeners


async def test_watching_ends_with_the_last_watcher(host: EngineHost, web: Web) -> None:
    log = host.runner.engine.events
    idle = len(log._recorders), len(log._listeners)
    web.alive(deltas=True, events=True)
    assert (len(log._recorders), len(log._listeners)) == (idle[0] + 1, idle[1] + 1)
    host.link_lost(web.link)
    assert (len(log._recorders), len(log._listeners)) == idle


async def test_a_snapshot_makes_the_fan_out_exact_until_it_is_answered(host: EngineHost, web: Web) -> None:
    web.ask((0, 1, GetSnapshot()))
    assert host.fanout._snapshots == 1
    assert isinstance(await web.answer(0, 1), Snapshot)
    assert host.fanout._snapshots == 0


async def test_a_refused_snapshot_does_not_change_the_fan_out(host: EngineHost, web: Web) -> None:
    web.ask(*((5, number, GetSnapshot()) for number in range(1, MAX_QUESTIONS + 2)))
    assert isinstance(await web.answer(5, MAX_QUESTIONS + 1), Failed)
    assert isinstance(await web.answer(5, MAX_QUESTIONS), Snapshot)
    assert host.fanout._snapshots == 0


async def test_a_closed_connections_snapshot_requests_are_dropped(host: EngineHost, web: Web) -> None:
    web.ask((0, 1, GetSnapshot()), (5, 1, GetSnapshot()), (5, 2, GetSnapshot()), closed=(5,))
    assert host.fanout._snapshots == 1
    await web.answer(0, 1)
    assert host.fanout._snapshots == 0


async def test_a_removed_web_processs_snapshot_requests_are_dropped(host: EngineHost, web: Web) -> None:
    other = Web(host, web.link, "other")
    other.ask((0, 1, GetSnapshot()), (5, 1, GetSnapshot()))
    web.ask((0, 1, GetSnapshot()))
    host.receive(wire.encode_to_engine(wire.Bye("other")), web.link)
    assert host.fanout._snapshots == 1
    assert isinstance(await web.answer(0, 1), Snapshot)
    assert await web.holds() == 0  # what the other one had asked for has had its turn
    assert host.fanout._snapshots == 0


async def test_a_pause_of_the_loop_does_not_count_as_silence(tmp_path: Path, link: NotingLink) -> None:
    class Jumping(SystemClock):
        ahead_ns = 0

        def mono_ns(self) -> int:
            return super().mono_ns() + self.ahead_ns

    clock = Jumping()
    host = new_host(tmp_path / "store", Limits(alive_ms=20, peer_silence_ms=1000), clock)
    await host.start()
    web = Web(host, link)
    web.alive()
    clock.ahead_ns = 5_000_000_000  # everything stood still for 5 s
    jumped_ns = clock.mono_ns()
    await until(lambda: host._checked_ns > jumped_ns)
    web.ask((0, 1, GetBroker()))
    await web.answer(0, 1)
    assert link.messages["web"][-1].first == 1
    await host.stop()


async def test_a_question_to_clients_is_answered_by_the_follower(link: NotingLink) -> None:
    asked: list[GetConsumerRunningInfo] = []

    class Asked:
        """A follower that only answers questions."""

        def start(self) -> None: ...

        async def stop(self) -> None: ...

        async def running_info(self, command: GetConsumerRunningInfo) -> Failed:
            asked.append(command)
            return Failed(code=1, kind="unavailable", remark="ask later")

    async with empty_copy() as copy:
        host = EngineHost(copy.runner, SystemClock(), QUICK, follower=Asked())  # type: ignore[arg-type]
        host.fanout = EventFanout(copy.runner.engine, SystemClock(), QUICK, lambda _delta, _events: None)
        host._accepting = True
        web = Web(host, link)
        web.ask((0, 1, GetConsumerRunningInfo(group="g")))
        reply = await web.answer(0, 1)
    assert asked == [GetConsumerRunningInfo(group="g")] and isinstance(reply, Failed) and reply.remark == "ask later"


async def test_a_broker_without_a_port_for_clients_asks_none(web: Web) -> None:
    web.ask((0, 1, GetConsumerRunningInfo(group="g")))
    reply = await web.answer(0, 1)
    assert isinstance(reply, Failed) and "no port for RocketMQ clients" in reply.remark

import asyncio
from pathlib import Path

import msgspec
import pytest

from bridge import wire
from bridge.engine_host import EngineHost
from bridge.transport import TransportFull
from bridge.web_process import PROCESS_SHARE
from broker_core.commands import (
    NOTICE_ID,
    ConsumedDirectly,
    ConsumerIdsChanged,
    Done,
    Failed,
    GetBroker,
    GetTopics,
    PopMessage,
    Popped,
    Pulled,
    RelayToConsumer,
    Reply,
    Topics,
)
from broker_core.formats.commit_log_record import decode_all
from broker_core.server.delayed_commands import DelayedCommands
from broker_core.server.engine_runner import MAX_QUESTIONS, Connection
from tests.bridge.conftest import new_host, pull, send, until
from tests.fakes.engine import context_of
from tests.fakes.fake_engine import QUICK
from tests.fakes.fake_web import NotingLink, Web


@pytest.fixture
def link() -> NotingLink:
    return NotingLink()


@pytest.fixture
def web(host: EngineHost, link: NotingLink) -> Web:
    return Web(host, link)


async def test_replies_of_one_turn_are_one_message_and_later_ones_gather(web: Web) -> None:
    web.ask(*((0, number, GetBroker()) for number in range(1, 11)))
    await web.answer(0, 10)
    assert len(web.link.messages["web"]) == 1
    web.link.gate.clear()
    web.ask((0, 11, GetBroker()))
    for number in range(12, 20):
        await asyncio.sleep(0.001)
        web.ask((0, number, GetBroker()))
    web.link.gate.set()
    await web.answer(0, 19)
    assert len(web.link.messages["web"]) <= 3


async def test_notices_are_sent_and_unrequested_replies_are_not(host: EngineHost, web: Web) -> None:
    web.ask((5, 1, GetBroker()))
    await web.answer(5, 1)
    process = host._processes["web"]
    connection, notice = process.connection(5), ConsumerIdsChanged(group="g")
    process.sink([(connection, 0, Done()), (connection, NOTICE_ID, notice)])
    assert await web.answer(5, NOTICE_ID) == notice
    assert (5, 0) not in web.link.replies()


async def test_a_clients_answer_is_the_reply_and_few_are_waited_for(
    host: EngineHost, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed = ConsumedDirectly(result="CR_SUCCESS", remark="", spent_ms=1, order=False)
    gate = asyncio.Event()

    async def ask_client(sessions: object, relay: RelayToConsumer) -> Reply:
        await gate.wait()
        return consumed

    monkeypatch.setattr("bridge.engine_host.consume_message_directly", ask_client)
    monkeypatch.setattr("bridge.engine_host.MAX_RELAYS", 1)
    web.ask((5, 1, GetBroker()))
    await web.answer(5, 1)
    process = host._processes["web"]
    relay = RelayToConsumer(
        group="g", client_id="c", version=493, message_id="M", topic="T", record=b"r", timeout_ms=1000
    )
    process.sink([(process.connection(5), 2, relay), (process.connection(5), 3, relay)])
    refused = await web.answer(5, 3)
    assert isinstance(refused, Failed) and "ask again later" in refused.remark
    gate.set()
    assert await web.answer(5, 2) == consumed
    process.sink([(process.connection(5), 4, relay)])
    assert await web.answer(5, 4) == consumed, "there is room again"


async def test_a_repeated_batch_is_executed_once(web: Web) -> None:
    web.ask((0, 1, send()))
    web.ask((0, 1, send()), number=1)
    web.ask((0, 2, pull(0, wait_ms=0)))
    pulled = await web.answer(0, 2)
    assert isinstance(pulled, Pulled)
    assert pulled.max_offset == 1
    assert len(web.link.replies()[0, 1]) == 1


async def test_http_callers_together_may_have_more_questions_open_than_one_client(host: EngineHost, web: Web) -> None:
    web.ask(
        *((wire.PROCESS, number, GetTopics()) for number in range(1, MAX_QUESTIONS + 11)),
        *((5, number, GetTopics()) for number in range(1, MAX_QUESTIONS + 2)),
    )
    for number in range(1, MAX_QUESTIONS + 11):
        assert isinstance(await web.answer(wire.PROCESS, number), Topics)
    assert isinstance(await web.answer(5, MAX_QUESTIONS + 1), Failed)


async def test_http_callers_together_have_a_larger_share_of_a_busy_engine_than_one_client(
    host: EngineHost, web: Web
) -> None:
    web.ask((5, 1, GetBroker()))
    await web.answer(5, 1)
    http, websocket = map(host._processes["web"].connection, (wire.PROCESS, 5))
    clients = [http, websocket, Connection(list.clear)]
    delayed = DelayedCommands()
    delayed.add([(client, number, send()) for client in clients for number in range(100)], 0, 0)
    batch, _ = delayed.take(lambda _: 1, 2 * (PROCESS_SHARE + 2), 0, {})
    taken = [connection for connection, _, _ in batch]
    assert [taken.count(client) for client in clients] == [2 * PROCESS_SHARE, 2, 2]


async def test_a_web_process_that_does_not_read_is_cut_off(tmp_path: Path, link: NotingLink) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, reply_count=10))
    await host.start()
    web, slow = Web(host, NotingLink()), Web(host, link, "slow")
    link.gate.clear()
    web.ask((0, 1, send()))
    slow.ask((5, 1, pull(1)), *((0, number, GetBroker()) for number in range(1, 13)))
    await until(lambda: host.processes_cut_off == 1)
    assert link.was_cut
    assert await web.holds() == 0
    await host.stop()


async def test_too_many_waiting_replies_refuse_messages_not_answers(tmp_path: Path, link: NotingLink) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, reply_bytes=50_000))
    await host.start()
    web = Web(host, link)
    web.ask((0, 1, send(b"x" * 20_000)))
    await web.answer(0, 1)
    link.gate.clear()
    web.ask(*((0, number, pull(0, wait_ms=0)) for number in range(2, 8)), (0, 8, GetBroker()))
    await asyncio.sleep(0)
    link.gate.set()
    await web.answer(0, 8)
    answers = [await web.answer(0, number) for number in range(2, 8)]
    assert [type(answer) for answer in answers] == [Pulled] * 2 + [Failed] * 4
    await host.stop()


POP = PopMessage(topic="t", consumer_group="g", max_msg_nums=1)


async def test_a_pop_without_room_for_its_answer_gives_its_message_back(tmp_path: Path, link: NotingLink) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, reply_bytes=20_000))
    await host.start()
    web, points = Web(host, link), context_of(host.runner.engine).check_points
    web.ask(*((0, number, send(b"x" * 5000)) for number in range(1, 10)))
    await web.answer(0, 9)
    link.gate.clear()
    web.ask(*((0, number, POP) for number in range(11, 20)), (0, 20, GetBroker()))
    await asyncio.sleep(0)
    link.gate.set()
    await web.answer(0, 20)
    popped = [answer for number in range(11, 20) if isinstance(answer := await web.answer(0, number), Popped)]
    assert 0 < len(popped) < 9
    await until(lambda: points.messages == len(popped))
    attempts = []
    for number in range(30, 39 - len(popped)):
        web.ask((0, number, POP))
        rest = await web.answer(0, number)
        assert isinstance(rest, Popped)
        attempts += [record.reconsume_times for record in decode_all(rest.records)]
    assert attempts == [0] * (9 - len(popped))
    await host.stop()


async def test_a_pop_does_not_begin_while_too_many_replies_wait(tmp_path: Path, link: NotingLink) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, reply_bytes=1))
    await host.start()
    web, engine = Web(host, link), host.runner.engine
    link.gate.clear()
    for number in (1, 2):  # the first reply is on its way, the second one waits
        web.ask((0, number, GetBroker()))
        await until(lambda number=number: host.runner.handled == number)  # type: ignore[misc]
        await asyncio.sleep(0)
    web.ask((0, 3, POP))
    link.gate.set()
    refused = await web.answer(0, 3)
    assert isinstance(refused, Failed) and refused.kind == "no_room" and engine.counters.pulls_received == 0
    await host.stop()


async def test_sending_to_a_full_reply_channel_is_tried_again(web: Web) -> None:
    web.link.errors = [TransportFull(), OSError("a moment of weakness")]
    web.ask((0, 1, GetBroker()))
    await web.answer(0, 1)
    assert web.host.batches_dropped == 0


@pytest.mark.parametrize("stuck", [True, False])
async def test_replies_that_cannot_be_sent_are_dropped_after_a_while(
    tmp_path: Path, link: NotingLink, stuck: bool
) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, reply_retry_ms=20))
    await host.start()
    web = Web(host, link)
    if stuck:
        link.gate.clear()
    link.errors = [TransportFull() for _ in range(50)]
    web.ask((0, 1, GetBroker()))
    await until(lambda: host.batches_dropped == 1)
    assert host.replies_dropped == 1
    link.errors = []
    link.gate.set()
    web.ask((0, 2, GetBroker()))
    await web.answer(0, 2)
    await host.stop()


async def test_a_web_process_is_removed_with_its_link(web: Web) -> None:
    web.link.errors = [ConnectionResetError("gone")]
    web.ask((5, 1, GetBroker()))
    await until(lambda: web.host.processes_cut_off == 1)


async def test_deltas_for_a_slow_web_process_are_limited(tmp_path: Path, link: NotingLink) -> None:
    limits = msgspec.structs.replace(QUICK, delta_ms=1, heartbeat_ms=1, delta_backlog=3)
    host = new_host(tmp_path / "store", limits)
    await host.start()
    web, quick = Web(host, link, "slow"), Web(host, NotingLink())
    link.gate.clear()
    web.alive(deltas=True)
    quick.alive(deltas=True)
    await until(lambda: len([delta for message in quick.link.messages.get("web", []) for delta in message.deltas]) > 10)
    link.gate.set()
    await until(lambda: bool(link.messages.get("slow")))
    assert max(len(message.deltas) for message in link.messages["slow"]) <= 3
    await host.stop()


async def test_a_reply_that_cannot_be_encoded_becomes_an_error(web: Web) -> None:
    web.alive()
    process = web.host._processes["web"]
    process.put(1, 1, Failed(code=1, remark="\udce9 is no text", kind="request"))
    answer = await web.answer(1, 1)
    assert isinstance(answer, Failed)
    assert answer.kind == "store"


async def test_nothing_is_queued_for_a_removed_process(web: Web) -> None:
    web.alive()
    process = web.host._processes["web"]
    web.host.cut_off(process, "a test")
    web.host.cut_off(process, "a test")
    process.put(1, 1, Failed(code=1, remark="", kind="request"))
    assert web.host.processes_cut_off == 1
    await process.pump.finish(10_000)
    assert web.link.messages == {}


async def test_a_reply_larger_than_a_message_becomes_an_error(tmp_path: Path, link: NotingLink) -> None:
    host = new_host(tmp_path / "store", msgspec.structs.replace(QUICK, message_bytes=20_000))
    await host.start()
    web = Web(host, link)
    web.ask((0, 1, send(b"x" * 15_000)))
    web.ask((0, 2, pull(0, wait_ms=0)))
    refused = await web.answer(0, 2)
    assert isinstance(refused, Failed)
    assert refused.kind == "request"
    assert "request less" in refused.remark
    await host.stop()

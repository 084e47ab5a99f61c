"""What a broker and its clients answer when a person asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.clock import SystemClock
from broker_core.codes import RequestCode
from broker_core.commands import MessageQueue
from broker_core.remoting import fastjson
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import Identity
from broker_core.server import consumer_questions
from broker_core.server.attach.cluster_client import ClusterClient
from broker_core.server.attach.engine_calls import EngineCalls
from broker_core.server.attach.slave_synchronize import SlaveSynchronize
from broker_core.server.broker_session import BrokerSessions
from broker_core.server.consumer_questions import ConsumerQuestions, OwnConsumerQuestions
from broker_core.verdicts.judge import judge
from tests.bridge.conftest import new_host
from tests.fakes.fake_master import FakeMaster, fake_master
from tests.fakes.followed import blocks_of, log_of, master
from tests.fakes.following import Copy, empty_copy
from tests.fakes.remoting import HEARTBEAT


def process_queue(queue_id: int, consumed_ms: int, cached: int = 4, broker: str = "broker-a") -> dict[Any, Any]:
    queue = MessageQueue(topic="orders", broker_name=broker, queue_id=queue_id)
    entry = {"cachedMsgCount": cached, "commitOffset": 3, "lastConsumeTimestamp": consumed_ms, "locked": False}
    return {queue: entry | {"lastPullTimestamp": consumed_ms + 1, "droped": False}}


def running(*tables: dict[Any, Any]) -> dict[str, Any]:
    table = {queue: entry for one in tables for queue, entry in one.items()}
    return {"mqTable": table, "properties": {"PROP_CLIENT_VERSION": "V5_4_0", "namesrvAddr": "n:1"}}


async def ask(leader: FakeMaster, copy: Copy, **fields: Any) -> c.Reply:
    client = ClusterClient(leader.address)
    try:
        questions = ConsumerQuestions(client, copy.calls, SystemClock(), "broker-a")
        return await questions.answer(leader.address, c.GetConsumerRunningInfo(group="g", **fields))
    finally:
        await client.close()


async def infos(leader: FakeMaster, copy: Copy, **fields: Any) -> c.ConsumerRunningInfos:
    reply = await ask(leader, copy, **fields)
    assert isinstance(reply, c.ConsumerRunningInfos), reply
    return reply


async def test_a_client_with_messages_that_it_does_not_commit_is_found() -> None:
    now_ms = SystemClock().now().wall_ms
    async with fake_master(master(60)) as leader, empty_copy() as copy:
        leader.members, leader.offsets = {"g": ["c1", "c2"]}, {"orders@g": {0: 3, 1: 5}}
        leader.pulled = {"orders@g": {0: 7, 1: 5}}
        old = now_ms - 50_000
        leader.running = {"c1": running(process_queue(0, old), process_queue(0, old, broker="another"))}
        client = ClusterClient(leader.address)
        await copy.calls.call(c.GetLogEnd())
        for block in blocks_of(log_of(leader.bench)):
            await copy.calls.call(
                c.AppendToCommitLog(offset=block.offset, data=block.data, store_timestamp=block.store_timestamp)
            )
        tables = SlaveSynchronize(client, copy.calls, SystemClock())
        await tables.synchronize(leader.address)
        await client.close()
        answer = await infos(leader, copy)
        assert [one.client_id for one in answer.clients] == ["c1", "c2"] and answer.members == 2
        (queue,) = answer.clients[0].queues
        assert (queue.topic, queue.queue_id, queue.cached, queue.consumed_ms) == ("orders", 0, 4, old)
        assert "(1)" in answer.clients[1].problem and answer.clients[1].queues == []
        assert {(one.queue_id, one.offset, one.pull_offset) for one in answer.queues} == {(0, 3, 7), (1, 5, 5)}
        facts = await copy.calls.call(c.GetGroupFacts(group="g"))
        (verdict,) = (one for one in judge([facts]).verdicts if one.id == "listener_blocked")
    assert "4 messages handed to c1" in verdict.sentence and verdict.evidence["client_id"] == "c1"
    assert 49_000 <= verdict.evidence["stands_still_ms"] <= 80_000


async def test_stacks_are_asked_of_one_client_only() -> None:
    async with fake_master(master(1)) as leader, empty_copy() as copy:
        leader.members, leader.running = {"g": ["c1", "c2"]}, {"c1": running(), "c2": running()}
        (one,) = (await infos(leader, copy, client_id="c2", stacks=True)).clients
        assert (one.client_id, one.stacks) == ("c2", "main\n\tat Listener")
        assert one.properties == {"PROP_CLIENT_VERSION": "V5_4_0"}
        assert [client.stacks for client in (await infos(leader, copy, stacks=True)).clients] == [None, None]
        nobody = await ask(leader, copy, client_id="c3")
        assert isinstance(nobody, c.Failed) and nobody.kind == "not_found" and "no member of group g" in nobody.remark


async def test_clients_and_queues_of_an_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_questions, "CLIENTS", 3)
    monkeypatch.setattr(consumer_questions, "QUEUES", 2)
    async with fake_master(master(1)) as leader, empty_copy() as copy:
        leader.members, leader.offsets = {"g": ["c1", "c2", "c3", "c4"]}, {"orders@g": {0: 1, 1: 1, 2: 1}}
        answer = await infos(leader, copy)
    assert (answer.members, len(answer.clients), answer.queues_total, len(answer.queues)) == (4, 3, 3, 2)
    assert leader.codes.count(RequestCode.GET_CONSUMER_RUNNING_INFO) == 3


async def test_a_client_that_does_not_answer_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_questions, "ALL_S", 0.0)
    async with fake_master(master(1)) as leader, empty_copy() as copy:
        leader.members = {"g": ["c1"]}
        (client,) = (await infos(leader, copy)).clients
    assert "was not asked" in client.problem and RequestCode.GET_CONSUMER_RUNNING_INFO not in leader.codes


async def test_a_group_without_members_has_no_clients() -> None:
    async with fake_master(master(1)) as leader, empty_copy() as copy:
        answer = await infos(leader, copy)
    assert (answer.members, answer.clients) == (0, [])


async def test_a_refusal_and_a_broker_that_is_away_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_master(master(1)) as leader, empty_copy() as copy:
        leader.answers[RequestCode.GET_CONSUME_STATS] = 26, b""
        unknown = await ask(leader, copy)
        leader.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = 16, b""
        refused = await ask(leader, copy)
        assert isinstance(unknown, c.Failed) and unknown.kind == "not_found"
        assert isinstance(refused, c.Failed) and refused.kind == "unavailable" and "(16)" in refused.remark
        leader.address = "127.0.0.1:1"
        away = await ask(leader, copy)
        leader.address = ""
        assert isinstance(away, c.Failed) and away.kind == "unavailable"
        assert away.remark.startswith("127.0.0.1:1 does not answer: ")


async def test_only_few_questions_are_under_way_at_a_time() -> None:
    async with fake_master(master(1)) as leader, empty_copy() as copy:
        client = ClusterClient(leader.address)
        questions = ConsumerQuestions(client, copy.calls, SystemClock(), "broker-a")
        command = c.GetConsumerRunningInfo(group="g")
        replies = await asyncio.gather(
            *(questions.answer(leader.address, command) for _ in range(consumer_questions.QUESTIONS + 1))
        )
        assert [type(reply) for reply in replies].count(c.Failed) == 1
        assert isinstance(await questions.answer(leader.address, command), c.ConsumerRunningInfos)
        assert isinstance(await questions.answer("", command), c.Failed)
        await client.close()


# --- a broker with a store of its own ---------------------------------------------------------------------------------


class Member:
    """The channel of a client that answers what it has, after ``silent`` questions without an answer."""

    remote_host, remote_port = "10.0.0.2", 40_000

    def __init__(self, sessions: BrokerSessions, silent: int = 0) -> None:
        self.silent = silent
        self.joined = asyncio.Event()
        self.session = sessions.make_session(self)
        self.session.receive([RemotingCommand.request(34, {}, HEARTBEAT, opaque=1)])

    def send(self, data: bytes) -> None:
        (command,) = FrameDecoder().feed(data)
        if command.is_response:
            self.joined.set()
        elif command.code == RequestCode.GET_CONSUMER_RUNNING_INFO and not self.silent:
            body = fastjson.encode(running(process_queue(0, 5)))
            self.session.receive([command.response(0, "", {}, body)])
        elif command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            self.silent -= 1


@asynccontextmanager
async def own_broker(folder: Path) -> AsyncIterator[tuple[BrokerSessions, OwnConsumerQuestions]]:
    host = new_host(folder)
    await host.start()
    sessions = BrokerSessions(host.runner, Identity("broker-a", 0))
    try:
        yield sessions, OwnConsumerQuestions(sessions, SystemClock(), "::", 10911)
    finally:
        await host.stop()


async def test_a_broker_asks_itself_without_a_port(tmp_path: Path) -> None:
    async with own_broker(tmp_path) as (sessions, own):
        member = Member(sessions)
        await member.joined.wait()
        answer = await own.running_info(c.GetConsumerRunningInfo(group="g"))
        assert isinstance(answer, c.ConsumerRunningInfos), answer
        assert (answer.source, answer.broker, answer.members) == ("[::1]:10911", "broker-a", 1)
        (client,) = answer.clients
        assert (client.client_id, client.problem) == ("10.0.0.2@1", "")
        assert [(queue.topic, queue.cached, queue.consumed_ms) for queue in client.queues] == [("orders", 4, 5)]
        clients = await EngineCalls(sessions.runner).call(c.GetClients())  # type: ignore[arg-type]
        assert [one.client_id for one in clients.clients] == ["10.0.0.2@1"], "no connection is left"


async def test_a_member_of_the_own_broker_that_does_not_answer_has_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_questions, "CLIENT_S", 0.01)
    async with own_broker(tmp_path) as (sessions, own):
        member = Member(sessions, silent=1)
        await member.joined.wait()
        answer = await own.running_info(c.GetConsumerRunningInfo(group="g"))
        assert isinstance(answer, c.ConsumerRunningInfos)
        assert [client.problem for client in answer.clients] == ["no answer within 0.01 s"]

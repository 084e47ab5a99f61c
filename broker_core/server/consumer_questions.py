"""Questions about a group that a broker and its clients answer now, because a person asked.

    broker  --> who is in the group                       (GET_CONSUMER_LIST_BY_GROUP)
    broker  --> committed offsets, and those of pulls     (GET_CONSUME_STATS)
    broker  --> client: what it has, its stacks           (GET_CONSUMER_RUNNING_INFO, which the broker passes on)

A follower asks the broker that it follows. A broker with a store of its own asks itself by the same requests, without
a socket. The answers about a followed broker also go to the engine, so that its verdicts know which client has messages
without committing them.
"""

import asyncio
from collections.abc import Mapping
from itertools import islice
from typing import Any

from broker_core.client.mq_client_exception import MQBrokerException, MQClientException
from broker_core.clock import Clock
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import (
    ConsumerRunningInfo,
    ConsumerRunningInfos,
    Failed,
    GetConsumerRunningInfo,
    MessageQueue,
    ProcessQueueInfo,
    PulledQueue,
    ReplicatedPull,
    ReplicatePulls,
    Reply,
)
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.server.attach.cluster_client import ClusterClient, by_queue
from broker_core.server.attach.engine_calls import EngineCalls, EngineRefused
from broker_core.server.broker_session import BrokerSession, BrokerSessions
from broker_core.tasks import end_task, start_task

QUESTIONS = 2
"""How many questions may be under way at a time."""
CLIENTS = 50
CLIENTS_AT_A_TIME = 4
"""A broker has few threads that wait for clients."""
CLIENT_S = 5.0
ALL_S = 9.0
"""Clients that were not asked within this time are not asked."""
QUEUES = 2000
QUEUES_A_TURN = 100
STACK_CHARACTERS = 1 << 20
PROPERTIES = 50
LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address that stands for all of this machine, in an answer."""


class ConsumerQuestions:
    """The questions under way at one broker."""

    def __init__(self, cluster: ClusterClient, engine: EngineCalls | None, clock: Clock, broker_name: str) -> None:
        """``engine`` gets the answers about a broker that it follows; None for a broker that knows them itself."""
        self._cluster = cluster
        self._engine = engine
        self._clock = clock
        self._broker_name = broker_name
        self.under_way = 0

    async def answer(self, address: str, command: GetConsumerRunningInfo) -> Reply:
        """ConsumerRunningInfos, or Failed. ``address``: the broker to ask; empty if none is known yet."""
        if not address:
            return _failed("the followed broker is not known yet, so it cannot be asked")
        if self.under_way >= QUESTIONS:
            return _failed(f"{self.under_way} questions to {address} are under way; try again when they are answered")
        self.under_way += 1
        try:
            return await self._ask(address, command)
        except MQBrokerException as error:
            if error.response_code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                return Failed(code=error.response_code, kind="not_found", remark=str(error))
            return _failed(str(error))
        except MQClientException as error:
            return _failed(str(error))
        except OSError as error:
            return _failed(f"{address} does not answer: {error.strerror or error}")
        finally:
            self.under_way -= 1

    async def _ask(self, address: str, command: GetConsumerRunningInfo) -> Reply:
        end_ns = self._clock.mono_ns() + int(ALL_S * 1e9)
        members = await self._cluster.client_ids(address, command.group)
        if command.client_id and command.client_id not in members:
            remark = f"client {command.client_id} is no member of group {command.group} at {address}"
            return Failed(code=ResponseCode.QUERY_NOT_FOUND, kind="not_found", remark=remark)
        stats = await self._cluster.consume_stats(address, command.group)
        asked = [command.client_id] if command.client_id else sorted(members)[:CLIENTS]
        rest = iter(asked)
        clients: dict[str, ConsumerRunningInfo] = {}

        async def ask_clients() -> None:
            for client_id in rest:
                clients[client_id] = await self._ask_client(address, command, client_id, end_ns)

        tasks = [start_task(ask_clients(), "ask clients") for _ in range(min(CLIENTS_AT_A_TIME, len(asked)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                await end_task(task)
        queues = [self._pulled_queue(queue, entry) for queue, entry in islice(stats.items(), QUEUES)]
        answers = [clients[client_id] for client_id in asked]
        if self._engine is not None:
            await self._replicate(self._engine, command.group, queues, answers)
        return ConsumerRunningInfos(
            broker=self._broker_name,
            group=command.group,
            source=address,
            asked_ms=self._clock.now().wall_ms,
            members=len(members),
            clients=answers,
            queues=queues,
            queues_total=len(stats),
        )

    async def _ask_client(
        self, address: str, command: GetConsumerRunningInfo, client_id: str, end_ns: int
    ) -> ConsumerRunningInfo:
        left_s = (end_ns - self._clock.mono_ns()) / 1e9
        if left_s <= 0:
            return _no_answer(client_id, f"was not asked: the others took {ALL_S:g} s")
        stacks = command.stacks and bool(command.client_id)
        try:
            body = await self._cluster.running_info(
                address, command.group, client_id, stacks=stacks, timeout_s=min(left_s, CLIENT_S)
            )
        except (OSError, MQClientException) as error:
            return _no_answer(client_id, str(error))
        properties = body.get("properties")
        stack = body.get("jstack")
        return ConsumerRunningInfo(
            client_id=client_id,
            problem="",
            properties=_properties(properties) if isinstance(properties, dict) else {},
            queues=[
                _process_queue(queue, entry)
                for queue, entry in islice(by_queue(body.get("mqTable")).items(), QUEUES)
                if queue.broker_name == self._broker_name
            ],
            stacks=stack[:STACK_CHARACTERS] if stacks and isinstance(stack, str) and stack else None,
        )

    def _pulled_queue(self, queue: MessageQueue, entry: Mapping[str, Any]) -> PulledQueue:
        return PulledQueue(
            topic=queue.topic,
            queue_id=queue.queue_id,
            offset=_number(entry, "consumerOffset"),
            pull_offset=_number(entry, "pullOffset"),
            max_offset=_number(entry, "brokerOffset") or 0,
        )

    async def _replicate(
        self, engine: EngineCalls, group: str, queues: list[PulledQueue], answers: list[ConsumerRunningInfo]
    ) -> None:
        """Tell the engine which member has which messages."""
        now_ms = self._clock.now().wall_ms
        pulled = {(queue.topic, queue.queue_id): queue for queue in queues}
        pulls = []
        for client in answers:
            for queue in client.queues:
                known = pulled.get((queue.topic, queue.queue_id))
                if known is None or known.offset is None or known.pull_offset is None:
                    continue
                handed = max(0, known.pull_offset - known.offset) if queue.cached else 0
                pulls.append(
                    ReplicatedPull(
                        topic=queue.topic,
                        queue_id=queue.queue_id,
                        client_id=client.client_id,
                        pull_offset=max(known.pull_offset, known.offset),
                        handed=handed,
                        handed_ms_ago=max(0, now_ms - queue.consumed_ms) if queue.consumed_ms is not None else 0,
                        polled_ms_ago=max(0, now_ms - queue.pulled_ms) if queue.pulled_ms is not None else None,
                    )
                )
        for start in range(0, len(pulls), QUEUES_A_TURN):
            try:
                await engine.call(ReplicatePulls(group=group, pulls=pulls[start : start + QUEUES_A_TURN]))
            except EngineRefused as error:
                raise MQClientException(str(error)) from error


class _OwnBroker(ClusterClient):
    """This process's broker, asked without a socket: its port may be full, or speak only TLS."""

    remote_host = "127.0.0.1"
    remote_port = 0

    def __init__(self, sessions: BrokerSessions, address: str) -> None:
        super().__init__(address)
        self._sessions = sessions
        self._session: BrokerSession | None = None
        self._calls: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._opaque = 0

    async def _invoke(
        self, address: str, code: RequestCode, ext_fields: dict[str, str], timeout_s: float
    ) -> RemotingCommand:
        session = self._session = self._session or self._sessions.make_session(self)
        self._opaque = opaque = self._opaque + 1
        call: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = call
        try:
            session.receive([RemotingCommand.request(code, ext_fields, opaque=opaque)])
            async with asyncio.timeout(timeout_s):
                return await call
        except TimeoutError:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None
        finally:
            del self._calls[opaque]

    def send(self, data: bytes) -> None:
        """Take an answer of the broker."""
        for answer in FrameDecoder().feed(data):
            call = self._calls.get(answer.opaque)
            if call is not None and not call.done():
                call.set_result(answer)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.closed()


class OwnConsumerQuestions:
    """Questions to the clients of this process's broker. Answers name its ``host`` and ``port``."""

    def __init__(self, sessions: BrokerSessions, clock: Clock, host: str, port: int) -> None:
        host = LOOPBACK.get(host, host)
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._broker = _OwnBroker(sessions, self._address)
        self._questions = ConsumerQuestions(self._broker, None, clock, sessions.identity.broker_name)

    async def running_info(self, command: GetConsumerRunningInfo) -> Reply:
        """What the broker and its clients answer now: ConsumerRunningInfos or Failed."""
        try:
            return await self._questions.answer(self._address, command)
        finally:
            if not self._questions.under_way:
                await self._broker.close()


def _failed(remark: str) -> Failed:
    return Failed(code=ResponseCode.SERVICE_NOT_AVAILABLE, kind="unavailable", remark=remark, retry_after_ms=1000)


def _no_answer(client_id: str, problem: str) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(client_id=client_id, problem=problem, properties={}, queues=[])


def _properties(properties: Mapping[Any, Any]) -> dict[str, str]:
    """Those that RocketMQ adds. The others are the fields of the client's configuration, and nobody asked for them."""
    added = ((str(name), str(value)) for name, value in properties.items())
    return dict(islice((entry for entry in added if entry[0].startswith("PROP_")), PROPERTIES))


def _process_queue(queue: MessageQueue, entry: Mapping[str, Any]) -> ProcessQueueInfo:
    return ProcessQueueInfo(
        topic=queue.topic,
        queue_id=queue.queue_id,
        offset=_number(entry, "commitOffset"),
        cached=_number(entry, "cachedMsgCount"),
        pulled_ms=_number(entry, "lastPullTimestamp") or None,
        consumed_ms=_number(entry, "lastConsumeTimestamp") or None,
        locked=entry.get("locked") is True,
    )


def _number(entry: Mapping[str, Any], name: str) -> int | None:
    """RocketMQ writes -1 for what it does not know."""
    value = entry.get(name)
    return value if type(value) is int and 0 <= value < 1 << 63 else None

"""The membership of a WebSocket in consumer groups, beside Java and Go clients: heartbeats, rebalance, commits.

It works as RocketMQ's push consumer does. Each member asks for the list of members, computes its own share of the
queues and consumes them; there is no coordinator. It rebalances every 20 s, and at once when the engine sends notice of
a change. One socket may consume several topics of a group: it is one member, with a subscription for each topic.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import NamedTuple

from api.consumer.queue_consumer import PAUSE_S, RETRY_PREFIX, Queue
from api.consumer.subscription import Client, Offset, Subscription
from api.http import brokers
from api.http.limits import MAX_QUEUES_PER_SOCKET, MAX_SUBSCRIPTIONS_PER_SOCKET
from api.http.problems import Problem, problem_of
from api.http.request import expect
from api.websockets.frames import Subscribe
from bridge.port import (
    BrokerError,
    Clock,
    ConflictError,
    NotFoundError,
    PortConnection,
    PortTimeout,
    ResponseCode,
    SystemClock,
    UnavailableError,
    allocate_averagely,
    commands,
    get_ports,
)

COMMIT_S = 5.0
REBALANCE_S = 20.0
HEARTBEAT_S = 30.0
READABLE = 4
_ENGINE_AWAY = (UnavailableError, PortTimeout)

_members: dict[str, "Membership"] = {}
"""The membership that uses each client id, of the sockets of this process."""


class Joined(NamedTuple):
    """A subscription at its start: RocketMQ's subVersion, ms, and the number of its topic's queues."""

    version: int
    queues: int


class Membership:
    """The groups of one socket, from its first subscription on. ``leave`` is called once, when the socket closes."""

    def __init__(
        self,
        client: Client,
        client_id: str,
        remote: str,
        connections: dict[str, PortConnection],
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._client_id = client_id
        self._remote = remote
        self._connections = connections
        self._clock = clock or SystemClock()
        self._subscriptions: dict[int | str, Subscription] = {}
        self._joined: dict[int | str, Joined] = {}
        self._lock = asyncio.Lock()  # for heartbeats and rebalances
        self._run_soon = asyncio.Event()
        self._changed_groups: set[str] = set()  # groups to rebalance, by the engine's notices
        self._must_recover = False  # after a failure: send heartbeats and rebalance every group
        self._groups_to_leave: set[str] = set()  # groups that the engine may still list this client in
        self._is_started = False
        self._last_refusal = ""  # why the last refused commit was refused
        self._reported: dict[str, list[commands.ConsumerWindow]] = {}  # by group
        self._must_report = False  # a heartbeat was sent, perhaps to an engine that was restarted

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, frame_id: int | str) -> bool:
        return frame_id in self._subscriptions

    def get(self, frame_id: int | str) -> Subscription:
        """The subscription with this id. Problem 404 when there is none."""
        if frame_id not in self._subscriptions:
            raise Problem(
                404,
                f"no subscription with the id {frame_id!r} is on this socket",
                code=ResponseCode.QUERY_NOT_FOUND,
                pointer="/id",
            )
        return self._subscriptions[frame_id]

    def _subscriptions_of(self, group: str) -> list[Subscription]:
        return [subscription for subscription in self._subscriptions.values() if subscription.group == group]

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(subscription.group for subscription in self._subscriptions.values()))

    # --- Joining and leaving ---

    async def subscribe(self, frame: Subscribe) -> None:
        """Join the group. `assigned` is sent now, or as soon as the engine is reachable.

        Raises Problem and BrokerError's kinds; then the client did not join.
        """
        self._check_new(frame)
        async with self._lock:
            joined = Joined(self._clock.now().wall_ms, len(await self._read_queues(frame.topic, must_exist=True)))
            if joined.queues + sum(other.queues for other in self._joined.values()) > MAX_QUEUES_PER_SOCKET:
                raise Problem(
                    429,
                    f"the topics of this socket would have more than {MAX_QUEUES_PER_SOCKET} queues, the maximum",
                    code=ResponseCode.FLOW_CONTROL,
                    pointer="/topic",
                )
            subscription = Subscription(self._client, self._client_id, frame, self._on_problem)
            await self._ask_first_broker(
                commands.CheckClientConfig(
                    client_id=self._client_id, group=frame.group, subscription=_subscription_data(subscription, joined)
                )
            )
            await self._claim_client_id(frame.group)
            self._subscriptions[frame.id], self._joined[frame.id] = subscription, joined
            try:
                await self._join(frame.group)
            except (BrokerError, Problem):
                self._remove(frame.id)
                await self._leave_if_last(frame.group)
                raise
        if not self._is_started:
            self._is_started = True
            self._client.start(self._run(), "membership")

    async def _join(self, group: str) -> None:
        await self._send_heartbeats()
        try:
            if self._client_id not in await self._member_ids(group):
                raise Problem(
                    404,
                    f"the group {group} does not exist, and this broker does not create groups for members",
                    code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                    pointer="/group",
                )
            await self._rebalance(group)
        except _ENGINE_AWAY as error:
            self._on_problem(problem_of(error))

    def _check_new(self, frame: Subscribe) -> None:
        if frame.id in self._subscriptions:
            raise Problem(
                409,
                f"there is a subscription with the id {frame.id!r} on this socket",
                code=ResponseCode.ILLEGAL_OPERATION,
                pointer="/id",
            )
        if frame.topic == RETRY_PREFIX + frame.group:
            raise Problem(
                400, "every subscription of a group includes its retry topic; do not subscribe to it", pointer="/topic"
            )
        if any(other.topic == frame.topic for other in self._subscriptions_of(frame.group)):
            raise Problem(
                409,
                f"this socket consumes {frame.topic} for {frame.group} already; for a second member of the "
                "group, open a second socket with another client id",
                code=ResponseCode.ILLEGAL_OPERATION,
                pointer="/topic",
            )
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS_PER_SOCKET:
            raise Problem(
                429,
                f"this socket has {MAX_SUBSCRIPTIONS_PER_SOCKET} subscriptions, the maximum",
                code=ResponseCode.FLOW_CONTROL,
            )

    async def _claim_client_id(self, group: str) -> None:
        """Reserve the client id. Problem 409 if another socket has it: both would consume the same queues."""
        clients = expect(await self._ask_first_broker(commands.GetClients(group=group)), commands.Clients).clients
        if _members.get(self._client_id, self) is not self or any(
            other.client_id == self._client_id and other.remote != self._remote for other in clients
        ):
            raise Problem(
                409,
                f"another connection uses the client id {self._client_id}; give each socket its own, or none. If that "
                "is an earlier connection of this client, it ends within a minute",
                code=ResponseCode.ILLEGAL_OPERATION,
                pointer="/client_id",
                retry_after_s=10,
            )
        _members[self._client_id] = self

    async def unsubscribe(self, frame_id: int | str) -> None:
        """Commit and end this subscription; leave the group if it was the group's last one on this socket."""
        subscription = self.get(frame_id)
        async with self._lock:
            offsets = self._remove(frame_id)
            with contextlib.suppress(*_ENGINE_AWAY):  # then these messages are delivered again
                await self._commit(subscription.group, offsets)
            await self._leave_if_last(subscription.group)

    async def _leave_if_last(self, group: str) -> None:
        """After the end of a subscription: leave the group, or update its subscriptions, now or in the next run."""
        self._groups_to_leave.add(group)
        try:
            await self._leave_groups()
        except BrokerError as error:
            self._on_problem(problem_of(error))

    async def _leave_groups(self) -> None:
        for group in list(self._groups_to_leave):
            if self._subscriptions_of(group):  # another topic is still subscribed
                await self._send_heartbeats()
                await self._rebalance(group)
            else:
                for connection in list(self._connections.values()):
                    with contextlib.suppress(UnavailableError):  # an unreachable engine drops this client by itself
                        await connection.call(
                            commands.UnregisterClient(client_id=self._client_id, consumer_group=group)
                        )
            self._groups_to_leave.discard(group)

    def _remove(self, frame_id: int | str) -> list[Offset]:
        del self._joined[frame_id]
        return self._subscriptions.pop(frame_id).end()

    async def leave(self) -> None:
        """Commit. The engine removes this client from its groups when the connection closes."""
        if _members.get(self._client_id) is self:
            del _members[self._client_id]
        await self._commit_all()

    # --- Periodic work ---

    def on_notice(self, notice: commands.Notice) -> None:
        if isinstance(notice, commands.ConsumerIdsChanged):
            self._changed_groups.add(notice.group)
            self._run_soon.set()

    def _on_problem(self, error: Problem) -> None:
        """After a failed pull. An engine that was away may have dropped this member."""
        if error.status >= 500:
            self._must_recover = True
            self._run_soon.set()

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        rebalance_at, heartbeat_at = now() + REBALANCE_S, now() + HEARTBEAT_S
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_S):
                    await self._run_soon.wait()
            self._run_soon.clear()
            must_recover, self._must_recover = self._must_recover, False
            heartbeat, rebalance_all = must_recover or now() >= heartbeat_at, must_recover or now() >= rebalance_at
            heartbeat_at = now() + HEARTBEAT_S if heartbeat else heartbeat_at
            rebalance_at = now() + REBALANCE_S if rebalance_all else rebalance_at
            try:
                async with self._lock:
                    await self._run_once(heartbeat=heartbeat, rebalance_all=rebalance_all)
            except (BrokerError, Problem):
                self._must_recover = True
            if self._must_recover:
                await asyncio.sleep(PAUSE_S)
                self._run_soon.set()

    async def _run_once(self, *, heartbeat: bool, rebalance_all: bool) -> None:
        await self._leave_groups()
        if heartbeat:
            await self._send_heartbeats()
        changed, self._changed_groups = self._changed_groups, set()
        for group in self._groups():
            if rebalance_all or group in changed:
                await self._rebalance(group)
        await self._commit_all()
        await self._report_windows()

    async def _report_windows(self) -> None:
        """Tell every broker which groups of this client get no messages, for want of permits or acknowledgements.

        A client that gets messages, as nearly all do, reports nothing, except once after it got none.
        """
        repeat, self._must_report = self._must_report, False
        for group in self._groups():
            windows, before = [one.window() for one in self._subscriptions_of(group)], self._reported.get(group, [])
            if not (_gets_none(windows) or _gets_none(before)) or (windows == before and not repeat):
                continue
            self._reported[group] = windows
            command = commands.ReportWindows(group=group, windows=windows)
            await asyncio.gather(
                *(connection.call(command) for connection in self._connections.values()), return_exceptions=True
            )

    # --- Heartbeats ---

    async def _send_heartbeats(self) -> None:
        """Tell every broker which groups this client is in. Raises the first error when no broker answered."""
        self._must_report = True
        command = commands.HeartBeat(
            client_id=self._client_id,
            protocol="websocket",
            language="HTTP",
            consumers=[self._consumer_data(group) for group in self._groups()],
        )
        errors = [
            error
            for error in await asyncio.gather(*(self._send_heartbeat(broker, command) for broker in get_ports()))
            if error is not None
        ]
        if len(errors) == len(get_ports()):
            raise errors[0]

    async def _send_heartbeat(self, broker: str, command: commands.HeartBeat) -> BrokerError | None:
        connection = self._connection(broker)
        try:
            try:
                await connection.call(command)
            except ConflictError:  # the engine does not know the connection, or has dropped it
                await connection.call(
                    commands.OpenConnection(client_id=self._client_id, protocol="websocket", remote=self._remote)
                )
                await connection.call(command)
        except BrokerError as error:
            return error
        return None

    def _consumer_data(self, group: str) -> commands.ConsumerData:
        own = self._subscriptions_of(group)
        topics = [_subscription_data(subscription, self._joined[subscription.id]) for subscription in own]
        retries = commands.SubscriptionData(topic=RETRY_PREFIX + group, sub_version=self._joined[own[0].id].version)
        where = {"first": "CONSUME_FROM_FIRST_OFFSET", "last": "CONSUME_FROM_LAST_OFFSET"}
        return commands.ConsumerData(
            group=group,
            subscriptions=[*topics, retries],
            consume_from_where=where.get(str(own[0].wanted.start), "CONSUME_FROM_TIMESTAMP"),
        )

    def _connection(self, broker: str) -> PortConnection:
        if broker not in self._connections:
            self._connections[broker] = get_ports()[broker].connection()
        connection = self._connections[broker]
        connection.on_notice = self.on_notice
        return connection

    async def _ask_first_broker(self, command: commands.Command) -> commands.Reply:
        """Send the command to the first broker."""
        return await self._connection(next(iter(get_ports()))).call(command)

    # --- Rebalance ---

    async def _rebalance(self, group: str) -> None:
        """Consume this client's share of the group's queues. Raises when it cannot be computed now; nothing changes."""
        ids = await self._member_ids(group)
        if self._client_id not in ids:
            await self._send_heartbeats()
            ids = await self._member_ids(group)
        retries = await self._read_queues(RETRY_PREFIX + group)
        offsets: list[Offset] = []
        for subscription in self._subscriptions_of(group):
            queues = allocate_averagely(await self._read_queues(subscription.topic), ids, self._client_id)
            queues += allocate_averagely(retries, ids, self._client_id)
            retries = []  # only the group's first subscription consumes them
            for queue in queues:
                self._connection(queue.broker)
            offsets += subscription.assign(queues, len(ids), self._connections)
        await self._commit(group, offsets)

    async def _member_ids(self, group: str) -> list[str]:
        """The client ids in the group, from the first broker that answers; empty if there are none."""
        error: BrokerError | None = None
        for broker in sorted(get_ports()):
            try:
                reply = await self._connection(broker).call(commands.GetConsumerListByGroup(group=group))
                return expect(reply, commands.ConsumerList).client_ids
            except _ENGINE_AWAY as away:
                error = away
            except BrokerError:
                return []
        assert error is not None
        raise error

    async def _read_queues(self, topic: str, *, must_exist: bool = False) -> list[Queue]:
        """All readable queues of the topic, in the order that every member uses.

        UnavailableError while a broker does not answer: shares computed without its queues would be wrong.
        """
        try:
            replies = await brokers.ask_all("", commands.GetTopic(topic=topic), commands.Topics)
        except NotFoundError:
            if must_exist:
                raise
            return []
        if replies.unavailable:
            raise UnavailableError(f"no answer from {', '.join(replies.unavailable)} about the queues of {topic}")
        return sorted(
            Queue(topic, broker, queue_id)
            for broker, reply in replies.by_broker.items()
            for view in reply.topics
            if view.perm & READABLE
            for queue_id in range(view.read_queues)
        )

    # --- Commits ---

    async def _commit_all(self) -> None:
        for group in self._groups():
            await self._commit(
                group, [offset for subscription in self._subscriptions_of(group) for offset in subscription.to_commit()]
            )

    async def _commit(self, group: str, offsets: Iterable[Offset]) -> None:
        """Commit each topic by itself, so that a deleted topic does not prevent the commits of others."""
        by_topic: dict[tuple[str, str], list[Offset]] = {}
        for entry in offsets:
            by_topic.setdefault(entry.consumer.queue[:2], []).append(entry)
        for (_, broker), entries in by_topic.items():
            try:
                await self._connection(broker).call(
                    commands.UpdateConsumerOffset(
                        group=group,
                        client_id=self._client_id,
                        offsets=[
                            commands.QueueOffset(
                                topic=consumer.queue.topic, queue_id=consumer.queue.queue_id, offset=offset
                            )
                            for consumer, offset in entries
                        ],
                    )
                )
            except _ENGINE_AWAY:
                raise
            except BrokerError as error:
                if error.remark != self._last_refusal:
                    self._last_refusal = error.remark
                    self._client.put_problem(problem_of(error))
                continue
            for consumer, offset in entries:
                if consumer.progress is not None:
                    consumer.progress.committed = offset


def _gets_none(windows: list[commands.ConsumerWindow]) -> bool:
    """Whether one of the subscriptions gets no messages now."""
    return any(window.is_full or not window.permits for window in windows)


def _subscription_data(subscription: Subscription, joined: Joined) -> commands.SubscriptionData:
    return commands.SubscriptionData(
        topic=subscription.topic,
        sub_string=subscription.wanted.filter,
        expression_type=subscription.wanted.filter_type,
        sub_version=joined.version,
    )

"""What makes a WebSocket a member of consumer groups, among Java and Go clients: heartbeats, rebalance, commits.

It does what RocketMQ's push consumer does. Each member asks for the list of members, works out its own share of the
queues, and consumes that; nobody hands queues out. A notice of the engine, or 20 s, makes it look again. One socket
may consume several topics of a group: one membership, a subscription each.
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
_AWAY = (UnavailableError, PortTimeout)

_members: dict[str, "Membership"] = {}
"""Who speaks for a client id, of the sockets of this process."""


class Joined(NamedTuple):
    """What a subscription was when it began: RocketMQ's version of it, ms, and the number of its topic's queues."""

    version: int
    queues: int


class Membership:
    """The groups of one socket. Made with its first subscription; ``leave`` commits, once, when the socket goes."""

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
        self._turns = asyncio.Lock()  # heartbeats and rebalances, one after the other
        self._look = asyncio.Event()
        self._changed: set[str] = set()  # groups that the engine gave notice of
        self._astray = False  # something failed: say who we are, and look at everything again
        self._left: set[str] = set()  # groups that the engine may still take this client for a member of
        self._lives = False
        self._told = ""  # the last commit that was refused

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, frame_id: int | str) -> bool:
        return frame_id in self._subscriptions

    def get(self, frame_id: int | str) -> Subscription:
        """Problem 404 for an id that is no subscription's."""
        if frame_id not in self._subscriptions:
            raise Problem(
                404,
                f"no subscription with the id {frame_id!r} is on this socket",
                code=ResponseCode.QUERY_NOT_FOUND,
                pointer="/id",
            )
        return self._subscriptions[frame_id]

    def _of(self, group: str) -> list[Subscription]:
        return [subscription for subscription in self._subscriptions.values() if subscription.group == group]

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(subscription.group for subscription in self._subscriptions.values()))

    # --- Coming and going ---

    async def subscribe(self, frame: Subscribe) -> None:
        """Join; `assigned` is the answer, now or as soon as the engine is there. Raises Problem and BrokerError's
        kinds, and then nothing was joined."""
        self._check(frame)
        async with self._turns:
            joined = Joined(self._clock.now().wall_ms, len(await self._queues(frame.topic, must_exist=True)))
            if joined.queues + sum(other.queues for other in self._joined.values()) > MAX_QUEUES_PER_SOCKET:
                raise Problem(
                    429,
                    f"the topics of this socket would have more than {MAX_QUEUES_PER_SOCKET} queues, the most it takes",
                    code=ResponseCode.FLOW_CONTROL,
                    pointer="/topic",
                )
            subscription = Subscription(self._client, self._client_id, frame, self._on_trouble)
            await self._ask(
                commands.CheckClientConfig(
                    client_id=self._client_id, group=frame.group, subscription=_subscription_data(subscription, joined)
                )
            )
            await self._claim(frame.group)
            self._subscriptions[frame.id], self._joined[frame.id] = subscription, joined
            try:
                await self._join(frame.group)
            except (BrokerError, Problem):
                self._remove(frame.id)
                await self._withdraw(frame.group)
                raise
        if not self._lives:
            self._lives = True
            self._client.start(self._live(), "membership")

    async def _join(self, group: str) -> None:
        await self._beat()
        try:
            if self._client_id not in await self._member_ids(group):
                raise Problem(
                    404,
                    f"the group {group} does not exist, and members do not create it here",
                    code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                    pointer="/group",
                )
            await self._rebalance(group)
        except _AWAY as error:
            self._on_trouble(problem_of(error))

    def _check(self, frame: Subscribe) -> None:
        if frame.id in self._subscriptions:
            raise Problem(
                409,
                f"there is a subscription with the id {frame.id!r} on this socket",
                code=ResponseCode.ILLEGAL_OPERATION,
                pointer="/id",
            )
        if frame.topic == RETRY_PREFIX + frame.group:
            raise Problem(400, "a group's own retry topic comes with its other subscriptions", pointer="/topic")
        if any(other.topic == frame.topic for other in self._of(frame.group)):
            raise Problem(
                409,
                f"this socket consumes {frame.topic} for {frame.group} already; a second member of the "
                "group is a second socket, with a client id of its own",
                code=ResponseCode.ILLEGAL_OPERATION,
                pointer="/topic",
            )
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS_PER_SOCKET:
            raise Problem(
                429,
                f"{MAX_SUBSCRIPTIONS_PER_SOCKET} subscriptions are on this socket, the most it takes",
                code=ResponseCode.FLOW_CONTROL,
            )

    async def _claim(self, group: str) -> None:
        """A client id is one member's: two sockets with one id would both take the same queues."""
        clients = expect(await self._ask(commands.GetClients(group=group)), commands.Clients).clients
        if _members.get(self._client_id, self) is not self or any(
            other.client_id == self._client_id and other.remote != self._remote for other in clients
        ):
            raise Problem(
                409,
                f"another connection is the member {self._client_id}; give each socket a client_id of "
                "its own, or none. If it is this client's own from before, it is gone within a minute",
                code=ResponseCode.ILLEGAL_OPERATION,
                pointer="/client_id",
                retry_after_s=10,
            )
        _members[self._client_id] = self

    async def unsubscribe(self, frame_id: int | str) -> None:
        """Leave with this subscription, when what is done was committed."""
        subscription = self.get(frame_id)
        async with self._turns:
            offsets = self._remove(frame_id)
            with contextlib.suppress(*_AWAY):  # what is done comes again
                await self._commit(subscription.group, offsets)
            await self._withdraw(subscription.group)

    async def _withdraw(self, group: str) -> None:
        """A subscription is over: say so, now or in the next turn."""
        self._left.add(group)
        try:
            await self._say_left()
        except BrokerError as error:
            self._on_trouble(problem_of(error))

    async def _say_left(self) -> None:
        for group in list(self._left):
            if self._of(group):  # with another topic
                await self._beat()
                await self._rebalance(group)
            else:
                for connection in list(self._connections.values()):
                    with contextlib.suppress(UnavailableError):  # an engine that is away forgets this client
                        await connection.call(
                            commands.UnregisterClient(client_id=self._client_id, consumer_group=group)
                        )
            self._left.discard(group)

    def _remove(self, frame_id: int | str) -> list[Offset]:
        del self._joined[frame_id]
        return self._subscriptions.pop(frame_id).end()

    async def leave(self) -> None:
        """Commit what is done. The groups are left with the connection."""
        if _members.get(self._client_id) is self:
            del _members[self._client_id]
        await self._commit_all()

    # --- The life of a member ---

    def on_notice(self, notice: commands.Notice) -> None:
        if isinstance(notice, commands.ConsumerIdsChanged):
            self._changed.add(notice.group)
            self._look.set()

    def _on_trouble(self, error: Problem) -> None:
        """A queue could not be pulled. When that is because the engine was away, it may not know this member."""
        if error.status >= 500:
            self._astray = True
            self._look.set()

    async def _live(self) -> None:
        now = asyncio.get_running_loop().time
        rebalance_at, heartbeat_at = now() + REBALANCE_S, now() + HEARTBEAT_S
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_S):
                    await self._look.wait()
            self._look.clear()
            astray, self._astray = self._astray, False
            beats, everything = astray or now() >= heartbeat_at, astray or now() >= rebalance_at
            heartbeat_at = now() + HEARTBEAT_S if beats else heartbeat_at
            rebalance_at = now() + REBALANCE_S if everything else rebalance_at
            try:
                async with self._turns:
                    await self._turn(beats, everything)
            except (BrokerError, Problem):
                self._astray = True
            if self._astray:
                await asyncio.sleep(PAUSE_S)
                self._look.set()

    async def _turn(self, beats: bool, everything: bool) -> None:
        await self._say_left()
        if beats:
            await self._beat()
        changed, self._changed = self._changed, set()
        for group in self._groups():
            if everything or group in changed:
                await self._rebalance(group)
        await self._commit_all()

    # --- Heartbeats ---

    async def _beat(self) -> None:
        """Say at every broker which groups this client is in. The error of the first, when none has heard it."""
        command = commands.HeartBeat(
            client_id=self._client_id,
            protocol="websocket",
            language="HTTP",
            consumers=[self._membership(group) for group in self._groups()],
        )
        errors = [
            error
            for error in await asyncio.gather(*(self._beat_at(broker, command) for broker in get_ports()))
            if error is not None
        ]
        if len(errors) == len(get_ports()):
            raise errors[0]

    async def _beat_at(self, broker: str, command: commands.HeartBeat) -> BrokerError | None:
        connection = self._connection(broker)
        try:
            try:
                await connection.call(command)
            except ConflictError:  # a connection that the engine does not know, or not any more
                await connection.call(
                    commands.OpenConnection(client_id=self._client_id, protocol="websocket", remote=self._remote)
                )
                await connection.call(command)
        except BrokerError as error:
            return error
        return None

    def _membership(self, group: str) -> commands.ConsumerData:
        own = self._of(group)
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

    async def _ask(self, command: commands.Command) -> commands.Reply:
        """The first broker's answer."""
        return await self._connection(next(iter(get_ports()))).call(command)

    # --- Rebalance ---

    async def _rebalance(self, group: str) -> None:
        """Take this client's share of the group's queues. Raises when the share cannot be known now: all stays."""
        ids = await self._member_ids(group)
        if self._client_id not in ids:
            await self._beat()
            ids = await self._member_ids(group)
        retries = await self._queues(RETRY_PREFIX + group)
        offsets: list[Offset] = []
        for subscription in self._of(group):
            queues = allocate_averagely(await self._queues(subscription.topic), ids, self._client_id)
            queues += allocate_averagely(retries, ids, self._client_id)
            retries = []  # they come with the group's first subscription
            for queue in queues:
                self._connection(queue.broker)
            offsets += subscription.assign(queues, len(ids), self._connections)
        await self._commit(group, offsets)

    async def _member_ids(self, group: str) -> list[str]:
        """As the first broker that answers knows them: empty where nobody is in the group."""
        error: BrokerError | None = None
        for broker in sorted(get_ports()):
            try:
                reply = await self._connection(broker).call(commands.GetConsumerListByGroup(group=group))
                return expect(reply, commands.ConsumerList).client_ids
            except _AWAY as away:
                error = away
            except BrokerError:
                return []
        assert error is not None
        raise error

    async def _queues(self, topic: str, *, must_exist: bool = False) -> list[Queue]:
        """All queues of the topic that may be read, sorted as every member sorts them.

        UnavailableError while a broker does not answer: without its queues everybody's share would be another one.
        """
        try:
            replies = await brokers.ask_all("", commands.GetTopic(topic=topic), commands.Topics)
        except NotFoundError:
            if must_exist:
                raise
            return []
        if replies.unavailable:
            raise UnavailableError(f"{', '.join(replies.unavailable)} did not say which queues of {topic} it has")
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
                group, [offset for subscription in self._of(group) for offset in subscription.to_commit()]
            )

    async def _commit(self, group: str, offsets: Iterable[Offset]) -> None:
        """Each topic by itself: one that was deleted, say, keeps no other back."""
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
            except _AWAY:
                raise
            except BrokerError as error:
                if error.remark != self._told:
                    self._told = error.remark
                    self._client.put_problem(problem_of(error))
                continue
            for consumer, offset in entries:
                if consumer.progress is not None:
                    consumer.progress.committed = offset


def _subscription_data(subscription: Subscription, joined: Joined) -> commands.SubscriptionData:
    return commands.SubscriptionData(
        topic=subscription.topic,
        sub_string=subscription.wanted.filter,
        expression_type=subscription.wanted.filter_type,
        sub_version=joined.version,
    )

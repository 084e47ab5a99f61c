"""The tables of the followed broker, fetched again and again: topics, groups, offsets, and the members of groups."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import msgspec

from broker_core.client.mq_client_exception import MQClientException
from broker_core.clock import Clock
from broker_core.codes import LANGUAGES, RequestCode
from broker_core.commands import (
    CloseConnection,
    ConsumerData,
    ReplicatedOffsets,
    ReplicateMember,
    ReplicateTables,
    SubscriptionData,
    TopicEnds,
    UnregisterClient,
)
from broker_core.consumers.subscription_group_manager import is_system_group
from broker_core.server.attach.cluster_client import AccessRefused, ClusterClient
from broker_core.server.attach.engine_calls import EngineCalls, EngineRefused

T = TypeVar("T")
PERIOD_S = 5.0
COST = 200
"""A table whose answer took long is asked for again only after this many times as long: at most 0.5 % of the time."""
WHOLE_ROUND_S = 60.0
"""Tables whose DataVersion has not changed are replicated as a whole this often."""
ENTRIES_A_TURN = 50
OFFSETS_A_TURN = 500
TOPICS_A_ROUND = GROUPS_A_ROUND = 20
"""In one round, at least so many topics are asked for their ends, and so many groups for their members."""
ROUNDS = 16
"""Rounds in which all groups have their turn: 80 s. A member that is not confirmed for 120 s is removed."""
MEMBERS_OF_A_GROUP = 1000


class _Connection(msgspec.Struct, rename="camel"):
    client_id: str
    client_addr: str = ""
    language: str = ""
    version: int = 0


class _Subscription(msgspec.Struct, rename="camel"):
    topic: str
    sub_string: str = "*"
    expression_type: str | None = "TAG"
    sub_version: int = 0


class _ConsumerConnection(msgspec.Struct, rename="camel"):
    connection_set: list[_Connection] = []
    subscription_table: dict[str, _Subscription] = {}
    consume_type: str | None = "CONSUME_PASSIVELY"
    message_model: str | None = "CLUSTERING"
    consume_from_where: str | None = "CONSUME_FROM_LAST_OFFSET"


class SlaveSynchronize:
    """RocketMQ's SlaveSynchronize. ``tables_ms`` and ``members_ms``: wall times of the last complete rounds, or None.

    ``problem`` says why a part could not be fetched, such as a refusal by access control; the log goes on without it.
    """

    def __init__(self, cluster: ClusterClient, engine: EngineCalls, clock: Clock) -> None:
        self.problem = ""
        self.tables_ms: int | None = None
        self.members_ms: int | None = None
        self._cluster = cluster
        self._engine = engine
        self._clock = clock
        self._asked_address = ""
        self._due_ns: dict[RequestCode, int] = {}
        self._versions: dict[RequestCode, tuple[Any, int]] = {}
        self._offsets: dict[str, dict[int, int]] = {}
        self._topics_asked: set[str] = set()
        """The topics whose ends are known."""
        self._topic_names: list[str] | None = None
        self._groups: list[str] | None = None
        """None until the broker has said which there are."""
        self._next_group = 0
        self._members: dict[str, set[str]] = {}
        """Group -> client ids."""

    async def synchronize(self, address: str) -> None:
        """Fetch what is due from the broker at ``address``. Problems are noted in ``problem``."""
        problems: list[tuple[str, Exception]] = []
        if address != self._asked_address:  # how long another broker took says nothing about this one
            self._asked_address = address
            self._due_ns.clear()
        steps: list[tuple[RequestCode, Callable[[dict[str, Any]], Any]]] = [
            (RequestCode.GET_ALL_TOPIC_CONFIG, self._topics),
            (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self._subscription_groups),
            (RequestCode.GET_ALL_CONSUMER_OFFSET, self._consumer_offsets),
            (RequestCode.GET_ALL_DELAY_OFFSET, self._delay_offsets),
        ]
        for code, replicate in steps:
            begin_ns = self._clock.mono_ns()
            if begin_ns < self._due_ns.get(code, 0):
                continue
            try:
                table = await self._cluster.table(address, code)
                took_ns = self._clock.mono_ns() - begin_ns
                self._due_ns[code] = begin_ns + max(int(PERIOD_S * 0.9e9), COST * took_ns)
                await replicate(table)
            except (OSError, MQClientException, EngineRefused, ValueError, AttributeError, TypeError) as error:
                problems.append((code.name, error))
        if not problems:
            self.tables_ms = self._clock.now().wall_ms
        try:
            await self._all_ends(address)
            await self._all_members(address)
        except (OSError, MQClientException, EngineRefused, msgspec.ValidationError) as error:
            problems.append(("members", error))
        self.problem = "; ".join(_texts(problems))

    # --- Tables -----------------------------------------------------------------------------------------------

    def _is_known(self, code: RequestCode, table: dict[str, Any]) -> bool:
        """Whether this version of a table was replicated a short time ago. Notes that it is now."""
        version, now_ns = table.get("dataVersion"), self._clock.mono_ns()
        known, since_ns = self._versions.get(code, (None, 0))
        if version is not None and version == known and now_ns - since_ns < WHOLE_ROUND_S * 1e9:
            return True
        self._versions[code] = (version, now_ns)
        return False

    async def _topics(self, table: dict[str, Any]) -> None:
        configs = table["topicConfigTable"] or {}
        self._topic_names = sorted(configs)
        self._topics_asked &= set(self._topic_names)
        if self._is_known(RequestCode.GET_ALL_TOPIC_CONFIG, table):
            return
        entries = [{"topicName": name} | _present(entry) for name, entry in configs.items()]
        await self._engine.call(ReplicateTables(begin_topics=True))
        for part in _parts(entries, ENTRIES_A_TURN):
            await self._engine.call(ReplicateTables(topics=part))
        await self._engine.call(ReplicateTables(end_topics=True))

    async def _subscription_groups(self, table: dict[str, Any]) -> None:
        groups = table["subscriptionGroupTable"] or {}
        self._groups = sorted(name for name in groups if not is_system_group(name))
        if self._is_known(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, table):
            return
        await self._engine.call(ReplicateTables(begin_groups=True))
        for part in _parts([{"groupName": name} | _present(entry) for name, entry in groups.items()], ENTRIES_A_TURN):
            await self._engine.call(ReplicateTables(groups=part))
        await self._engine.call(ReplicateTables(end_groups=True))

    async def _consumer_offsets(self, table: dict[str, Any]) -> None:
        """Replicate the offsets that differ from those of the round before."""
        changed: list[ReplicatedOffsets] = []
        size = 0
        for key, offsets in (table["offsetTable"] or {}).items():
            topic, _, group = key.rpartition("@")
            known = self._offsets.get(key, {})
            moved = {int(queue): int(offset) for queue, offset in offsets.items() if known.get(int(queue)) != offset}
            for part in _parts(list(moved.items()), OFFSETS_A_TURN):
                if changed and size + len(part) > OFFSETS_A_TURN:
                    await self._engine.call(ReplicateTables(offsets=changed))
                    changed, size = [], 0
                changed.append(ReplicatedOffsets(group=group, topic=topic, offsets=dict(part)))
                size += len(part)
            if moved:
                self._offsets[key] = known | moved
        if changed:
            await self._engine.call(ReplicateTables(offsets=changed))

    async def _delay_offsets(self, table: dict[str, Any]) -> None:
        offsets = {int(level): int(offset) for level, offset in (table.get("offsetTable") or {}).items()}
        await self._engine.call(ReplicateTables(delay_offsets=dict(islice(offsets.items(), ENTRIES_A_TURN))))

    async def _all_ends(self, address: str) -> None:
        """Ask once for the ends of each topic: its messages may be older than the copy, which then has none of them."""
        names = self._topic_names or []
        missing = [name for name in names if name not in self._topics_asked]
        for topic in missing[: max(TOPICS_A_ROUND, -(-len(names) // ROUNDS))]:
            ends = await self._cluster.ends(address, topic)
            await self._engine.call(ReplicateTables(ends=[TopicEnds(topic=topic, offsets=ends)]))
            self._topics_asked.add(topic)

    # --- Members ----------------------------------------------------------------------------------------------

    async def _all_members(self, address: str) -> None:
        """Ask for the members of some groups; when all groups had their turn, it begins again."""
        if self._groups is None:
            return
        count = max(GROUPS_A_ROUND, -(-len(self._groups) // ROUNDS))
        groups = self._groups[self._next_group : self._next_group + count]
        for group in groups:
            body = await self._cluster.members(address, group)
            view = _ConsumerConnection() if body is None else msgspec.convert(body, _ConsumerConnection, strict=False)
            await self._members_of(group, view)
        self._next_group += count
        if self._next_group >= len(self._groups):
            self._next_group = 0
            if self._topic_names is None or len(self._topics_asked) < len(self._topic_names):
                return
            self.members_ms = self._clock.now().wall_ms

    async def _members_of(self, group: str, view: _ConsumerConnection) -> None:
        consumer = ConsumerData(
            group=group,
            consume_type="CONSUME_ACTIVELY" if view.consume_type == "CONSUME_ACTIVELY" else "CONSUME_PASSIVELY",
            message_model="BROADCASTING" if view.message_model == "BROADCASTING" else "CLUSTERING",
            consume_from_where=view.consume_from_where or "CONSUME_FROM_LAST_OFFSET",
            subscriptions=[
                SubscriptionData(
                    topic=one.topic,
                    sub_string=one.sub_string,
                    expression_type=one.expression_type or "TAG",
                    sub_version=one.sub_version,
                )
                for one in view.subscription_table.values()
            ],
        )
        present: set[str] = set()
        for member in view.connection_set[:MEMBERS_OF_A_GROUP]:
            present.add(member.client_id)
            command = ReplicateMember(
                client_id=member.client_id,
                remote=member.client_addr,
                language=member.language if member.language in LANGUAGES else "",
                version=member.version,
                consumer=consumer,
            )
            await self._engine.call(command, self._engine.client(member.client_id))
        gone = self._members.get(group, set()) - present
        self._members[group] = present
        for client_id in gone:
            connection = self._engine.client(client_id)
            if any(client_id in others for others in self._members.values()):
                await self._engine.call(UnregisterClient(client_id=client_id, consumer_group=group), connection)
            else:
                self._engine.forget_client(client_id)
                await self._engine.call(CloseConnection(), connection)


def _texts(problems: list[tuple[str, Exception]]) -> list[str]:
    """Why parts could not be fetched. One sentence lists everything that access control refuses."""
    texts = [f"{what}: {error}" for what, error in problems if not isinstance(error, AccessRefused)]
    refused = [error for _, error in problems if isinstance(error, AccessRefused)]
    if refused:
        names = dict.fromkeys(error.request.name for error in refused)
        texts.append(f"the log is followed without {', '.join(names)}: {refused[0]}")
    return texts


def _present(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry without the members that are null."""
    return {name: value for name, value in entry.items() if value is not None}


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part

"""An engine port that gives scripted replies, without an engine, a clock or a socket.

``replies`` maps a command's type to a reply, an error, or a function of the command that returns one of them. A pull or
pop without a scripted reply, or with a function that returns None, is held until the test calls ``wake`` or the
connection closes.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from bridge.port import (
    BrokerError,
    Delta,
    EventBatch,
    PortUnavailable,
    RequestError,
    ResponseCode,
    Watcher,
    commands,
    raise_failed,
)
from broker_core.formats import commit_log_record, message_properties

Script = Any
BROKER = "broker-a"
HISTOGRAM = commands.Histogram(bounds=[10, 100], counts=[1, 2, 3])


def record(
    body: bytes = b"hello",
    *,
    topic: str = "T",
    queue_id: int = 0,
    queue_offset: int = 0,
    properties: dict[str, str] | None = None,
    **fields: Any,
) -> bytes:
    """A commit log record, as the engine sends it."""
    defaults: dict[str, Any] = {
        "born_timestamp": 1_700_000_000_000,
        "store_timestamp": 1_700_000_000_005,
        "physical_offset": 1024,
        "born_host": "10.0.0.2",
        "store_host": "10.0.0.1",
        "born_port": 50_000,
    }
    return commit_log_record.encode(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        body=body,
        properties=message_properties.encode(properties or {}),
        **defaults | fields,
    )


def broker_view(**changes: Any) -> commands.BrokerView:
    fields: dict[str, Any] = {
        "broker": BROKER,
        "epoch": 7,
        "seq": 41,
        "role": "MASTER",
        "version": "0",
        "started_at_ms": 1,
        "uptime_ms": 2,
        "read_only": False,
        "problem": "",
        "config": {"longPollingEnable": True, "brokerName": BROKER},
        "positions": commands.StorePositions(min=0, appended=30, flushed=20, dispatched=30),
        "changeable": ["longPollingEnable"],
        "recovery": [],
        "store_path": "/data/store",
        "replication": commands.Replication(
            broker_role="ASYNC_MASTER",
            ha_listen_port=0,
            slaves_needed=0,
            slaves=[],
            waiting=0,
            timeouts=0,
            refused=0,
            last_refused=None,
        ),
    }
    return commands.BrokerView(**fields | changes)


def hold_view(hold_id: int = 1, *, topic: str = "T", group: str = "G") -> commands.HoldView:
    return commands.HoldView(
        broker=BROKER,
        id=hold_id,
        topic=topic,
        queue_id=0,
        group=group,
        client_id="c",
        protocol="http",
        pull_from_offset=3,
        queue_max_offset=3,
        suspended_at_ms=1,
        deadline_ms=2,
        filter="*",
    )


def queue_view(topic: str = "T", queue_id: int = 0, max_offset: int = 5) -> commands.QueueView:
    return commands.QueueView(
        broker=BROKER,
        topic=topic,
        queue_id=queue_id,
        min_offset=0,
        max_offset=max_offset,
        last_store_time_ms=None,
        holds=0,
    )


def client_view(client_id: str = "java-1", **changes: Any) -> commands.ClientView:
    fields: dict[str, Any] = {
        "broker": BROKER,
        "protocol": "remoting",
        "remote": "10.0.0.7:50001",
        "language": "JAVA",
        "version": 493,
        "connected_at_ms": 1_700_000_000_000,
        "last_heartbeat_ms": 1_700_000_030_000,
        "producer_groups": [],
        "consumer_groups": [],
        "holds": 2,
    }
    return commands.ClientView(client_id=client_id, **fields | changes)


def group_queue(queue_id: int, assigned_to: str | None, **changes: Any) -> commands.GroupQueueView:
    fields: dict[str, Any] = {
        "topic": "T",
        "polled_by": assigned_to,
        "polled_ms_ago": 12,
        "state": "held",
        "offset": 2,
        "pull_offset": 4,
        "min_offset": 0,
        "max_offset": 10,
        "lag": 8,
        "lag_ms": 5,
        "why": "because",
    }
    return commands.GroupQueueView(queue_id=queue_id, assigned_to=assigned_to, **fields | changes)


def group_retries(**changes: Any) -> commands.GroupRetries:
    fields: dict[str, Any] = {
        "broker": BROKER,
        "waiting": 0,
        "next_due_ms": None,
        "counted": True,
        "dead_letter_topic": "%DLQ%G",
        "dead_letters": 0,
        "dead_letters_from": 0,
    }
    return commands.GroupRetries(**fields | changes)


def group_detail(**changes: Any) -> commands.ConsumerGroupDetail:
    fields: dict[str, Any] = {
        "seq": 41,
        "broker": BROKER,
        "group": "G",
        "consume_type": "CONSUME_PASSIVELY",
        "message_model": "CLUSTERING",
        "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
        "members": [client_view("java-1"), client_view("web-1")],
        "subscriptions": [commands.SubscriptionData(topic="T", sub_string="TagA", sub_version=7)],
        "queues": [group_queue(0, "java-1"), group_queue(1, "web-1", offset=None, lag=None, lag_ms=None)],
        "queues_total": 2,
        "missing_topics": [],
        "retries": group_retries(),
    }
    return commands.ConsumerGroupDetail(**fields | changes)


def wake_up(seq: int, *, topic: str = "T", group: str = "G") -> commands.WakeUp:
    return commands.WakeUp(
        seq=seq,
        wall_ms=1,
        hold_id=1,
        topic=topic,
        queue_id=0,
        group=group,
        client_id="c",
        cause="arrival",
        held_us=5,
        wake_us=2,
        messages=1,
    )


def snapshot(seq: int = 41, epoch: int = 7, **changes: Any) -> commands.Snapshot:
    fields: dict[str, Any] = {
        "broker": BROKER,
        "epoch": epoch,
        "seq": seq,
        "wall_ms": 1,
        "long_polling_enable": True,
        "short_polling_time_mills": 1000,
        "problem": "",
        "holds_total": 2,
        "queues_total": 2,
        "holds": [hold_view(1), hold_view(2, topic="U", group="H")],
        "queues": [queue_view(), queue_view("U")],
        "wakeups": [wake_up(3), wake_up(4, topic="U", group="H")],
        "wakeup_us": HISTOGRAM,
        "held_ms": HISTOGRAM,
        "counters": {
            "messages_stored": 9,
            "woken_arrival": 4,
            "woken_timeout": 2,
            "holds_now": 2,
            "connections_now": 5,
            "groups_now": 3,
            "members_now": 4,
        },
        "positions": commands.StorePositions(min=0, appended=30, flushed=20, dispatched=30),
    }
    return commands.Snapshot(**fields | changes)


def topic_metrics(topic: str = "T", **changes: Any) -> commands.TopicMetrics:
    fields: dict[str, Any] = {
        "is_system": False,
        "lag": 8,
        "oldest_ms": 5000,
        "in_flight": 2,
        "ready": 6,
        "unknown_queues": 0,
        "delivered": 4,
    }
    return commands.TopicMetrics(topic=topic, **fields | changes)


def group_metrics(group: str = "G", *topics: commands.TopicMetrics, **changes: Any) -> commands.GroupMetrics:
    fields: dict[str, Any] = {
        "state": "stalled",
        "holds": 1,
        "retrying": 3,
        "dead_letters": 2,
        "dead_lettered": 7,
        "verdicts": [
            commands.VerdictLine(id="listener_blocked", severity="error", sentence=f"{group} stands still: 2 messages.")
        ],
    }
    return commands.GroupMetrics(group=group, topics=[*topics] or [topic_metrics()], **fields | changes)


def broker_metrics(*groups: commands.GroupMetrics, **changes: Any) -> commands.BrokerMetrics:
    fields: dict[str, Any] = {
        "broker": BROKER,
        "cluster": "DefaultCluster",
        "disk_used_percent": 25.0,
        "slaves": 1,
        "slave_lag_bytes": 700,
        "slave_timeouts": 3,
        "groups_left_out": 0,
        "topics_left_out": 0,
        "timers": commands.TimerFigures(
            enqueue_lag=4,
            enqueue_latency_ms=30,
            dequeue_lag=7,
            dequeue_latency_ms=0,
            waiting={"T": 7},
            enqueued={"T": 9},
            dequeued={"T": 2},
            left_out=6,
        ),
        "transactions": commands.EndedTransactions(committed={"T": 3}, rolled_back={"T": 1}, left_out=8),
    }
    return commands.BrokerMetrics(groups=[*groups], **fields | changes)


def delta(seq_from: int, seq_to: int, epoch: int = 7, **changes: Any) -> Delta:
    fields: dict[str, Any] = {
        "broker": BROKER,
        "epoch": epoch,
        "seq_from": seq_from,
        "seq_to": seq_to,
        "wall_ms": 2,
        "holds_added": [],
        "holds_removed": [],
        "holds_total": 0,
        "queues": [],
        "queues_removed": [],
        "wakeups": [],
        "counters": {},
        "client_events": [],
        "wakeup_us": HISTOGRAM,
        "held_ms": HISTOGRAM,
        "long_polling_enable": True,
        "problem": "",
        "dropped": 0,
    }
    return Delta(**fields | changes)


def pulled(
    code: int = ResponseCode.SUCCESS,
    records: bytes = b"",
    *,
    next_offset: int = 1,
    hold: commands.HoldOutcome | None = None,
    granted_ms: int = 0,
) -> commands.Pulled:
    return commands.Pulled(
        code=code,
        status="FOUND",
        next_begin_offset=next_offset,
        min_offset=0,
        max_offset=1,
        suspend_timeout_ms=granted_ms,
        read_us=40,
        records=records,
        hold=hold,
    )


class HeldCall:
    """A pull that is held by the fake."""

    def __init__(
        self,
        hold_id: int,
        command: Any,
        request_id: int,
        connection: "FakeConnection",
        future: "asyncio.Future[commands.Reply]",
    ) -> None:
        self.hold_id = hold_id
        self.command = command
        self.request_id = request_id
        self.connection = connection
        self.future = future


class FakeConnection:
    """A PortConnection of the fake."""

    def __init__(self, port: "FakePort") -> None:
        self._port = port
        self._request_ids = count(1)
        self.is_open = True
        self.on_notice: Callable[[Any], None] = lambda notice: None

    def next_request_id(self) -> int:
        return next(self._request_ids)

    async def call(
        self,
        command: commands.Command,
        *,
        timeout_ms: int | None = None,
        on_held: Any = None,
        request_id: int | None = None,
    ) -> commands.Reply:
        if not self.is_open:
            raise PortUnavailable("this connection to the broker was closed")
        port = self._port
        request_id = request_id or self.next_request_id()
        if isinstance(command, commands.PullMessage | commands.PopMessage):
            port.commands.append(command)
            reply = await port.scripted(command)
            return await port.hold(self, command, request_id, on_held) if reply is None else raise_failed(reply)
        if isinstance(command, commands.CancelPull):
            port.cancel(self, command.request_id)
        return await port.call(command, timeout_ms=timeout_ms)

    def close(self) -> None:
        self.is_open = False
        for held in [held for held in self._port.held if held.connection is self]:
            self._port.end(held, PortUnavailable("the connection was closed"))


class FakePort:
    """See the module. ``commands`` are the received commands in order, ``held`` the held pulls."""

    def __init__(self) -> None:
        self.replies: dict[type[commands.Command], Script] = {
            commands.GetBroker: broker_view(),
            commands.GetSnapshot: snapshot(),
            commands.GetMetrics: broker_metrics(group_metrics()),
            commands.OpenConnection: commands.Done(),
            commands.CancelPull: commands.Done(),
            commands.UpdateConsumerOffset: commands.Done(),
            commands.SendMessage: sent,
        }
        self.commands: list[commands.Command] = []
        self.connections: list[FakeConnection] = []
        self.held: list[HeldCall] = []
        self.watchers: list[Watcher] = []
        self.changed = asyncio.Condition()
        self._hold_ids = count(1)

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    async def call(self, command: commands.Command, *, timeout_ms: int | None = None) -> commands.Reply:
        self.commands.append(command)
        reply = await self.scripted(command)
        if reply is None:
            raise BrokerError(f"no reply was scripted for {type(command).__name__}")
        return raise_failed(reply)

    async def scripted(self, command: commands.Command) -> Any:
        """The scripted reply to a command, or None. Scripted errors are raised."""
        reply: Any = self.replies.get(type(command))
        if callable(reply):
            reply = reply(command)
        if asyncio.iscoroutine(reply):
            reply = await reply
        if isinstance(reply, Exception):
            raise reply
        return reply

    answered_ms: int | None = None

    def connection(self) -> FakeConnection:
        connection = FakeConnection(self)
        self.connections.append(connection)
        return connection

    # Holds

    async def hold(
        self,
        connection: FakeConnection,
        command: Any,
        request_id: int,
        on_held: Callable[[commands.Held], None] | None,
    ) -> commands.Reply:
        future: asyncio.Future[commands.Reply] = asyncio.get_running_loop().create_future()
        held = HeldCall(next(self._hold_ids), command, request_id, connection, future)
        self.held.append(held)
        if on_held is not None:
            on_held(commands.Held(hold_id=held.hold_id, deadline_ms=1_700_000_015_000))
        await self._notify_changed()
        try:
            return raise_failed(await future)
        finally:
            if held in self.held:
                self.held.remove(held)
            await self._notify_changed()

    async def _notify_changed(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until_held(self, number: int) -> None:
        """Wait until exactly ``number`` pulls are held."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.held) == number)

    def end(self, held: HeldCall, outcome: commands.Reply | Exception) -> None:
        self.held.remove(held)
        if held.future.done():
            return
        if isinstance(outcome, Exception):
            held.future.set_exception(outcome)
        else:
            held.future.set_result(outcome)

    def wake(self, held: HeldCall, records: bytes = b"", *, cause: commands.WakeCause = "arrival") -> None:
        """Answer a held pull, with records or without any."""
        code = ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND
        self.end(
            held,
            pulled(
                code,
                records,
                granted_ms=held.command.suspend_timeout_ms,
                hold=commands.HoldOutcome(hold_id=held.hold_id, held_us=12_345, wake_us=67, wake_cause=cause),
            ),
        )

    def cancel(self, connection: FakeConnection, request_id: int) -> None:
        for held in list(self.held):
            if held.connection is connection and held.request_id == request_id:
                self.end(held, RequestError("the pull was cancelled", code=ResponseCode.ILLEGAL_OPERATION))

    # Watching

    def watch(self, watcher: Watcher, *, deltas: bool = False, events: bool = False) -> Callable[[], None]:
        self.watchers.append(watcher)
        return lambda: self.watchers.remove(watcher)

    def send_delta(self, change: Delta) -> None:
        for watcher in list(self.watchers):
            watcher.on_delta(change)

    def send_events(self, batch: EventBatch) -> None:
        for watcher in list(self.watchers):
            watcher.on_events(batch)


def sent(command: commands.SendMessage) -> commands.Sent:
    """The reply to a send: its messages have consecutive offsets."""
    return commands.Sent(
        code=ResponseCode.SUCCESS,
        topic=command.topic,
        messages=[
            commands.SentMessage(
                message_id=f"ID{index}",
                offset_message_id="0A00000100002A9F0000000000000400",
                queue_offset=index,
                queue_id=max(0, message.queue_id),
                physical_offset=1024 * index,
                store_time_ms=1_700_000_000_005,
            )
            for index, message in enumerate(command.messages)
        ],
    )

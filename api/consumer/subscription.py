"""One client's subscription to a topic: its share of the queues, its permits, its acknowledgements."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import UNSET

from api.consumer.permits import Buffer, Permits
from api.consumer.queue_consumer import Queue, QueueConsumer, Shared, Wanted
from api.http.answer_memory import Share
from api.http.limits import MAX_SPAN, MAX_WINDOW
from api.http.outbox import Outbox
from api.http.problems import Problem
from api.http.schemas import MessageView, copied
from api.websockets.frames import Ack, Assigned, AssignedQueue, MessageFrame, Nack, OpenMessage, SentFrame, Subscribe
from bridge.port import PortConnection, ResponseCode, commands


class Client(Protocol):
    """The part of its socket that a subscription uses."""

    outbox: Outbox
    places: asyncio.Semaphore
    buffer: Buffer

    def put(self, frame: SentFrame, share: Share | None = None) -> None: ...

    def put_problem(self, problem: Problem, frame_id: Any = UNSET) -> None: ...

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]: ...


class Offset(NamedTuple):
    """An offset to commit for the queue of ``consumer``."""

    consumer: QueueConsumer
    offset: int


class Subscription:
    """Calls ``on_problem`` when a queue cannot be pulled, whatever the reason."""

    def __init__(self, client: Client, client_id: str, frame: Subscribe, on_problem: Callable[[Problem], None]) -> None:
        self.id = frame.id
        self.topic = frame.topic
        self.group = frame.group
        self.wanted = Wanted(frame.group, client_id, frame.filter or "*", frame.filter_type.upper(), frame.start)
        self._client = client
        self._on_queue_problem = on_problem
        self._permits = Permits()
        self._consumers: dict[Queue, QueueConsumer] = {}
        self._by_queue_id: dict[int, list[QueueConsumer]] = {}
        self._tasks: dict[Queue, asyncio.Task[None]] = {}
        self._assigned = False
        self._seq = 0

    # --- Queues ---

    def assign(self, queues: Iterable[Queue], members: int, connections: Mapping[str, PortConnection]) -> list[Offset]:
        """Consume these queues, and no others; send `assigned` if that is a change. Returns what is left to commit."""
        wanted = set(queues)
        if self._assigned and wanted == self._consumers.keys():
            return []
        self._assigned = True
        offsets = [offset for queue in self._consumers.keys() - wanted for offset in self._drop(queue)]
        for queue in sorted(wanted - self._consumers.keys()):
            self._take(queue, connections[queue.broker])
        self._by_queue_id = {}
        for queue, consumer in self._consumers.items():
            self._by_queue_id.setdefault(queue.queue_id, []).append(consumer)
        self._client.put(
            Assigned(
                id=self.id,
                members=members,
                queues=[
                    AssignedQueue(topic=queue.topic, broker=queue.broker, queue_id=queue.queue_id)
                    for queue in sorted(wanted)
                ],
            )
        )
        return offsets

    def end(self) -> list[Offset]:
        """Consume nothing any more. Returns what is left to commit."""
        return [offset for queue in list(self._consumers) for offset in self._drop(queue)]

    def _take(self, queue: Queue, connection: PortConnection) -> None:
        client = self._client
        shared = Shared(self._permits, client.places, client.buffer, client.outbox)
        consumer = QueueConsumer(queue, self.wanted, shared, connection, send=self._send, on_problem=self._on_problem)
        self._consumers[queue] = consumer
        self._tasks[queue] = client.start(consumer.run(), f"consumer of {queue}")

    def _drop(self, queue: Queue) -> list[Offset]:
        self._tasks.pop(queue).cancel()
        return _to_commit([self._consumers.pop(queue)])

    def _send(self, message: MessageView, share: Share) -> None:
        self._seq += 1
        self._client.put(copied(MessageFrame, message, id=self.id, seq=self._seq), share)

    def _on_problem(self, queue: Queue, problem: Problem) -> None:
        """Send the problem once, though all queues may have it at the same time."""
        if not any(consumer.problem == problem.detail for consumer in self._consumers.values()):
            self._client.put_problem(problem, self.id)
        self._on_queue_problem(problem)

    def to_commit(self) -> list[Offset]:
        """Offsets that differ from the committed ones."""
        return _to_commit(self._consumers.values())

    def window(self) -> commands.ConsumerWindow:
        """How much the client still accepts."""
        consumers = self._consumers.values()
        return commands.ConsumerWindow(
            topic=self.topic,
            permits=self._permits.left,
            unacknowledged=sum(map(_open, consumers)),
            is_full=any(consumer.progress is not None and consumer.progress.span >= MAX_SPAN for consumer in consumers),
        )

    # --- Frames of the client ---

    def permit(self, number: int) -> None:
        """Problem 429 when unused permits and unacknowledged messages would be more than ``MAX_WINDOW`` together."""
        left, unacknowledged = self._permits.left, sum(map(_open, self._consumers.values()))
        if left + unacknowledged + number > MAX_WINDOW:
            raise Problem(
                429,
                f"{left} permits are not used and {unacknowledged} messages are not acknowledged; with "
                f"{number} more permits that exceeds the maximum of {MAX_WINDOW}",
                code=ResponseCode.FLOW_CONTROL,
                pointer="/n",
            )
        self._permits.add(number)

    def ack(self, ack: Ack) -> None:
        """Acknowledge all entries; none, with Problem 400, when one could mean several messages."""
        find = _Finder(self._by_queue_id)
        open_messages = [find(entry, f"/offsets/{index}") for index, entry in enumerate(ack.offsets)]
        for consumer, offset in filter(None, open_messages):
            consumer.finish(offset)

    async def nack(self, nack: Nack, connections: Mapping[str, PortConnection]) -> None:
        """Send the message back to the broker, which delivers it again later; then it is acknowledged here."""
        entry = OpenMessage(offset=nack.offset, queue_id=nack.queue_id, topic=nack.topic, broker=nack.broker)
        open_message = _Finder(self._by_queue_id)(entry, "/offset")
        if open_message is None:
            raise Problem(
                404,
                "this message is not open here: it is acknowledged already, or its queue is now another client's",
                code=ResponseCode.QUERY_NOT_FOUND,
                pointer="/offset",
            )
        consumer, offset = open_message
        assert consumer.progress is not None
        await connections[consumer.queue.broker].call(
            commands.ConsumerSendMsgBack(
                group=self.group,
                physical_offset=consumer.progress.physical_offset(offset),
                delay_level=nack.delay_level,
                origin_topic=consumer.queue.topic,
            )
        )
        consumer.finish(offset)


def _open(consumer: QueueConsumer) -> int:
    return len(consumer.progress) if consumer.progress is not None else 0


def _to_commit(consumers: Iterable[QueueConsumer]) -> list[Offset]:
    return [
        Offset(consumer, consumer.progress.done_to)
        for consumer in consumers
        if consumer.progress is not None and consumer.progress.done_to != consumer.progress.committed
    ]


class _Finder:
    """Finds the open message that an entry of an ack means: its consumer and offset, None when there is none."""

    def __init__(self, by_queue_id: Mapping[int, list[QueueConsumer]]) -> None:
        self._by_queue_id = by_queue_id
        self._by_offset: dict[int, list[QueueConsumer]] | None = None

    def __call__(self, entry: int | OpenMessage, pointer: str) -> tuple[QueueConsumer, int] | None:
        if isinstance(entry, int):
            entry = OpenMessage(offset=entry)
        matching = [
            consumer
            for consumer in self._candidates(entry)
            if consumer.progress is not None
            and entry.offset in consumer.progress
            and entry.topic in (UNSET, consumer.queue.topic)
            and entry.broker in (UNSET, consumer.queue.broker)
        ]
        if len(matching) > 1:
            places = ", ".join(f"{consumer.queue} at {consumer.queue.broker}" for consumer in matching[:4])
            raise Problem(
                400,
                f"offset {entry.offset} is open in {places}: name topic, queue_id and broker as the message had them",
                pointer=pointer,
            )
        return (matching[0], entry.offset) if matching else None

    def _candidates(self, entry: OpenMessage) -> list[QueueConsumer]:
        if entry.queue_id is not UNSET:
            return self._by_queue_id.get(entry.queue_id, [])
        if self._by_offset is None:
            self._by_offset = {}
            for consumers in self._by_queue_id.values():
                for consumer in consumers:
                    for offset in consumer.progress or ():
                        self._by_offset.setdefault(offset, []).append(consumer)
        return self._by_offset.get(entry.offset, [])

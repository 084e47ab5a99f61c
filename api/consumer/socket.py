"""``/ws/v1/consumer``: pull, commit, publish and subscribe over one WebSocket, many pulls held at once.

Every pull and publish is a task of its own, so each is answered as soon as it is ready. The socket has one connection
to the engine; closing it releases all holds. A pull that reads takes one of a few places until its answer is written,
and gives it back while it is held, so a client cannot pull more than it reads. ``membership.py`` has subscriptions and
the connections to other brokers.
"""

import asyncio
from functools import partial
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from api.consumer import receiving
from api.consumer.membership import Membership
from api.consumer.permits import Buffer, Place
from api.http import brokers
from api.http.asgi import Receive, Scope, Send
from api.http.limits import (
    MAX_BUFFERED,
    MAX_PUBLISHED_BYTES_PER_SOCKET,
    MAX_PUBLISHES_PER_SOCKET,
    MAX_PULLED_BODIES,
    MAX_PULLS_PER_SOCKET,
    MAX_READS_PER_SOCKET,
    MAX_RECEIVES_PER_SOCKET,
)
from api.http.problems import Problem, move_pointer, problem_of
from api.http.request import expect
from api.http.schemas import CommittedOffset, OffsetToCommit, copied
from api.resources.offsets import commit_command
from api.resources.publishing import FIELDS_OF_ONE, outgoing, point_at_fields, published
from api.resources.pulls import PullResult, clamp_wait, read_pull
from api.websockets.frames import (
    SUBPROTOCOL,
    SUPPORTED,
    Ack,
    Acknowledge,
    Cancel,
    Cancelled,
    Commit,
    Committed,
    ConsumerRequest,
    HeldFrame,
    Hello,
    Lease,
    Limits,
    Nack,
    Permit,
    Ping,
    Pong,
    Publish,
    PublishedFrame,
    Pull,
    PulledFrame,
    ReceiveFrame,
    Subscribe,
    Unsubscribe,
    Unsubscribed,
    Welcome,
    Woken,
)
from api.websockets.socket import Socket
from bridge.port import BrokerError, PortConnection, ResponseCode, commands

_numbers = count(1)


class ConsumerSocket(Socket):
    """One client of the broker."""

    requests = ConsumerRequest
    subprotocol = SUBPROTOCOL

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._client_id = ""
        self._pulls: dict[int | str, int] = {}
        """The pulls and receives under way: frame id -> request id."""
        self._receives: set[int] = set()
        """The request ids of receives."""
        self._cancelled: set[int] = set()
        self.places = asyncio.Semaphore(MAX_READS_PER_SOCKET)
        self.buffer = Buffer(MAX_BUFFERED)
        self._connections: dict[str, PortConnection] = {}
        self._membership: Membership | None = None
        self._publishes = 0
        self._published_bytes = 0
        client = scope.get("client") or ("127.0.0.1", 0)
        self._remote: str = client[0]
        self._remote_port: int = client[1]

    async def opened(self) -> None:
        self._broker, self._port = brokers.first_broker(self.broker_asked)
        self._connection = self._connections[self._broker] = self._port.connection()

    def busy(self) -> bool:
        return bool(self._pulls or self._publishes or self._membership)

    async def leaving(self) -> None:
        if self._membership is not None:
            await self._membership.leave()

    def closed(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def handle(self, request: Any, size: int) -> None:
        match request:
            case Pull() | ReceiveFrame():
                await self._open_connection()
                self._start_pull(request)
            case Publish():
                self._start_publish(request, size)
            case Commit():
                await self._commit(request)
            case Acknowledge():
                self.put(await receiving.acknowledge(request, self.broker_asked))
            case Lease():
                self.put(await receiving.change_lease(request, self.broker_asked))
            case Cancel():
                await self._cancel(request)
            case Ping():
                self.put(Pong(id=request.id))
            case Hello():
                await self._hello(request)
            case Subscribe() | Permit() | Ack() | Nack() | Unsubscribe():
                await self._handle_as_member(request)

    # hello

    async def _hello(self, hello: Hello) -> None:
        if self._client_id:
            raise Problem(
                409,
                f"this socket already has the client id {self._client_id}; hello may only be the first frame",
                code=ResponseCode.ILLEGAL_OPERATION,
                pointer="/type",
            )
        await self._open_connection(hello.client_id)
        self.put(Welcome(broker=self._broker, client_id=self._client_id, supported=SUPPORTED, limits=Limits()))

    async def _open_connection(self, client_id: str = "") -> None:
        """Register this client's connection with the engine, once."""
        if not self._client_id:
            self._client_id = client_id or f"{self._remote}:{self._remote_port}#{next(_numbers)}"
            await self._connection.call(
                commands.OpenConnection(
                    client_id=self._client_id, protocol="websocket", remote=f"{self._remote}:{self._remote_port}"
                )
            )

    # subscribe, permit, ack, nack, unsubscribe

    async def _handle_as_member(self, request: Subscribe | Permit | Ack | Nack | Unsubscribe) -> None:
        if isinstance(request, Subscribe) and request.id in self._pulls:
            raise _id_taken("pull", request.id)
        await self._open_connection()
        if self._membership is None:
            self._membership = Membership(
                self, self._client_id, f"{self._remote}:{self._remote_port}", self._connections
            )
        membership = self._membership
        match request:
            case Subscribe():
                await membership.subscribe(request)
            case Permit():
                membership.get(request.id).permit(request.n)
            case Ack():
                membership.get(request.id).ack(request)
            case Nack():
                await membership.get(request.id).nack(request, self._connections)
            case Unsubscribe():
                await membership.unsubscribe(request.id)
                self.put(Unsubscribed(id=request.id))

    # pull, receive, cancel

    def _start_pull(self, pull: Pull | ReceiveFrame) -> None:
        if pull.id in self._pulls or (self._membership is not None and pull.id in self._membership):
            raise _id_taken("pull" if pull.id in self._pulls else "subscription", pull.id)
        if len(self._pulls) >= MAX_PULLS_PER_SOCKET:
            raise Problem(
                429,
                f"{MAX_PULLS_PER_SOCKET} pulls and receives are under way on this socket, the maximum",
                code=ResponseCode.FLOW_CONTROL,
                retry_after_s=1,
            )
        if isinstance(pull, ReceiveFrame) and len(self._receives) >= MAX_RECEIVES_PER_SOCKET:
            raise Problem(
                429,
                f"{MAX_RECEIVES_PER_SOCKET} receives are under way on this socket, the maximum",
                code=ResponseCode.FLOW_CONTROL,
                retry_after_s=1,
            )
        request_id = self._connection.next_request_id()
        self._pulls[pull.id] = request_id
        if isinstance(pull, ReceiveFrame):
            self._receives.add(request_id)
        self.start(self._pull(pull, request_id), f"pull of {pull.topic}")

    async def _pull(self, pull: Pull | ReceiveFrame, request_id: int) -> None:
        place = Place(self.places)

        def on_held(held: commands.Held) -> None:
            place.give_back()
            self.put(HeldFrame(id=pull.id, hold_id=held.hold_id, deadline_ms=held.deadline_ms))

        try:
            await place.take()
            await self.outbox.room()
            if request_id in self._cancelled:
                self.put(Cancelled(id=pull.id))
                return
            # No variable here has the messages, so that those for which the buffer has no room are freed.
            call = partial(self._connection.call, on_held=on_held, request_id=request_id)
            if isinstance(pull, ReceiveFrame):
                pop = receiving.pop_command(pull, self._client_id)
                await receiving.send_received(
                    self, self.buffer, self._port, self._broker, pull, pop, expect(await call(pop), commands.Popped)
                )
            else:
                command = self._pull_command(pull)
                await self._send_in_turn(pull, command, expect(await call(command), commands.Pulled))
        except (BrokerError, Problem) as error:
            if request_id in self._cancelled:
                self.put(Cancelled(id=pull.id))
            else:
                self.put_problem(problem_of(error) if isinstance(error, BrokerError) else error, pull.id)
        finally:
            place.give_back()
            self._cancelled.discard(request_id)
            self._receives.discard(request_id)
            del self._pulls[pull.id]

    def _pull_command(self, pull: Pull) -> commands.PullMessage:
        return commands.PullMessage(
            topic=pull.topic,
            queue_id=pull.queue_id,
            queue_offset=pull.offset,
            max_msg_nums=pull.limit,
            suspend_timeout_ms=clamp_wait(pull.wait_ms),
            consumer_group=pull.group,
            client_id=self._client_id,
            protocol="websocket",
            subscription=pull.filter or "*",
            expression_type=pull.filter_type.upper(),
            report_hold=True,
        )

    async def _send_in_turn(self, pull: Pull, command: commands.PullMessage, pulled: commands.Pulled) -> None:
        """Send the answer in its turn. Messages for which the buffer has no room until then are pulled again."""
        hold, size = pulled.hold, len(pulled.records)
        is_kept = self.buffer.take(size)
        if not is_kept:
            del pulled
        try:
            async with self.outbox.turn():
                if not is_kept:
                    reply = await self._connection.call(msgspec.structs.replace(command, suspend_timeout_ms=0))
                    pulled = msgspec.structs.replace(expect(reply, commands.Pulled), hold=hold)
                await self._send_pulled(pull, pulled)
        finally:
            if is_kept:
                self.buffer.give_back(size)

    async def _send_pulled(self, pull: Pull, pulled: commands.Pulled) -> None:
        hold = pulled.hold
        if hold is not None:
            self.put(Woken(id=pull.id, hold_id=hold.hold_id, cause=hold.wake_cause, held_ms=hold.held_us // 1000))
        read = partial(read_pull, pulled, self._broker, MAX_PULLED_BODIES, offset=pull.offset, limit=pull.limit)
        result, share = await self.outbox.make(read, _size)
        self.put(copied(PulledFrame, result, id=pull.id), share)

    async def _cancel(self, cancel: Cancel) -> None:
        request_id = self._pulls.get(cancel.id)
        if request_id is None:
            raise Problem(
                404,
                f"no pull or receive with the id {cancel.id!r} is under way on this socket",
                code=ResponseCode.QUERY_NOT_FOUND,
                pointer="/id",
            )
        self._cancelled.add(request_id)
        await self._connection.call(commands.CancelPull(request_id=request_id))

    # commit, publish

    async def _commit(self, commit: Commit) -> None:
        await self._open_connection()
        offsets = _offsets(commit)
        try:
            await self._connection.call(commit_command(commit.group, offsets, self._client_id))
        except BrokerError as error:
            if not commit.offsets:
                move_pointer(error, "/offsets/0", "")
            raise
        self.put(
            Committed(id=commit.id, group=commit.group, offsets=[copied(CommittedOffset, entry) for entry in offsets])
        )

    def _start_publish(self, publish: Publish, size: int) -> None:
        if self._publishes >= MAX_PUBLISHES_PER_SOCKET or self._published_bytes + size > MAX_PUBLISHED_BYTES_PER_SOCKET:
            raise Problem(
                429,
                "too many messages of this socket are not stored yet; wait for `published`",
                code=ResponseCode.FLOW_CONTROL,
                retry_after_s=1,
            )
        command = commands.SendMessage(
            topic=publish.topic,
            messages=_messages(publish),
            born_host=self._remote,
            born_port=self._remote_port,
            idempotency_key=publish.idempotency_key or "",
        )
        self._publishes += 1
        self._published_bytes += size
        self.start(self._publish(publish, command, size), f"publish to {publish.topic}")

    async def _publish(self, publish: Publish, command: commands.SendMessage, size: int) -> None:
        try:
            sent = expect(await self._connection.call(command), commands.Sent)
            self.put(PublishedFrame(id=publish.id, messages=published(sent, self._broker).messages))
        except BrokerError as error:
            point_at_fields(error, is_single=not publish.messages)
            self.put_problem(problem_of(error), publish.id)
        except Problem as problem:
            self.put_problem(problem, publish.id)
        finally:
            self._publishes -= 1
            self._published_bytes -= size


def _size(result: PullResult) -> int:
    return sum(len(message.body) for message in result.messages)


def _id_taken(what: str, frame_id: int | str) -> Problem:
    return Problem(
        409,
        f"a {what} with the id {frame_id!r} is under way on this socket",
        code=ResponseCode.ILLEGAL_OPERATION,
        pointer="/id",
    )


def _offsets(commit: Commit) -> list[OffsetToCommit]:
    """The frame's offsets: its list, or the offset of one queue."""
    topic, queue_id, offset = commit.topic, commit.queue_id, commit.offset
    if commit.offsets and topic is queue_id is offset is UNSET:
        return commit.offsets
    if not (
        commit.offsets
        or isinstance(topic, UnsetType)
        or isinstance(queue_id, UnsetType)
        or isinstance(offset, UnsetType)
    ):
        return [OffsetToCommit(topic=topic, queue_id=queue_id, offset=offset)]
    raise Problem(400, "send offsets, or topic, queue_id and offset", pointer="/offsets")


def _messages(publish: Publish) -> list[commands.OutgoingMessage]:
    """The frame's messages: the one in its fields, or its list."""
    if not publish.messages:
        if not publish.body:
            raise Problem(400, "a publish needs a body, or messages", pointer="/body")
        return [outgoing(publish, "")]
    if publish.body:
        raise Problem(400, "a publish needs a body or messages, not both", pointer="/messages")
    for name, default in FIELDS_OF_ONE.items():
        if getattr(publish, name) != default:
            raise Problem(400, f"with messages, {name} is a field of each message", pointer=f"/{name}")
    return [outgoing(message, f"/messages/{index}") for index, message in enumerate(publish.messages)]


async def consumer_application(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application of one consumer's WebSocket."""
    await ConsumerSocket(scope, receive, send).run()

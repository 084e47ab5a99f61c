"""One client connection of the broker: RocketMQ's frames on one side, the engine on the other.

    frames of one read --> decode --> runner.submit, each under a request id of this connection
    replies of a turn  --> encode --> channel.send, which writes those of one turn as one
    a client's answers --> the callers of ``invoke``

The meaning of a request is in ``remoting/requests``, and the engine decides what is allowed. This module only has the
tables of requests that wait for answers. Each table has a limit.
"""

import asyncio
import logging
from collections import deque
from typing import NamedTuple, Protocol

from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import (
    NOTICE_ID,
    CloseConnection,
    Command,
    Failed,
    HeartBeat,
    HeartBeatDone,
    Notice,
    OpenConnection,
    RelayToConsumer,
    Reply,
    ReplyMessage,
)
from broker_core.errors import UnavailableError
from broker_core.remoting.remoting_command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand, SerializeType
from broker_core.remoting.requests import Identity, Peer, Relay, decode, encode
from broker_core.remoting.requests.notices import encode_notice
from broker_core.server.engine_runner import Connection
from broker_core.tasks import start_task

log = logging.getLogger(__name__)

MAX_PENDING = 10_000
"""Requests of one connection that wait for answers, with held pulls; as many as RocketMQ queues sends."""

MAX_BACKLOG = 100_000
"""Requests of all connections that wait for the engine; as many as RocketMQ queues pulls."""

MAX_RELAYS = 64
"""Requests of one connection that wait for the answers of other clients: as many replies as a stock consumer has
threads at most."""

MAX_RELAYED_BYTES = 16 << 20
"""Bytes of their bodies. One request is passed on however large it is."""

MAX_WAITING_RELAYS = 1024
"""Further requests of one connection, which are passed on as others are answered."""

MAX_WAITING_BYTES = 16 << 20
"""Bytes of their bodies. One request waits however large it is."""

MAX_CALLS = 256
"""Questions that wait for one client's answer."""

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
_NOBODY = 0
"""The request id of commands without a waiting request."""


class Runner(Protocol):
    """An EngineRunner, as far as sessions need one."""

    handled: int

    @property
    def submitted(self) -> int: ...

    @property
    def backlog(self) -> int: ...

    def has_waiting(self, connection: Connection) -> bool: ...

    def is_delayed(self, connection: Connection) -> bool: ...

    def submit(self, connection: Connection, request_id: int, command: Command) -> None: ...


class Channel(Protocol):
    """A TCP connection, as far as sessions need one."""

    remote_host: str
    remote_port: int

    def send(self, data: bytes) -> None: ...


class BrokerSessions:
    """All client connections of one broker, also by client id."""

    def __init__(self, runner: Runner, identity: Identity) -> None:
        self.runner = runner
        self.identity = identity
        self._by_client: dict[str, BrokerSession] = {}

    def make_session(self, channel: Channel) -> "BrokerSession":
        """Create the session of a connection that was just accepted."""
        return BrokerSession(channel, self)

    def find(self, client_id: str) -> "BrokerSession | None":
        """The connection that this client sent its last heartbeat on."""
        return self._by_client.get(client_id)

    def bind_client(self, client_id: str, session: "BrokerSession") -> None:
        """A heartbeat arrived: this is now the client's connection."""
        self._by_client[client_id] = session

    def forget(self, client_id: str, session: "BrokerSession") -> None:
        """The connection has closed."""
        if self._by_client.get(client_id) is session:
            del self._by_client[client_id]


class _Several:
    """A request that became several commands, with the replies so far, in the order of the commands."""

    __slots__ = ("first_id", "missing", "replies", "request")

    def __init__(self, request: RemotingCommand, first_id: int, count: int) -> None:
        self.request = request
        self.first_id = first_id
        self.missing = count
        self.replies: list[Reply] = [_NOT_YET] * count

    def put(self, request_id: int, reply: Reply) -> bool:
        """Store a reply. Returns whether it was the last one."""
        self.replies[request_id - self.first_id] = reply
        self.missing -= 1
        return not self.missing


class _Named(NamedTuple):
    """A heartbeat, with the client id in it."""

    request: RemotingCommand
    client_id: str


_NOT_YET = Failed(code=ResponseCode.SYSTEM_ERROR, kind="store", remark="")


class BrokerSession:
    """RocketMQ's channel of one client."""

    def __init__(self, channel: Channel, sessions: BrokerSessions) -> None:
        self._channel = channel
        self._sessions = sessions
        self._submit = sessions.runner.submit
        self._identity = sessions.identity
        self._peer = Peer(channel.remote_host, channel.remote_port)
        self._connection = Connection(self._take_replies, self)
        self._request_id = _NOBODY
        self._submitted = 0  # the runner's count of commands after the last frames
        self._pending: dict[int, RemotingCommand | _Several | _Named] = {}
        self._opaque = 0
        self._calls: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._relays: dict[asyncio.Task[None], bool] = {}  # and whether each pushes a reply
        self._relayed_bytes = 0
        self._waiting_relays: deque[tuple[Relay, RemotingCommand, bool]] = deque()
        self._waiting_bytes = 0
        self._speaks: SerializeType = "JSON"
        self._closed = False
        self._submit(
            self._connection,
            _NOBODY,
            OpenConnection(client_id="", protocol="remoting", remote=f"{channel.remote_host}:{channel.remote_port}"),
        )

    # --- from the client ------------------------------------------------------------------------------------------

    def receive(self, commands: list[RemotingCommand]) -> None:
        """Handle the frames of one read."""
        room = MAX_BACKLOG - self._sessions.runner.backlog
        for command in commands:
            if command.flag & RESPONSE_FLAG:
                self._take_answer(command)
            elif room > 0 and len(self._pending) < MAX_PENDING:
                room -= self._take_request(command)
            else:
                self._answer(Failed(code=ResponseCode.SYSTEM_BUSY, kind="unavailable", remark=OVERLOAD), command)
        self._submitted = self._sessions.runner.submitted

    @property
    def ready(self) -> bool:
        """Whether the engine has handled everything received."""
        runner = self._sessions.runner
        return runner.handled >= self._submitted and not runner.has_waiting(self._connection)

    @property
    def delayed(self) -> bool:
        """Whether requests of this client wait because it sends more than its share."""
        return self._sessions.runner.is_delayed(self._connection)

    def _take_request(self, request: RemotingCommand) -> int:
        """Submit a request to the engine, or answer it at once if possible. Returns how many commands it became."""
        decoded = decode(request, self._peer)
        if isinstance(decoded, Reply):
            self._answer(decoded, request)
            return 0
        request.body = b""  # the command contains it; the answer may take as long as a flush
        request_id = self._request_id + 1
        if isinstance(decoded, list):
            several = _Several(request, request_id, len(decoded))
            for command in decoded:
                self._pending[request_id] = several
                self._submit(self._connection, request_id, command)
                request_id += 1
            self._request_id = request_id - 1
            return len(decoded)
        self._request_id = request_id
        self._pending[request_id] = _Named(request, decoded.client_id) if type(decoded) is HeartBeat else request
        self._submit(self._connection, request_id, decoded)
        return 1

    def _name(self, waiting: "_Named", reply: Reply) -> None:
        """A heartbeat names the client of this connection, unless the engine refuses it."""
        if type(reply) is HeartBeatDone:
            self._peer.client_id = waiting.client_id
            self._sessions.bind_client(waiting.client_id, self)
            self._speaks = waiting.request.serialize_type
        self._answer(reply, waiting.request)

    def closed(self) -> None:
        """The connection has closed: fail the calls that wait for this client, and answer nothing more.

        Its replies to others are pushed nevertheless.
        """
        self._closed = True
        replies = (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2)
        self._pending = {
            number: request
            for number, request in self._pending.items()
            if type(request) is RemotingCommand and request.code in replies
        }
        self._sessions.forget(self._peer.client_id, self)
        for task, is_push in self._relays.items():
            if not is_push:
                task.cancel()
        for call in self._calls.values():
            if not call.done():
                call.set_exception(ConnectionError("the connection was closed"))
        self._calls.clear()
        self._submit(self._connection, _NOBODY, CloseConnection())

    # --- from the engine ------------------------------------------------------------------------------------------

    def _take_replies(self, replies: list[tuple[Connection, int, Reply]]) -> None:
        """Send all replies of one turn."""
        for _, request_id, reply in replies:
            if self._closed and type(reply) is not ReplyMessage:
                continue  # a reply has another connection to go to
            waiting = self._pending.pop(request_id, None)
            if type(waiting) is RemotingCommand:
                self._answer(reply, waiting)
            elif type(waiting) is _Named:
                self._name(waiting, reply)
            elif waiting is not None:
                assert isinstance(waiting, _Several)
                if waiting.put(request_id, reply):
                    self._answer(waiting.replies, waiting.request)
            elif request_id == NOTICE_ID:
                assert isinstance(reply, Notice)
                notice = encode_notice(reply, self._next_opaque(), self._speaks)
                if notice is not None:
                    self._channel.send(notice.encode())

    def _answer(self, reply: Reply | list[Reply], request: RemotingCommand) -> None:
        """Send the response, or first ask the clients that it depends on."""
        if request.flag & ONEWAY_FLAG and type(reply) is not ReplyMessage:
            return
        response = encode(reply, request, self._identity)
        if isinstance(response, bytes):
            self._channel.send(response)
            return
        if isinstance(response, Relay):
            size = len(response.body)
            if len(self._waiting_relays) < MAX_WAITING_RELAYS and (
                not self._waiting_bytes or self._waiting_bytes + size <= MAX_WAITING_BYTES
            ):
                self._waiting_bytes += size
                self._waiting_relays.append((response, request, type(reply) is ReplyMessage))
                self._start_relays()
                return
            response = request.response(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        if not request.is_oneway:
            self._channel.send(_frame(response, request))

    # --- to the client, and its answers ------------------------------------------------------------------------------

    async def invoke(self, code: int, ext_fields: dict[str, str], body: bytes, timeout_s: float) -> RemotingCommand:
        """Send a request to the client and return its answer.

        Raises TimeoutError, ConnectionError, UnavailableError if too many calls wait, and ValueError for a request that
        does not fit into a frame.
        """
        if self._closed:
            raise ConnectionError("the connection was closed")
        if len(self._calls) >= MAX_CALLS:
            raise UnavailableError(f"{MAX_CALLS} requests wait for this client's answers")
        opaque = self._next_opaque()
        call: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = call
        try:
            self._channel.send(
                RemotingCommand.request(code, ext_fields, body, opaque=opaque, serialize_type=self._speaks).encode()
            )
            async with asyncio.timeout(timeout_s):
                return await call
        finally:
            self._calls.pop(opaque, None)

    async def consume_message_directly(self, relay: RelayToConsumer) -> RemotingCommand:
        """Have this client consume a message; ``invoke`` says what it raises."""
        fields = {
            "consumerGroup": relay.group,
            "clientId": relay.client_id,
            "msgId": relay.message_id,
            "topic": relay.topic,
            "brokerName": self._identity.broker_name,
        }
        return await self.invoke(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields, relay.record, relay.timeout_ms / 1000)

    def _take_answer(self, response: RemotingCommand) -> None:
        """Handle an answer of the client. It is no error if its caller no longer waits."""
        call = self._calls.get(response.opaque)
        if call is not None and not call.done():
            call.set_result(response)

    def _next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return self._opaque

    # --- questions of others -----------------------------------------------------------------------------------------

    def _start_relays(self, ended: "asyncio.Task[None] | None" = None) -> None:
        """Begin the relays for which there is room. After the connection has closed, only replies are pushed."""
        if ended is not None:
            del self._relays[ended]
        waiting = self._waiting_relays
        while waiting and len(self._relays) < MAX_RELAYS:
            relay, request, is_push = waiting[0]
            if self._relays and self._relayed_bytes + len(relay.body) > MAX_RELAYED_BYTES:
                return
            waiting.popleft()
            self._waiting_bytes -= len(relay.body)
            if self._closed and not is_push:
                continue
            self._relayed_bytes += len(relay.body)
            task = start_task(self._relay(relay, request), "ask other clients for an answer")
            self._relays[task] = is_push
            task.add_done_callback(self._start_relays)

    async def _relay(self, relay: Relay, request: RemotingCommand) -> None:
        """Ask the clients whose answers the request needs, and answer it."""
        try:
            answers = await asyncio.gather(*(self._ask_client(client_id, relay) for client_id in relay.client_ids))
        finally:
            self._relayed_bytes -= len(relay.body)
        if not request.is_oneway and not self._closed:
            self._channel.send(_frame(relay.answer(list(answers)), request))

    async def _ask_client(self, client_id: str, relay: Relay) -> RemotingCommand | Failed:
        """A client's answer, or Failed with the reason."""
        session = self._sessions.find(client_id)
        if session is None:
            return Failed(
                code=ResponseCode.SYSTEM_ERROR,
                kind="not_found",
                remark=f"client {client_id} has no connection of RocketMQ's protocol to this broker",
            )
        try:
            return await session.invoke(relay.code, relay.ext_fields, relay.body, relay.timeout_s)
        except TimeoutError:
            return Failed(
                code=ResponseCode.CONSUME_MSG_TIMEOUT,
                kind="unavailable",
                remark=f"client {client_id} did not answer within {relay.timeout_s:g} s",
            )
        except (ConnectionError, UnavailableError, ValueError) as error:
            return Failed(code=ResponseCode.SYSTEM_ERROR, kind="unavailable", remark=f"client {client_id}: {error}")


def _frame(response: RemotingCommand, request: RemotingCommand) -> bytes:
    """The bytes of a response. If it does not fit into a frame, those of an error response."""
    try:
        return response.encode()
    except ValueError as error:
        return request.response(ResponseCode.SYSTEM_ERROR, f"the answer cannot be sent: {error}").encode()

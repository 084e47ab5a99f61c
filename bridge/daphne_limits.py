"""Daphne with limits. Daphne alone reads whole bodies, accepts any number of clients, and buffers whole answers.

    body         more than ``max_body`` bytes, announced or received: 413; the rest is dropped, within limits
    requests     more than ``max_connections`` that are being answered, WebSockets included: 503, but not for /livez
    connections  ``reserve`` more than that; a further one takes the place of the longest open one without a whole
                 request, and is closed where each has a whole request
    headers      Twisted's own: 16 KiB of request line and headers, 500 headers; 431 for more
    time         a request that arrives too slowly (``ArrivalLimits``): 408
    answers      the application's ``send`` waits while more than 64 KiB of an answer are unsent; a client that reads
                 nothing for ``stall_seconds`` is cut off, a slow one is not

A WebSocket that sends too large a message, or violates the protocol, gets a close frame with the code for that (1009,
1002, 1007). Autobahn, under Daphne, would reset the connection. It would also apply the limit of received messages to
sent ones; here it does not apply.

WebSockets are closed with the application's code. Autobahn, under Daphne, would accept only 1000 and 3000 to 4999. That
excludes 1012, which a server may send (RFC 6455, 7.4.1, and the IANA registry).
"""

import asyncio
import fcntl
import json
import logging
import sys
import termios
from http import HTTPStatus
from itertools import islice
from typing import Any

from autobahn.websocket.types import ConnectionDeny
from daphne.http_protocol import WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import reactor as _reactor
from twisted.web.http import HTTPChannel

from bridge.limits import ArrivalLimits
from bridge.security_headers import security_headers

logger = logging.getLogger(__name__)
reactor: Any = _reactor  # Twisted replaces this module by an object that is chosen at run time

LINGER_S = 5.0
"""A refused client that has sent nothing for so long is closed. If it were closed at once, data that it still sends
would make its system discard the received answer."""
LINGER_MOST_S, LINGER_BYTES = 10.0, 16 * 1024 * 1024
"""How long, and how much, is read and dropped of a refused client: many read the answer after they have sent all."""
OPCODE_TEXT, OPCODE_BINARY = 1, 2  # RFC 6455, 5.2
STALL_S = 20.0
"""A client that reads nothing of its answer for this long is cut off."""
PART_BYTES = 64 * 1024
"""An answer is written in parts of this size. Twisted reports a write buffer with more than this as full, and again
when it is empty."""
REFUSALS = {4400: HTTPStatus.BAD_REQUEST, 4403: HTTPStatus.FORBIDDEN, 4404: HTTPStatus.NOT_FOUND}
"""The status of a refused handshake by the application's close code."""
MAX_CLOSE_REASON = 123
"""Bytes; a close frame has up to 125, two of them for the code."""
LIVEZ = b"/livez"
"""Answered at the limit of requests too: a full server must not be restarted."""
RETRY_AFTER_S = 5
LIMITED_BY = "GLASSMQ_MAX_CONNECTIONS, or the limit of open files"
RESERVE = 64
"""Connections beside those that may have a request. Without them, a full server could not answer 503."""
CANDIDATES = 64
"""How many connections are looked at for one that can be closed in favour of a new one."""


class Arrival:
    """The request that arrives on one connection, if any. Times are in seconds, of any clock."""

    def __init__(self, limits: ArrivalLimits, now: float) -> None:
        """A new connection, whose first request is expected at once."""
        self._limits = limits
        self._head_since: float | None = now
        self._body_since: float | None = None

    def begin(self, now: float) -> None:
        """Bytes came in. The first ones after ``expect`` begin a request."""
        if self._head_since is None:
            self._head_since = now

    def end_head(self, now: float) -> None:
        """The headers are complete."""
        self._body_since = now

    def expect(self) -> None:
        """The previous request is answered; the client may take its time before it begins the next one."""
        self._head_since = self._body_since = None

    def lateness(self, now: float, received: int) -> str:
        """What is late, as the reason for a 408; empty if nothing is. ``received`` is the body's size until now."""
        limits = self._limits
        if self._body_since is not None:
            if now - self._body_since >= limits.body + received / limits.body_rate:
                return (
                    f"the request body arrived too slowly: after {limits.body:g} s, at least {limits.body_rate} bytes "
                    "are expected each second"
                )
        elif self._head_since is not None and now - self._head_since >= limits.head:
            return f"the request's headers did not arrive within {limits.head:g} s"
        return ""


class LimitedServer(Server):  # type: ignore[misc]
    """Daphne's server with ``max_body`` in bytes.

    ``places_taken`` counts requests that are being answered, and WebSockets: ``max_connections`` at most.
    ``open_connections`` counts all connections: ``reserve`` more at most.
    """

    def __init__(
        self,
        *arguments: Any,
        max_body: int,
        max_connections: int,
        reserve: int = RESERVE,
        stall_seconds: float = STALL_S,
        arrival_limits: ArrivalLimits | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.arrival_limits = arrival_limits or ArrivalLimits()
        self.without_request: dict[LimitedChannel, None] = {}
        """Connections that sent no whole request since their last answer, or a refused one; the oldest first."""
        self.stall_seconds = stall_seconds
        self.max_body = max_body
        self.max_connections = max_connections
        self.reserve = reserve
        self.places_taken = 0
        self.open_connections = 0
        self._is_full = self._is_refusing = False

    def listen_success(self, port: Any) -> None:
        """Daphne's hook after its factories are made and before the first connection."""
        super().listen_success(port)
        self.http_factory.protocol = LimitedChannel
        self.ws_factory.protocol = LimitedWebSocket
        self.ws_factory.setProtocolOptions(failByDrop=False, closeHandshakeTimeout=LINGER_S)

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """The application's ``send``. It returns when there is room for more, or when the client is gone."""
        if message["type"] != "http.response.body" or not isinstance(protocol, LimitedRequest):
            await super().handle_reply(protocol, message)
            return
        body = message.get("body", b"")
        last = max(0, len(body) - 1) // PART_BYTES * PART_BYTES
        for start in range(0, last, PART_BYTES):
            await protocol.write_buffer_empty()
            part = body[start : start + PART_BYTES]
            await super().handle_reply(protocol, message | {"body": part, "more_body": True})
        await protocol.write_buffer_empty()
        await super().handle_reply(protocol, message | {"body": body[last:]})

    def connection_opened(self) -> bool:
        """Count a new connection; returns whether it may stay open."""
        self.open_connections += 1
        limit = self.max_connections + self.reserve
        is_full = self.open_connections > limit
        if is_full and not self._is_full:
            logger.warning(
                "%d connections are open, which is the limit; each further one replaces one that has sent no whole "
                "request, or is closed (%s)",
                limit,
                LIMITED_BY,
            )
        self._is_full = is_full
        return not is_full or self._close_one_without_request()

    def _close_one_without_request(self) -> bool:
        """Close the longest waiting connection that has no whole request; False if there is none.

        One whose client still reads the previous answer stays.
        """
        for channel in list(islice(self.without_request, CANDIDATES)):
            del self.without_request[channel]
            if not unsent_bytes(channel.transport):
                channel.transport.abortConnection()  # type: ignore[union-attr]
                return True
            self.without_request[channel] = None
        return False

    def timeout_checker(self) -> None:
        """Daphne's hook, called every 2 s."""
        now = reactor.seconds()
        for channel in list(self.without_request):
            channel.check_arrival(now)
        super().timeout_checker()

    def connection_closed(self, *, has_place: bool) -> None:
        self.open_connections -= 1
        self.places_taken -= has_place

    def take_place(self) -> bool:
        """Count a request that has arrived; returns whether it may be answered."""
        has_room = self.places_taken < self.max_connections
        if has_room:
            self.places_taken += 1
        elif not self._is_refusing:
            logger.warning(
                "%d requests are being answered or held, WebSockets included, which is the limit; further ones are "
                "answered 503 (%s)",
                self.max_connections,
                LIMITED_BY,
            )
        self._is_refusing = not has_room
        return has_room

    def open_websockets(self) -> int:
        """How many WebSockets are not yet closed by both sides."""
        return sum(
            isinstance(protocol, WebSocketProtocol) and "disconnected" not in details
            for protocol, details in self.connections.items()
        )


class LimitedChannel(HTTPChannel):
    """One connection, until it becomes a WebSocket."""

    factory: Any
    has_place = False
    """Whether its request is counted as one that is being answered."""
    _unsent = _dropped = 0

    def connectionMade(self) -> None:
        self.requestFactory = LimitedRequest
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._server: LimitedServer = self.factory.server
        self._arrival = Arrival(self._server.arrival_limits, reactor.seconds())
        if self._server.connection_opened():
            self._server.without_request[self] = None
            super().connectionMade()  # type: ignore[no-untyped-call]
        else:
            self.transport.abortConnection()  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        if self in self._server.without_request:
            self._arrival.begin(reactor.seconds())
        super().dataReceived(data)  # type: ignore[no-untyped-call]

    def allHeadersReceived(self) -> None:
        self._arrival.end_head(reactor.seconds())
        super().allHeadersReceived()  # type: ignore[no-untyped-call]

    def allContentReceived(self) -> None:
        """The request is complete; the connection keeps its place until the request is answered."""
        self._server.without_request.pop(self, None)
        super().allContentReceived()  # type: ignore[no-untyped-call]

    def requestDone(self, request: Any) -> None:
        """The request is answered. Twisted reads the next one now, if it has arrived already."""
        self._server.places_taken -= self.has_place
        self.has_place = False
        self._arrival.expect()
        if self.persistent:
            self._server.without_request[self] = None
            if self._dataBuffer:
                self._arrival.begin(reactor.seconds())
        super().requestDone(request)  # type: ignore[no-untyped-call]

    def check_arrival(self, now: float) -> None:
        """Answer 408 and close if a request arrives too slowly. ``now`` is ``reactor.seconds()``."""
        lateness = self._arrival.lateness(now, self.requests[-1].received if self.requests else 0)
        if lateness:
            self.refuse(problem(HTTPStatus.REQUEST_TIMEOUT, "SYSTEM_BUSY", lateness))

    def _respondToBadRequestAndDisconnect(self) -> None:
        """Twisted's hook for a request that it does not accept. Twisted's own answer is lost in a reset connection."""
        has_large_headers = (
            self._receivedHeaderSize > self.totalHeadersSize or self._receivedHeaderCount > self.maxHeaders
        )
        self.refuse(LARGE_HEADERS if has_large_headers else BAD_HEAD)

    def lineLengthExceeded(self, line: bytes) -> None:
        """Twisted's hook for a line of the headers that is longer than all of them may be."""
        self.refuse(LARGE_HEADERS)

    def refuse(self, answer: bytes) -> None:
        """Send a whole answer to a request that is not handled, and close. What the client still sends is dropped."""
        self._server.without_request[self] = None  # so a new one may take its place
        self._arrival.expect()
        self.dataReceived, self.lineReceived, self.rawDataReceived = self._drop, _ignore, _ignore  # type: ignore[method-assign]
        transport: Any = self.transport
        transport.write(answer)
        transport.loseWriteConnection()
        self._linger_until = reactor.seconds() + LINGER_MOST_S
        self._closing = reactor.callLater(LINGER_S, transport.abortConnection)

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        left_s = self._linger_until - reactor.seconds()
        if self._dropped > LINGER_BYTES or left_s <= 0:
            self.transport.pauseProducing()  # type: ignore[union-attr]
        elif self._closing.active():
            self._closing.reset(min(LINGER_S, left_s))

    def connectionLost(self, reason: Any = None) -> None:
        self._server.connection_closed(has_place=self.has_place)
        self._server.without_request.pop(self, None)
        self._has_room.set()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]

    def pauseProducing(self) -> None:
        """The write buffer is full."""
        self._has_room.clear()
        super().pauseProducing()  # type: ignore[no-untyped-call]

    def resumeProducing(self) -> None:
        """The write buffer is empty again."""
        self._has_room.set()
        super().resumeProducing()  # type: ignore[no-untyped-call]

    async def write_buffer_empty(self) -> None:
        """Return when a full write buffer is empty again, or the connection is lost. Cuts off a stalled client."""
        while not self._has_room.is_set():
            unsent = unsent_bytes(self.transport)
            try:
                async with asyncio.timeout(self._server.stall_seconds):
                    await self._has_room.wait()
            except TimeoutError:
                if unsent_bytes(self.transport) >= unsent:
                    self.transport.abortConnection()  # type: ignore[union-attr]
                    return

    def loseConnection(self) -> None:
        """Close when everything is sent. Twisted sets no time limit for a client that does not read it."""
        self._server.without_request.pop(self, None)
        self.setTimeout(self.timeOut)  # type: ignore[no-untyped-call]
        super().loseConnection()  # type: ignore[no-untyped-call]

    def timeoutConnection(self) -> None:
        """The connection was idle. Close it, unless the client still reads the end of the last answer."""
        previously_unsent, self._unsent = self._unsent, unsent_bytes(self.transport)
        if self._unsent and self._unsent != previously_unsent:
            self.setTimeout(self.timeOut)  # type: ignore[no-untyped-call]
        else:
            super().timeoutConnection()  # type: ignore[no-untyped-call]


class LimitedRequest(WebRequest):  # type: ignore[misc]
    """One request, refused while it arrives if its body is too large."""

    received = 0
    """Bytes of the body until now."""
    _is_refused = False

    async def write_buffer_empty(self) -> None:
        """Return when more can be written, or the client is gone."""
        if self.channel is not None:
            await self.channel.write_buffer_empty()

    def gotLength(self, length: int | None) -> None:
        """The headers have arrived. ``length`` is None for a chunked body."""
        if length is not None and length > self.server.max_body:
            self._refuse()
        else:
            super().gotLength(length)

    def handleContentChunk(self, data: bytes) -> None:
        self.received += len(data)
        if self.received > self.server.max_body and not self._is_refused:
            self._refuse()
        if not self._is_refused:
            super().handleContentChunk(data)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """The whole request has arrived. The end of a refused one may come in the same read; it is ignored."""
        if self._is_refused:
            return
        if path.partition(b"?")[0] != LIVEZ or self.requestHeaders.hasHeader(b"upgrade"):  # a WebSocket needs a place
            self.channel.has_place = self.server.take_place()
            if not self.channel.has_place:
                self.channel.refuse(FULL)
                return
        super().requestReceived(command, path, version)

    def _refuse(self) -> None:
        self._is_refused = True
        self.requestHeaders.removeHeader(b"expect")  # otherwise Twisted would ask for the body (100 Continue)
        self.channel.refuse(too_large(self.server.max_body))


class LimitedWebSocket(WebSocketProtocol):  # type: ignore[misc]
    """One WebSocket, which is refused or closed with the application's code and reason."""

    _refusal = (HTTPStatus.FORBIDDEN, "Access denied")

    def handle_reply(self, message: dict[str, Any]) -> None:
        if message.get("type") != "websocket.close":
            super().handle_reply(message)
            return
        if self.state == self.STATE_CONNECTING:
            status = REFUSALS.get(message.get("code") or 0, HTTPStatus.FORBIDDEN)
            self._refusal = (status, message.get("reason") or status.phrase)
            super().handle_reply(message)
            return
        reason = str(message.get("reason") or "").encode()[:MAX_CLOSE_REASON]
        self.sendCloseFrame(
            code=message.get("code") or 1000, reasonUtf8=reason.decode("utf-8", "ignore").encode()
        )  # without a part of a character at its end

    def serverReject(self) -> None:
        """Refuse the handshake, with the status of the application's close code. Daphne's own is always 403."""
        status, reason = self._refusal
        denial: Any = ConnectionDeny(code=status.value, reason=reason)  # type: ignore[no-untyped-call]
        self.handshake_deferred.errback(denial)
        del self.handshake_deferred
        self.server.protocol_disconnected(self)

    def serverSend(self, content: str | bytes, binary: bool = False) -> None:
        """Send one frame. Frames are dropped when the connection is closing or closed.

        Autobahn's ``sendMessage`` would apply ``websocket_max_message_size`` to it, which limits received messages.
        """
        if self.state == self.STATE_OPEN:
            payload = content.encode() if isinstance(content, str) else content
            self.sendFrame(opcode=OPCODE_BINARY if binary else OPCODE_TEXT, payload=payload)

    def connectionLost(self, reason: Any = None) -> None:
        self.factory.server_class.connection_closed(has_place=True)
        drop_unsent(self.transport)
        super().connectionLost(reason)


def _ignore(data: bytes) -> None:
    """Takes the place of a method that handles received data."""


def unsent_bytes(transport: Any) -> int:
    """Bytes that the client has not acknowledged yet: in Twisted's buffer and, on Linux, in the system's.

    The system reports room for more only when a third of its buffer is free, which takes minutes for a slow client.
    """
    unsent: int = len(transport.dataBuffer) - transport.offset + transport._tempDataLen
    try:
        queued = fcntl.ioctl(transport.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # ValueError: a closed transport has no descriptor
        return unsent
    return unsent + int.from_bytes(queued, sys.byteorder)


def drop_unsent(transport: Any) -> None:
    """Free what was not sent on a lost connection, 33 MiB maybe.

    The transport is part of a reference cycle, so it stays until the next full garbage collection. That may be never.
    """
    transport.dataBuffer, transport.offset = b"", 0
    transport._tempDataBuffer.clear()
    transport._tempDataLen = 0


def too_large(limit: int) -> bytes:
    """The answer to a body of more than ``limit`` bytes."""
    detail = f"the request body is larger than {limit} bytes"
    return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "MESSAGE_ILLEGAL", detail)


def problem(status: HTTPStatus, code: str, detail: str, *headers: bytes) -> bytes:
    """A complete HTTP answer with a problem as in RFC 9457, after which the connection is closed."""
    body = json.dumps(
        {
            "type": "about:blank",
            "title": status.phrase,
            "status": status.value,
            "code": code,
            "detail": detail,
            "instance": "",
            "errors": [],
        }
    ).encode()
    return b"\r\n".join(
        [
            f"HTTP/1.1 {status.value} {status.phrase}".encode(),
            b"content-type: application/problem+json",
            b"cache-control: no-store",
            *(b"%s: %s" % header for header in security_headers().items()),
            b"server: GlassMQ",
            b"connection: close",
            *headers,
            f"content-length: {len(body)}".encode(),
            b"",
            body,
        ]
    )


LARGE_HEADERS = problem(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "INVALID_PARAMETER",
    f"the request line and the headers have more than {HTTPChannel.totalHeadersSize} bytes, or there are more than "
    f"{HTTPChannel.maxHeaders} headers",
)
BAD_HEAD = problem(HTTPStatus.BAD_REQUEST, "INVALID_PARAMETER", "the request line or a header is not valid HTTP/1.1")
FULL = problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "SYSTEM_BUSY",
    "as many requests and WebSockets are open as this web process may have (GLASSMQ_MAX_CONNECTIONS); nothing was done",
    b"retry-after: %d" % RETRY_AFTER_S,
)

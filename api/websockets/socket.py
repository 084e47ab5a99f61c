"""The part that both WebSockets share: accepting, reading frames within limits, writing through an outbox, closing."""

import asyncio
import contextlib
import json
import logging
import weakref
from collections.abc import Coroutine
from functools import partial
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from api.http.answer_memory import Share
from api.http.asgi import (
    CLOSE_BAD_FRAME,
    CLOSE_FAILED,
    CLOSE_IDLE,
    CLOSE_NOT_AUTHENTICATED,
    CLOSE_RESTART,
    CLOSE_TOO_LARGE,
    CLOSE_TOO_SLOW,
    Receive,
    Scope,
    Send,
)
from api.http.limits import FRAME_OVERHEAD, IDLE_SECONDS, MAX_BAD_FRAMES, MAX_FRAME
from api.http.outbox import Outbox
from api.http.problems import Problem, invalid, problem_of
from api.http.request import lone_surrogate, unreadable
from api.http.schemas import with_int64_as_text
from api.http.session_watch import watch_session
from api.websockets.frames import Bye, FrameId, ProblemFrame, SentFrame
from bridge.port import BrokerError, start_task

log = logging.getLogger(__name__)

LEAVING_SECONDS = 1.0


class Closed(Exception):
    """Ends a socket with a close code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class EncodedFrame(NamedTuple):
    """A frame as JSON, and its size in bytes."""

    text: str
    size: int


class _Id(msgspec.Struct):
    """The id of a frame that is refused."""

    id: FrameId | msgspec.UnsetType = msgspec.UNSET


class Socket:
    """One WebSocket. A subclass names the frames that it accepts (``requests``) and handles each in ``handle``."""

    requests: ClassVar[Any]
    subprotocol: ClassVar[str | None] = None
    max_frames: ClassVar[int] = 1 << 20
    idle_seconds: float = IDLE_SECONDS
    live: ClassVar["weakref.WeakSet[Socket]"] = weakref.WeakSet()

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._decoder = msgspec.json.Decoder(self.requests)
        self._encoder = msgspec.json.Encoder()
        query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        self.int64_as_text = query.get("int64") == "string"
        self.broker_asked = query.get("broker", "")
        self._bad_frames = 0
        self._closing: Closed | None = None
        self.finished = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.outbox = Outbox(scope, send, lambda reason: self.end(CLOSE_TOO_SLOW, reason), max_frames=self.max_frames)

    # For subclasses to override

    async def opened(self) -> None:
        """Called when the socket was accepted."""

    async def handle(self, request: Any, size: int) -> None:
        """Handle one decoded frame of ``size`` bytes. Problem and BrokerError are sent to the client as `problem`."""
        raise Problem(400, "unexpected frame")

    def busy(self) -> bool:
        """Whether to keep the socket open though the client sends nothing."""
        return False

    async def leaving(self) -> None:
        """Send last commands to the broker before the socket closes, within ``LEAVING_SECONDS``."""

    def closed(self) -> None:
        """Called exactly once, when the socket has ended."""

    # For subclasses to call

    def put(self, frame: SentFrame, share: Share | None = None) -> None:
        """Send a frame, in order. ``share`` is its memory, see ``Outbox.make``."""
        self.put_encoded(self.encoded(frame), share)

    def encoded(self, frame: SentFrame) -> EncodedFrame:
        """The frame as this client reads it."""
        value: Any = frame
        if self.int64_as_text:
            value = with_int64_as_text(msgspec.to_builtins(frame))
        data = self._encoder.encode(value)
        return EncodedFrame(data.decode("utf-8"), len(data))

    def put_encoded(self, frame: EncodedFrame, share: Share | None = None) -> None:
        """Send a frame that may be sent to other clients too, in order."""
        self.outbox.put({"type": "websocket.send", "text": frame.text}, frame.size + FRAME_OVERHEAD, share)

    def put_problem(self, problem: Problem, frame_id: Any = msgspec.UNSET) -> None:
        details = problem.details()
        self.put(
            ProblemFrame(
                id=frame_id,
                title=details.title,
                status=details.status,
                detail=details.detail,
                code=details.code,
                errors=details.errors,
                retry_after_ms=problem.retry_after_s * 1000,
            )
        )

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine beside the others. It is cancelled when the socket ends. Its failure closes the socket."""
        task = start_task(work, f"{name} of {self.scope.get('path')}", on_failure=self._task_failed)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _task_failed(self, error: BaseException) -> None:
        self.end(CLOSE_FAILED, "the server failed; its log says why")

    def end(self, code: int, reason: str) -> None:
        """Close the socket. Any code on the event loop may call it; the first call counts."""
        if self._closing is None:
            self._closing = Closed(code, reason)
            if self._main is not None:
                self._main.cancel()

    # Life cycle

    async def run(self) -> None:
        if (await self._receive())["type"] != "websocket.connect":
            return
        offered = self.scope.get("subprotocols") or []
        if self.subprotocol and offered and self.subprotocol not in offered:
            reason = f"offer the subprotocol {self.subprotocol}, or none"
            await self._send({"type": "websocket.close", "code": CLOSE_BAD_FRAME, "reason": reason})
            return
        chosen = self.subprotocol if offered else None
        await self._send({"type": "websocket.accept", "subprotocol": chosen})
        self.live.add(self)
        unwatch = watch_session(self.scope, lambda: self.end(CLOSE_NOT_AUTHENTICATED, "the session has ended"))
        path = self.scope.get("path")
        writer = start_task(self.outbox.run(), f"writer of {path}", on_failure=self._task_failed)
        self._main = start_task(self._serve(), f"reader of {path}", expected=(Closed,))
        try:
            await self._main
        except asyncio.CancelledError:
            if self._closing is None:  # the server cancels the whole application
                self._main.cancel()
                raise
        except Closed as closed:
            self._closing = closed
        finally:
            unwatch()
            await self._finish(writer)

    async def _finish(self, writer: asyncio.Task[None]) -> None:
        self.live.discard(self)
        for task in [*self._tasks]:
            task.cancel()
        with contextlib.suppress(BrokerError, TimeoutError):
            async with asyncio.timeout(LEAVING_SECONDS):
                await self.leaving()
        self.closed()
        closing = self._closing
        if closing is not None:
            if closing.code != CLOSE_TOO_SLOW:
                await self.outbox.flush(1.0)
            with contextlib.suppress(Exception):  # the client may have disconnected
                await self._send({"type": "websocket.close", "code": closing.code, "reason": closing.reason[:120]})
        writer.cancel()
        self.finished.set()

    async def _serve(self) -> None:
        """Handle frames until the client disconnects. Raises Closed to close the socket."""
        try:
            await self.opened()
            while True:
                frame = await self._next_frame()
                if frame is None:
                    return
                await self._handle_frame(frame)
        except (Closed, asyncio.CancelledError):
            raise
        except BrokerError as error:  # in opened(): there is no engine
            self.put_problem(problem_of(error))
            raise Closed(CLOSE_RESTART, error.remark) from error
        except Exception as error:
            log.exception("a WebSocket of %s failed", self.scope.get("path"))
            raise Closed(CLOSE_FAILED, "the server failed; its log says why") from error

    async def _next_frame(self) -> bytes | None:
        """The next frame; None when the client disconnected."""
        while True:
            try:
                async with asyncio.timeout(self.idle_seconds):
                    message = await self._receive()
            except TimeoutError:
                if self.busy():
                    continue
                raise Closed(CLOSE_IDLE, f"no frame for {self.idle_seconds:.0f} s, and no pull is held") from None
            if message["type"] == "websocket.disconnect":
                return None
            data: bytes = message.get("bytes") or (message.get("text") or "").encode("utf-8", "replace")
            if len(data) > MAX_FRAME:
                raise Closed(CLOSE_TOO_LARGE, f"a frame of {len(data)} bytes; the maximum is {MAX_FRAME}")
            return data

    async def _handle_frame(self, data: bytes) -> None:
        try:
            request = self._decoder.decode(data)
        except msgspec.ValidationError as error:
            problem = invalid(error, "frame", partial(msgspec.json.decode, data))
            if problem.errors[0].pointer in ("", "/type"):
                self._count_bad_frame()
            self.put_problem(problem, _id_of(data))
            return
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            frame_id = _id_of(data)
            # JavaScript's JSON.stringify may write lone surrogates: they make no bad frame
            if frame_id is msgspec.UNSET or not lone_surrogate(data):
                self._count_bad_frame()
            self.put_problem(Problem(400, f"the frame {unreadable(data, error)}", pointer=""), frame_id)
            return
        try:
            await self.handle(request, len(data))
        except Problem as problem:
            self.put_problem(problem, getattr(request, "id", msgspec.UNSET))
        except BrokerError as error:
            self.put_problem(problem_of(error), getattr(request, "id", msgspec.UNSET))

    def _count_bad_frame(self) -> None:
        """Count a frame that is not JSON or has no known type; more than ``MAX_BAD_FRAMES`` close the socket."""
        self._bad_frames += 1
        if self._bad_frames > MAX_BAD_FRAMES:
            raise Closed(CLOSE_BAD_FRAME, "too many frames that are not of this protocol")


def _id_of(data: bytes) -> Any:
    """The id of a frame, also of one with a lone surrogate, which msgspec does not read; UNSET if it has none."""
    try:
        if lone_surrogate(data):
            return msgspec.convert(json.loads(data), _Id).id
        return msgspec.json.decode(data, type=_Id).id
    except (msgspec.DecodeError, ValueError, RecursionError):
        return msgspec.UNSET


async def close_all(reason: str) -> None:
    """Send `bye` on every open WebSocket and close it with 1012, before the server stops."""
    sockets = list(Socket.live)
    for socket in sockets:
        socket.put(Bye(reason=reason))
        socket.end(CLOSE_RESTART, reason)
    await asyncio.gather(*(socket.finished.wait() for socket in sockets))

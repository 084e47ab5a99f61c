"""Queues frames for one client, and disconnects a client that does not read.

The ``send`` of some ASGI servers waits until the client has read the earlier frames. Daphne's never waits: it passes
everything to Twisted, which keeps it in memory. For Daphne the size of the transport's buffer is read, through the
protocol that its ``send`` is bound to, and the next frame waits here until that buffer has room.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

from api.http.answer_memory import AnswerMemory, Share
from api.http.asgi import Message, Scope, Send
from api.http.limits import LARGE_FRAME, MAX_UNREAD_FRAMES, MAX_UNSENT, ROOMY, SERVER_BUFFER, STALL_SECONDS

SCOPE_KEY = "glassmq.server_buffer"
_POLL_S = (0.001, 0.05)
T = TypeVar("T")

FRAMES: Final = AnswerMemory(MAX_UNREAD_FRAMES)
"""For the frames of all WebSockets of this process."""


def server_buffer(scope: Scope, send: Send) -> Callable[[], int] | None:
    """A function that returns how many bytes wait in the server for this client; None if ``send`` waits by itself.

    Middleware that wraps ``send`` puts the function for the innermost one into the scope, under ``SCOPE_KEY``.
    """
    if SCOPE_KEY in scope:
        size: Callable[[], int] | None = scope[SCOPE_KEY]
        return size
    transport: Any = next(
        (
            argument.transport
            for argument in getattr(send, "args", ())
            if getattr(argument, "transport", None) is not None
        ),
        None,
    )
    while transport is not None and not hasattr(transport, "dataBuffer"):
        transport = getattr(transport, "transport", None)  # TLS wraps the connection's own transport
    if transport is None:
        return None
    return lambda: len(transport.dataBuffer) - transport.offset + transport._tempDataLen


class Outbox:
    """Frames for one client, sent in order by one task: ``run``.

    ``on_slow`` is called once, with the reason, when the client has read nothing for ``STALL_SECONDS`` or when more
    than ``max_unsent`` bytes or ``max_frames`` frames wait. Then the client is cut: all its frames are dropped. The
    largest waiting frame above ``LARGE_FRAME`` is not counted in ``max_unsent``.
    """

    def __init__(
        self,
        scope: Scope,
        send: Send,
        on_slow: Callable[[str], None],
        *,
        max_unsent: int = MAX_UNSENT,
        max_frames: int = 1 << 20,
        stall_seconds: float = STALL_SECONDS,
        memory: AnswerMemory = FRAMES,
    ) -> None:
        self._send = send
        self._server_buffer = server_buffer(scope, send)
        self._on_slow = on_slow
        self._max_unsent = max_unsent
        self._max_frames = max_frames
        self._stall_seconds = stall_seconds
        self._memory = memory
        self._frames: deque[tuple[Message, int, Share | None]] = deque()
        self._waiting = 0
        self._largest = 0
        """Bytes of the largest waiting frame above ``LARGE_FRAME``, or 0."""
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._turns = asyncio.Lock()
        self._is_cut = False

    @property
    def unsent(self) -> int:
        """Bytes that wait here and, if that can be read, in the server."""
        return self._waiting + (self._server_buffer() if self._server_buffer else 0)

    def put(self, message: Message, size: int, share: Share | None = None) -> None:
        """Send later, in order. Frames for a client that was cut are dropped. ``size`` is in bytes of memory.

        ``share`` is given back when the client has read the frame, or when the frame is dropped.
        """
        if self._is_cut:
            if share is not None:
                share.shrink(0)
            return
        self._frames.append((message, size, share))
        self._waiting += size
        self._arrived.set()
        self._empty.clear()
        if self._waiting > ROOMY:
            self._room.clear()
        if size > LARGE_FRAME:
            self._largest = max(self._largest, size)
        if self._waiting - self._largest > self._max_unsent or len(self._frames) > self._max_frames:
            self._cut_off(f"{self._waiting} bytes in {len(self._frames)} frames wait to be read")

    async def room(self) -> None:
        """Returns when at most ``ROOMY`` bytes wait."""
        await self._room.wait()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """For large frames: entered by one task at a time, in order, when at most ``ROOMY`` bytes wait.

        So at most one large frame waits beyond ``ROOMY``, not one of each task.
        """
        async with self._turns:
            await self._room.wait()
            yield

    async def make(self, make: Callable[[], Awaitable[T]], size_of: Callable[[T], int]) -> tuple[T, Share]:
        """What ``make`` returns, and a share of ``size_of`` it of the memory for the frames of all clients.

        Without room in that memory it is dropped, and made again when there is room. Problem 503 if there is none in
        time.
        """
        share = Share(self._memory)
        try:
            while not share.grow(size := size_of(made := await make())):
                del made
                await share.replace(size)
        except BaseException:
            share.shrink(0)
            raise
        return made, share

    async def run(self) -> None:
        """Send until cancelled or until the client was cut. An error of the server's ``send`` is raised.

        Afterwards nothing waits, and further frames are dropped.
        """
        try:
            await self._send_all()
        finally:
            self._drop_all()

    async def _send_all(self) -> None:
        while not self._is_cut:
            if not self._frames:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            message, size, share = self._frames[0]
            try:
                await self._wait_for_server_buffer()
                async with asyncio.timeout(self._stall_seconds):
                    await self._send(message)
                self._forget_first(size)
                if share is not None and share.size:
                    await self._wait_for_server_buffer()
            except TimeoutError:
                self._cut_off(f"nothing was read for {self._stall_seconds:.0f} s")
                return
            finally:
                if share is not None:
                    share.shrink(0)

    def _forget_first(self, size: int) -> None:
        """The first frame was sent; it is of ``size``."""
        if self._frames:
            self._frames.popleft()
            self._waiting -= size
            if size == self._largest:
                self._largest = 0
            if self._waiting <= ROOMY:
                self._room.set()
            if not self._frames:
                self._empty.set()

    async def _wait_for_server_buffer(self) -> None:
        """Returns when the server's buffer has room. TimeoutError when it has stopped shrinking."""
        if self._server_buffer is None:
            return
        clock = asyncio.get_running_loop().time
        smallest, since = self._server_buffer(), clock()
        pause, longest = _POLL_S
        while (unsent := self._server_buffer()) > SERVER_BUFFER and not self._is_cut:
            if unsent < smallest:
                smallest, since = unsent, clock()
                pause = _POLL_S[0]
            elif clock() - since > self._stall_seconds:
                raise TimeoutError
            await asyncio.sleep(pause)
            pause = min(pause * 2, longest)

    async def flush(self, seconds: float) -> None:
        """Wait until every frame is sent, for ``seconds`` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._empty.wait()

    def _cut_off(self, reason: str) -> None:
        if self._is_cut:
            return
        self._drop_all()
        self._on_slow(reason)

    def _drop_all(self) -> None:
        self._is_cut = True
        for _, _, share in self._frames:
            if share is not None:
                share.shrink(0)
        self._frames.clear()
        self._waiting = self._largest = 0
        self._room.set()
        self._empty.set()
        self._arrived.set()

"""Tells WebSockets and event streams that the session that opened them has ended, by a logout in any web process."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from django.db import Error as AnyDatabaseError

from api.http.asgi import Scope
from bridge.port import start_task

SCOPE_KEY: Final = "glassmq.watch_session"
CHECK_SECONDS: Final = 2.0

OnEnd = Callable[[], None]


def watch_session(scope: Scope, on_end: OnEnd) -> Callable[[], None]:
    """Call ``on_end`` when the session of this request has ended. The returned function ends the watch.

    A request that was admitted without a session is not watched.
    """
    watch: Callable[[OnEnd], Callable[[], None]] | None = scope.get(SCOPE_KEY)
    return watch(on_end) if watch is not None else lambda: None


class SessionWatch:
    """The open connections by session key. One task asks ``exists`` for each key every ``CHECK_SECONDS``."""

    def __init__(self, exists: Callable[[str], Awaitable[bool]]) -> None:
        self._exists = exists
        self._watches: dict[str, list[OnEnd]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, key: str, on_end: OnEnd) -> Callable[[], None]:
        """Call ``on_end`` when the session has ended. The returned function ends the watch."""
        self._watches.setdefault(key, []).append(on_end)
        if self._task is None or self._task.done():
            self._task = start_task(self._check_regularly(), "check of sessions")

        def remove() -> None:
            watches = self._watches.get(key, [])
            if on_end in watches:
                watches.remove(on_end)
            if not watches:
                self._watches.pop(key, None)

        return remove

    def end(self, key: str) -> None:
        """Call everything that watches this session."""
        for on_end in self._watches.pop(key, []):
            on_end()

    async def check(self) -> None:
        """End the sessions that no longer exist. While the database fails, nothing is known, so none is ended."""
        for key in list(self._watches):
            try:
                if not await self._exists(key):
                    self.end(key)
            except AnyDatabaseError:
                return

    async def _check_regularly(self) -> None:
        while self._watches:
            await asyncio.sleep(CHECK_SECONDS)
            await self.check()

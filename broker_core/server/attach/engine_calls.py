"""Calls of a task in the engine's own process: a command goes through the runner's inbox, its reply is awaited."""

import asyncio
from collections.abc import Hashable
from typing import Any

from broker_core.commands import Command, Failed, Reply
from broker_core.server.engine_runner import Connection, EngineRunner


class EngineRefused(Exception):
    """The engine answered ``failed``."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.remark)
        self.failed = failed


class EngineCalls:
    """One connection to the engine for calls, and one for each key that stands for a client of another broker."""

    def __init__(self, runner: EngineRunner) -> None:
        self._runner = runner
        self._connection = Connection(self._on_replies)
        self._clients: dict[Hashable, Connection] = {}
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._last_id = 0

    def client(self, key: Hashable) -> Connection:
        """The connection of this client."""
        connection = self._clients.get(key)
        if connection is None:
            connection = self._clients[key] = Connection(self._on_replies)
        return connection

    def forget_client(self, key: Hashable) -> None:
        """The next call for this client gets another connection."""
        self._clients.pop(key, None)

    async def call(self, command: Command, connection: Connection | None = None) -> Any:
        """The reply to a command; EngineRefused if it is Failed."""
        self._last_id += 1
        request_id = self._last_id
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        try:
            self._runner.submit(connection or self._connection, request_id, command)
            reply = await answer
        finally:
            self._waiting.pop(request_id, None)
        if isinstance(reply, Failed):
            raise EngineRefused(reply)
        return reply

    def _on_replies(self, replies: list[tuple[Connection, int, Reply]]) -> None:
        for _, request_id, reply in replies:
            answer = self._waiting.get(request_id)  # notices to members have no request
            if answer is not None and not answer.done():
                answer.set_result(reply)

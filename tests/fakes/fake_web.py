"""Web processes driven by tests: messages to the engine's side of the bridge, and a link that records its answers."""

import asyncio

from bridge import wire
from bridge.engine_host import EngineHost
from broker_core.commands import Command, GetHolds, Held, Holds, Reply

FAR = 1 << 62


class NotingLink:
    """Records what web processes are sent. While ``gate`` is cleared, they do not read."""

    def __init__(self) -> None:
        self.messages: dict[str, list[wire.Replies]] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: list[Exception] = []
        self.was_cut = False

    async def send(self, reply_to: str, data: bytes) -> None:
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop()
        self.messages.setdefault(reply_to, []).append(wire.decode_to_web(data, 1 << 30))

    def cut(self) -> None:
        self.was_cut = True

    def replies(self, reply_to: str = "web") -> dict[tuple[int, int], list[Reply]]:
        found: dict[tuple[int, int], list[Reply]] = {}
        for message in self.messages.get(reply_to, []):
            for connection, request_id, reply in message.replies:
                found.setdefault((connection, request_id), []).append(reply)
        return found


class Web:
    """A web process driven by a test."""

    def __init__(self, host: EngineHost, link: NotingLink, name: str = "web") -> None:
        self.host, self.link, self.name, self.number = host, link, name, 0

    def ask(
        self, *requests: tuple[int, int, Command], closed: tuple[int, ...] = (), number: int = 0, deadline_ms: int = FAR
    ) -> None:
        self.number = number or self.number + 1
        self.host.receive(
            wire.encode_to_engine(
                wire.Requests(
                    self.name,
                    self.name,
                    self.number,
                    list(closed),
                    [
                        (connection, request_id, deadline_ms, command)  # type: ignore[misc]
                        for connection, request_id, command in requests
                    ],
                )
            ),
            self.link,
        )

    def alive(self, *, deltas: bool = False, events: bool = False) -> None:
        self.host.receive(
            wire.encode_to_engine(wire.Alive(self.name, self.name, self.number, deltas, events)), self.link
        )

    async def answer(self, connection: int, request_id: int) -> Reply:
        """The final answer to a request."""

        def final() -> list[Reply]:
            replies = self.link.replies(self.name).get((connection, request_id), [])
            return [reply for reply in replies if not isinstance(reply, Held)]

        async with asyncio.timeout(60):
            while not final():
                await asyncio.sleep(0.002)
        (reply,) = final()
        return reply

    async def holds(self) -> int:
        self.ask((0, 1_000_000 + self.number, GetHolds()))
        reply = await self.answer(0, 1_000_000 + self.number - 1)
        assert isinstance(reply, Holds)
        return reply.total

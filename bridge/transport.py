"""The interfaces by which the two sides of the bridge send batches to each other."""

from collections.abc import Callable
from typing import Protocol


class TransportFull(Exception):
    """The channel to the other side is full; nothing was sent. Try again in a moment."""


class TransportLost(Exception):
    """The other side cannot be reached at the moment; as far as is known, nothing was sent."""


class Transport(Protocol):
    """How a web process reaches the engine."""

    reply_to: str
    """Where the engine must send its replies; only the transport interprets it."""

    async def start(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Begin to read. ``on_lost`` is called when everything under way is lost; the transport may recover later."""
        ...

    async def send(self, data: bytes) -> None:
        """Raises TransportFull, TransportLost."""
        ...

    async def stop(self) -> None: ...


class Link(Protocol):
    """How the engine reaches one or many web processes."""

    async def send(self, reply_to: str, data: bytes) -> None:
        """Raises TransportFull, TransportLost (try again), or ConnectionError (the web process will not return)."""
        ...

    def cut(self) -> None:
        """Close the connection, if there is one, to a web process that does not read."""
        ...

"""What carries batches: the contract between the two sides of the bridge and their ways to each other."""

from collections.abc import Callable
from typing import Protocol


class TransportFull(Exception):
    """The way is full; nothing was sent. Try again in a moment."""


class TransportLost(Exception):
    """There is no way at the moment; nothing is known to have been sent."""


class Transport(Protocol):
    """A web process's way to the engine."""

    reply_to: str
    """Where the engine shall send its replies; means something to the transport alone."""

    async def start(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Begin to read. ``on_lost``: whatever was under way is lost; does not mean that the way is gone for good."""
        ...

    async def send(self, data: bytes) -> None:
        """Raises TransportFull, TransportLost."""
        ...

    async def stop(self) -> None: ...


class Link(Protocol):
    """The engine's way back to one or many web processes."""

    async def send(self, reply_to: str, data: bytes) -> None:
        """Raises TransportFull, TransportLost (try again), ConnectionError (this web process is gone for good)."""
        ...

    def cut(self) -> None:
        """The web process does not read: end the connection where there is one."""
        ...

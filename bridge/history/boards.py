"""The live board of the recent past: a snapshot for every 10 s of the last 10 minutes, in memory."""

import zlib
from threading import Lock
from typing import NamedTuple

import msgspec

from broker_core.commands import GetSnapshot, Snapshot

KEPT = 60
ROWS = 500
ASK = GetSnapshot(max_holds=ROWS, max_queues=ROWS)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode


class Board(NamedTuple):
    """When a snapshot was taken, in ms; its number of held pulls; and the snapshot, compressed."""

    wall_ms: int
    holds_total: int
    data: bytes


class Boards:
    """The newest ``KEPT`` boards of one broker, oldest first. Its methods may be called in several threads."""

    def __init__(self) -> None:
        self._boards: list[Board] = []
        self._lock = Lock()

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot. Boards of a time that the clock has not reached again are dropped."""
        board = Board(snapshot.wall_ms, snapshot.holds_total, zlib.compress(_encode(snapshot), 3))
        with self._lock:
            earlier = [one for one in self._boards if one.wall_ms < board.wall_ms]
            self._boards = [*earlier[-(KEPT - 1) :], board]

    def all(self) -> list[Board]:
        return self._boards

    def at(self, wall_ms: int) -> Snapshot | None:
        """The newest snapshot that is not after ``wall_ms``; None if there is none."""
        found = next((one for one in reversed(self._boards) if one.wall_ms <= wall_ms), None)
        return None if found is None else _decode(zlib.decompress(found.data))

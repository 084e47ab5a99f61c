"""The pages and streams of one web process that watch the engine. They share one subscription."""

import logging
from collections.abc import Callable
from typing import TypeVar

from bridge.port import Delta, Watcher
from bridge.wire import Replies

log = logging.getLogger(__name__)
T = TypeVar("T")


class Watchers:
    """Distributes deltas and event batches, and reports gaps and restarts of the engine."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.deltas = False
        self.events = False
        self._on_change = on_change
        self._delta_watchers: list[Watcher] = []
        self._event_watchers: list[Watcher] = []
        self._epoch = 0
        self._seq = -1  # of the last delta; -1: there was none yet, so none can be missing

    def add(self, watcher: Watcher, *, deltas: bool, events: bool) -> Callable[[], None]:
        """Add a watcher; the returned function removes it."""
        if deltas:
            self._delta_watchers.append(watcher)
        if events:
            self._event_watchers.append(watcher)
        self._changed()

        def end() -> None:
            for watchers in (self._delta_watchers, self._event_watchers):
                if watcher in watchers:
                    watchers.remove(watcher)
            self._changed()

        return end

    def _changed(self) -> None:
        deltas, events = bool(self._delta_watchers), bool(self._event_watchers)
        if (deltas, events) != (self.deltas, self.events):
            self.deltas, self.events = deltas, events
            self._on_change()
        if not deltas:
            self._seq = -1

    def on_message(self, message: Replies) -> None:
        """Take a message of the engine. Every message contains the epoch, not only deltas."""
        if message.epoch != self._epoch:
            if self._epoch:
                self.lost("the broker's engine was restarted")
            self._epoch = message.epoch
        for delta in message.deltas:
            self._hand_out(delta)
        for batch in message.events:
            for watcher in list(self._event_watchers):
                _guard(watcher.on_events, batch)

    def _hand_out(self, delta: Delta) -> None:
        if self._seq >= 0 and delta.seq_from > self._seq + 1:
            self.lost(f"events {self._seq + 1} to {delta.seq_from - 1} did not arrive")
        self._seq = delta.seq_to
        for watcher in list(self._delta_watchers):
            _guard(watcher.on_delta, delta)

    def lost(self, reason: str) -> None:
        """Report a gap, so that every watcher takes a new snapshot."""
        self._seq = -1
        for watcher in dict.fromkeys([*self._delta_watchers, *self._event_watchers]):
            _guard(watcher.on_lost, reason)


def _guard(call: Callable[[T], None], value: T) -> None:
    try:
        call(value)
    except Exception:
        log.exception("a watcher failed")

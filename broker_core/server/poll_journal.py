"""The poll journal's writer: it records how each pull ended, for reports, without delaying the engine.

    engine's turn --> take: a list of notes --> a bounded queue --(a thread)--> blocks --> rolled files

A turn costs the engine one call that keeps a reference. The thread turns the notes into entries, a few at a time, with
pauses in which the engine has the interpreter for itself. While the disk refuses, the queue fills up; entries beyond
its limit are dropped and counted. A crash loses the entries that are not written yet.
"""

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from threading import Event as Signal
from threading import Thread

from broker_core.clock import Clock
from broker_core.counters import Counters
from broker_core.engine import Engine
from broker_core.event_log import Note, build_event
from broker_core.events import OffsetCommitted, PullAnswered, PullReleased, PullWoken
from broker_core.formats.poll_journal import FOLDER, JournalEntry
from broker_core.server.poll_journal_files import JournalFiles
from broker_core.store.files import Files

log = logging.getLogger(__name__)

MAX_WAITING = 65_536
"""Events that may wait for the thread; about 20 MB."""
HURRY_AT = 8192
"""If more events than this wait, the thread is woken before its flush interval is over."""
NOTES_AT_A_TIME = 32
WAITING_PER_NOTE = 64
"""The thread pauses after NOTES_AT_A_TIME notes, plus one for every WAITING_PER_NOTE notes that wait. Without pauses it
would keep the interpreter for 5 ms at a time, and may have to wait as long for it when the engine is busy."""
PAUSE_SECONDS = 0.0002
STOP_SECONDS = 10.0

ENTRY_EVENTS = frozenset((PullAnswered, PullReleased, OffsetCommitted))
"""Events that become one entry each."""
READ_EVENTS = ENTRY_EVENTS | {PullWoken}
"""Events that the journal reads."""


def entries(turn: Sequence[Note]) -> Iterator[JournalEntry]:
    """An entry for each pull of one turn that ended, and for each offset that was committed."""
    woken: PullWoken | None = None
    for note in turn:
        if note.kind not in READ_EVENTS:
            continue
        event = build_event(note)
        if isinstance(event, PullAnswered):
            yield _answered(event, woken if event.hold_id else None)
        elif isinstance(event, PullWoken):
            woken = event  # the PullAnswered of the same hold follows
        elif isinstance(event, OffsetCommitted):
            yield _committed(event)
        elif isinstance(event, PullReleased):
            yield _released(event)


def _answered(event: PullAnswered, woken: PullWoken | None) -> JournalEntry:
    """The entry of a pull; ``woken`` is None if it was not held."""
    return JournalEntry(
        at_ms=event.wall_ms,
        from_offset=event.pull_from_offset,
        next_offset=event.next_begin_offset,
        max_offset=event.queue_max_offset,
        oldest_store_ms=event.oldest_store_ms,
        held_us=woken.held_us if woken else 0,
        wake_us=woken.wake_us if woken and woken.cause == "arrival" else -1,
        granted_ms=event.granted_ms,
        queue_id=event.queue_id,
        messages=event.messages,
        bytes=event.size,
        topic=event.topic,
        group=event.group,
        client_id=event.client_id,
        kind="woken" if woken else "answered_at_once",
        cause=woken.cause if woken else "",
        status=event.status,
        protocol=event.protocol,
    )


def _committed(event: OffsetCommitted) -> JournalEntry:
    return JournalEntry(
        at_ms=event.wall_ms,
        from_offset=event.previous,
        next_offset=event.offset,
        max_offset=event.queue_max_offset,
        oldest_store_ms=-1,
        held_us=-1,
        wake_us=-1,
        granted_ms=-1,
        queue_id=event.queue_id,
        messages=-1,
        bytes=-1,
        topic=event.topic,
        group=event.group,
        client_id=event.client_id,
        kind="committed",
    )


def _released(event: PullReleased) -> JournalEntry:
    return JournalEntry(
        at_ms=event.wall_ms,
        from_offset=event.pull_from_offset,
        next_offset=-1,
        max_offset=event.queue_max_offset,
        oldest_store_ms=-1,
        held_us=event.held_us,
        wake_us=-1,
        granted_ms=event.granted_ms,
        queue_id=event.queue_id,
        messages=0,
        bytes=0,
        topic=event.topic,
        group=event.group,
        client_id=event.client_id,
        kind="released",
        cause=event.cause,
        protocol=event.protocol,
    )


def _count_entries(turn: Sequence[Note]) -> int:
    """How many entries the notes of a turn make."""
    return sum(note.kind in ENTRY_EVENTS for note in turn)


class PollJournal:
    """Writes the journal of one engine, from ``start`` to ``stop``."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._turns: deque[Sequence[Note]] = deque()
        # Each of these four is changed by only one thread, so no lock is needed.
        self._queued = 0  # events that were queued; changed by the engine's thread
        self._dropped = 0  # entries that were not queued; changed by the engine's thread
        self._taken = 0  # events that have left the queue; changed by the journal's thread
        self._given_up = 0  # entries in the queue at the end; changed by the journal's thread
        self._is_failing = False
        self._thread: Thread | None = None
        self._wake = Signal()
        self._stopping = False
        self._hurry_at = HURRY_AT

    _engine: Engine
    _counters: Counters
    _journal: JournalFiles

    # --- in the engine's thread ---

    def start(self, engine: Engine) -> None:
        """Record an engine that was just opened, unless its store is read-only or its options disable the journal."""
        if self.open(engine):
            self._thread = Thread(target=self._run, name="poll-journal", daemon=True)
            self._thread.start()

    def open(self, engine: Engine) -> bool:
        """``start`` without the thread: the caller calls ``write`` and ``close``. False if there is no journal."""
        if engine.read_only or not engine.options.poll_journal_enable:
            return False
        self._engine = engine
        self._counters = engine.counters
        self._journal = JournalFiles(self._files, engine.store_root / FOLDER, lambda: engine.options, engine.epoch)
        engine.events.record_to(self.take)
        return True

    def take(self, turn: Sequence[Note]) -> None:
        """Keep a turn's notes for the thread."""
        queued = self._queued + len(turn)
        if queued - self._taken > self._hurry_at:
            if queued - self._taken > MAX_WAITING or self._stopping:
                self._dropped += _count_entries(turn)
                self._update_counters()
                return
            if not self._is_failing and not self._wake.is_set():  # a refusing disk is tried again at the interval
                self._wake.set()
        self._queued = queued
        self._turns.append(turn)

    def stop(self) -> None:
        """Write the rest and end the thread. Call this after the engine's last turn, in any thread."""
        if self._thread is None:
            return
        self._stopping = True
        self._hurry_at = 0
        self._wake.set()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            log.error("the poll journal could not be finished in %.0f s: the disk does not answer", STOP_SECONDS)

    # --- in the journal's thread ---

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._wake.wait(self._engine.options.poll_journal_flush_interval / 1000)
                self._wake.clear()
                self.write()
            self.close()
        except Exception:
            log.exception("the poll journal failed; nothing more is written to it until the broker is started again")
            self._stopping = True
            self._hurry_at = 0
            self._give_up()

    def write(self) -> None:
        """Write the queued turns. Entries that the disk refuses are kept for the next call."""
        journal, now, since_pause = self._journal, self._clock.now(), 0
        journal.dropped = self._dropped
        try:
            journal.remove_expired(now)
            journal.append(now)
            while self._turns:
                turn = self._turns.popleft()
                for entry in entries(turn):
                    if journal.add(entry):
                        journal.cut(now)
                self._taken += len(turn)
                journal.append(now)
                since_pause += len(turn)
                waiting = self._queued - self._taken
                if since_pause >= NOTES_AT_A_TIME + waiting // WAITING_PER_NOTE and not self._stopping:
                    since_pause = 0
                    time.sleep(PAUSE_SECONDS)
            journal.cut(now)
            journal.append(now)
        except OSError as error:
            self._counters.journal_write_errors += 1
            if not self._is_failing:
                log.error("the poll journal cannot be written; trying again: %s", error)
            self._is_failing = True
        else:
            if self._is_failing:
                log.warning("the poll journal can be written again")
            self._is_failing = False
        self._update_counters()

    def close(self) -> None:
        """Write the rest and mark the file as complete. Entries that the disk refuses now are lost."""
        self.write()
        if not self._is_failing:
            try:
                self._journal.close(self._clock.now())
            except OSError as error:
                log.warning("the poll journal's last file could not be marked as complete: %s", error)
        self._give_up()

    def _give_up(self) -> None:
        """Count the unwritten entries as lost."""
        self._journal.give_up()
        while self._turns:
            self._given_up += _count_entries(self._turns.popleft())
        self._update_counters()

    def _update_counters(self) -> None:
        counters = self._counters
        counters.journal_entries = self._journal.written
        counters.journal_lost = self._dropped + self._given_up + self._journal.failed

"""The poll journal's writer: how pulls ended, kept for reports, beside the engine and never in its way.

    engine's turn --> take: a list of notes --> a bounded queue --(a thread)--> blocks --> rolled files

A turn costs the engine one call that keeps a reference. The thread makes entries of the notes, some at a time, with
pauses in which the engine has the interpreter for itself. While the disk refuses, the queue fills up; what it cannot
hold is dropped and counted. A crash loses what was not written yet.
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
"""Events that may wait for the thread; some 20 MB."""
HURRY_AT = 8192
"""Events at which the thread is woken before its time."""
NOTES_AT_A_TIME = 32
WAITING_PER_NOTE = 64
"""After so many notes, and one more for so many that wait, the thread pauses: without pauses it would keep the
interpreter for 5 ms at a time, and may have to wait as long for it when the engine is busy."""
PAUSE_SECONDS = 0.0002
STOP_SECONDS = 10.0

ENDS = frozenset((PullAnswered, PullReleased, OffsetCommitted))
"""Events that become one entry each."""
READ = ENDS | {PullWoken}
"""Events that the journal reads."""


def entries(turn: Sequence[Note]) -> Iterator[JournalEntry]:
    """An entry for each pull of one turn that ended, and for each offset that was committed."""
    woken: PullWoken | None = None
    for note in turn:
        if note[0] not in READ:
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
    """The entry of a pull; ``woken`` is there when it was held."""
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


def _ends(turn: Sequence[Note]) -> int:
    """How many entries a turn comes to."""
    return sum(note[0] in ENDS for note in turn)


class PollJournal:
    """Writes the journal of one engine, from ``start`` to ``stop``."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._turns: deque[Sequence[Note]] = deque()
        # Each of the four is changed by one thread alone, so there is no lock.
        self._handed = 0  # events that were queued: the engine's
        self._dropped = 0  # entries that were not: the engine's
        self._handled = 0  # events that have left the queue: the journal's
        self._left = 0  # entries that were in it at the end: the journal's
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
        """Listen to an engine that was just opened, unless its store or its options want no journal."""
        if self.open(engine):
            self._thread = Thread(target=self._run, name="poll-journal", daemon=True)
            self._thread.start()

    def open(self, engine: Engine) -> bool:
        """``start`` without the thread: the caller calls ``write`` and ``close``. False: there is to be no journal."""
        if engine.read_only or not engine.options.poll_journal_enable:
            return False
        self._engine = engine
        self._counters = engine.counters
        self._journal = JournalFiles(self._files, engine.store_root / FOLDER, lambda: engine.options, engine.epoch)
        engine.events.record_to(self.take)
        return True

    def take(self, turn: Sequence[Note]) -> None:
        """Keep a turn's notes for the thread."""
        handed = self._handed + len(turn)
        if handed - self._handled > self._hurry_at:
            if handed - self._handled > MAX_WAITING or self._stopping:
                self._dropped += _ends(turn)
                self._count()
                return
            if not self._is_failing and not self._wake.is_set():  # a disk that refuses is asked again in its time
                self._wake.set()
        self._handed = handed
        self._turns.append(turn)

    def stop(self) -> None:
        """Write what is there and end the thread. Called by any thread, when the engine has had its last turn."""
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
        """Write what was handed over. What the disk refuses is kept for the next call."""
        journal, now, noted = self._journal, self._clock.now(), 0
        journal.dropped = self._dropped
        try:
            journal.remove_expired(now)
            journal.append(now)
            while self._turns:
                turn = self._turns.popleft()
                for entry in entries(turn):
                    if journal.add(entry):
                        journal.cut(now)
                self._handled += len(turn)
                journal.append(now)
                noted += len(turn)
                waiting = self._handed - self._handled
                if noted >= NOTES_AT_A_TIME + waiting // WAITING_PER_NOTE and not self._stopping:
                    noted = 0
                    time.sleep(PAUSE_SECONDS)
            journal.cut(now)
            journal.append(now)
        except OSError as error:
            self._counters.journal_write_errors += 1
            if not self._is_failing:
                log.error("the poll journal cannot be written, which is tried again: %s", error)
            self._is_failing = True
        else:
            if self._is_failing:
                log.warning("the poll journal is written again")
            self._is_failing = False
        self._count()

    def close(self) -> None:
        """Write the rest, and say in the file that it is complete. What the disk refuses now is lost."""
        self.write()
        if not self._is_failing:
            try:
                self._journal.close(self._clock.now())
            except OSError as error:
                log.warning("the poll journal's last file could not be closed in order: %s", error)
        self._give_up()

    def _give_up(self) -> None:
        """What has not been written is lost."""
        self._journal.give_up()
        while self._turns:
            self._left += _ends(self._turns.popleft())
        self._count()

    def _count(self) -> None:
        counters = self._counters
        counters.journal_entries = self._journal.written
        counters.journal_lost = self._dropped + self._left + self._journal.failed

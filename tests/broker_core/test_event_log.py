"""Events numbered without a gap, kept in a bounded ring, handed out a turn at a time."""

import gc
from collections.abc import Sequence
from pathlib import Path

import mypy.api

from broker_core.clock import Now
from broker_core.event_log import EventLog, Note, build_event
from broker_core.events import Event, MessagesStored, RecoveryStep, SegmentRolled, SubscriptionGroupChanged

NOW = Now(1000, 5)


def emit(log: EventLog, count: int) -> None:
    for number in range(count):
        log.emit(SegmentRolled, NOW, number)


def test_numbers_have_no_gap_and_the_ring_is_bounded() -> None:
    log = EventLog(ring_size=10)
    emit(log, 25)
    assert log.seq == 25 and log.first_seq == 16
    assert [event.seq for event in log.after(0)] == list(range(16, 26))
    assert [event.seq for event in log.after(23)] == [24, 25]
    assert list(log.after(25)) == []
    assert list(log.after(20, MessagesStored)) == []


def test_an_event_is_built_for_its_reader() -> None:
    log = EventLog()
    log.emit(SegmentRolled, NOW, 42)
    recorded = log.last
    log.emit(RecoveryStep, NOW, "log", "")
    assert recorded.event() == SegmentRolled(1, NOW.wall_ms, NOW.mono_ns, 42)
    assert list(log.after(0, SegmentRolled)) == [recorded.event()]


def test_the_garbage_collector_does_not_look_at_the_notes_of_the_ring() -> None:
    log = EventLog()
    emit(log, 10)
    gc.collect()  # which finds that the fields can be in no cycle
    assert not any(gc.is_tracked(note) or gc.is_tracked(note.fields) for note in log._ring)


def test_only_the_chosen_events_are_built() -> None:
    class Made(RecoveryStep, frozen=True):
        def __post_init__(self) -> None:
            made.append(self.seq)

    made: list[int] = []
    log = EventLog()
    for number in range(4):
        log.emit(Made, NOW, "log", str(number))
        emit(log, 1)
    assert [event.seq for event in log.after(0, Made, where=lambda note: note.fields[1] in "12")] == made == [3, 5]


def test_a_listener_gets_a_turn_as_one_list() -> None:
    log = EventLog()
    turns: list[list[int]] = []
    log.listen(lambda events: turns.append([event.seq for event in events]))
    emit(log, 2)
    log.publish()
    log.publish()
    emit(log, 1)
    log.publish()
    assert turns == [[1, 2], [3]]


def test_a_listener_that_fails_is_dropped_and_counted() -> None:
    log = EventLog()
    seen: list[int] = []

    def broken(events: Sequence[Event]) -> None:
        raise ValueError("broken")

    log.listen(broken)
    log.listen(lambda events: seen.append(len(events)))
    for _ in range(2):
        emit(log, 1)
        log.publish()
    assert seen == [1, 1] and log.listeners_dropped == 1


def test_no_events_are_gathered_without_a_listener() -> None:
    log = EventLog()
    listener = seen = []  # type: ignore[var-annotated]
    log.listen(seen.append)
    log.unlisten(seen.append)
    emit(log, 3)
    log.listen(seen.append)
    log.publish()
    assert listener == [] and log.first_seq == 1


def test_kept_events_outlast_the_ring() -> None:
    log = EventLog(ring_size=2, kept_size=3)
    seen: list[Event] = []
    log.listen(seen.extend)
    for number in range(4):
        log.keep(SubscriptionGroupChanged, NOW, f"g{number}", "created")
    emit(log, 5)
    log.publish()
    assert [recorded.event() for recorded in log.kept] == seen[1:4]
    assert log.first_seq == 8


def test_a_recorder_gets_the_notes_of_a_turn_in_a_list_of_its_own() -> None:
    log = EventLog()
    turns: list[Sequence[Note]] = []
    events: list[Event] = []
    log.record_to(turns.append)
    log.listen(events.extend)
    emit(log, 2)
    log.publish()
    emit(log, 1)
    log.publish()
    assert [len(turn) for turn in turns] == [2, 1]
    assert [event.seq for event in events] == [1, 2, 3]
    assert [build_event(note, event.seq) for event, note in zip(events, [*turns[0], *turns[1]], strict=True)] == events
    log.unlisten(events.extend)
    emit(log, 1)
    log.publish()
    assert len(turns) == 3 and len(events) == 3


def test_a_recorder_that_fails_is_dropped_too() -> None:
    log = EventLog()

    def broken(turn: Sequence[Note]) -> None:
        raise ValueError("broken")

    log.record_to(broken)
    for _ in range(2):
        emit(log, 1)
        log.publish()
    assert log.listeners_dropped == 1
    emit(log, 1)
    log.listen(lambda events: None)
    log.publish()
    assert log.seq == 3


CALLS = {
    "emit(FlushDone, now, 1, 2, 3)": "",
    'emit(FlushDone, now, "nonsense")': "Missing positional arguments",
    'emit(FlushDone, now, 1, 2, "x")': 'has incompatible type "str"; expected "int"',
    "emit(FlushDone, 5, 1, 2, 3)": 'has incompatible type "int"; expected "Now"',
    "emit(FlushDone, now, 1, 2, 3, 4)": "Too many arguments",
    "keep(FlushDone, now, 1, 2, 3)": "",
    "keep(FlushDone, now, 1, 2)": "Missing positional argument",
}
"""Calls of an EventLog, and the error that mypy finds in each."""


def test_mypy_checks_the_fields_of_each_event(tmp_path: Path) -> None:
    lines = [
        "from broker_core.clock import Now",
        "from broker_core.event_log import EventLog",
        "from broker_core.events import FlushDone",
        "def run(log: EventLog, now: Now) -> None:",
        *(f"    log.{call}" for call in CALLS),
    ]
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join(lines) + "\n", encoding="utf-8")
    output, _, _ = mypy.api.run(
        ["--config-file=", "--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}", str(snippet)]
    )
    for number, (call, error) in enumerate(CALLS.items(), start=5):
        found = [line for line in output.splitlines() if f"snippet.py:{number}: error" in line]
        assert any(error in line for line in found) if error else not found, (call, output)

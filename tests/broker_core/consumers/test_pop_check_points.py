"""The table of check points: counts, times, deletions, progress."""

import pytest

from broker_core.clock import Now
from broker_core.consumers import pop_check_points
from broker_core.consumers.pop_check_points import CheckPoint, PopCheckPoints

NOW = Now(1_700_000_000_000, 5_000_000_000)


def point(offset: int, *waiting: int, revive_offset: int = 0, invisible_ms: int = 1000, **more: str) -> CheckPoint:
    return CheckPoint(
        group=more.get("group", "g"),
        topic=more.get("topic", "t"),
        queue_id=0,
        start_offset=offset,
        pop_time=NOW.wall_ms,
        invisible_ms=invisible_ms,
        waiting=list(waiting or (offset,)),
        revive_offset=revive_offset,
    )


def later(ms: int) -> int:
    return NOW.mono_ns + ms * 1_000_000


def test_messages_are_counted_by_queue() -> None:
    points = PopCheckPoints()
    points.add(point(0, 0, 1, 2), NOW)
    points.add(point(3, group="other"), NOW)
    assert (points.messages, points.in_flight("g", "t", 0), points.in_flight("other", "t", 0)) == (4, 3, 1)
    found = points.find("g", "t", (0, 0, NOW.wall_ms))
    assert found is not None
    assert [points.acknowledge(found, offset) for offset in (1, 1, 9)] == [True, False, False]
    assert (points.messages, points.in_flight("g", "t", 0)) == (3, 2)
    points.acknowledge(found, 0)
    points.acknowledge(found, 2)
    assert points.find("g", "t", (0, 0, NOW.wall_ms)) is None and points.messages == 1


def test_check_points_are_due_in_order_and_not_early() -> None:
    points = PopCheckPoints()
    late, early = point(0, invisible_ms=2000), point(1, invisible_ms=1000)
    points.add(late, NOW)
    points.add(early, NOW)
    assert points.next_due_ns() == later(1000) and points.take_due(later(999), 10) == []
    assert points.take_due(later(1000), 10) == [early]
    points.remove(early)
    assert points.take_due(later(5000), 10) == [late]


def test_a_postponed_check_point_is_due_again() -> None:
    points = PopCheckPoints()
    points.add(point(0), NOW)
    due = points.take_due(later(1000), 10)
    points.postpone(due, later(1000), 500)
    assert points.take_due(later(1499), 10) == [] and points.take_due(later(1500), 10) == due


def test_an_acknowledged_message_is_never_due() -> None:
    points = PopCheckPoints()
    points.add(point(0), NOW)
    points.acknowledge(points.find("g", "t", (0, 0, NOW.wall_ms)), 0)  # type: ignore[arg-type]
    assert points.next_due_ns() is None and points.take_due(later(5000), 10) == []


def test_check_points_of_a_deleted_topic_and_group_are_void_at_once() -> None:
    points = PopCheckPoints()
    first, second, third = point(0), point(1, group="h"), point(2, topic="u", group="h")
    for one in (first, second, third):
        points.add(one, NOW)
    points.remove_topic("t")
    assert points.next_due_ns() == 0
    due = points.take_due(NOW.mono_ns, 10)
    assert due == [first, second] and all(one.is_void for one in due) and points.messages == 1
    points.remove_group("h")
    assert points.take_due(NOW.mono_ns, 10) == [third] and points.messages == 0
    for one in (first, second, third):
        points.remove(one)
    assert points.take_due(later(5000), 10) == []


def test_a_check_point_that_is_due_before_it_is_void_is_not_revived() -> None:
    points = PopCheckPoints()
    points.add(point(0), NOW)
    points.remove_topic("t")
    (due,) = points.take_due(later(5000), 10)
    assert due.is_void


def test_the_next_load_begins_at_the_first_check_point_that_waits() -> None:
    points = PopCheckPoints()
    for offset in range(3):
        points.add(point(offset, revive_offset=10 + offset), NOW)
    assert points.progress() == {0: 10} and points.ends() == {0: 13}
    points.acknowledge(points.find("g", "t", (0, 0, NOW.wall_ms)), 0)  # type: ignore[arg-type]
    assert points.progress() == {0: 11}
    points.extend(0, 200_000)
    assert [one.start_offset for one in points.stale(10)] == [1, 2]
    for one in points.stale(10):
        points.stored_again(one, 200_000 + one.start_offset)
    assert points.stale(10) == [] and points.progress() == {0: 200_001}


def test_a_later_record_takes_the_place_of_an_earlier_one() -> None:
    points = PopCheckPoints()
    points.add(point(0, 0, 1), NOW)
    points.add(point(0, 1, revive_offset=5), NOW)
    assert points.messages == 1 and points.progress() == {0: 5}


def test_the_last_pop_of_a_group_is_known() -> None:
    points = PopCheckPoints()
    assert points.popping("g", "t") is None
    points.note_pop("g", "t", "A", 5)
    popping = points.popping("g", "t")
    assert popping is not None and (popping.client_id, popping.popped_ns) == ("A", 5)


def test_the_time_without_an_acknowledgement() -> None:
    second = 1_000_000_000
    points = PopCheckPoints()
    points.note_given("g", "t", 2, 1)
    assert points.popping("g", "t") is None, "no pop was noted: after a start"
    points.note_pop("g", "t", "A", 5)
    popping = points.popping("g", "t")
    assert popping is not None

    def seen() -> tuple[int, int]:
        return popping.unacknowledged, popping.still_ns // second

    points.note_given("g", "t", 2, 10 * second)
    points.note_given("g", "t", 1, 20 * second)
    assert seen() == (3, 10)
    points.note_acknowledged("g", "%RETRY%g_t", 1, 30 * second)
    assert seen() == (2, 30)
    points.note_returned("g", "t", 2)
    points.note_given("g", "t", 2, 40 * second)
    assert seen() == (2, 40)
    points.note_returned("g", "t", 2)
    points.note_given("g", "t", 2, 90 * second)
    assert seen() == (2, 40), "they came back, and none is acknowledged"
    points.note_returned("g", "t", 2)
    points.note_given("g", "t", 2, 151 * second)
    assert seen() == (2, 151), "nothing was given for a minute"


def test_many_check_points_are_not_stored_again_because_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_check_points, "STALE", 10)
    points, end = PopCheckPoints(), 40
    for offset in range(end):
        points.add(point(offset, revive_offset=offset), NOW)
    for _ in range(100):
        for one in points.stale(4):
            points.stored_again(one, end)
            end += 1
    assert end == 40
    points.extend(0, end := 200)
    for _ in range(100):
        for one in points.stale(4):
            points.stored_again(one, end)
            end += 1
    assert end == 240, "each once"

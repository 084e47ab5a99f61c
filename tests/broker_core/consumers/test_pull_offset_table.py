"""The last pull of every queue and the group's progress, bounded."""

import pytest

from broker_core.consumers.pull_offset_table import TREND_NS, LastPull, PullOffsetTable


def note(
    table: PullOffsetTable,
    client: str = "A",
    group: str = "g",
    queue_id: int = 0,
    begin: int = 0,
    end: int = 0,
    messages: int = 0,
    at: int = 1,
) -> str | None:
    return table.note(group, "t", queue_id, client, "remoting", end, at, begin, messages)


def row(table: PullOffsetTable) -> LastPull:
    return table.topics("g")["t"][0]


def test_the_newest_pull_counts() -> None:
    table = PullOffsetTable()
    assert note(table, "A", end=10) is None
    assert note(table, "A", begin=10, end=12) == "A"
    assert note(table, "B", begin=12, end=20, at=2) == "A"
    assert table.topics("g") == {"t": {0: LastPull("B", 2, 20, taken_ns=2)}} and len(table) == 1
    assert table.topics("unknown") == {} and table.last_pull("unknown", "t", 0) is None


def test_the_number_of_queues_is_limited() -> None:
    table = PullOffsetTable(max_queues=3)
    for group in ("a", "b", "c", "d"):
        note(table, group=group)
        assert len(table) <= 3
    assert [group for group in "abcd" if table.topics(group)] == ["b", "c", "d"]
    for queue_id in range(10):
        note(table, group="d", queue_id=queue_id)
        table.moved("e", "t", queue_id, 1, 0, 1)
        assert len(table) <= 3
    assert 9 in table.topics("e")["t"]


def test_a_group_is_forgotten() -> None:
    table = PullOffsetTable(max_queues=2)
    for group in "ab":
        note(table, group=group)
    table.remove_group("a")
    table.remove_group("a")
    assert len(table) == 1 and table.topics("a") == {}
    note(table, group="c")
    assert table.topics("b") and list(table.groups()) == ["b", "c"]


def test_messages_are_in_hand_until_the_commit_reaches_the_next_pull() -> None:
    table = PullOffsetTable()
    note(table, end=3, messages=3, at=10)
    note(table, begin=3, end=3, at=20)
    table.answered("g", "t", 0, "A", 5, 2, 30)
    assert (row(table).handed, row(table).handed_ns) == (5, 10)
    table.moved("g", "t", 0, 2, 3, 40)
    assert (row(table).handed, row(table).handed_ns, row(table).moved_ns) == (5, 10, 40), "part of them is committed"
    table.moved("g", "t", 0, 5, 0, 50)
    assert (row(table).handed, row(table).handed_ns, row(table).moved_ns) == (0, 0, 50)


def test_another_client_or_a_step_back_counts_again_but_keeps_the_time() -> None:
    table = PullOffsetTable()
    note(table, begin=4, end=9, messages=5, at=10)
    note(table, "B", begin=4, end=6, messages=2, at=20)
    assert (row(table).handed, row(table).handed_ns, row(table).first_offset) == (2, 10, 4)
    note(table, "B", begin=2, end=3, messages=1, at=30)
    assert (row(table).handed, row(table).handed_ns, row(table).first_offset) == (1, 10, 2)
    table.answered("g", "t", 0, "A", 9, 4, 40)
    assert (row(table).handed, row(table).pull_offset) == (1, 3), "the queue has another client"


def test_a_commit_without_a_pull_is_progress_but_no_pull() -> None:
    table = PullOffsetTable()
    table.moved("g", "t", 0, 7, 1, 40)
    assert row(table).moved_ns == 40 and table.last_pull("g", "t", 0) is None
    assert note(table, "A", begin=7, end=8, messages=1, at=50) is None, "nobody pulled before"
    assert table.last_pull("g", "t", 0) is row(table)


def trend(*lags: int) -> tuple[bool, int, int]:
    """Whether the lag grows after these notes, the lag at which that began, and the number of that note."""
    table = PullOffsetTable()
    for number, lag in enumerate(lags, 1):
        table.moved("g", "t", 0, 1, 1 + lag, number * TREND_NS)
    return row(table).is_growing, row(table).lag_before, row(table).lag_before_ns // TREND_NS


def test_a_lag_is_noted_some_time_apart() -> None:
    table = PullOffsetTable()
    for at, lag in ((10, 9), (11, 100), (19, 200), (20, 9)):
        table.moved("g", "t", 0, 1, 1 + lag, at * 1_000_000_000)
    assert (row(table).is_growing, row(table).lag_before, row(table).lag_ns) == (False, 9, 20_000_000_000)


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ((100,), (False, 100, 1)),
        ((100, 101, 99, 115, 100, 114), (False, 100, 1)),  # noise
        ((100, 117), (True, 100, 1)),
        ((100, 105, 110, 117), (True, 100, 1)),  # slow growth adds up
        ((100, 90, 80, 97), (True, 80, 3)),
        ((100, 90, 80, 96), (False, 100, 1)),
        ((100, 117, 103, 110), (True, 100, 1)),  # it does not flicker
        ((100, 200, 190, 184), (True, 100, 1)),
        ((100, 200, 183), (False, 200, 2)),
        ((100, 200, 0, 3), (False, 0, 3)),
        ((16_000, 17_000), (False, 16_000, 1)),  # a sixteenth of a large lag is noise
        ((16_000, 17_001), (True, 16_000, 1)),
    ],
)
def test_a_lag_grows_if_it_rises_by_more_than_noise(lags: tuple[int, ...], expected: tuple[bool, int, int]) -> None:
    assert trend(*lags) == expected


def test_the_time_of_a_takeover_is_that_of_the_new_client() -> None:
    table = PullOffsetTable()
    note(table, "A", end=3, messages=3, at=10)
    note(table, "A", begin=3, end=3, at=20)
    assert row(table).taken_ns == 10
    note(table, "B", begin=0, end=3, messages=3, at=30)
    note(table, "B", begin=0, end=3, messages=3, at=40)
    assert (row(table).taken_ns, row(table).handed_ns) == (30, 10)


def test_an_operators_reset_is_no_progress() -> None:
    table = PullOffsetTable()
    note(table, end=3, messages=3, at=10)
    table.moved("g", "t", 0, 1, 2, 40)
    table.was_reset("g", "t", 0)
    table.was_reset("unknown", "t", 0)
    assert (row(table).moved_ns, row(table).handed, row(table).lag_ns) == (0, 0, 0)


def test_the_rows_of_a_removed_group_are_freed_a_few_at_a_time() -> None:
    table = PullOffsetTable(max_queues=100)
    for topic in range(20):
        for queue_id in range(5):
            table.moved("g", f"topic-{topic}", queue_id, 1, 1, 1)
    rows = table.topics("g")
    note(table, group="h")  # the table is full, so it takes the place of g
    assert table.topics("g") == {} and len(table) == 1 and len(rows) == 20 and table.has_work
    table.work(12)
    assert len(rows) == 17
    table.work(1000)
    assert not rows and not table.has_work

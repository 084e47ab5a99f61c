"""The last pull of every queue, bounded."""

from broker_core.consumers.pull_offset_table import LastPull, PullOffsetTable


def test_the_newest_pull_counts() -> None:
    table = PullOffsetTable()
    first, second = LastPull("A", 1, 10), LastPull("B", 2, 20)
    assert table.note("g", "t", 0, first) is None
    assert table.note("g", "t", 0, second) == first
    assert table.queues("g") == {("t", 0): second} and len(table) == 1
    assert table.queues("unknown") == {}


def test_it_is_bounded() -> None:
    table = PullOffsetTable(max_queues=3)
    for group in ("a", "b", "c", "d"):
        table.note(group, "t", 0, LastPull("A", 1, 0))
        assert len(table) <= 3
    assert [group for group in "abcd" if table.queues(group)] == ["b", "c", "d"]
    for queue_id in range(10):
        table.note("d", "t", queue_id, LastPull("A", 1, 0))
    assert len(table) <= 3 and ("t", 9) in table.queues("d")


def test_a_group_is_forgotten() -> None:
    table = PullOffsetTable(max_queues=2)
    for group in "ab":
        table.note(group, "t", 0, LastPull("A", 1, 0))
    table.remove_group("a")
    table.remove_group("a")
    assert len(table) == 1 and table.queues("a") == {}
    table.note("c", "t", 0, LastPull("A", 1, 0))
    assert table.queues("b") and list(table.groups()) == ["b", "c"]

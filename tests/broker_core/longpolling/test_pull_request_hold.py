"""The pullRequestTable: which arrivals wake which holds, and removal from all four places together."""

import gc
from typing import Any

import pytest

from broker_core.filters.filter_factory import make_filter
from broker_core.formats.tags_code import tags_code
from broker_core.longpolling.pull_request import ManyPullRequest, PullRequest
from broker_core.longpolling.pull_request_hold import PullRequestHold

A, B = tags_code("TagA"), tags_code("TagB")


class ArrivalInQueue0:
    """An arrival in queue 0 of T. The physical offset of a record is its queue offset."""

    topic, queue_id = "T", 0
    bitmaps: list[int] | None = None

    def __init__(self, from_offset: int, tags_codes: list[int]) -> None:
        self.from_offset = from_offset
        self.to_offset = from_offset + len(tags_codes)
        self.tags_codes = tags_codes
        self.physical_offsets = range(from_offset, self.to_offset)


def no_properties(physical_offset: int) -> bytes:
    """For filters that read none."""
    raise AssertionError


def hold(
    table: PullRequestHold,
    topic: str = "T",
    queue_id: int = 0,
    offset: int = 0,
    expression: str = "*",
    connection: Any = "c1",
    timeout_ms: int = 1000,
    now_ns: int = 0,
    group: str = "g",
    expression_type: str = "TAG",
) -> PullRequest:
    held = PullRequest(
        hold_id=table.next_id(),
        connection=connection,
        request_id=len(table) + 100,
        many=table.get_or_create_many(topic, queue_id, offset),
        pull_from_offset=offset,
        max_msg_nums=32,
        max_msg_bytes=1 << 20,
        group=group,
        client_id="",
        protocol="http",
        message_filter=make_filter(expression, expression_type, property_filter=True),
        suspended_ns=now_ns,
        suspend_timeout_ms=timeout_ms,
        short=False,
        check_group=False,
    )
    table.hold(held)
    return held


@pytest.fixture
def table() -> PullRequestHold:
    return PullRequestHold()


def empty(table: PullRequestHold) -> bool:
    return (
        len(table) == 0
        and not list(table)
        and table.next_deadline_ns() is None
        and table.count_of_connection("c1") == 0
        and table.count_of_queue("T", 0) == 0
    )


def test_an_arrival_wakes_the_holds_of_its_queue_and_no_other(table: PullRequestHold) -> None:
    here, other_queue, other_topic = hold(table), hold(table, queue_id=1), hold(table, topic="U")
    woken, passed, _ = table.arrive(ArrivalInQueue0(0, [A]), no_properties)
    assert woken == [here] and passed == []
    assert list(table) == [other_queue, other_topic]


def test_an_arrival_before_the_pulls_offset_wakes_nobody(table: PullRequestHold) -> None:
    hold(table, offset=5)
    assert table.arrive(ArrivalInQueue0(3, [A, A]), no_properties) == ([], [], [])
    assert len(table.arrive(ArrivalInQueue0(5, [A]), no_properties)[0]) == 1


def test_only_tags_from_the_pulls_offset_on_count(table: PullRequestHold) -> None:
    held = hold(table, offset=1, expression="TagA")
    assert table.arrive(ArrivalInQueue0(0, [A, B, B]), no_properties) == ([], [held], [])
    assert table.arrive(ArrivalInQueue0(3, [B, A]), no_properties) == ([held], [], [])
    assert empty(table)


def test_one_of_several_tags_is_enough(table: PullRequestHold) -> None:
    held = hold(table, expression="TagX || TagB")
    assert table.arrive(ArrivalInQueue0(0, [A, B]), no_properties) == ([held], [], [])


def test_an_sql92_filter_is_evaluated_for_the_records_from_the_pulls_offset_on(table: PullRequestHold) -> None:
    properties = [b"a\x012\x02", b"a\x011\x02", b"b\x012\x02", b"a\x012\x02"]
    held = [
        hold(table, offset=1, expression="a = 2", expression_type="SQL92", connection=name) for name in ("c1", "c2")
    ]
    read: list[int] = []

    def properties_of(physical_offset: int) -> bytes:
        read.append(physical_offset)
        return properties[physical_offset]

    assert table.arrive(ArrivalInQueue0(0, [A, A, A]), properties_of) == ([], held, [])
    assert read == [1, 2], "equal filters are evaluated once"
    assert table.arrive(ArrivalInQueue0(3, [A]), properties_of) == (held, [], [])


def test_when_filters_are_too_much_work_for_a_turn_their_holds_are_woken(table: PullRequestHold) -> None:
    large = b"b\x01" + b"x" * 20_000 + b"\x02"
    first = hold(table, expression="a = 1", expression_type="SQL92")
    tag = hold(table, expression="TagC", connection="c2")
    arrival = ArrivalInQueue0(0, [A] * 1000)
    read: list[int] = []
    assert table.arrive(arrival, lambda place: read.append(place) or large) == ([first], [tag], [])  # type: ignore[func-returns-value]
    assert len(read) < 100
    assert table.work_left <= 0


def test_without_waking_only_the_queue_end_moves(table: PullRequestHold) -> None:
    held = hold(table)
    assert table.arrive(ArrivalInQueue0(0, [A]), no_properties, wake=False) == ([], [], [])
    assert held.many.max_offset == 1 and len(table) == 1


def test_all_groups_holding_on_a_queue_are_woken_together(table: PullRequestHold) -> None:
    held = [hold(table, connection=f"c{number}") for number in range(20)]
    woken, _, _ = table.arrive(ArrivalInQueue0(0, [A]), no_properties)
    assert sorted(woken, key=lambda one: one.hold_id) == held
    assert empty(table)


def test_a_due_hold_is_removed_from_every_place(table: PullRequestHold) -> None:
    held = hold(table, timeout_ms=100)
    assert table.take_due(99_000_000, 10) == []
    assert table.take_due(104_000_000, 10) == [held]
    assert empty(table)


def test_a_closed_connections_holds_are_removed(table: PullRequestHold) -> None:
    mine = [hold(table), hold(table, queue_id=3)]
    theirs = hold(table, connection="c2")
    assert not table.leaving and table.take_leaving(10) == []
    assert table.leave_connection("c1") == 2 and table.leaving
    assert table.take_leaving(10) == [(held, "channel_gone") for held in mine]
    assert not table.leaving and table.leave_connection("c1") == 0 and not table.leaving
    assert list(table) == [theirs]


def test_leaving_holds_are_removed_in_order_and_a_few_at_a_time(table: PullRequestHold) -> None:
    first = [hold(table, queue_id=number) for number in range(5)]
    second = [hold(table, connection="c2", queue_id=number) for number in range(3)]
    table.leave_connection("c1"), table.leave_connection("c2")
    assert [held for held, _ in table.take_leaving(2)] == first[:2]
    table.take_request("c1", first[2].request_id)  # cancelled in the meantime
    assert [held for held, _ in table.take_leaving(4)] == [*first[3:], second[0]] and table.leaving
    assert [held for held, _ in table.take_leaving(4)] == second[1:] and not table.leaving
    assert empty(table)


def test_one_hold_is_removed_by_its_request_id(table: PullRequestHold) -> None:
    held = hold(table)
    assert table.take_request("c2", held.request_id) is None
    assert table.is_held("c1", held.request_id)
    assert table.take_request("c1", held.request_id) is held
    assert empty(table)


def test_all_holds_of_a_topic_are_removed(table: PullRequestHold) -> None:
    old = [hold(table, queue_id=0), hold(table, queue_id=1)]
    other = hold(table, topic="U")
    table.leave_topic("T")
    new = hold(table, queue_id=0)  # of a new topic with this name
    assert table.requests_of_queue("T", 0) == [new]
    assert table.take_leaving(10) == [(held, "cancelled") for held in old]
    table.leave_all()
    assert table.take_leaving(10) == [(other, "shutdown"), (new, "shutdown")]
    assert empty(table)


def test_holds_that_are_woken_together_do_not_keep_each_other_in_memory(table: PullRequestHold) -> None:
    held = [hold(table) for _ in range(3)]
    assert table.arrive(ArrivalInQueue0(0, [A]), no_properties) == (held, [], [])
    assert all(one.previous is one.next is None for one in held)
    assert empty(table)


def test_the_garbage_collector_sees_no_part_of_a_hold(table: PullRequestHold) -> None:
    """A full collection looks at each object that it sees, and the broker waits for it."""
    gc.collect()
    seen = len(gc.get_objects())
    for number in range(1000):
        hold(table, queue_id=number)
    gc.collect()
    assert len(gc.get_objects()) - seen < 100


def test_the_check_finds_holds_with_messages_in_their_queue(table: PullRequestHold) -> None:
    passed, waiting = hold(table, offset=3), hold(table, queue_id=1, offset=3)
    table.start_check()
    assert table.checking
    assert table.check(lambda topic, queue_id: 4 if queue_id == 0 else 3, 10) == [passed]
    assert not table.checking
    assert list(table) == [waiting]


def test_the_check_continues_after_its_limit(table: PullRequestHold) -> None:
    for number in range(5):
        hold(table, queue_id=number)
    table.start_check()
    seen = [len(table.check(lambda *_: 1, 2)) for _ in range(3)]
    assert seen == [2, 2, 1] and not table.checking


def test_the_holds_of_a_queue(table: PullRequestHold) -> None:
    first, second = hold(table), hold(table)
    hold(table, queue_id=1)
    assert table.requests_of_queue("T", 0) == [first, second] and table.requests_of_queue("T", 2) == []


def test_deleting_a_topic_looks_at_none_of_its_holds(table: PullRequestHold, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [hold(table, connection="c2", queue_id=number % 3) for number in range(9)]
    with monkeypatch.context() as patch:
        patch.setattr(ManyPullRequest, "__iter__", None)
        table.leave_topic("T")
    assert len(table) == 9 and table.leaving
    assert [table.leaving and len(table.take_leaving(4)) for _ in range(3)] == [4, 4, 1]
    assert not table.leaving and len(table) == 0 and held[0].due_tick < 0


def test_a_hold_of_a_deleted_topic_that_ends_otherwise_is_not_returned(table: PullRequestHold) -> None:
    first, second = hold(table, timeout_ms=100), hold(table, timeout_ms=500)
    table.leave_topic("T")
    assert table.take_due(104_000_000, 10) == [first]
    assert table.take_leaving(10) == [(second, "cancelled")] and empty(table)


def test_the_holds_of_a_group_are_counted(table: PullRequestHold) -> None:
    mine = [hold(table, group="g"), hold(table, group="g", queue_id=1)]
    hold(table, group="h")
    hold(table, group="")
    assert [table.count_of_group(group) for group in "ghi"] == [2, 1, 0] and set(table.groups()) == {"g", "h"}
    table.take_request("c1", mine[0].request_id)
    table.leave_all()
    assert table.count_of_group("g") == 1
    table.take_leaving(10)
    assert table.groups() == []

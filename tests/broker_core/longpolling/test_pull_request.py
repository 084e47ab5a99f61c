"""The holds of one queue: removing one leaves the others, whatever its position."""

from hypothesis import given
from hypothesis import strategies as st

from broker_core.longpolling.pull_request import ManyPullRequest, PullRequest


def request(many: ManyPullRequest, hold_id: int) -> PullRequest:
    return PullRequest(
        hold_id=hold_id,
        connection="c",
        request_id=hold_id,
        many=many,
        pull_from_offset=0,
        max_msg_nums=32,
        max_msg_bytes=1,
        group="",
        client_id="",
        protocol="http",
        message_filter=None,
        suspended_ns=0,
        suspend_timeout_ms=1,
        short=False,
        check_group=False,
    )


@given(st.permutations(range(8)), st.integers(0, 8))
def test_removal_in_any_order(order: list[int], count: int) -> None:
    many = ManyPullRequest("T", 0, 0)
    held = [request(many, hold_id) for hold_id in range(8)]
    for one in held:
        many.add(one)
    for hold_id in order[:count]:
        many.remove(held[hold_id])
    left = sorted(order[count:])
    assert [one.hold_id for one in many] == left and many.count == len(left)
    newest = many.last
    while newest is not None:
        assert newest.hold_id == left.pop()
        newest = newest.previous
    assert left == []


def test_removed_holds_do_not_keep_each_other_in_memory() -> None:
    many = ManyPullRequest("T", 0, 0)
    held = [request(many, hold_id) for hold_id in range(3)]
    for one in held:
        many.add(one)
    for one in held:
        many.remove(one)
    assert all(one.previous is one.next is None for one in held) and many.first is many.last is None

"""Resets: previewed, stored, and members told once, wherever they are."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.events import OffsetReset
from tests.fakes.engine import Bench, bodies
from tests.fakes.members import beats, events, failure, join


def reset(bench: Bench, to: str = "", **fields: Any) -> c.OffsetsReset:
    reply = bench.call(c.ResetConsumerOffset(**{"group": "g", "topic": "orders", "to": to} | fields))
    assert isinstance(reply, c.OffsetsReset), reply
    return reply


def pull(bench: Bench, offset: int, client: str = "A", **fields: Any) -> c.Reply | None:
    """A member's pull from queue 0; None when it is held."""
    request = bench.pull("orders", offset, client, subscription=None, check_group=True, **fields)
    return bench.final(request, client)


def committed(bench: Bench, queue_id: int = 0) -> int | None:
    return bench.context.offsets.query("g", "orders", queue_id)


def commit(bench: Bench, offset: int, client: str = "A") -> None:
    assert (
        bench.call(
            c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=offset)]),
            client,
        )
        == c.Done()
    )


def where(bench: Bench) -> c.Reply:
    return bench.call(c.QueryOffset(group="g", topic="orders", queue_id=0), "A")


@pytest.fixture
def bench() -> Bench:
    """Three messages in queue 0 of orders; A is a member of g and has committed 1."""
    bench = Bench(default_topic_queue_nums=4)
    bench.send("orders", b"1", b"2", b"3")
    join(bench, "A")
    commit(bench, 1)
    return bench


def test_a_reset_is_previewed_then_done() -> None:
    bench = Bench()
    bench.send("orders", b"1", b"2")
    commit(bench, 1)
    bench.clock.advance(1000)
    later = bench.clock.now().wall_ms
    bench.send("orders", b"3")
    for to, offset in (("max", 3), ("min", 0), (str(later), 2)):
        before = committed(bench)
        preview = reset(bench, to, dry_run=True)
        assert committed(bench) == before
        done = reset(bench, to)
        assert preview.changes == done.changes and preview.changes[0].before == before
        assert committed(bench) == offset
        assert [target.queue_id for target in done.offsets] == list(range(4)) and done.offsets == preview.offsets


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_group_that_does_not_exist_is_not_reset(dry_run: bool) -> None:
    bench = Bench()
    bench.send("orders", b"1")
    refused = bench.call(c.ResetConsumerOffset(group="g", topic="orders", to="max", dry_run=dry_run))
    assert isinstance(refused, c.Failed)
    assert (refused.code, refused.kind) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "not_found")
    assert bench.context.offsets.query("g", "orders", 0) is None


def test_a_reset_sets_one_queue_to_an_offset(bench: Bench) -> None:
    done = reset(bench, queue_id=0, offset=2)
    assert [(change.queue_id, change.before, change.after) for change in done.changes] == [(0, 1, 2)]
    assert committed(bench) == 2 and committed(bench, 1) is None
    assert [(e.queue_id, e.offset, e.previous) for e in events(bench, OffsetReset)] == [(0, 2, 1)]


def test_the_next_pull_of_a_member_gets_the_new_offset_once(bench: Bench) -> None:
    reset(bench, "min")
    answer = pull(bench, 2, commit_offset=2)
    assert isinstance(answer, c.Pulled)
    assert (answer.code, answer.status, answer.next_begin_offset, answer.records) == (21, "OFFSET_RESET", 0, b"")
    assert (answer.min_offset, answer.max_offset) == (0, 3)
    assert committed(bench) == 0  # what came with the pull is not heard
    again = pull(bench, 0)
    assert isinstance(again, c.Pulled) and bodies(again) == [b"1", b"2", b"3"]


def test_until_its_next_pull_commits_of_a_member_are_ignored(bench: Bench) -> None:
    reset(bench, "max")
    commit(bench, 1)
    assert committed(bench) == 3 and where(bench) == c.FoundOffset(offset=3)
    pull(bench, 1)
    commit(bench, 2)
    assert committed(bench) == 2


def test_a_reset_to_where_the_group_is_makes_members_begin_there_again(bench: Bench) -> None:
    done = reset(bench, queue_id=0, offset=1)
    assert done.changes == [] and [target.offset for target in done.offsets] == [1]
    answer = pull(bench, 3)
    assert isinstance(answer, c.Pulled) and (answer.code, answer.next_begin_offset) == (21, 1)


def test_a_held_pull_of_a_member_is_answered_at_once(bench: Bench) -> None:
    join(bench, "B", "other")
    held = bench.pull("orders", 3, "A", subscription=None, check_group=True)
    others = [
        bench.pull("orders", 3, "B", subscription=None, check_group=True, consumer_group="other"),
        bench.pull("orders", 3, "web", consumer_group="g"),
    ]
    reset(bench, "min")
    answer = bench.pulled(held, "A")
    assert (answer.code, answer.next_begin_offset, answer.suspend_timeout_ms) == (21, 0, 15_000)
    assert bench.final(others[0], "B") is None and bench.final(others[1], "web") is None
    again = pull(bench, 0)
    assert isinstance(again, c.Pulled) and again.code == 0
    assert bench.engine.counters.woken["missed_arrival"] == 0


def test_a_client_that_is_no_member_does_not_use_up_a_reset(bench: Bench) -> None:
    reset(bench, "min")
    stranger = bench.pull("orders", 2, "web", consumer_group="g")
    assert bodies(bench.pulled(stranger, "web")) == [b"3"]
    commit(bench, 2, "web")
    assert committed(bench) == 2
    answer = pull(bench, 2)
    assert isinstance(answer, c.Pulled) and answer.code == 21


def test_a_group_without_members_is_only_moved(bench: Bench) -> None:
    bench.call(c.CloseConnection(), "A")
    reset(bench, "max")
    join(bench, "A", connection="A2")
    assert where(bench) == c.FoundOffset(offset=3)
    assert pull(bench, 3, "A2") is None  # held


def test_a_pending_reset_ends_when_the_last_member_leaves(bench: Bench) -> None:
    reset(bench, "max")
    bench.call(c.UnregisterClient(client_id="A", consumer_group="g"), "A")
    beats(bench, "A")
    commit(bench, 1)
    assert committed(bench) == 1 and pull(bench, 3) is None


def test_a_deleted_topic_has_no_pending_resets(bench: Bench) -> None:
    reset(bench, "max")
    bench.call(c.DeleteTopic(topic="orders"))
    assert bench.context.offsets.pending_reset("g", "orders", 0) is None


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"to": "yesterday"}, "/to"),
        ({"to": ""}, "/to"),
        ({"to": "9" * 16}, "/to"),
        ({"to": "max", "queue_id": 4}, "/queue_id"),
        ({"to": "max", "topic": "nowhere"}, "/topic"),
        ({"to": "max", "group": "a/b"}, "/group"),
        ({"queue_id": 0, "offset": 4}, "/offset"),
        ({"queue_id": 0, "offset": -1}, "/offset"),
        ({"offset": 3}, "/offset"),
    ],
)
def test_bad_requests_change_nothing(bench: Bench, fields: dict[str, Any], pointer: str) -> None:
    command = c.ResetConsumerOffset(**{"group": "g", "topic": "orders", "to": ""} | fields)
    assert failure(bench, command).pointer == pointer
    assert committed(bench) == 1 and events(bench, OffsetReset) == []

"""Resets: previewed, stored, and members told once, wherever they are."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.events import OffsetReset
from broker_core.processors import reset_offset
from broker_core.processors.reset_offset import LOOK_UP, STORE, WORK_A_TURN
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


# --- A long reset ---------------------------------------------------------------------------------------------------

QUEUES = 100


class LongReset:
    """A reset of a group's offsets in 100 queues, and what its turns looked up and stored."""

    def __init__(self, patch: pytest.MonkeyPatch, **fields: Any) -> None:
        self.bench = bench = Bench()
        bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=QUEUES, write_queues=QUEUES))
        for queue_id in range(QUEUES):
            bench.send("orders", b"1", b"2", queue_id=queue_id)
        join(bench, "A")
        self.looked_up = 0
        look_up = bench.context.store.offset_by_time

        def count(*arguments: Any) -> int:
            self.looked_up += 1
            return look_up(*arguments)

        patch.setattr(bench.context.store, "offset_by_time", count)
        command = c.ResetConsumerOffset(**{"group": "g", "topic": "orders", "to": "0"} | fields)
        (self.request,) = bench.submit(command, connection="admin")

    @property
    def stored(self) -> int:
        return len(self.bench.context.offsets.topics("g").get("orders", ()))

    def turn(self) -> c.Reply | None:
        self.bench.take(self.bench.engine.tick(self.bench.clock.now()))
        return self.bench.final(self.request, "admin")


def test_a_turn_does_a_bounded_part_of_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    long = LongReset(monkeypatch)
    looked_up, stored, turns = long.looked_up, long.stored, 1
    reply = None
    while reply is None:
        assert long.bench.engine.next_deadline() == 0
        reply = long.turn()
        assert long.looked_up - looked_up <= WORK_A_TURN // LOOK_UP
        assert long.stored - stored <= WORK_A_TURN // STORE and (not long.stored or long.looked_up == QUEUES)
        looked_up, stored, turns = long.looked_up, long.stored, turns + 1
    assert isinstance(reply, c.OffsetsReset) and len(reply.offsets) == long.stored == QUEUES
    assert turns >= QUEUES * (LOOK_UP + STORE) // WORK_A_TURN
    assert not long.bench.context.resets


def test_the_held_pulls_of_a_queue_are_answered_a_few_in_a_turn(bench: Bench) -> None:
    held = [bench.pull("orders", 3, "A", subscription=None, check_group=True) for _ in range(300)]
    (request,) = bench.submit(c.ResetConsumerOffset(group="g", topic="orders", to="min"), connection="admin")
    answered, turns = 0, 1
    while True:
        now_answered = sum(bench.final(pull, "A") is not None for pull in held)
        assert now_answered - answered <= WORK_A_TURN // STORE
        answered = now_answered
        if bench.final(request, "admin") is not None:
            break
        bench.take(bench.engine.tick(bench.clock.now()))
        turns += 1
    assert answered == 300 and turns >= 300 * STORE // WORK_A_TURN


@pytest.mark.parametrize("change", [c.DeleteTopic(topic="orders"), c.UpdateAndCreateTopic(topic="orders", perm=4)])
def test_a_topic_that_changes_during_a_reset_ends_it(monkeypatch: pytest.MonkeyPatch, change: c.Command) -> None:
    long = LongReset(monkeypatch)
    long.bench.submit(change)
    long.bench.send("orders", b"of a new topic") if isinstance(change, c.DeleteTopic) else None
    reply = long.turn()
    assert isinstance(reply, c.Failed) and (reply.kind, reply.pointer) == ("conflict", "/topic")
    assert long.stored == 0 and not long.bench.context.resets


def test_a_reset_that_fails_later_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    long = LongReset(monkeypatch, group="unknown")
    while (reply := long.turn()) is None:
        pass
    assert isinstance(reply, c.Failed) and reply.kind == "not_found"
    assert not long.bench.context.offsets.topics("unknown")


def test_resets_are_done_in_their_order_and_their_number_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    long = LongReset(monkeypatch)
    monkeypatch.setattr(reset_offset, "MAX_RESETS", 2)
    second, third = long.bench.submit(
        *(c.ResetConsumerOffset(group="g", topic="orders", to=to) for to in ("max", "min")), connection="admin"
    )
    refused = long.bench.final(third, "admin")
    assert isinstance(refused, c.Failed) and refused.kind == "unavailable"
    while long.bench.final(second, "admin") is None:
        long.turn()
    assert long.bench.final(long.request, "admin") is not None
    assert long.bench.context.offsets.query("g", "orders", QUEUES - 1) == 2


def test_stopping_waits_for_the_end_of_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    long = LongReset(monkeypatch)
    long.bench.take(long.bench.engine.drain(long.bench.clock.now()))
    while not long.bench.engine.drained:
        long.turn()
    assert isinstance(long.bench.final(long.request, "admin"), c.OffsetsReset)


# --- Members that move their offsets themselves ---------------------------------------------------------------------


def by_members() -> Bench:
    """Three messages in queue 0 of orders, useServerSideResetOffset=false; A and B are members of g."""
    bench = Bench(default_topic_queue_nums=2, use_server_side_reset_offset=False)
    bench.send("orders", b"1", b"2", b"3")
    join(bench, "A")
    join(bench, "B")
    commit(bench, 1)
    return bench


def notices(bench: Bench, client: str) -> list[c.ResetConsumerClientOffset]:
    replies = bench.replies.pop((client, c.NOTICE_ID), [])
    return [reply for reply in replies if isinstance(reply, c.ResetConsumerClientOffset)]


def test_members_are_told_and_nothing_is_stored() -> None:
    bench = by_members()
    reply = reset(bench, "max", through_members=True)
    expected = [
        c.QueueOffset(topic="orders", queue_id=0, offset=3),
        c.QueueOffset(topic="orders", queue_id=1, offset=0),
    ]
    assert reply.offsets == expected and reply.changes == []
    for client in "AB":
        assert notices(bench, client) == [
            c.ResetConsumerClientOffset(group="g", topic="orders", broker_name="broker-a", offsets=expected)
        ]
    assert committed(bench) == 1 and not events(bench, OffsetReset)
    commit(bench, 3)  # the members' commits are not ignored
    assert committed(bench) == 3


def test_members_do_not_move_forwards_without_force() -> None:
    bench = by_members()
    assert reset(bench, "max", through_members=True, is_force=False).offsets[0].offset == 1
    assert reset(bench, "min", through_members=True, is_force=False).offsets[0].offset == 0


def test_a_group_without_members_cannot_be_told() -> None:
    bench = by_members()
    for client in "AB":
        bench.call(c.UnregisterClient(client_id=client, consumer_group="g"), client)
    command = c.ResetConsumerOffset(group="g", topic="orders", to="max", through_members=True)
    assert failure(bench, command).code == ResponseCode.CONSUMER_NOT_ONLINE
    assert committed(bench) == 1


def test_other_resets_are_stored() -> None:
    bench = by_members()
    assert reset(bench, "max", through_members=True, dry_run=True).changes and not notices(bench, "A")
    reset(bench, "max")  # not asked for by RocketMQ's tools
    assert committed(bench) == 3 and not notices(bench, "A")
    join(bench, "C", protocol="websocket")
    reset(bench, "min", through_members=True)
    assert committed(bench) == 0 and not notices(bench, "A")

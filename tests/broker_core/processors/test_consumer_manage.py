"""Groups' members and offsets: who is there, where it goes on, commit, lag in messages and in time."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import ConsumerListQueried, OffsetCommitted
from broker_core.processors.producers.half_message import GROUP
from broker_core.store.transactional_message_service import HALF_TOPIC
from tests.fakes.engine import Bench
from tests.fakes.members import client_ids, connect, events, failure, join
from tests.fakes.transactions import begin


def commit(group: str, offset: int, topic: str = "orders", queue_id: int = 0) -> c.UpdateConsumerOffset:
    return c.UpdateConsumerOffset(group=group, offsets=[c.QueueOffset(topic=topic, queue_id=queue_id, offset=offset)])


def where(bench: Bench, group: str = "g", *, queue_id: int = 0, zero: bool = True) -> int | None:
    """What QUERY_CONSUMER_OFFSET answers; None for QUERY_NOT_FOUND."""
    reply = bench.call(c.QueryOffset(group=group, topic="orders", queue_id=queue_id, set_zero_if_not_found=zero))
    if isinstance(reply, c.Failed):
        assert reply.code == 22
        return None
    assert isinstance(reply, c.FoundOffset)
    return reply.offset


def test_lag_in_messages_and_in_time() -> None:
    bench = Bench()
    bench.send("orders", b"1", b"2", b"3")
    bench.clock.advance(4000)
    bench.call(commit("g", 1))
    reply = bench.call(c.QueryConsumerOffset(group="g", topic="orders"))
    assert isinstance(reply, c.ConsumerOffsets)
    (position,) = reply.offsets
    assert (position.offset, position.max_offset, position.lag, position.lag_ms) == (1, 3, 2, 4000)
    bench.call(commit("g", 3))
    reply = bench.call(c.QueryConsumerOffset(group="g"))
    assert isinstance(reply, c.ConsumerOffsets) and reply.offsets[0].lag_ms == 0


def offsets_of_pages(bench: Bench, limit: int, topic: str = "") -> list[list[tuple[str, int]]]:
    found: list[list[tuple[str, int]]] = []
    after: str | None = ""
    while after is not None:
        reply = bench.call(c.QueryConsumerOffset(group="g", topic=topic, after=after, limit=limit))
        assert isinstance(reply, c.ConsumerOffsets)
        found.append([(entry.topic, entry.queue_id) for entry in reply.offsets])
        after = reply.next
    return found


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7])
def test_pages_have_every_offset_once(limit: int) -> None:
    bench = Bench()
    for topic in ("b", "a"):
        bench.call(c.UpdateAndCreateTopic(topic=topic, read_queues=12, write_queues=12))
        for queue_id in (11, 0, 2):
            bench.call(commit("g", 0, topic, queue_id))
    everything = [(topic, queue_id) for topic in "ab" for queue_id in (0, 2, 11)]
    pages = offsets_of_pages(bench, limit)
    assert [place for page in pages for place in page] == everything
    assert len(pages) == -(-6 // limit)
    assert [place for page in offsets_of_pages(bench, limit, "a") for place in page] == everything[:3]


@pytest.mark.parametrize(("fields", "pointer"), [({"limit": 0}, "/limit"), ({"after": "a"}, "/after")])
def test_a_page_of_offsets_that_cannot_be_is_refused(fields: dict[str, Any], pointer: str) -> None:
    assert failure(Bench(), c.QueryConsumerOffset(group="g", **fields)).pointer == pointer


def test_a_commit_with_one_bad_offset_changes_nothing() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = bench.call(
        c.UpdateConsumerOffset(
            group="g",
            offsets=[
                c.QueueOffset(topic="orders", queue_id=0, offset=1),
                c.QueueOffset(topic="orders", queue_id=9, offset=1),
            ],
        )
    )
    assert isinstance(reply, c.Failed) and reply.pointer == "/offsets/1/queue_id"
    assert bench.context.offsets.query("g", "orders", 0) is None


@pytest.mark.covers("commit-queue")
def test_a_rocketmq_client_commits_for_known_groups_and_topics_only() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    connect(bench, "A")
    assert failure(bench, commit("g", 1), "A").code == 26
    join(bench, "B")
    assert failure(bench, commit("g", 1, topic="nowhere"), "B").code == 17
    assert failure(bench, commit("g", 1, queue_id=99), "B").code == 29
    assert bench.call(commit("g", 1), "B") == c.Done()
    (committed,) = events(bench, OffsetCommitted)
    assert (committed.offset, committed.client_id) == (1, "B")


@pytest.mark.covers("commit-negative")
def test_a_negative_commit_of_a_rocketmq_client_says_nothing() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A")
    bench.call(commit("g", 1), "A")
    assert bench.call(commit("g", -1), "A") == c.Done()
    assert where(bench) == 1
    assert failure(bench, commit("g", -1)).pointer == "/offsets/0/offset"


def test_a_new_group_begins_a_young_queue_at_its_beginning() -> None:
    bench = Bench()
    bench.send("orders", b"1", b"2")
    assert where(bench) == 0
    assert where(bench, zero=False) is None
    assert where(bench, queue_id=99) is None
    bench.call(commit("g", 2))
    assert where(bench) == where(bench, zero=False) == 2
    assert where(bench, "other") == 0


@pytest.mark.covers("first-message")
def test_a_new_group_misses_no_first_message_of_a_queue() -> None:
    """A stock client asks for the queue's end if its group has no offset, and a message may arrive before that."""
    bench = Bench()
    bench.send("orders", b"in queue 0")
    assert where(bench, queue_id=1) == 0
    assert where(bench, queue_id=1, zero=False) is None
    assert where(bench, queue_id=-1) is None
    reply = bench.call(c.QueryOffset(group="g", topic="unknown", queue_id=0, set_zero_if_not_found=True))
    assert isinstance(reply, c.Failed)


def test_a_queue_is_not_young_when_its_first_message_is_far_back_in_the_log() -> None:
    bench = Bench(access_message_in_memory_max_ratio=1)
    memory = bench.files.total_memory() // 100
    bench.send("orders", b"first")
    assert where(bench) == 0
    while bench.context.store.appended_offset <= memory:
        bench.send("other", b"x" * 500_000)
    assert where(bench) is None


def test_a_request_for_the_members_is_an_event() -> None:
    bench = Bench()
    join(bench, "A")
    join(bench, "B")
    assert client_ids(bench) == ["A", "B"]
    assert client_ids(bench, "unknown") == []
    bench.call(c.GetConsumerListByGroup(group="g"), "B")
    assert [(e.group, e.client_id, e.members) for e in events(bench, ConsumerListQueried)] == [
        ("g", "", 2),
        ("g", "B", 2),
    ]


@pytest.mark.parametrize("group", ["", "a/b", "x" * 121])
def test_names_of_groups_are_checked(group: str) -> None:
    assert failure(Bench(), commit(group, 0)).pointer == "/group"


def test_the_brokers_progress_with_transactions_cannot_be_moved() -> None:
    bench = Bench()
    begin(bench)
    bench.call(commit("g", 1, HALF_TOPIC))
    for command in (
        commit(GROUP, 1, HALF_TOPIC),
        c.ResetConsumerOffset(group=GROUP, topic=HALF_TOPIC, to="max"),
        c.PullMessage(topic=HALF_TOPIC, queue_id=0, queue_offset=0, consumer_group=GROUP, commit_offset=1),
        c.CloneGroupOffset(src_group="g", dest_group=GROUP, topic=HALF_TOPIC),
    ):
        reply = bench.call(command)
        assert isinstance(reply, c.Failed) and reply.code == 16 and "broker's own" in reply.remark, command
    assert bench.context.offsets.query(GROUP, HALF_TOPIC, 0) is None

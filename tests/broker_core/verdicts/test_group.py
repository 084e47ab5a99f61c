"""One group, as the situations see it."""

from broker_core.verdicts.group import Group, places, waiting_in
from tests.fakes.facts import NOW_MS, client, facts, queue


def group(*one: object, **more: object) -> Group:
    return Group([facts(*one, **more)], [], 30_000)  # type: ignore[arg-type]


def test_messages_in_hand_are_those_between_commit_and_pull_at_most() -> None:
    def uncommitted(**fields: object) -> int:
        return group(queue(**fields)).queues[0].uncommitted

    assert uncommitted(offset=90, handed=40) == 10
    assert uncommitted(offset=10, handed=40) == 40, "a filter skipped the others"
    assert uncommitted(offset=None, handed=7) == 7
    assert uncommitted(offset=140, handed=7) == 0


def test_a_queue_stands_still_since_the_later_of_delivery_and_commit() -> None:
    def still(**fields: object) -> int:
        return group(queue(**({"offset": 90, "handed": 10} | fields))).queues[0].still_ms

    assert still(handed_ms_ago=50_000, moved_ms_ago=40_000) == 40_000
    assert still(handed_ms_ago=50_000, moved_ms_ago=60_000) == 50_000
    assert still(handed_ms_ago=50_000, moved_ms_ago=None) == 50_000
    assert still(handed=0, handed_ms_ago=None) == 0


def test_a_client_of_two_brokers_is_one_member_with_its_newest_heartbeat() -> None:
    both = Group([facts(members=[client(beat_ms_ago=90_000)]), facts()], [], 30_000)
    assert both.members["java-1"].last_heartbeat_ms == NOW_MS - 4000
    assert places(both.queues) == ["orders@0 at broker-a"] * 2


def test_who_pulls_and_what_waits() -> None:
    one = group(queue(), queue(1, state="polling", polled_by=""), queue(2, state="not_polling", polled_by="x"))
    assert one.pullers == ["a client", "java-1"]
    assert waiting_in(one.queues) == 0
    assert waiting_in(group(queue(offset=60), queue(1, offset=None, pull_offset=None)).queues) is None
    assert [queue.place for queue in group(queue(), queue(topic="%RETRY%g")).own_queues] == ["orders@0"]

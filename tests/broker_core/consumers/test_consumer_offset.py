"""Consumed offsets: what goes in comes out, also through consumerOffset.json."""

from broker_core.consumers.consumer_offset import ConsumerOffsetManager
from broker_core.consumers.queue_offsets import STEP


def test_the_length_is_the_number_of_groups() -> None:
    offsets = ConsumerOffsetManager(None)
    for group, topic in (("g", "orders"), ("g", "bills"), ("h", "orders")):
        offsets.commit(group, topic, 0, 1)
    assert len(offsets) == 2
    offsets.remove_group("g")
    assert len(offsets) == 1


def test_unknown_is_none_not_zero() -> None:
    assert ConsumerOffsetManager(None).query("g", "T", 0) is None


def test_commit_returns_the_previous_offset_and_may_go_back() -> None:
    offsets = ConsumerOffsetManager(None)
    assert offsets.commit("g", "T", 0, 5) is None
    assert offsets.commit("g", "T", 0, 3) == 5
    assert offsets.query("g", "T", 0) == 3


def test_an_equal_commit_leaves_the_table_clean() -> None:
    offsets = ConsumerOffsetManager(None)
    offsets.commit("g", "T", 0, 5)
    offsets.dirty = False
    offsets.commit("g", "T", 0, 5)
    assert not offsets.dirty


def test_the_table_keeps_fields_that_it_does_not_know() -> None:
    offsets = ConsumerOffsetManager(
        {"groupTopicMap": {"g": ["T"]}, "offsetTable": {"%RETRY%g@g": {0: 0}, "T@g": {0: 5, 1: 7}}}
    )
    table = offsets.as_table()
    assert table["offsetTable"] == {"%RETRY%g@g": {0: 0}, "T@g": {0: 5, 1: 7}}
    assert table["groupTopicMap"] == {"g": ["T"]}
    assert offsets.groups() == ["g"] and offsets.topics("g") == {"%RETRY%g": {0: 0}, "T": {0: 5, 1: 7}}


def test_a_deleted_topic_is_forgotten() -> None:
    offsets = ConsumerOffsetManager({"offsetTable": {"T@g": {0: 5}, "U@g": {0: 1}}})
    offsets.remove_topic("T")
    assert offsets.query("g", "T", 0) is None and offsets.query("g", "U", 0) == 1 and offsets.dirty


def test_a_reset_is_pending_until_it_is_erased() -> None:
    offsets = ConsumerOffsetManager(None)
    offsets.assign_reset("g", "T", 0, 5)
    offsets.assign_reset("g", "T", 1, 6)
    assert offsets.pending_reset("g", "T", 0) == 5 and offsets.pending_reset("g", "T", 2) is None
    for _ in range(2):
        offsets.erase_reset("g", "T", 0)
    assert offsets.pending_reset("g", "T", 0) is None and offsets.pending_reset("g", "T", 1) == 6
    offsets.erase_resets("g")
    assert offsets.pending_reset("g", "T", 1) is None
    assert not offsets.dirty and offsets.as_table() == {"offsetTable": {}}


def test_a_group_is_forgotten_with_all_that_is_pending() -> None:
    offsets = ConsumerOffsetManager(None)
    for group in ("g", "h"):
        offsets.commit(group, "T", 0, 5)
        offsets.assign_reset(group, "T", 0, 5)
    offsets.dirty = False
    offsets.remove_group("g")
    assert offsets.dirty and offsets.groups() == ["h"]
    assert offsets.pending_reset("g", "T", 0) is None and offsets.pending_reset("h", "T", 0) == 5
    offsets.remove_topic("T")
    assert offsets.pending_reset("h", "T", 0) is None


def test_the_memory_of_a_removed_group_is_given_back_a_few_offsets_at_a_time() -> None:
    offsets = ConsumerOffsetManager(None)
    for topic in ("a", "b", "c"):
        for queue_id in range(10):
            offsets.commit("g", topic, queue_id, 1)
    offsets.commit("kept", "a", 0, 1)
    removed = offsets.topics("g")
    offsets.remove_group("g")
    assert offsets.has_work and len(removed) == 3
    offsets.work(5)
    assert len(removed) == 2
    offsets.work(STEP + 12)
    assert len(removed) == 0 and offsets.has_work
    offsets.work(1)
    assert not offsets.has_work
    assert offsets.query("kept", "a", 0) == 1


def test_the_offsets_of_a_deleted_topic_are_not_written_and_are_freed_a_few_groups_at_a_time() -> None:
    offsets = ConsumerOffsetManager(None)
    for number in range(100):
        offsets.commit(f"group-{number}", "orders", 0, 1)
        offsets.assign_reset(f"group-{number}", "orders", 0, 1)
    offsets.commit("group-1", "bills", 0, 1)
    offsets.remove_topic("orders")
    assert len(offsets) == 100, "deleting the topic looked at no group"
    assert offsets.pending_reset("group-3", "orders", 0) is None and offsets.groups_of("orders") == []
    assert offsets.as_table()["offsetTable"] == {"bills@group-1": {0: 1}}
    turns = 0
    while offsets.has_work:
        offsets.work(10 * (STEP + 1))
        turns += 1
    assert turns >= 10 and offsets.groups() == ["group-1"]

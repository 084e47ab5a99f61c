"""Offsets by group, topic and queue: the same as in plain dictionaries, and removed without looking at each."""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker_core.consumers.queue_offsets import STEP, QueueOffsets

GROUPS, TOPICS = ["g", "h", "i"], ["a", "b"]

actions = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(GROUPS), st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, 9)),
    st.tuples(st.just("remove"), st.sampled_from(GROUPS), st.sampled_from(TOPICS), st.integers(0, 2)),
    st.tuples(st.just("remove_group"), st.sampled_from(GROUPS)),
    st.tuples(st.just("remove_topic"), st.sampled_from(TOPICS)),
    st.tuples(st.just("work"), st.integers(0, 2 * STEP)),
)


class Plain:
    """The same with nothing but a dictionary."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, str, int], int] = {}

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        previous = self.offsets.get((group, topic, queue_id))
        self.offsets[group, topic, queue_id] = offset
        return previous

    def remove(self, *key: object) -> None:
        self.offsets.pop(key, None)  # type: ignore[call-overload]

    def remove_group(self, group: str) -> None:
        self.offsets = {key: offset for key, offset in self.offsets.items() if key[0] != group}

    def remove_topic(self, topic: str) -> None:
        self.offsets = {key: offset for key, offset in self.offsets.items() if key[1] != topic}

    def work(self, limit: int) -> None:
        pass


def contents(table: QueueOffsets) -> dict[tuple[str, str, int], int]:
    return {
        (group, topic, queue_id): offset
        for group in GROUPS
        for topic, queues in table.topics(group).items()
        for queue_id, offset in queues.items()
    }


@settings(max_examples=200, deadline=None)
@given(st.lists(actions, max_size=30), st.booleans())
def test_queue_offsets_behave_like_nested_dictionaries(
    steps: list[tuple[str, *tuple[object, ...]]], reads_all: bool
) -> None:
    table, plain = QueueOffsets(), Plain()
    for action, *arguments in steps:
        result = getattr(table, action)(*arguments)
        expected = getattr(plain, action)(*arguments)
        if action == "put":
            assert result == expected
        for key in [(group, topic, 0) for group in GROUPS for topic in TOPICS]:
            assert table.query(*key) == plain.offsets.get(key)
        if reads_all:
            assert contents(table) == plain.offsets
    assert contents(table) == plain.offsets
    table.work(1 << 30)
    assert not table.has_work
    assert set(table) == {group for group, _, _ in plain.offsets} and len(table) == len(set(table))
    for topic in TOPICS:
        assert set(table.groups(topic)) == {group for group, name, _ in plain.offsets if name == topic}


def test_a_deleted_topic_is_gone_at_once_and_freed_group_by_group() -> None:
    table = QueueOffsets()
    for number in range(100):
        table.put(f"group-{number}", "orders", 0, 7)
    table.remove_topic("orders")
    assert table.query("group-5", "orders", 0) is None and table.topics("group-6") == {}
    assert len(table) == 99, "only the group that was looked at is freed"
    table.work(10 * (STEP + 1))
    assert len(table) == 89 and table.has_work
    assert table.put("group-7", "orders", 0, 1) is None, "the new topic of this name begins without offsets"
    table.work(1 << 20)
    assert list(table) == ["group-7"] and table.query("group-7", "orders", 0) == 1

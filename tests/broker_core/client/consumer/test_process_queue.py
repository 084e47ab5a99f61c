"""The messages of one queue, against a model; and its limits."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker_core.client.consumer.process_queue import PULL_MAX_IDLE_NS, ProcessQueue
from broker_core.client.message import MessageExt  # noqa: TC001  # Hypothesis reads the annotations
from tests.fakes.messages import message_ext

SECOND = 1_000_000_000


class ProcessQueueModel(RuleBasedStateMachine):
    """Pulls bring messages in order, some offsets missing, some again; consumers finish them in any order.

    ``unconsumed`` is what the queue must have; ``consumed`` never has an offset at or behind the offset to commit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queue = ProcessQueue(0)
        self.unconsumed: dict[int, MessageExt] = {}
        self.highest = -1
        self.committed: int | None = None

    @rule(gaps=st.lists(st.integers(0, 3), min_size=1, max_size=8), size=st.integers(1, 50))
    def pulls(self, gaps: list[int], size: int) -> None:
        offset = self.highest
        messages = []
        for gap in gaps:
            offset += 1 + gap
            messages.append(message_ext(offset, bytes(size)))
        assert self.queue.put(messages) == messages
        self.unconsumed |= {message.queue_offset: message for message in messages}
        self.highest = offset

    @rule(data=st.data())
    def pulls_again(self, data: st.DataObject) -> None:
        """Two clients had the queue for a moment, or an answer did not move on."""
        offset = data.draw(st.integers(0, max(0, self.highest)))
        message = message_ext(offset)
        new = self.queue.put([message])
        assert new == ([] if offset in self.unconsumed else [message])
        if new:
            self.unconsumed[offset] = message
            self.highest = max(self.highest, offset)

    @rule(data=st.data())
    def consumes(self, data: st.DataObject) -> None:
        before = dict(self.unconsumed)
        done = data.draw(st.sets(st.sampled_from(sorted(before)))) if before else set()
        messages = [self.unconsumed.pop(offset) for offset in done]
        offset = self.queue.remove([*messages, message_ext(10**6)])
        if not before:
            assert offset is None
            return
        assert offset == (min(self.unconsumed) if self.unconsumed else self.highest + 1)
        assert all(message not in self.queue for message in messages)

    @rule()
    def is_cleared(self) -> None:
        self.queue.clear()
        self.unconsumed.clear()

    @invariant()
    def has_what_the_model_has(self) -> None:
        assert len(self.queue) == len(self.unconsumed)
        assert all(message in self.queue for message in self.unconsumed.values())
        assert self.queue.bytes == sum(len(message.record.body) for message in self.unconsumed.values())
        offsets = sorted(self.unconsumed)
        assert self.queue.span >= (offsets[-1] - offsets[0] if offsets else 0)
        info = self.queue.info()
        assert info["cachedMsgCount"] == len(offsets)
        assert (info["cachedMsgMinOffset"], info["cachedMsgMaxOffset"]) == (
            (offsets[0], offsets[-1]) if offsets else (0, 0)
        )


ProcessQueueModel.TestCase.settings = settings(stateful_step_count=30)
TestProcessQueue = ProcessQueueModel.TestCase


def test_limits_are_exceeded_one_by_one() -> None:
    queue = ProcessQueue(0)
    assert queue.flow_control(0, 0, 0) == ""
    queue.put([message_ext(offset, bytes(10)) for offset in (0, 5, 2000)])
    assert queue.flow_control(3, 30, 2000) == ""
    assert queue.flow_control(2, 30, 2000) == "count"
    assert queue.flow_control(3, 29, 2000) == "size"
    assert queue.flow_control(3, 30, 1999) == "span"


def test_a_queue_that_is_not_pulled_from_expires() -> None:
    queue = ProcessQueue(5)
    assert not queue.is_pull_expired(5 + PULL_MAX_IDLE_NS)
    assert queue.is_pull_expired(6 + PULL_MAX_IDLE_NS)


def test_only_the_first_messages_expire() -> None:
    queue = ProcessQueue(0)
    messages = [message_ext(offset) for offset in range(5)]
    queue.put(messages)
    assert queue.expired(10 * SECOND, SECOND, 16) == []  # their listener was not called yet
    for message in messages[:3]:
        message.consume_started_ns = SECOND
    messages[4].consume_started_ns = SECOND
    queue.remove(messages[:1])
    assert queue.expired(2 * SECOND, SECOND, 16) == []
    assert queue.expired(2 * SECOND + 1, SECOND, 16) == messages[1:3]
    assert queue.expired(2 * SECOND + 1, SECOND, 1) == messages[1:2]

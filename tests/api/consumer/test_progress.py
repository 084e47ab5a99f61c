"""What of a queue may be committed."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from api.consumer.progress import QueueProgress


def sent(*offsets: int, begin: int = 0) -> QueueProgress:
    progress = QueueProgress(begin, None)
    for offset in offsets:
        progress.send(offset, 1000 + offset)
    return progress


def test_without_open_messages_everything_sent_is_done() -> None:
    assert QueueProgress(7, None).done_to == 7


def test_the_first_open_message_bounds_what_is_done() -> None:
    progress = sent(3, 4, 5, begin=3)
    progress.finish(4)
    progress.finish(5)
    assert (progress.done_to, progress.span, len(progress)) == (3, 3, 1)
    progress.finish(3)
    assert (progress.done_to, progress.span, len(progress)) == (6, 0, 0)


def test_rejected_messages_are_done() -> None:
    progress = sent(3, 9, begin=3)
    progress.pass_over(20)
    progress.finish(3)
    assert progress.done_to == 9
    progress.finish(9)
    assert progress.done_to == 20


def test_passing_over_never_goes_back() -> None:
    progress = sent(3, begin=3)
    progress.pass_over(1)
    assert progress.next_offset == 4


def test_moving_forgets_open_messages() -> None:
    progress = sent(3, 4, begin=3)
    progress.move(0)
    progress.finish(3)
    assert (progress.done_to, len(progress), 3 in progress) == (0, 0, False)


def test_the_physical_offset_is_kept_while_a_message_is_open() -> None:
    progress = sent(3)
    assert 3 in progress
    assert progress.physical_offset(3) == 1003
    progress.finish(3)
    progress.finish(3)
    assert 3 not in progress


class Machine(RuleBasedStateMachine):
    """Against the plainest model: a set of offsets that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.progress = QueueProgress(10, None)
        self.open: set[int] = set()
        self.next = 10

    @rule(gap=st.integers(0, 5))
    def send(self, gap: int) -> None:
        offset = self.next + gap
        self.progress.send(offset, offset)
        self.open.add(offset)
        self.next = offset + 1

    @rule(gap=st.integers(0, 5))
    def pass_over(self, gap: int) -> None:
        self.next += gap
        self.progress.pass_over(self.next)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.open)))
        self.progress.finish(offset)
        self.open.discard(offset)

    @rule(offset=st.integers(0, 100))
    def finish_anything(self, offset: int) -> None:
        self.progress.finish(offset)
        self.open.discard(offset)

    @invariant()
    def is_the_same(self) -> None:
        assert self.progress.done_to == min(self.open, default=self.next)
        assert len(self.progress) == len(self.open)
        assert self.progress.next_offset == self.next


TestMachine = Machine.TestCase


@given(st.permutations(range(20)))
def test_acknowledgements_in_any_order_finish_every_message(order: list[int]) -> None:
    progress = sent(*range(20))
    for offset in order:
        progress.finish(offset)
    assert progress.done_to == 20

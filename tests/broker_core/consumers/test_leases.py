"""Ends that come unless they are renewed."""

from hypothesis import given
from hypothesis import strategies as st

from broker_core.consumers.leases import Leases


def test_a_renewed_key_ends_later() -> None:
    leases: Leases[str] = Leases()
    leases.renew("a", 10)
    leases.renew("b", 11)
    leases.renew("a", 20)
    assert leases.take_due(9, 10) == [] and leases.next_due_ns() == 10
    assert leases.take_due(15, 10) == ["b"] and len(leases) == 1
    assert leases.next_due_ns() == 20 and leases.take_due(20, 10) == ["a"]
    assert leases.next_due_ns() is None and len(leases) == 0


def test_a_shortened_key_ends_earlier_and_once() -> None:
    leases: Leases[str] = Leases()
    leases.renew("a", 60)
    leases.renew("a", 30)
    assert leases.take_due(30, 10) == ["a"]
    leases.renew("a", 70)
    assert leases.take_due(60, 10) == [] and leases.take_due(70, 10) == ["a"]


def test_a_turn_has_a_limit() -> None:
    leases: Leases[int] = Leases()
    for key in range(10):
        leases.renew(key, key)
    assert leases.take_due(100, 4) == [0, 1, 2, 3]
    assert leases.take_due(100, 100) == [4, 5, 6, 7, 8, 9]


def test_keys_that_come_and_go_leave_nothing_behind() -> None:
    leases: Leases[str] = Leases()
    for time in range(1000):
        leases.renew("a", time + 60)
        leases.drop("a")
    assert len(leases._checks) == 1
    assert leases.take_due(10_000, 1000) == [] and leases.next_due_ns() is None


def test_ever_new_keys_that_come_and_go_leave_little_behind() -> None:
    leases: Leases[int] = Leases()
    leases.renew(-1, 5000)
    for key in range(10_000):
        leases.renew(key, key + 60_000)
        leases.drop(key)
    assert len(leases._checks) < 100 and len(leases._next_check) < 100
    assert leases.take_due(100_000, 1000) == [-1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("renew"), st.sampled_from("abc"), st.integers(1, 50)),
        st.tuples(st.just("drop"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("pass"), st.just(""), st.integers(0, 40)),
    ),
    max_size=60,
)


@given(STEPS)
def test_every_key_ends_at_its_last_end(steps: list[tuple[str, str, int]]) -> None:
    leases: Leases[str] = Leases()
    ends: dict[str, int] = {}
    now = 0
    for step, key, number in steps:
        if step == "renew":
            leases.renew(key, now + number)
            ends[key] = now + number
        elif step == "drop":
            leases.drop(key)
            ends.pop(key, None)
        else:
            now += number
            due = [key for key, end in ends.items() if end <= now]
            assert sorted(leases.take_due(now, 1000)) == sorted(due)
            for key in due:
                del ends[key]
        assert len(leases) == len(ends)
        if ends:
            due_ns = leases.next_due_ns()
            assert due_ns is not None and due_ns <= min(ends.values())

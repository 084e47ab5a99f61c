"""Orderly locks: one holder a queue, for 60 s after the last renewal; 35 s when its connection is gone."""

import pytest

from broker_core.consumers import rebalance_lock_manager
from broker_core.consumers.rebalance_lock_manager import GONE_LOCK_LIVE_NS, LOCK_LIVE_NS, RebalanceLockManager
from broker_core.errors import UnavailableError

FRESH, RENEWED, REFUSED = (True, True), (True, False), (False, False)


def test_a_queue_is_locked_by_one_client_at_a_time() -> None:
    locks = RebalanceLockManager()
    assert locks.try_lock("g", "t", 0, "A", 0) == FRESH
    assert locks.try_lock("g", "t", 0, "A", 1) == RENEWED
    assert locks.try_lock("g", "t", 0, "B", 1) == REFUSED
    assert locks.try_lock("other", "t", 0, "B", 1) == FRESH
    assert locks.owner("g", "t", 0) == "A" and locks.is_locked("g")
    assert not locks.unlock("g", "t", 0, "B") and locks.unlock("g", "t", 0, "A")
    assert not locks.unlock("g", "t", 0, "A") and not locks.is_locked("g")
    assert locks.try_lock("g", "t", 0, "B", 2) == FRESH and len(locks) == 2


def test_a_lock_ends_60_s_after_its_renewal() -> None:
    locks = RebalanceLockManager()
    locks.try_lock("g", "t", 0, "A", 0)
    locks.try_lock("g", "t", 0, "A", 5)
    assert locks.next_due_ns() == LOCK_LIVE_NS
    assert locks.take_expired(LOCK_LIVE_NS + 4, 10) == []
    assert locks.take_expired(LOCK_LIVE_NS + 5, 10) == [(("g", "t", 0), "A")]
    assert locks.owner("g", "t", 0) is None and locks.next_due_ns() is None


def test_a_lock_of_a_gone_connection_ends_when_its_client_stops_to_rely_on_it() -> None:
    locks = RebalanceLockManager()
    for queue_id, renewed in ((0, 0), (1, 10)):
        locks.try_lock("g", "t", queue_id, "A", renewed)
    locks.try_lock("g", "t", 2, "B", 0)
    locks.connection_closed("g", "A")
    assert locks.take_expired(GONE_LOCK_LIVE_NS, 10) == [(("g", "t", 0), "A")]
    assert locks.try_lock("g", "t", 1, "A", 20) == RENEWED  # it is back
    assert locks.take_expired(LOCK_LIVE_NS - 1, 10) == []
    assert locks.take_expired(LOCK_LIVE_NS + 20, 10) == [(("g", "t", 2), "B"), (("g", "t", 1), "A")]


def test_a_leaving_member_gives_back_all_its_locks() -> None:
    locks = RebalanceLockManager()
    for queue_id, owner in enumerate("AABA"):
        locks.try_lock("g", "t", queue_id, owner, 0)
    assert locks.unlock_all("g", "A") == [("t", 0), ("t", 1), ("t", 3)]
    assert locks.unlock_all("g", "A") == [] and locks.owner("g", "t", 2) == "B"


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance_lock_manager, "MAX_LOCKS", 1)
    locks = RebalanceLockManager()
    locks.try_lock("g", "t", 0, "A", 0)
    with pytest.raises(UnavailableError, match="locks"):
        locks.try_lock("g", "t", 1, "A", 0)
    assert locks.try_lock("g", "t", 0, "A", 1) == RENEWED

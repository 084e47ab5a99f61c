"""A store that is a copy: what it appends, what it refuses, and what is left after a stop."""

import errno

import pytest

from broker_core.errors import RequestError, StoreReadOnlyError, UnavailableError
from broker_core.store.slave.follower_store import FollowerStore
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import Bench
from tests.fakes.followed import SEGMENT, append, blocks_of, follower, log_of, master
from tests.fakes.store_cases import message


def store_of(bench: Bench) -> FollowerStore:
    store = bench.context.store
    assert isinstance(store, FollowerStore)
    return store


def test_a_copy_is_equal_byte_for_byte_over_segments() -> None:
    log, bench = log_of(master(250)), follower()
    append(bench, blocks_of(log))
    assert len(log) > 3 * SEGMENT and log_of(bench) == log
    assert store_of(bench).dispatched_offset == store_of(bench).appended_offset == len(log)


def test_a_copy_may_begin_at_any_segment() -> None:
    log, bench = log_of(master(250)), follower()
    assert store_of(bench).is_empty and bench.files.names(bench.context.store.root / "commitlog") == []
    append(bench, blocks_of(log, 2 * SEGMENT))
    assert (store_of(bench).min_physical_offset, store_of(bench).appended_offset) == (2 * SEGMENT, len(log))
    assert store_of(bench).unindexed_records == 0
    (offset, record), *others = store_of(bench).last_records(3)
    assert log[offset : offset + len(record)] == record and len(others) == 2


def test_an_offset_that_does_not_continue_the_copy_is_refused() -> None:
    log, bench = log_of(master(50)), follower()
    blocks = blocks_of(log)
    append(bench, blocks)
    for offset in (0, len(log) - 1, len(log) + 1, 4 * SEGMENT):
        with pytest.raises(RequestError, match="do not continue a log"):
            store_of(bench).append_data(offset, blocks[0].data, 1, bench.clock.now())
    with pytest.raises(RequestError, match="do not continue"):
        store_of(follower()).append_data(1, blocks[0].data, 1, bench.clock.now())
    assert log_of(bench) == log


def test_messages_of_its_own_are_refused() -> None:
    bench = follower()
    with pytest.raises(StoreReadOnlyError, match="a copy"):
        store_of(bench).append([message(1)], bench.clock.now())


@pytest.mark.parametrize("clean", [True, False])
def test_a_copy_goes_on_where_it_stopped(clean: bool) -> None:
    log, bench = log_of(master(250)), follower()
    blocks = blocks_of(log)
    append(bench, blocks[:2])
    stored = store_of(bench).last_store_timestamp
    if clean:
        bench.engine.close(bench.clock.now())
    else:
        bench.files.kill()
    again = follower(files=bench.files, clock=VirtualClock())
    assert store_of(again).appended_offset == blocks[2].offset
    assert store_of(again).last_store_timestamp == stored > 0
    append(again, blocks[2:])
    assert log_of(again) == log
    assert not again.files.names(store_of(again).root / "recovered-tail")


def test_a_full_disk_is_an_error_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, (first, second, *_) = follower(), blocks_of(log_of(master(250)))
    append(bench, [first])
    store = store_of(bench)
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(store._log, "_place", refuse)
        with pytest.raises(UnavailableError, match="No space left"):
            store.append_data(*second, bench.clock.now())
        assert "No space left" in store.problem
    store.look_for_room(bench.clock.advance(2000))
    store.append_data(*second, bench.clock.now())
    assert store.appended_offset == second.offset + len(second.data)

"""The progress in a queue, and the state of a group."""

from typing import Any

import pytest

from broker_core.verdicts.group_state import State
from broker_core.verdicts.progress import (
    GroupProgress,
    does_every_message_fail,
    group_progress,
    group_state,
    queue_progress,
)
from tests.fakes.facts import queue


@pytest.mark.parametrize(
    ("fields", "waiting", "move"),
    [
        ({}, 0, "done"),
        ({"offset": None, "max_offset": 0}, 0, "done"),
        ({"offset": 60, "moved_ms_ago": 30_000}, 40, "moving"),
        ({"offset": 60, "moved_ms_ago": 30_001}, 40, "stuck"),
        ({"offset": 60, "moved_ms_ago": None}, 40, "stuck"),
        ({"offset": 60, "lag_ms": 2000}, 40, "young"),
        ({"offset": 60, "handed": 40, "handed_ms_ago": 2000}, 40, "young"),
        ({"offset": None}, 0, "done"),
        ({"offset": None, "pull_offset": 90, "lag_ms": 2000}, 10, "young"),
        ({"offset": 10, "min_offset": 70}, 30, "stuck"),  # the others were deleted
        ({"offset": 10, "min_offset": 100}, 0, "done"),
        ({"offset": None, "pull_offset": 10, "min_offset": 70, "lag_ms": 1}, 30, "young"),
        ({"offset": None, "handed": 1, "handed_ms_ago": 1}, None, "unknown"),
        ({"offset": None, "state": "not_polling"}, None, "unknown"),
        ({"offset": None, "pull_offset": None}, None, "unknown"),
    ],
)
def test_waiting_messages_and_movement_of_a_queue(fields: dict[str, Any], waiting: int | None, move: str) -> None:
    progress = queue_progress(queue(**fields))
    assert (progress.waiting, progress.move) == (waiting, move)


def test_a_lag_is_compared_with_an_earlier_one() -> None:
    assert queue_progress(queue(offset=60, lag_before=10, lag_before_ms_ago=5000)).growth == 30
    assert queue_progress(queue(offset=60, lag_before=10, lag_before_ms_ago=4999)).growth is None
    assert queue_progress(queue(offset=60)).growth is None
    deleted = queue_progress(queue(offset=10, min_offset=70, lag_before=50, lag_before_ms_ago=6000))
    assert (deleted.waiting, deleted.growth) == (30, 40), "commits note RocketMQ's lag, so it is compared"


def test_the_sums_of_a_group() -> None:
    queues = [
        queue(),
        queue(1, offset=60, moved_ms_ago=1, lag_ms=900, lag_before=50, lag_before_ms_ago=6000, is_growing=True),
        queue(2, offset=90, lag_ms=None),
        queue(3, offset=None, pull_offset=None),
    ]
    assert group_progress(map(queue_progress, queues)) == GroupProgress(
        waiting=50, unknown=1, oldest_ms=900, stuck=1, moving=1, growth=-10, growing=1
    )
    assert group_progress([]) == GroupProgress(0, 0, None, 0, 0, None, 0)


@pytest.mark.parametrize(
    ("progress", "state"),
    [
        ({}, "ok"),
        ({"unknown": 1}, "unknown"),
        ({"unknown": 1, "stuck": 1, "waiting": 3}, "stalled"),
        ({"waiting": 3, "moving": 1, "oldest_ms": 30_000}, "ok"),
        ({"waiting": 3, "moving": 0, "oldest_ms": 30_000}, "catching up"),
        ({"waiting": 3, "moving": 1, "oldest_ms": None}, "catching up"),
        ({"waiting": 3, "moving": 1, "oldest_ms": 30_001}, "catching up"),
        ({"waiting": 3, "moving": 1, "oldest_ms": 30_001, "growth": 0}, "catching up"),
        ({"waiting": 3, "moving": 1, "oldest_ms": 30_001, "growth": 1}, "catching up"),
        ({"waiting": 3, "moving": 1, "oldest_ms": 30_001, "growth": 1, "growing": 1}, "falling behind"),
        ({"waiting": 3, "moving": 1, "oldest_ms": 30_001, "growth": -9, "growing": 1}, "catching up"),
    ],
)
def test_the_state_of_a_group(progress: dict[str, Any], state: State) -> None:
    nothing = {"waiting": 0, "unknown": 0, "oldest_ms": None, "stuck": 0, "moving": 0, "growth": None}
    sums = GroupProgress(**(nothing | progress))
    assert group_state(sums, is_consumed=True) == state
    assert group_state(sums, is_consumed=False, is_failing=True) == "stopped"
    assert group_state(sums, is_consumed=True, is_failing=True) == "stalled"


@pytest.mark.parametrize(("unknown", "state"), [(0, "stopped"), (1, "unknown")])
def test_a_group_that_only_pulled_and_is_gone(unknown: int, state: State) -> None:
    sums = GroupProgress(waiting=0, unknown=unknown, oldest_ms=None, stuck=0, moving=0, growth=None)
    assert group_state(sums, is_consumed=False, has_committed=False, is_failing=True) == state


def test_every_message_fails_only_if_some_are_out_of_hand() -> None:
    assert does_every_message_fail(delivered=20, returned=20, in_hand=0)
    assert does_every_message_fail(delivered=23, returned=20, in_hand=3)
    assert not does_every_message_fail(delivered=24, returned=20, in_hand=3)
    assert not does_every_message_fail(delivered=18, returned=1, in_hand=18)
    assert not does_every_message_fail(delivered=18, returned=1, in_hand=40)
    assert not does_every_message_fail(delivered=5, returned=0, in_hand=0)

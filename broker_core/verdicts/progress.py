"""Whether a group makes progress: what waits in each of its queues, and the state of the group.

Unknown is never 0, and ``ok`` needs evidence: the committed offset moved, or nothing waits.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from broker_core.commands import GroupQueueView, UnacknowledgedPops
from broker_core.verdicts.group_state import PATIENCE_MS, State, StateFacts, decisions

TREND_MS = 5_000
"""A lag is compared only with one at least this old."""

Move = Literal["done", "moving", "young", "stuck", "unknown"]


class QueueProgress(msgspec.Struct, frozen=True, gc=False):
    """``waiting`` messages; None if unknown. ``growth`` is the change of the lag since an earlier commit, or None; the
    lag ``is_growing`` if it is more than noise.

    ``move``: ``done``: nothing waits. ``moving``: the committed offset moved lately. ``young``: the messages wait, or
    were handed to the client, only a moment ago. ``stuck``: neither.
    """

    waiting: int | None
    oldest_ms: int | None
    move: Move
    growth: int | None
    is_growing: bool = False


_UNKNOWN = QueueProgress(None, None, "unknown", None)
_DONE = QueueProgress(0, 0, "done", 0)


def queue_progress(queue: GroupQueueView, patience_ms: int = PATIENCE_MS) -> QueueProgress:
    """The progress of a group in one queue."""
    waiting = waiting_messages(queue)
    if waiting is None:
        return _UNKNOWN
    if waiting == 0:
        return _DONE
    growth = None
    if queue.lag_before is not None and queue.lag_before_ms_ago is not None and queue.lag_before_ms_ago >= TREND_MS:
        lag = waiting if queue.offset is None else queue.max_offset - queue.offset  # as it was noted at commits
        growth = lag - queue.lag_before
    return QueueProgress(waiting, queue.lag_ms, _move(queue, patience_ms), growth, queue.is_growing)


def _move(queue: GroupQueueView, patience_ms: int) -> Move:
    moved_ms_ago, lag_ms, handed_ms_ago = queue.moved_ms_ago, queue.lag_ms, queue.handed_ms_ago
    if moved_ms_ago is not None and moved_ms_ago <= patience_ms:
        return "moving"
    if lag_ms is not None and lag_ms <= patience_ms:
        return "young"
    return "young" if handed_ms_ago is not None and handed_ms_ago <= patience_ms else "stuck"


def waiting_messages(queue: GroupQueueView) -> int | None:
    """The messages between the group's position and the queue's end; None if its position is unknown.

    Messages that were deleted before the group consumed them do not wait, although RocketMQ counts them in the lag. A
    group that has not committed an offset is where it pulls, unless messages were handed to it.
    """
    if queue.max_offset <= queue.min_offset:
        return 0
    if queue.offset is not None:
        return max(0, queue.max_offset - max(queue.offset, queue.min_offset))
    if queue.pull_offset is None or queue.handed or queue.state not in ("held", "polling"):
        return None
    return max(0, queue.max_offset - max(queue.pull_offset, queue.min_offset))


def uncommitted_messages(queue: GroupQueueView) -> int:
    """The messages of a queue that were handed to a client and are not committed."""
    if queue.offset is None or queue.pull_offset is None:
        return queue.handed
    return max(0, min(queue.handed, queue.pull_offset - queue.offset))


def does_every_message_fail(delivered: int, returned: int, in_hand: int) -> bool:
    """Whether a group sent back each message that it received and that it does not have in hand any more.

    Some of the messages ``in_hand`` may have been delivered before the window in which ``delivered`` counts. If they
    are not fewer than the delivered ones, nothing proves that every message fails.
    """
    return 0 < delivered - in_hand <= returned


def stands_still(pops: UnacknowledgedPops, patience_ms: int = PATIENCE_MS) -> bool:
    """Whether a group has acknowledged none of its popped messages for too long."""
    return pops.messages > 0 and pops.still_ms > patience_ms


class GroupProgress(NamedTuple):
    """The sums over a group's queues. ``waiting`` counts what is known; ``unknown`` queues may have more.

    In ``growing`` queues the lag grows by more than noise. ``growth`` sums all queues with a trend, None without one.
    """

    waiting: int
    unknown: int
    oldest_ms: int | None
    stuck: int
    moving: int
    growth: int | None
    growing: int = 0


def group_progress(queues: Iterable[QueueProgress]) -> GroupProgress:
    """The sums over the queues of a group."""
    waiting = unknown = stuck = moving = growing = 0
    oldest: int | None = None
    growth: int | None = None
    for queue in queues:
        if queue.waiting is None:
            unknown += 1
        elif queue.waiting:
            waiting += queue.waiting
            stuck += queue.move == "stuck"
            moving += queue.move == "moving"
            growing += queue.is_growing
            if queue.oldest_ms is not None:
                oldest = max(oldest or 0, queue.oldest_ms)
            if queue.growth is not None:
                growth = (growth or 0) + queue.growth
    return GroupProgress(waiting, unknown, oldest, stuck, moving, growth, growing)


def group_state(
    progress: GroupProgress,
    *,
    is_consumed: bool,
    has_committed: bool = True,
    is_failing: bool = False,
    is_broadcasting: bool = False,
    is_counted: bool = True,
    patience_ms: int = PATIENCE_MS,
) -> State:
    """The state of a group. ``is_consumed``: it has members or pulls; ``is_failing``: each message comes back. The
    members of a group that ``is_broadcasting`` keep their offsets themselves. ``is_counted``: it has a queue besides
    retry queues, and all its retries are counted; without that it is never ok.

    A group that is not consumed and never ``has_committed`` may only have been named by a pull. Whether messages wait
    for it cannot be known, so it is not stopped.
    """
    facts = StateFacts(
        is_gone=not is_consumed and (has_committed or not progress.unknown),
        is_failing=is_failing and is_consumed,
        is_shared=not is_broadcasting,
        is_counted=is_counted,
        waiting=progress.waiting,
        unknown=progress.unknown,
        stuck=progress.stuck,
        moving=progress.moving,
        is_young=progress.oldest_ms is not None and progress.oldest_ms <= patience_ms,
        growing=progress.growing,
        growth=progress.growth or 0,
    )
    return next((state for state, holds in decisions(facts) if holds), "catching up")

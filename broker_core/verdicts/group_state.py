"""The state of a group: one rule for what is live and for the report ``consumer_lag``.

Each fact is a number or a bool, or a Spark column of them, so only operators that both have are used: ``&``, ``|``,
comparisons. This module imports nothing, because reports know nothing else of verdicts.
"""

from typing import Any, Literal, NamedTuple

State = Literal["ok", "catching up", "falling behind", "stalled", "stopped", "unknown"]
PATIENCE_MS = 30_000
"""How long messages may wait without progress. Java clients commit every 5 s."""
NOISE = 16
"""A lag that changed by this many messages, or by a sixteenth if that is more, has not turned: commits come when they
come, and messages arrive in batches."""


class StateFacts(NamedTuple):
    """What decides the state of a group, or of one queue.

    ``is_gone``: nobody consumes. ``is_failing``: each message comes back. ``is_shared``: the members share the queues,
    as they do unless they broadcast. ``is_counted``: all that may wait is counted. ``waiting`` messages are known;
    ``unknown`` queues may have more. ``stuck`` queues make no progress, ``moving`` ones do; ``is_young``: no message
    waits too long. In ``growing`` queues the lag grows by more than noise; ``growth`` is the sum over all queues.
    """

    is_gone: Any
    is_failing: Any
    is_shared: Any
    is_counted: Any
    waiting: Any
    unknown: Any
    stuck: Any
    moving: Any
    is_young: Any
    growing: Any
    growth: Any


def decisions(facts: StateFacts) -> list[tuple[State, Any]]:
    """States with their conditions; the first whose condition holds is the state, ``catching up`` if none does."""
    is_well = (facts.waiting == 0) | ((facts.moving > 0) & facts.is_young)
    return [
        ("stopped", facts.is_gone),
        ("stalled", facts.is_failing | ((facts.stuck > 0) & facts.is_shared)),
        ("unknown", (facts.is_shared == False) | (facts.unknown > 0)),  # noqa: E712  # a column has no `not`
        ("ok", is_well & facts.is_counted),
        ("unknown", is_well),
        ("falling behind", (facts.growing > 0) & (facts.growth > 0)),
    ]


def is_beyond_noise(change: Any, base: Any) -> Any:
    """Whether a change of the lag is more than noise; ``base`` is the lag that it is measured against."""
    return (change > NOISE) & (change * NOISE > base)

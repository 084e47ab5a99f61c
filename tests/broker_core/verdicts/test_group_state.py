"""The rule that decides the state of a group."""

from typing import Any

import pytest

from broker_core.verdicts.group_state import State, StateFacts, decisions, is_beyond_noise

IDLE = StateFacts(
    is_gone=False,
    is_failing=False,
    is_shared=True,
    is_counted=True,
    waiting=0,
    unknown=0,
    stuck=0,
    moving=0,
    is_young=False,
    growing=0,
    growth=0,
)
BEHIND: dict[str, Any] = {"waiting": 9, "moving": 1}


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "ok"),
        ({"is_gone": True, "stuck": 1, "is_failing": True}, "stopped"),
        ({"is_failing": True}, "stalled"),
        ({"stuck": 1, "waiting": 9, "unknown": 1}, "stalled"),
        ({"stuck": 1, "waiting": 9, "is_shared": False}, "unknown"),
        ({"unknown": 1}, "unknown"),
        ({"is_counted": False}, "unknown"),
        (BEHIND | {"is_young": True}, "ok"),
        (BEHIND | {"is_young": True, "is_counted": False}, "unknown"),
        ({"waiting": 9, "is_young": True}, "catching up"),
        (BEHIND | {"growing": 1, "growth": 40}, "falling behind"),
        (BEHIND | {"growing": 1, "growth": -2}, "catching up"),
        (BEHIND | {"growth": 3}, "catching up"),
    ],
)
def test_the_first_condition_that_holds_decides(fields: dict[str, Any], state: State) -> None:
    facts = IDLE._replace(**fields)
    assert next((one for one, holds in decisions(facts) if holds), "catching up") == state


def test_noise_is_16_messages_or_a_sixteenth() -> None:
    assert [is_beyond_noise(change, 0) for change in (16, 17)] == [False, True]
    assert [is_beyond_noise(change, 16_000) for change in (1000, 1001)] == [False, True]
    assert not is_beyond_noise(-500, 10)

"""The catalogue: others rely on its ids."""

import re

import pytest

from broker_core.verdicts.catalogue import CATALOGUE, RANKS
from broker_core.verdicts.verdict import SEVERITIES

RELIED_ON = {
    "listener_blocked",
    "every_message_fails",
    "filter_rejects_all",
    "subscriptions_disagree",
    "pulls_refused",
    "no_permits",
    "not_acknowledged",
    "not_pulling",
    "no_member",
    "idle",
    "ok",
}


def test_the_ids_that_others_rely_on_are_there() -> None:
    assert CATALOGUE.keys() >= RELIED_ON and len(RANKS) == len(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_situation_has_a_condition_and_advice(name: str) -> None:
    situation = CATALOGUE[name]
    assert re.fullmatch("[a-z]+(_[a-z]+)*", name) and situation.when and situation.advice.endswith(".")
    assert sorted(situation.severities, key=SEVERITIES.index) == list(situation.severities) != []


def test_a_verdict_has_a_severity_of_its_situation() -> None:
    situation = CATALOGUE["no_member"]
    assert situation.verdict("Nobody.", {}).severity == "error"
    assert situation.verdict("Nobody.", {}, severity="info").severity == "info"
    with pytest.raises(AssertionError, match="never ok"):
        situation.verdict("Nobody.", {}, severity="ok")

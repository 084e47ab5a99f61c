"""The verdicts on many groups, as lists and alerts have them."""

import pytest

from broker_core.commands import VerdictLine
from broker_core.processors.why import judged
from broker_core.processors.why.judged import broker_without_problems, lines_of, problems_of
from broker_core.verdicts.catalogue import CATALOGUE, PROBLEMS
from broker_core.verdicts.judge import judge
from broker_core.verdicts.progress import queue_progress
from broker_core.verdicts.verdict import Verdict, Verdicts
from tests.fakes.facts import condition, facts, queue


def verdict(name: str, sentence: str = "It is so.") -> Verdict:
    return CATALOGUE[name].verdict(sentence, {})


def of(*verdicts: Verdict) -> Verdicts:
    return Verdicts(group="g", state="stalled", verdicts=list(verdicts))


def test_problems_are_errors_and_warnings() -> None:
    found = problems_of(of(verdict("listener_blocked"), verdict("topic_missing"), verdict("retries_pending")))
    assert [(severity, one.id) for severity, one in found] == [
        ("error", "listener_blocked"),
        ("warning", "topic_missing"),
    ]


def test_each_problem_is_named_once_with_its_first_sentence() -> None:
    several = of(verdict("not_pulling", "A."), verdict("no_permits"), verdict("not_pulling", "B."), verdict("idle"))
    assert [(line.id, line.sentence) for line in lines_of(several, sentences=True)] == [
        ("not_pulling", "A."),
        ("no_permits", "It is so."),
    ]


def test_without_a_problem_there_is_the_first_verdict_if_any() -> None:
    assert lines_of(of(verdict("idle"), verdict("retries_pending")), sentences=True) == [
        VerdictLine(id="idle", severity="ok", sentence="It is so.")
    ]
    assert lines_of(of(), sentences=True) == []


def test_a_sentence_has_a_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "MAX_SENTENCE", 5)
    assert [line.sentence for line in lines_of(of(verdict("idle", "12345"), verdict("ok")), sentences=True)] == [
        "12345"
    ]
    assert lines_of(of(verdict("idle", "123456")), sentences=True)[0].sentence == "1234…"


def test_a_verdict_has_no_sentence_unless_it_is_asked_for() -> None:
    (line,) = lines_of(of(verdict("topic_missing")), sentences=False)
    assert line == VerdictLine(id="topic_missing", severity="warning", sentence="")


def test_what_a_broker_causes_is_left_out_and_is_no_problem_of_a_group() -> None:
    ill = condition(
        draining=True, problem="full", holds=9, max_holds=9, undispatched_bytes=9, late_ms=900, slave_timeouts=1
    )
    bad = {one.id for one in judge([facts(broker=ill)]).verdicts if one.severity in ("error", "warning")}
    assert bad and not bad & set(PROBLEMS)
    assert problems_of(judge([facts(broker=broker_without_problems(ill))])) == []


def test_the_verdicts_are_the_same_when_the_progress_of_the_queues_is_given() -> None:
    stuck = {"offset": 60, "pull_offset": 90, "handed": 30, "handed_ms_ago": 50_000, "lag_ms": 50_000}
    views = [queue(**stuck), queue(1, offset=None, pull_offset=None), queue(2), queue(topic="%RETRY%g", offset=99)]
    computed, given = judge([facts(*views)]), judge([facts(*views)], progress=[queue_progress(view) for view in views])
    assert given == computed and computed.state == "stalled"

"""Rules about the figures of reports."""

from typing import Any

import pytest

from alerts import catalogue
from alerts.evaluation import Readings
from alerts.reports import REPORTS_SUBJECT, figure_kind, latest_run, read_reports, value_text
from alerts.rules import BadRuleError, Rule
from spark_jobs.models import ReportRun, Status

pytestmark = pytest.mark.django_db


def finished(value: Any, *, kind: str = "number", report: str = "consumer_lag", **parameters: Any) -> int:
    headline = {"name": "most_lag", "label": "Messages behind, at most", "kind": kind, "value": value}
    run = ReportRun.objects.create(
        report=report, status=Status.DONE, parameters=parameters, result={"headlines": [headline]}
    )
    return int(run.pk)


def rule(**changes: Any) -> Rule:
    fields = {"id": 7, "name": "n", "what": "report", "report": "consumer_lag", "figure": "most_lag", "threshold": 1000}
    return Rule(**(fields | changes))


def read(of: Rule) -> Readings:
    readings = Readings(known={REPORTS_SUBJECT})
    read_reports([Rule(id=1, name="other", what="lag"), of], {of.id: readings})
    return readings


def test_a_rule_holds_where_the_latest_run_exceeds_its_threshold() -> None:
    finished(5000)
    number = finished(1001)
    assert read(rule()).holding == {REPORTS_SUBJECT: f"Messages behind, at most: 1,001 (run {number})"}
    finished(1000)
    assert read(rule()).holding == {} and not read(rule()).is_unknown(REPORTS_SUBJECT)
    assert read(rule(threshold=1001, below=True)).holding
    assert not read(rule(below=True)).holding


def test_the_kind_of_a_figure_is_that_of_the_latest_run() -> None:
    assert figure_kind(rule()) == ""
    finished(0.5, kind="share")
    assert figure_kind(rule()) == "share"
    assert figure_kind(rule(figure="no_such")) == figure_kind(Rule(id=1, name="n", what="lag")) == ""


def test_only_runs_that_are_about_everything_count() -> None:
    number = finished(10, topic=None, from_ms=5)
    finished(9999, topic="orders")
    finished(9999, consumer_group="billing")
    finished(9999, broker="broker-b")
    finished(9999, report="retries")
    ReportRun.objects.create(report="consumer_lag", status=Status.FAILED)
    run = latest_run("consumer_lag")
    assert run is not None and run.number == number
    assert not read(rule()).holding


def test_a_run_about_the_past_does_not_count_after_one_about_a_later_time() -> None:
    night = finished(5000, from_ms=1_000_000, to_ms=2_000_000)
    finished(1, from_ms=0, to_ms=60_000)
    assert read(rule()).holding == {REPORTS_SUBJECT: f"Messages behind, at most: 5,000 (run {night})"}
    finished(2, from_ms=1_000_000, to_ms=2_000_000)
    assert not read(rule()).holding, "of two about the same time the newer one counts"
    finished(6000)
    finished(3, to_ms=1 << 50)
    assert not read(rule()).holding, "a period that has not ended ends when the run was requested"


@pytest.mark.parametrize("value", [None, "12", True])
def test_a_figure_that_is_not_known_changes_nothing(value: Any) -> None:
    assert read(rule()).is_unknown(REPORTS_SUBJECT), "no run has ended"
    (problem,) = read_reports([rule()], {7: Readings()})
    assert problem.startswith("n: most_lag of the report consumer_lag is not known, because no finished run")
    finished(value)
    (problem,) = read_reports([rule()], {7: Readings()})
    assert problem.endswith("does not have it.")
    readings = read(rule())
    assert readings.is_unknown(REPORTS_SUBJECT) and not readings.holding
    finished(5000)
    assert read(rule(figure="gone")).is_unknown(REPORTS_SUBJECT)


def test_a_share_is_compared_in_percent() -> None:
    finished(0.25, kind="share")
    assert next(iter(read(rule(threshold=20)).holding.values())).startswith("Messages behind, at most: 25.0 %")
    assert not read(rule(threshold=25)).holding
    finished(0.29, kind="share")
    assert not read(rule(threshold=29, below=True)).holding, "0.29 * 100 is a little less than 29"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [(1204, "number", "1,204"), (1.5, "number", "1.5"), (4096, "bytes", "4,096 bytes"), (12, "ms", "12 ms"),
     (1999, "ms", "1,999 ms"), (185_000, "ms", "3 min 5 s"),
     (331, "us", "331 µs"), (0.125, "share", "12.5 %"), (0, "number", "0")],
)  # fmt: skip
def test_values_have_their_unit(value: float, kind: str, text: str) -> None:
    assert value_text(value, kind) == text


def test_a_rule_about_a_figure_that_no_run_has_is_refused() -> None:
    fields: dict[str, Any] = {"what": "report", "report": "consumer_lag", "threshold": 5}
    assert catalogue.add_rule(name="early", figure="anything", **fields).figure == "anything"
    finished(3)
    with pytest.raises(BadRuleError, match="its figures are most_lag"):
        catalogue.add_rule(name="lags", figure="lags", **fields)
    stored = catalogue.add_rule(name="lag", figure="most_lag", below=True, **fields)
    assert stored in catalogue.rules() and stored.below
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"report": "lag"}, "report"),
        ({"figure": ""}, "figure"),
        ({"group": "billing"}, "group"),
        ({"what": "lag"}, "report"),
    ]
    for changes, field in wrong:
        with pytest.raises(BadRuleError) as refused:
            catalogue.change_rule(stored.id, **changes)
        assert refused.value.field == field

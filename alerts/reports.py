"""The figures of reports that rules ask about: the headlines of the newest run that is about everything."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from alerts.evaluation import Readings
from alerts.facts import duration_text
from alerts.rules import BadRuleError, Rule, Subject
from spark_jobs.models import ReportRun, Status

REPORTS_SUBJECT = Subject("")
"""What these alerts are about: no broker, because a report covers all of them."""

LOOKED_AT = 20
"""The newest runs of a report among which one about everything is looked for."""

NARROWED = ("topic", "consumer_group", "broker")
"""Parameters with which a run is about a part only."""


class Run(NamedTuple):
    """A finished run, and its headlines by their names."""

    number: int
    headlines: Mapping[str, Mapping[str, Any]]


def newest_run(report: str) -> Run | None:
    """The newest finished run about all brokers, topics and groups; None if there is none among the newest."""
    finished = ReportRun.objects.filter(report=report, status=Status.DONE).order_by("-pk")
    for number, parameters in finished.values_list("pk", "parameters")[:LOOKED_AT]:
        if not any(parameters.get(name) for name in NARROWED):
            result = finished.values_list("result", flat=True).get(pk=number)
            return Run(number, {headline["name"]: headline for headline in result.get("headlines", ())})
    return None


def check_figure(rule: Rule) -> None:
    """Raise BadRuleError if the newest run of the rule's report has no such figure."""
    run = newest_run(rule.report) if rule.what == "report" else None
    if run is not None and run.headlines and rule.figure not in run.headlines:
        raise BadRuleError(
            "figure", f"{rule.report} has no figure {rule.figure!r}; its figures are {', '.join(run.headlines)}"
        )


def read_reports(rules: Iterable[Rule], readings: Mapping[int, Readings]) -> None:
    """Read the figures of all rules about reports. A figure without a value changes nothing."""
    runs: dict[str, Run | None] = {}
    for rule in rules:
        if rule.what != "report":
            continue
        if rule.report not in runs:
            runs[rule.report] = newest_run(rule.report)
        _read(rule, runs[rule.report], readings[rule.id])


def _read(rule: Rule, run: Run | None, readings: Readings) -> None:
    headline = run.headlines.get(rule.figure) if run is not None else None
    value = headline.get("value") if headline is not None else None
    if run is None or headline is None or isinstance(value, bool) or not isinstance(value, int | float):
        readings.add_unknown(REPORTS_SUBJECT)
        return
    measured = value * 100 if headline.get("kind") == "share" else value
    if measured < rule.threshold if rule.below else measured > rule.threshold:
        shown = value_text(value, str(headline.get("kind")))
        readings.add(REPORTS_SUBJECT, f"{headline.get('label', rule.figure)}: {shown} (run {run.number})")


def value_text(value: float, kind: str) -> str:
    """A figure with its unit: ``12.5 %``, ``3 min 5 s``, ``1,204``."""
    if kind == "share":
        return f"{value * 100:.1f} %"
    if kind == "ms" and value >= 1000:
        return duration_text(int(value))
    unit = {"bytes": " bytes", "ms": " ms", "us": " µs"}.get(kind, "")
    return f"{value:,.2f}".rstrip("0").rstrip(".") + unit

"""The figures of reports that rules ask about: the headlines of the latest run that is about everything."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from django.utils.translation import gettext_noop

from alerts.evaluation import Readings
from alerts.facts import duration_text
from alerts.rules import BadRuleError, Rule, Subject
from alerts.sentence import Sentence
from spark_jobs.models import ReportRun, Status

REPORTS_SUBJECT = Subject("")
"""What these alerts are about: no broker, because a report covers all of them."""

LOOKED_AT = 20
"""How many of a report's newest runs are looked through for runs about everything."""

NARROWED = ("topic", "consumer_group", "broker")
"""Parameters with which a run is about a part only."""


class Run(NamedTuple):
    """A finished run, and its headlines by their names."""

    number: int
    headlines: Mapping[str, Mapping[str, Any]]


def latest_run(report: str) -> Run | None:
    """The finished run about all brokers, topics and groups whose period ends last; None if no run is one.

    Of two such runs the newer one. So a run about last year does not end the alert of last night's run.
    """
    finished = ReportRun.objects.filter(report=report, status=Status.DONE)
    latest = (0, 0)
    for number, parameters, created in finished.order_by("-pk").values_list("pk", "parameters", "created")[:LOOKED_AT]:
        if not any(parameters.get(name) for name in NARROWED):
            created_ms = int(created.timestamp() * 1000)
            latest = max(latest, (min(parameters.get("to_ms") or created_ms, created_ms), number))
    if not latest[1]:
        return None
    result = finished.values_list("result", flat=True).filter(pk=latest[1]).first() or {}
    return Run(latest[1], {headline["name"]: headline for headline in result.get("headlines", ())})


def figure_kind(rule: Rule) -> str:
    """What the rule's figure of a report is, by the latest run: ``share``, ``bytes``, ``ms``; empty if unknown."""
    run = latest_run(rule.report) if rule.what == "report" else None
    return str(run.headlines.get(rule.figure, {}).get("kind", "")) if run is not None else ""


def check_figure(rule: Rule) -> None:
    """Raise BadRuleError if the latest run of the rule's report has no such figure."""
    run = latest_run(rule.report) if rule.what == "report" else None
    if run is not None and run.headlines and rule.figure not in run.headlines:
        raise BadRuleError(
            "figure", f"{rule.report} has no figure {rule.figure!r}; its figures are {', '.join(run.headlines)}"
        )


def read_reports(rules: Iterable[Rule], readings: Mapping[int, Readings]) -> list[str]:
    """Read the figures of all rules about reports. Returns a sentence for each whose figure is not known.

    A figure without a value changes nothing.
    """
    runs: dict[str, Run | None] = {}
    problems: list[str] = []
    for rule in rules:
        if rule.what != "report":
            continue
        if rule.report not in runs:
            runs[rule.report] = latest_run(rule.report)
        problems += _read(rule, runs[rule.report], readings[rule.id])
    return problems


def _read(rule: Rule, run: Run | None, readings: Readings) -> list[str]:
    headline = run.headlines.get(rule.figure) if run is not None else None
    value = headline.get("value") if headline is not None else None
    if run is None or headline is None or isinstance(value, bool) or not isinstance(value, int | float):
        readings.add_unknown(REPORTS_SUBJECT)
        why = f"run {run.number} does not have it" if run else "no finished run is about all brokers, topics and groups"
        return [f"{rule.name}: {rule.figure} of the report {rule.report} is not known, because {why}."]
    measured = round(value * 100, 9) if headline.get("kind") == "share" else value
    if measured < rule.threshold if rule.below else measured > rule.threshold:
        shown = value_text(value, str(headline.get("kind")))
        readings.add(
            REPORTS_SUBJECT,
            Sentence(
                gettext_noop("{0}: {1} (run {2})"), str(headline.get("label", rule.figure)), shown, str(run.number)
            ),
        )
    return []


def value_text(value: float, kind: str) -> str:
    """A figure with its unit: ``12.5 %``, ``3 min 5 s``, ``1,204``."""
    if kind == "share":
        return f"{value * 100:.1f} %"
    if kind == "ms" and value >= 60_000:
        return duration_text(int(value))
    unit = {"bytes": " bytes", "ms": " ms", "us": " µs"}.get(kind, "")
    return f"{value:,.2f}".rstrip("0").rstrip(".") + unit

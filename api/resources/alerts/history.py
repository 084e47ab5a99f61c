"""Alerts that fire, and those that fired."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from alerts import catalogue, records
from alerts.models import AlertRecord
from alerts.rules import Severity, What
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Model
from api.resources.alerts.rules import ask
from bridge.port import SystemClock

MOST = 1000


class AlertsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    state: Annotated[
        Literal["firing", "resolved", "all"], Meta(description="Alerts that fire, those that ended, or both.")
    ] = "firing"
    limit: Annotated[int, Meta(ge=1, le=MOST, description="Maximum number of alerts.")] = 100
    before: Annotated[int, Meta(ge=1, le=1 << 62, description="`next` of the previous page.")] | None = None


class AlertView(Model, frozen=True, kw_only=True, gc=False):
    """One alert. `group` and `topic` are empty where the rule is not about them.

    `text` is the value in words when it began to fire. The condition holds since `since_ms`; the alert fires from
    `fired_ms` to `resolved_ms`, null while it fires. `notified_ms`: when a message about it was accepted last.
    `silenced`: nothing is sent about it now.
    """

    id: int
    rule: int
    rule_name: str
    what: What
    severity: Severity
    broker: str
    group: str
    topic: str
    text: str
    since_ms: int
    fired_ms: int
    resolved_ms: int | None
    notified_ms: int | None
    silenced: bool


class FiringCounts(Model, frozen=True, kw_only=True, gc=False):
    """How many alerts fire."""

    critical: int
    warning: int
    info: int


class Alerts(Model, frozen=True, kw_only=True, gc=False):
    """Alerts, newest first, and how many fire. `next` is the `before` of the next page, absent on the last one.

    The rules were evaluated last at `evaluated_ms`, null if never; it is `now_ms` now. `problems` are sentences about
    what could not be looked at.
    """

    firing: FiringCounts
    alerts: list[AlertView]
    now_ms: int
    evaluated_ms: int | None
    problems: list[str]
    next: int | UnsetType = UNSET


async def get_alerts(request: Request[AlertsParams]) -> Answer:
    """The alerts that fire, those that ended, or both. The history has the last 10,000 of 90 days."""
    params = request.params
    firing = {"firing": True, "resolved": False, "all": None}[params.state]
    wall_ms = SystemClock().now().wall_ms

    def read() -> Alerts:
        page = records.page(firing=firing, before=params.before, limit=params.limit)
        silences = [silence for silence in catalogue.silences(wall_ms) if silence.from_ms <= wall_ms]

        def view(row: AlertRecord) -> AlertView:
            fields = {name: getattr(row, name) for name in AlertView.__struct_fields__ if name != "silenced"}
            is_silenced = row.resolved_ms is None and any(
                silence.covers(row.rule, row.group, wall_ms) for silence in silences
            )
            return AlertView(**fields, silenced=is_silenced)

        counts, evaluator = records.firing_counts(), records.evaluator()
        return Alerts(
            firing=FiringCounts(
                critical=counts.get("critical", 0), warning=counts.get("warning", 0), info=counts.get("info", 0)
            ),
            now_ms=wall_ms,
            alerts=[view(row) for row in page.rows],
            evaluated_ms=evaluator.evaluated_ms if evaluator else None,
            problems=evaluator.problems if evaluator else [],
            next=UNSET if page.next is None else page.next,
        )

    return Answer(body=await ask(read))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/alerts",
        handler=get_alerts,
        group="Alerts",
        summary="Alerts that fire or fired",
        params=AlertsParams,
        response=Alerts,
        needs_broker=False,
    ),
)

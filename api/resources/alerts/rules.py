"""Alert rules over HTTP."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from asgiref.sync import sync_to_async
from msgspec import Meta, field

from alerts import catalogue
from alerts.catalogue import NoSuchError, RefusedError
from alerts.reports import figure_kind
from alerts.rules import (
    MAX_CHANNELS,
    MAX_FOR_S,
    MAX_NAME,
    MAX_PATTERN,
    MAX_REPEAT_S,
    MAX_THRESHOLD,
    MIN_REPEAT_S,
    BadRuleError,
    Rule,
    Severity,
    VerdictSeverity,
    What,
)
from alerts.service import evaluate_soon
from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Body, Model
from bridge.port import PROBLEMS, ResponseCode, State

Number = Annotated[int, Meta(ge=1, le=(1 << 62), description="Number of a rule, a channel or a silence.")]
RuleName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, description="Messages begin with it.")]
Pattern = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_PATTERN, description="A name; `*` stands for any text, `?` for any character."),
]
States = Annotated[list[State], Meta(max_length=6, description="The states in which a rule on `group_state` fires.")]
Verdicts = Annotated[
    list[str],
    Meta(
        max_length=len(PROBLEMS),
        description="For `group_verdict`: the ids of verdicts, errors or warnings about a group; none: all of them.",
    ),
]
VerdictSeverities = Annotated[
    list[VerdictSeverity],
    Meta(max_length=2, description="For `group_verdict`: the severities that a verdict may have; none: both."),
]
Threshold = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_THRESHOLD,
        description="The value must exceed it. In messages; for `oldest` in ms; for `disk_used` and shares in percent.",
    ),
]
Report = Annotated[str, Meta(max_length=64, description="For `report`: the name of a report.")]
Figure = Annotated[str, Meta(max_length=64, description="For `report`: the `name` of one of its headlines.")]
Below = Annotated[bool, Meta(description="For `report`: the value must be lower than the threshold.")]
ForSeconds = Annotated[int, Meta(ge=0, le=MAX_FOR_S, description="How long the condition must hold, s.")]
RepeatSeconds = Annotated[
    int, Meta(ge=MIN_REPEAT_S, le=MAX_REPEAT_S, description="After so long a firing alert is sent again, s.")
]
Channels = Annotated[list[Number], Meta(max_length=MAX_CHANNELS, description="Numbers of channels; none: no message.")]
T = TypeVar("T")


class NumberParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Number


class NewRule(Body, frozen=True, kw_only=True, gc=False):
    """A new rule. `states` are for `group_state`; `verdicts` and `verdict_severities` for `group_verdict`, which needs
    at least one of them; `threshold` is for all others except `engine_down`.

    `dead_letters` and `missed_arrivals` count what is new: since the last ten minutes without any. `topic` is for `lag`
    and `oldest`, `group` for rules about groups. `report` compares a figure of the run of a report that is about
    all brokers, topics and groups and whose period ends last; the threshold is in its own unit.
    """

    name: RuleName
    what: What
    states: States = field(default_factory=list)
    verdicts: Verdicts = field(default_factory=list)
    verdict_severities: VerdictSeverities = field(default_factory=list)
    threshold: Threshold = 0
    group: Pattern = "*"
    topic: Pattern = "*"
    report: Report = ""
    figure: Figure = ""
    below: Below = False
    for_s: ForSeconds = 0
    severity: Severity = "warning"
    repeat_s: RepeatSeconds = 4 * 3600
    send_resolved: bool = True
    channels: Channels = field(default_factory=list)
    enabled: bool = True


class ChangedRule(Body, frozen=True, kw_only=True, gc=False):
    """The changes of a rule; null leaves a field unchanged."""

    name: RuleName | None = None
    what: What | None = None
    states: States | None = None
    verdicts: Verdicts | None = None
    verdict_severities: VerdictSeverities | None = None
    threshold: Threshold | None = None
    group: Pattern | None = None
    topic: Pattern | None = None
    report: Report | None = None
    figure: Figure | None = None
    below: Below | None = None
    for_s: ForSeconds | None = None
    severity: Severity | None = None
    repeat_s: RepeatSeconds | None = None
    send_resolved: bool | None = None
    channels: Channels | None = None
    enabled: bool | None = None


class RuleView(Model, frozen=True, kw_only=True, gc=False):
    """A rule. `figure_kind` says what the figure of a report is by its latest run: `share` (the threshold is in
    percent), `bytes`, `ms`, `us`, or another kind without a unit; empty for other rules and before the first run."""

    id: int
    name: str
    what: What
    states: list[str]
    verdicts: list[str]
    verdict_severities: list[str]
    threshold: int
    group: str
    topic: str
    report: str
    figure: str
    figure_kind: str
    below: bool
    for_s: int
    severity: Severity
    repeat_s: int
    send_resolved: bool
    channels: list[int]
    enabled: bool


class Rules(Model, frozen=True, kw_only=True, gc=False):
    rules: list[RuleView]


def _view(rule: Rule) -> RuleView:
    fields = {name: getattr(rule, name) for name in RuleView.__struct_fields__ if name != "figure_kind"}
    lists = {name: list(fields[name]) for name in ("states", "verdicts", "verdict_severities", "channels")}
    return RuleView(**fields | lists, figure_kind=figure_kind(rule))


async def ask(question: Callable[[], T]) -> T:
    """The result of ``question``, asked in Django's thread. Its errors become problems."""
    try:
        return await sync_to_async(question)()
    except NoSuchError as error:
        raise Problem(404, str(error), code=ResponseCode.QUERY_NOT_FOUND) from error
    except BadRuleError as error:
        raise Problem(400, str(error), pointer=f"/{error.field}") from error
    except RefusedError as error:
        raise Problem(409, str(error), code=ResponseCode.ILLEGAL_OPERATION) from error


async def change(question: Callable[[], T]) -> T:
    """The same for a change, which the next round takes up at once."""
    result = await ask(question)
    evaluate_soon()
    return result


def fields_of(body: Any) -> dict[str, Any]:
    """The fields of a body that are not null, as the catalogue takes them. Problem 400 if there are none."""
    fields = {name: getattr(body, name) for name in body.__struct_fields__ if getattr(body, name) is not None}
    if not fields:
        raise Problem(400, "nothing to change: send at least one field", pointer="")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


async def get_rules(request: Request[Params]) -> Answer:
    """All rules, oldest first."""
    return Answer(body=Rules(rules=await ask(lambda: [_view(rule) for rule in catalogue.rules()])))


async def post_rule(request: Request[Params]) -> Answer:
    """Adds a rule: 201. 409 if another one has its name."""
    fields = fields_of(request.body)
    rule = await change(lambda: _view(catalogue.add_rule(**fields)))
    return Answer(body=rule, status=201, headers={"location": f"{RULES}/{rule.id}"})


async def patch_rule(request: Request[NumberParams]) -> Answer:
    """Changes a rule, or switches it on or off. Its alerts end where the changed rule does not hold."""
    fields = fields_of(request.body)
    return Answer(body=await change(lambda: _view(catalogue.change_rule(request.params.id, **fields))))


async def delete_rule(request: Request[NumberParams]) -> Answer:
    """Removes the rule. Its alerts end without a message, and stay in the history."""
    await change(lambda: catalogue.remove_rule(request.params.id))
    return Answer(status=204)


RULES = "/api/v1/alerts/rules"

ROUTES = (
    Route(
        method="GET",
        path=RULES,
        handler=get_rules,
        group="Alerts",
        summary="Alert rules",
        response=Rules,
        needs_broker=False,
    ),
    Route(
        method="POST",
        path=RULES,
        handler=post_rule,
        group="Alerts",
        summary="Add an alert rule",
        bodies=(NewRule,),
        response=RuleView,
        status=201,
        problems=(409,),
        needs_broker=False,
    ),
    Route(
        method="PATCH",
        path=f"{RULES}/{{id}}",
        handler=patch_rule,
        group="Alerts",
        summary="Change an alert rule, or switch it on or off",
        params=NumberParams,
        bodies=(ChangedRule,),
        response=RuleView,
        problems=(404, 409),
        needs_broker=False,
    ),
    Route(
        method="DELETE",
        path=f"{RULES}/{{id}}",
        handler=delete_rule,
        group="Alerts",
        summary="Delete an alert rule",
        params=NumberParams,
        status=204,
        problems=(404,),
        needs_broker=False,
    ),
)

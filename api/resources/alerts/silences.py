"""Silences over HTTP: times in which nothing is sent."""

from typing import Annotated

from msgspec import Meta

from alerts import catalogue
from alerts.rules import MAX_COMMENT, MAX_SILENCE_MS, SECOND_MS, Silence
from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Body, Milliseconds, Model
from api.resources.alerts.rules import Number, NumberParams, Pattern, ask, change
from bridge.port import SystemClock

Seconds = Annotated[int, Meta(ge=1, le=MAX_SILENCE_MS // SECOND_MS, description="How long it lasts, s.")]
Comment = Annotated[str, Meta(max_length=MAX_COMMENT, description="Why nothing is to be sent.")]


class NewSilence(Body, frozen=True, kw_only=True, gc=False):
    """From `from_ms`, or from now, until `to_ms`, or for `for_s`, nothing is sent about alerts of a rule and of groups.

    `rule` null is every rule. `group` `*` also covers alerts about brokers.
    """

    rule: Number | None = None
    group: Pattern = "*"
    from_ms: Milliseconds | None = None
    to_ms: Milliseconds | None = None
    for_s: Seconds | None = None
    comment: Comment = ""


class SilenceView(Model, frozen=True, kw_only=True, gc=False):
    """A silence."""

    id: int
    rule: int | None
    group: str
    from_ms: int
    to_ms: int
    comment: str


class Silences(Model, frozen=True, kw_only=True, gc=False):
    silences: list[SilenceView]


def _view(silence: Silence) -> SilenceView:
    return SilenceView(**{name: getattr(silence, name) for name in SilenceView.__struct_fields__})


async def get_silences(request: Request[Params]) -> Answer:
    """The silences that have not ended, oldest first."""
    wall_ms = SystemClock().now().wall_ms
    return Answer(
        body=Silences(silences=[_view(silence) for silence in await ask(lambda: catalogue.silences(wall_ms))])
    )


async def post_silence(request: Request[Params]) -> Answer:
    """Adds a silence: 201. Alerts that still fire when it ends are sent then."""
    body, wall_ms = request.body, SystemClock().now().wall_ms
    from_ms = wall_ms if body.from_ms is None else body.from_ms
    if (body.to_ms is None) == (body.for_s is None):
        raise Problem(400, "a silence needs an end: send either to_ms or for_s", pointer="/to_ms")
    to_ms = from_ms + body.for_s * SECOND_MS if body.to_ms is None else body.to_ms
    silence = await change(
        lambda: catalogue.add_silence(
            wall_ms,
            rule=body.rule,
            group=body.group,
            from_ms=from_ms,
            to_ms=to_ms,
            comment=body.comment,
        )
    )
    return Answer(body=_view(silence), status=201, headers={"location": f"{SILENCES}/{silence.id}"})


async def delete_silence(request: Request[NumberParams]) -> Answer:
    """Ends the silence."""
    await change(lambda: catalogue.remove_silence(request.params.id))
    return Answer(status=204)


SILENCES = "/api/v1/alerts/silences"

ROUTES = (
    Route(
        method="GET",
        path=SILENCES,
        handler=get_silences,
        group="Alerts",
        summary="Silences",
        response=Silences,
        needs_broker=False,
    ),
    Route(
        method="POST",
        path=SILENCES,
        handler=post_silence,
        group="Alerts",
        summary="Add a silence",
        bodies=(NewSilence,),
        response=SilenceView,
        status=201,
        problems=(409,),
        needs_broker=False,
    ),
    Route(
        method="DELETE",
        path=f"{SILENCES}/{{id}}",
        handler=delete_silence,
        group="Alerts",
        summary="End a silence",
        params=NumberParams,
        status=204,
        problems=(404,),
        needs_broker=False,
    ),
)

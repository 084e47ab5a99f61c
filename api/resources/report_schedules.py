"""Schedules of reports over HTTP."""

from typing import Annotated

from msgspec import Meta

from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Body, Model
from api.resources.reports import Name, ReportName, ReportParams, ScheduleView, ask, schedule_view
from spark_jobs.hosting import runs, schedules

Cron = Annotated[
    str,
    Meta(
        max_length=schedules.LONGEST_CRON,
        description="Minute, hour, day of the month, month and day of the week, UTC: "
        "`30 2 * * *` is every day at 02:30.",
    ),
]
ScheduleId = Annotated[int, Meta(ge=1, le=(1 << 31) - 1, description="Number of a schedule.")]


class NewParameters(Body, frozen=True, kw_only=True, gc=False):
    """What the runs of a schedule are about: the last hours before each, a topic, a group, a broker; null is all."""

    last_hours: Annotated[int, Meta(ge=1, le=schedules.MOST_HOURS)] | None = None
    topic: Name | None = None
    consumer_group: Name | None = None
    broker: Name | None = None

    def decoded(self) -> schedules.Parameters:
        return schedules.Parameters(self.last_hours, self.topic, self.consumer_group, self.broker)


class ScheduleParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: ReportName
    id: ScheduleId


class NewSchedule(Body, frozen=True, kw_only=True, gc=False):
    """A new schedule of a report."""

    cron: Cron
    enabled: bool = True
    parameters: NewParameters = NewParameters()


class ChangedTime(Body, frozen=True, kw_only=True, gc=False):
    """The changes of the schedule of fills; null leaves a field unchanged."""

    cron: Cron | None = None
    enabled: bool | None = None


class ChangedSchedule(Body, frozen=True, kw_only=True, gc=False):
    """The changes of a schedule; null leaves a field unchanged. `parameters` are replaced as a whole."""

    cron: Cron | None = None
    enabled: bool | None = None
    parameters: NewParameters | None = None


class Schedules(Model, frozen=True, kw_only=True, gc=False):
    schedules: list[ScheduleView]


async def get_schedules(request: Request[ReportParams]) -> Answer:
    """When the report runs by itself, and what its last runs did."""

    def read_schedules() -> Schedules:
        runs.require_report(request.params.name)
        return Schedules(schedules=[schedule_view(entry) for entry in schedules.schedules_of(request.params.name)])

    return Answer(body=await ask(read_schedules))


async def post_schedule(request: Request[ReportParams]) -> Answer:
    """Adds a schedule: 201. 409 if the report has it already, 404 for a broker without a store here."""
    name, body = request.params.name, request.body

    def add() -> ScheduleView:
        runs.require_report(name)
        runs.require_broker(body.parameters.broker or "")
        return schedule_view(schedules.add(name, body.cron, enabled=body.enabled, parameters=body.parameters.decoded()))

    view = await ask(add)
    return Answer(body=view, status=201, headers={"location": f"/api/v1/reports/{name}/schedules/{view.id}"})


async def patch_schedule(request: Request[ScheduleParams]) -> Answer:
    """Changes a schedule, or switches it on or off. It runs at its next time from now on."""
    params, body = request.params, request.body
    if body.cron is None and body.enabled is None and body.parameters is None:
        raise Problem(400, "nothing to change: send cron, enabled or parameters", pointer="/")
    parameters = None if body.parameters is None else body.parameters.decoded()

    def change() -> ScheduleView:
        runs.require_report(params.name)
        runs.require_broker((parameters and parameters.broker) or "")
        return schedule_view(
            schedules.change(params.name, params.id, cron=body.cron, enabled=body.enabled, parameters=parameters)
        )

    return Answer(body=await ask(change))


async def delete_schedule(request: Request[ScheduleParams]) -> Answer:
    """Removes the schedule. Runs that it has started stay."""
    params = request.params

    def remove() -> None:
        runs.require_report(params.name)
        schedules.remove(params.name, params.id)

    await ask(remove)
    return Answer(status=204)


SCHEDULES = "/api/v1/reports/{name}/schedules"

ROUTES = (
    Route(
        method="GET",
        path=SCHEDULES,
        handler=get_schedules,
        group="Reports",
        summary="Schedules of a report",
        params=ReportParams,
        response=Schedules,
        problems=(404,),
        needs_broker=False,
    ),
    Route(
        method="POST",
        path=SCHEDULES,
        handler=post_schedule,
        group="Reports",
        summary="Add a schedule",
        params=ReportParams,
        bodies=(NewSchedule,),
        response=ScheduleView,
        status=201,
        problems=(404, 409),
        needs_broker=False,
    ),
    Route(
        method="PATCH",
        path=f"{SCHEDULES}/{{id}}",
        handler=patch_schedule,
        group="Reports",
        summary="Change a schedule, or switch it on or off",
        params=ScheduleParams,
        bodies=(ChangedSchedule,),
        response=ScheduleView,
        problems=(404, 409),
        needs_broker=False,
    ),
    Route(
        method="DELETE",
        path=f"{SCHEDULES}/{{id}}",
        handler=delete_schedule,
        group="Reports",
        summary="Delete a schedule",
        params=ScheduleParams,
        status=204,
        problems=(404,),
        needs_broker=False,
    ),
)

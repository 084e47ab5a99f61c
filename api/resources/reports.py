"""Reports over stored logs: the list of reports, their runs and files. The report worker computes them."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from asgiref.sync import sync_to_async
from django_celery_beat.models import PeriodicTask
from msgspec import Meta, convert, to_builtins
from msgspec.structs import asdict

from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Body, Milliseconds, Model
from bridge.port import ResponseCode
from spark_jobs.catalogue import REPORTS
from spark_jobs.hosting import runs, schedules
from spark_jobs.models import ReportRun

ReportName = Annotated[str, Meta(max_length=64, description="Name of a report.")]
RunId = Annotated[int, Meta(ge=1, le=(1 << 62), description="Number of a run.")]
Name = Annotated[str, Meta(min_length=1, max_length=255, description="Name of a topic, a consumer group or a broker.")]
FileName = Annotated[str, Meta(max_length=128, description="Name of a file of a run, as the run lists it.")]
MINUTE_MS = 60_000
T = TypeVar("T")

_FILE_TYPES = {
    ".log": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".parquet": "application/vnd.apache.parquet",
}
_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report's page shows text from the log. So it runs without an origin, and only its own script is allowed."""


class ReportParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: ReportName


class RunParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: ReportName
    id: RunId


class FileParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: ReportName
    id: RunId
    file: FileName


class NewRun(Body, frozen=True, kw_only=True, gc=False):
    """The parameters of a run: the time from `from_ms` on and before `to_ms`; null is no bound.

    Both are whole minutes: multiples of 60000.
    `topic` and `consumer_group` restrict the run to one of them, if the report distinguishes them. `compare` adds the
    figures of the period before, of the same length; it needs both bounds.
    """

    from_ms: Milliseconds | None = None
    to_ms: Milliseconds | None = None
    topic: Name | None = None
    consumer_group: Name | None = None
    compare: bool = False


class HeadlineView(Model, frozen=True, kw_only=True, gc=False):
    """An important figure of a report. `value` is null if unknown; `before` is the value of the period before.

    `kind` is the unit: `number`, `bytes`, `us`, `ms`, or `share`, a part of 1. `better` is the direction of an
    improvement, if any. `report` names the report with the details, if it is another one.
    """

    name: str
    label: str
    kind: str
    value: float | int | None
    before: float | int | None
    better: Literal["", "more", "less"]
    report: str


class RunView(Model, frozen=True, kw_only=True, gc=False):
    """One run. `percent` never decreases; `error` is why it failed.

    `messages` is how many messages were read, also of other times, topics and groups than those of the report; null
    unless the log was read.

    Of a run that is done, `words` are the results in sentences, `headlines` the most important figures, and `notes`
    their limits, such as a store without a poll journal.
    A run with `status` `waiting` waits until Spark and its Java are installed; `doing` says what is missing.
    A run that failed for a temporary reason is tried again; `attempt` counts the attempts.
    """

    id: int
    report: str
    status: Literal["queued", "waiting", "running", "done", "failed", "cancelled"]
    attempt: int
    percent: int
    doing: str
    error: str
    has_log: bool
    cancel_requested: bool
    requested_by: Literal["person", "schedule"]
    parameters: dict[str, Any]
    messages: int | None
    words: list[str]
    headlines: list[HeadlineView]
    notes: list[str]
    created_ms: int
    started_ms: int | None
    finished_ms: int | None
    files: list[str]


class ScheduleParameters(Model, frozen=True, kw_only=True, gc=False):
    """The runs of a schedule: about the last `last_hours` before each of them, one topic, one group, one broker.

    Without `last_hours` a run is about all stored data; of the daily summary about the day before (UTC).
    """

    last_hours: Annotated[int, Meta(ge=1, le=schedules.MOST_HOURS)] | None = None
    topic: Name | None = None
    consumer_group: Name | None = None
    broker: Name | None = None


class ScheduleView(Model, frozen=True, kw_only=True, gc=False):
    """A schedule; `when` is it in words. `cron` is null if only the admin can change the schedule."""

    id: int
    cron: str | None
    when: str
    enabled: bool
    last_run_ms: int | None
    parameters: ScheduleParameters


class ReportView(Model, frozen=True, kw_only=True, gc=False):
    """One report with its schedules and its newest runs. Schedules of an `is_daily` report are about the day before.

    If none of the newest `runs` is done, the last run that is done follows them.
    A run with a window also reads the `look_back_ms` before and after it.
    """

    name: str
    title: str
    description: str
    is_daily: bool
    look_back_ms: int
    schedules: list[ScheduleView]
    runs: list[RunView]


class Reports(Model, frozen=True, kw_only=True, gc=False):
    """All reports. `brokers` are those with a store here, which runs cover unless they name one.

    `spark_problem` is why Spark cannot start on the report worker; empty if no run waits for that.
    """

    spark_problem: str
    brokers: list[str]
    reports: list[ReportView]


class Runs(Model, frozen=True, kw_only=True, gc=False):
    runs: list[RunView]


async def get_reports(request: Request[Params]) -> Answer:
    """Every report, with its schedules and its newest runs."""
    return Answer(body=await ask(_reports))


def _reports() -> Reports:
    runs.take_up_lost_runs()
    return Reports(
        brokers=[name for name, _ in runs.stores()],
        spark_problem=runs.spark_problem(),
        reports=[
            ReportView(
                name=name,
                title=info.title,
                description=info.description,
                is_daily=info.is_daily,
                look_back_ms=info.look_back_ms,
                schedules=[schedule_view(schedule) for schedule in schedules.schedules_of(name)],
                runs=[_view(run) for run in runs.last_runs(name)],
            )
            for name, info in REPORTS.items()
        ],
    )


async def post_run(request: Request[ReportParams]) -> Answer:
    """Starts a run over the stores of all brokers, or of `?broker=`: 202, the run. 409 while another run of the report
    is under way, 404 for a broker without a store here.

    400 if `to_ms` is not later than `from_ms`, and for `compare` without both.
    """
    body: NewRun = request.body
    for name in ("from_ms", "to_ms"):
        if (getattr(body, name) or 0) % MINUTE_MS:
            raise Problem(400, f"{name} must be a whole minute, a multiple of {MINUTE_MS}", pointer=f"/{name}")
    if body.from_ms is not None and body.to_ms is not None and body.to_ms <= body.from_ms:
        raise Problem(400, "to_ms must be later than from_ms", pointer="/to_ms")
    if body.compare and (body.from_ms is None or body.to_ms is None):
        raise Problem(400, "a comparison with the period before needs from_ms and to_ms", pointer="/compare")
    name = request.params.name
    parameters = to_builtins(body) | {"broker": request.params.broker or None}
    view = await ask(lambda: _view(runs.start_run(name, parameters)))
    return Answer(body=view, headers={"location": f"/api/v1/reports/{name}/runs/{view.id}"})


async def get_runs(request: Request[ReportParams]) -> Answer:
    """The runs of the report, the newest first. There are few: when a run ends, all but the newest 30 that have ended
    are removed.
    """
    return Answer(body=await ask(lambda: Runs(runs=[_view(run) for run in runs.list_runs(request.params.name)])))


async def get_run(request: Request[RunParams]) -> Answer:
    """One run: its state, its parameters, and its files when it has ended."""
    return Answer(body=await ask(lambda: _view(runs.find_run(request.params.name, request.params.id))))


async def delete_run(request: Request[RunParams]) -> Answer:
    """Cancels a run that is under way (202, the run). Removes a run that has ended, with its files (204)."""

    def cancel_or_remove() -> RunView | None:
        run = runs.cancel_or_remove(request.params.name, request.params.id)
        return None if run is None else _view(run)

    view = await ask(cancel_or_remove)
    return Answer(status=204) if view is None else Answer(body=view, status=202)


async def get_file(request: Request[FileParams]) -> Answer:
    """Browsers show the page of a report and save all other files."""
    params = request.params
    path = await ask(lambda: runs.file_of(params.name, params.id, params.file))
    return file_answer(path, f"{params.name}-{params.id}-{params.file}")


async def get_log(request: Request[RunParams]) -> Answer:
    """The log of a run that did not end well."""
    params = request.params
    path = await ask(lambda: runs.log_to_read(params.name, params.id))
    return file_answer(path, f"{params.name}-{params.id}.log")


def file_answer(path: Path, saved_as: str) -> Answer:
    """A file of a report. Browsers show its page and save all other files."""
    headers = {"cache-control": "private, no-cache"}
    if path.suffix == ".html":
        headers["content-security-policy"] = _REPORT_POLICY
    else:
        headers["content-disposition"] = f'attachment; filename="{saved_as}"'
    return Answer(file=path, content_type=_FILE_TYPES[path.suffix], headers=headers)


async def ask(question: Callable[[], T]) -> T:
    """The result of ``question``, asked in Django's thread. Its errors become problems."""
    try:
        return await sync_to_async(question)()
    except runs.UnknownReportError as error:
        raise Problem(404, str(error), code=ResponseCode.QUERY_NOT_FOUND) from error
    except runs.UnknownBrokerError as error:
        raise Problem(404, str(error), code=ResponseCode.QUERY_NOT_FOUND, pointer="/broker") from error
    except schedules.BadCronError as error:
        raise Problem(400, str(error), pointer="/cron") from error
    except (runs.RunActiveError, schedules.ScheduleExistsError) as error:
        raise Problem(409, str(error), code=ResponseCode.SYSTEM_BUSY) from error


def _ms(when: datetime | None) -> int | None:
    return None if when is None else int(when.timestamp() * 1000)


def schedule_view(task: PeriodicTask) -> ScheduleView:
    """A schedule as the API sends it. Called in Django's thread."""
    return ScheduleView(
        id=task.pk,
        cron=schedules.cron_of(task),
        when=str(task.crontab.human_readable if task.crontab else task.scheduler),
        enabled=task.enabled,
        last_run_ms=_ms(task.last_run_at),
        parameters=ScheduleParameters(**asdict(schedules.Parameters.decode(task.kwargs))),
    )


def _view(run: ReportRun) -> RunView:
    return RunView(
        id=run.pk,
        report=run.report,
        status=run.status,  # type: ignore[arg-type]
        attempt=run.attempt,
        percent=run.percent,
        doing=run.doing,
        error=run.error,
        has_log=runs.has_log(run),
        cancel_requested=run.cancel_requested,
        requested_by=run.requested_by,  # type: ignore[arg-type]
        parameters=run.parameters,
        messages=run.messages,
        words=run.result.get("words", []),
        headlines=convert(run.result.get("headlines", []), list[HeadlineView]),
        notes=run.result.get("notes", []),
        created_ms=int(run.created.timestamp() * 1000),
        started_ms=_ms(run.started),
        finished_ms=_ms(run.finished),
        files=runs.files_of(run),
    )


RUN = "/api/v1/reports/{name}/runs/{id}"

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/reports",
        handler=get_reports,
        group="Reports",
        summary="All reports",
        response=Reports,
        needs_broker=False,
    ),
    Route(
        method="POST",
        path="/api/v1/reports/{name}/runs",
        handler=post_run,
        group="Reports",
        summary="Run a report",
        params=ReportParams,
        bodies=(NewRun,),
        response=RunView,
        status=202,
        problems=(404, 409),
        needs_broker=False,
    ),
    Route(
        method="GET",
        path="/api/v1/reports/{name}/runs",
        handler=get_runs,
        group="Reports",
        summary="Runs of a report",
        params=ReportParams,
        response=Runs,
        problems=(404,),
        needs_broker=False,
    ),
    Route(
        method="GET",
        path=RUN,
        handler=get_run,
        group="Reports",
        summary="One run and its progress",
        params=RunParams,
        response=RunView,
        problems=(404,),
        needs_broker=False,
    ),
    Route(
        method="DELETE",
        path=RUN,
        handler=delete_run,
        group="Reports",
        summary="Cancel a run, or remove one that has ended",
        params=RunParams,
        response=RunView,
        status=202,
        or_nothing=True,
        problems=(404,),
        needs_broker=False,
    ),
    Route(
        method="GET",
        path=f"{RUN}/log",
        handler=get_log,
        group="Reports",
        summary="The log of a run that did not end well",
        params=RunParams,
        response_type="text/plain",
        problems=(404,),
        needs_broker=False,
    ),
    Route(
        method="GET",
        path=f"{RUN}/files/{{file}}",
        handler=get_file,
        group="Reports",
        summary="A file of a run",
        params=FileParams,
        response_type="application/octet-stream",
        problems=(404,),
        needs_broker=False,
    ),
)

"""Reports over stored logs: which there are, their runs, the files they made. The work itself is done elsewhere."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from asgiref.sync import sync_to_async
from msgspec import Meta, convert, to_builtins

from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Body, Milliseconds, Model
from bridge.port import ResponseCode
from spark_jobs.hosting import runs, timetable
from spark_jobs.models import ReportRun

ReportName = Annotated[str, Meta(max_length=64, description="Name of a report.")]
RunId = Annotated[int, Meta(ge=1, le=(1 << 62), description="Number of a run.")]
Name = Annotated[str, Meta(min_length=1, max_length=255, description="Of a topic or a group.")]
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
"""A report shows what is in the log: it runs as a page of nobody's, and its own policy admits its own script alone."""


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
    """What a run is about: the minutes from `from_ms` on and before `to_ms`; null is no bound.

    Both are whole minutes: multiples of 60000.
    `topic` and `consumer_group` leave all others out, where the report tells them apart. `compare` sets the figures
    beside those of the time before, of the same length; it needs both bounds. `source` `log` leaves the lake out,
    `lake` fails where there is none.
    """

    from_ms: Milliseconds | None = None
    to_ms: Milliseconds | None = None
    topic: Name | None = None
    consumer_group: Name | None = None
    compare: bool = False
    source: Literal["auto", "log", "lake"] = "auto"


class HeadlineView(Model, frozen=True, kw_only=True, gc=False):
    """A figure that stands for a report; `value` is null when it is not known, `before` is that of the time before.

    `kind` says what the number is: `number`, `bytes`, `us`, `ms`, or `share`, a part of 1. `better` says which way it
    should go, if any. `report` names the report that tells more of it, if it is another one.
    """

    name: str
    label: str
    kind: str
    value: float | int | None
    before: float | int | None
    better: Literal["", "more", "less"]
    report: str


class RunView(Model, frozen=True, kw_only=True, gc=False):
    """One run. `percent` never goes back; `messages` is null unless the log was read; `error` says why it failed.

    Once it is done, `words` say in sentences what came of it, `headlines` are its most important figures, and `notes`
    what has to be known of them, such as that the store has no poll journal.
    A run with `status` `waiting` waits for Spark to be installed. What may pass is tried again: `attempt` counts.
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


class ScheduleView(Model, frozen=True, kw_only=True, gc=False):
    """When a report runs by itself, in words too; `cron` is null for what only the admin can change."""

    id: int
    cron: str | None
    when: str
    enabled: bool
    last_run_ms: int | None


class ReportView(Model, frozen=True, kw_only=True, gc=False):
    """One report with its schedules and its newest runs."""

    name: str
    title: str
    description: str
    schedules: list[ScheduleView]
    runs: list[RunView]


class SparkView(Model, frozen=True, kw_only=True, gc=False):
    """Whether reports can run: `text` is the progress of the installation, or why there is no Spark."""

    state: Literal["absent", "installing", "ready", "failed"]
    text: str


class Reports(Model, frozen=True, kw_only=True, gc=False):
    spark: SparkView
    reports: list[ReportView]


class Runs(Model, frozen=True, kw_only=True, gc=False):
    runs: list[RunView]


async def get_reports(request: Request[Params]) -> Answer:
    """Every report, and whether there is a Spark to run it."""
    return Answer(body=await ask(_reports))


def _reports() -> Reports:
    found = runs.overview()
    return Reports(
        spark=SparkView(state=found.environment.state.value, text=found.environment.text),  # type: ignore[arg-type]
        reports=[
            ReportView(
                name=report.info.name,
                title=report.info.title,
                description=report.info.description,
                schedules=[schedule_view(schedule) for schedule in report.schedules],
                runs=[_view(run) for run in report.runs],
            )
            for report in found.reports
        ],
    )


async def post_run(request: Request[ReportParams]) -> Answer:
    """Starts a run: 202, and the run to watch. 409 while another one of the report is under way.

    400 for a window that is none, and for `compare` without both ends of it.
    """
    body: NewRun = request.body
    for name in ("from_ms", "to_ms"):
        if (getattr(body, name) or 0) % MINUTE_MS:
            raise Problem(400, f"{name} must be a whole minute, a multiple of {MINUTE_MS}", pointer=f"/{name}")
    if body.from_ms is not None and body.to_ms is not None and body.to_ms <= body.from_ms:
        raise Problem(400, "to_ms must be later than from_ms", pointer="/to_ms")
    if body.compare and (body.from_ms is None or body.to_ms is None):
        raise Problem(400, "a comparison with the time before needs from_ms and to_ms", pointer="/compare")
    name = request.params.name
    view = await ask(lambda: _view(runs.start_run(name, to_builtins(body))))
    return Answer(body=view, headers={"location": f"/api/v1/reports/{name}/runs/{view.id}"})


async def get_runs(request: Request[ReportParams]) -> Answer:
    return Answer(body=await ask(lambda: Runs(runs=[_view(run) for run in runs.list_runs(request.params.name)])))


async def get_run(request: Request[RunParams]) -> Answer:
    return Answer(body=await ask(lambda: _view(runs.find_run(request.params.name, request.params.id))))


async def delete_run(request: Request[RunParams]) -> Answer:
    """Cancels a run that is under way (202, the run), removes one that has ended with its files (204)."""

    def cancel_or_remove() -> RunView | None:
        run = runs.cancel_or_remove(request.params.name, request.params.id)
        return None if run is None else _view(run)

    view = await ask(cancel_or_remove)
    return Answer(status=204) if view is None else Answer(body=view, status=202)


async def get_file(request: Request[FileParams]) -> Answer:
    """The page of a report is shown, all other files are saved."""
    params = request.params
    path = await ask(lambda: runs.file_of(params.name, params.id, params.file))
    return file_answer(path, f"{params.name}-{params.id}-{params.file}")


async def get_log(request: Request[RunParams]) -> Answer:
    """The log of a run that did not end well."""
    params = request.params
    path = await ask(lambda: runs.log_to_read(params.name, params.id))
    return file_answer(path, f"{params.name}-{params.id}.log")


def file_answer(path: Path, saved_as: str) -> Answer:
    """A file of a report: its page to be shown, all others to be saved."""
    headers = {"cache-control": "private, no-cache"}
    if path.suffix == ".html":
        headers["content-security-policy"] = _REPORT_POLICY
    else:
        headers["content-disposition"] = f'attachment; filename="{saved_as}"'
    return Answer(file=path, content_type=_FILE_TYPES[path.suffix], headers=headers)


async def ask(question: Callable[[], T]) -> T:
    """Ask the database in Django's thread; what it refuses becomes a problem."""
    try:
        return await sync_to_async(question)()
    except (runs.UnknownReportError, timetable.NoScheduleError) as error:
        raise Problem(404, str(error), code=ResponseCode.QUERY_NOT_FOUND) from error
    except timetable.BadCronError as error:
        raise Problem(400, str(error), pointer="/cron") from error
    except (runs.RunActiveError, timetable.ScheduleExistsError) as error:
        raise Problem(409, str(error), code=ResponseCode.SYSTEM_BUSY) from error
    except runs.NoWorkerError as error:
        raise Problem(503, str(error), code=ResponseCode.SERVICE_NOT_AVAILABLE, retry_after_s=10) from error


def _ms(when: datetime | None) -> int | None:
    return None if when is None else int(when.timestamp() * 1000)


def schedule_view(schedule: timetable.Schedule) -> ScheduleView:
    """An entry of the timetable."""
    return ScheduleView(
        id=schedule.id,
        cron=schedule.cron,
        when=schedule.when,
        enabled=schedule.enabled,
        last_run_ms=_ms(schedule.last_run),
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

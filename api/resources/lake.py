"""The lake over HTTP: its state, its schedule, and filling it."""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

from asgiref.sync import sync_to_async

from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Body, Model
from api.resources.report_schedules import ChangedTime
from api.resources.reports import ScheduleView, ask, schedule_view
from bridge.port import ResponseCode
from spark_jobs.hosting import lake_state, runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.lake.tasks import LakeFile

_reader = ThreadPoolExecutor(1, "lake-reader")
"""Reads lakes, outside of Django's only thread: storage that does not answer then stops no other request."""


class LakeTable(Model, frozen=True, kw_only=True, gc=False):
    """A table of the lake; `size` in bytes, compressed."""

    rows: int
    files: int
    size: int


class LakeView(Model, frozen=True, kw_only=True, gc=False):
    """The lake, with what it has of the store of `broker`, one of `brokers`. `folder` is empty while there is none.

    The lake contains the log up to `position`. `behind_bytes` of the log are not read yet; null if the end of the log
    is unknown. `gap_bytes` of the log and `missing_journal_files` were deleted before they could be read.
    `synced_ms`: when it was filled last; for a store of RocketMQ, when rows were last written.
    `dropped_messages` and `dropped_polls` from before `dropped_before_ms` were dropped, as GLASSMQ_LAKE_KEEP_DAYS
    requires; null if nothing was dropped.
    `ended_by` is why the log ended at `position` for the last fill. After an `invalid record` the lake cannot be
    filled further, and `segments_unread` segments are left.
    What is read of a lake in S3 may be some seconds old.
    `problem` is why the lake cannot be read, `last_failure` why the last attempt to fill it failed.
    The other fields describe fills by the report worker, and are empty if there was none: `under_way` while one is
    queued or running, `status` of this fill or the last one, `percent` of the round that is being written.
    """

    broker: str
    brokers: list[str]
    folder: str
    position: int
    behind_bytes: int | None
    synced_ms: int | None
    messages: LakeTable
    polls: LakeTable
    gap_bytes: int
    missing_journal_files: int
    dropped_before_ms: int | None
    dropped_messages: int
    dropped_polls: int
    ended_by: str
    segments_unread: int
    problem: str
    under_way: bool
    status: Literal["", "queued", "waiting", "running", "done", "failed", "cancelled"]
    percent: int
    doing: str
    cancel_requested: bool
    last_try_ms: int | None
    last_failure: str
    schedule: ScheduleView | None


class NewSync(Body, frozen=True, kw_only=True, gc=False):
    """What a fill writes. `bodies`: also the bodies and property strings of new messages."""

    bodies: bool = False


async def get_lake(request: Request[Params]) -> Answer:
    """The lake, with what it has of the first broker, or of `?broker=`. 404 for a broker without a store here."""
    return Answer(body=await _read_view(request.params.broker))


async def post_sync(request: Request[Params]) -> Answer:
    """Makes the report worker fill the lake, in rounds between reports: 202. 409 while a fill is under way.

    The lake is filled from the stores of all brokers, or of `?broker=`. The body may be left out.
    """
    body: NewSync = request.body
    await ask(lambda: lake_state.begin_sync(with_bodies=body.bodies, broker=request.params.broker))
    return Answer(status=202)


async def delete_sync(request: Request[Params]) -> Answer:
    """Cancels the fill that is under way: 202, the lake. 404 if the report worker is not filling it.

    The rounds that were written stay in the lake, and the next fill continues after them.
    """
    await ask(lake_state.cancel_sync)
    return Answer(body=await _read_view(request.params.broker))


async def patch_schedule(request: Request[Params]) -> Answer:
    """Changes the schedule of fills, or switches it on or off."""
    body = request.body
    if body.cron is None and body.enabled is None:
        raise Problem(400, "nothing to change: send cron, enabled, or both", pointer="")
    return Answer(body=await ask(lambda: schedule_view(lake_state.change_schedule(body.cron, body.enabled))))


async def _read_view(broker: str) -> LakeView:
    try:
        stored = await sync_to_async(lake_state.read_stored, thread_sensitive=False, executor=_reader)(broker)
    except runs.UnknownBrokerError as error:
        raise Problem(404, str(error), code=ResponseCode.QUERY_NOT_FOUND, pointer="/broker") from error
    return await ask(lambda: _view(stored))


def _table(files: "Sequence[LakeFile]") -> LakeTable:
    return LakeTable(rows=sum(file.rows for file in files), files=len(files), size=sum(file.size for file in files))


def _view(stored: lake_state.StoredLake) -> LakeView:
    lake, active, ended = stored.lake, lake_state.find_active(), lake_state.find_ended()
    shown, schedule = active or ended, lake_state.read_schedule()
    end = ended.result.get(stored.broker, {}) if ended else {}
    return LakeView(
        broker=stored.broker,
        brokers=[broker for broker, _ in runs.stores()],
        folder=lake.folder if lake else "",
        position=lake.position or 0 if lake else 0,
        behind_bytes=lake_state.behind_bytes(stored),
        synced_ms=lake_state.synced_ms(stored),
        messages=_table(lake.messages if lake else ()),
        polls=_table(lake.polls if lake else ()),
        gap_bytes=lake.deleted_bytes if lake else 0,
        missing_journal_files=lake.unread_files if lake else 0,
        dropped_before_ms=lake.dropped.before_ms or None if lake else None,
        dropped_messages=lake.dropped.messages if lake else 0,
        dropped_polls=lake.dropped.polls if lake else 0,
        ended_by=end.get("ended_by", ""),
        segments_unread=end.get("segments_unread", 0),
        problem=stored.problem,
        under_way=active is not None,
        status=shown.status if shown else "",  # type: ignore[arg-type]
        percent=active.percent if active else 0,
        doing=active.doing if active else "",
        cancel_requested=active is not None and active.cancel_requested,
        last_try_ms=int(ended.finished.timestamp() * 1000) if ended and ended.finished else None,
        last_failure=ended.error if ended else "",
        schedule=None if schedule is None else schedule_view(schedule),
    )


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/lake",
        handler=get_lake,
        group="Reports",
        summary="The lake and its state",
        response=LakeView,
        problems=(404,),
        needs_broker=False,
    ),
    Route(
        method="POST",
        path="/api/v1/lake/sync",
        handler=post_sync,
        group="Reports",
        summary="Fill the lake with new messages and polls",
        bodies=(NewSync,),
        body_optional=True,
        status=202,
        problems=(404, 409),
        needs_broker=False,
    ),
    Route(
        method="DELETE",
        path="/api/v1/lake/sync",
        handler=delete_sync,
        group="Reports",
        summary="Cancel filling the lake",
        response=LakeView,
        status=202,
        problems=(404,),
        needs_broker=False,
    ),
    Route(
        method="PATCH",
        path="/api/v1/lake/schedule",
        handler=patch_schedule,
        group="Reports",
        summary="Change the schedule of fills",
        bodies=(ChangedTime,),
        response=ScheduleView,
        needs_broker=False,
    ),
)

"""What the broker, a topic or a group did: an hour in steps of 10 s, a day in minutes, 30 days in steps of 10 min."""

from functools import partial
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.names import GROUP_NAMES_PATTERN, OptionalGroupName, OptionalTopicName
from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Milliseconds, Model, copied
from api.http.threads import in_thread
from api.resources.broker import SnapshotView
from bridge.port import BROKER, GROUP, TIERS, TOPIC, Kind, ResponseCode, SystemClock, get_history

HOUR_MS = 3_600_000
MINUTES = 1
"""The tier whose steps are minutes."""
NO_HISTORY = "This web process keeps no history."
MAX_STEPS = 5000
MOST_SECONDS = 366 * 86_400
MetricName = Literal["", "stored_tps", "delivered_tps", "woken_tps", "holds", "wake_p99_us", "lag"]


class HistoryParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: OptionalTopicName = ""
    group: OptionalGroupName = ""
    metric: Annotated[MetricName, Meta(description="Only this metric; by default all that there are.")] = ""
    from_ms: Annotated[Milliseconds, Meta(description="The beginning; by default an hour before the end.")] | None = (
        None
    )
    to_ms: Annotated[Milliseconds, Meta(description="The end; by default now.")] | None = None
    last_s: (
        Annotated[int, Meta(ge=10, le=MOST_SECONDS, description="The beginning, as seconds before the end.")] | None
    ) = None
    step_s: Annotated[
        Literal[10, 60, 600] | None,
        Meta(description="Length of a step in seconds; by default the shortest that is kept since the beginning."),
    ] = None


class HistoryMetric(Model, frozen=True, kw_only=True, gc=False):
    """`values` has one number for each step, null where nothing is known. `..._tps`: per second, on average over the
    step. The others are the largest value of the step's samples, one every 10 s."""

    name: str
    values: list[float | None]


class HistoryView(Model, frozen=True, kw_only=True, gc=False):
    """Value i of a metric belongs to the step that begins at `from_ms` plus i times `step_ms`.

    `now_ms` is the time of this web server.
    `kept_from_ms` is the first step that is kept of this length, null if there is none. `problem` says why the
    history cannot be read or written, or is empty. While the engine does not answer, nothing is recorded either.
    `left_out` topics and groups of the broker are not recorded because there are too many.
    """

    broker: str
    topic: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    now_ms: int
    from_ms: int
    to_ms: int
    step_ms: int
    kept_from_ms: int | None
    problem: str
    left_out: int
    metrics: list[HistoryMetric]


def _steps(params: HistoryParams, now_ms: int) -> tuple[int, int, int]:
    """(tier, beginning, end) in seconds, in whole steps. Problem 400 for invalid times or too many steps."""
    to_ms = now_ms if params.to_ms is None else min(params.to_ms, now_ms)
    if params.from_ms is not None and params.last_s is not None:
        raise Problem(400, "give from_ms or last_s, not both", pointer="/last_s")
    last_ms = HOUR_MS if params.last_s is None else params.last_s * 1000
    from_ms = max(0, to_ms - last_ms) if params.from_ms is None else params.from_ms
    if from_ms >= to_ms:
        raise Problem(400, "from_ms must be before to_ms and before now", pointer="/from_ms")
    lengths = [tier.step_s for tier in TIERS]
    if params.step_s is not None:
        tier = lengths.index(params.step_s)
    else:
        reach = (number for number, one in enumerate(TIERS) if one.step_s * one.slots * 1000 >= now_ms - from_ms)
        tier = next(reach, len(TIERS) - 1)
    begin, end = TIERS[tier].start(from_ms // 1000), TIERS[tier].start(to_ms // 1000)
    if (end - begin) // lengths[tier] > MAX_STEPS:
        raise Problem(
            400, f"these are more than {MAX_STEPS} steps: ask for a shorter time or longer steps", pointer="/step_s"
        )
    return tier, begin, end


async def history(request: Request[HistoryParams]) -> Answer:
    """The broker's history, or that of one topic or one group. It is also answered while the engine is away."""
    params = request.params
    if params.topic and params.group:
        raise Problem(400, "name a topic or a group; the history of both together is not kept", pointer="/group")
    kind: Kind = TOPIC if params.topic else GROUP if params.group else BROKER
    wanted = [metric for metric in kind.metrics if params.metric in ("", public_name(metric.name, metric.is_count))]
    if not wanted:
        raise Problem(400, f"there is no {params.metric} of a {kind.name}", pointer="/metric")
    broker = (await brokers.single_broker(params.broker)).name
    now_ms = SystemClock().now().wall_ms
    tier, begin, end = _steps(params, now_ms)
    step_s, history = TIERS[tier].step_s, get_history(broker)
    columns: list[list[int | None]] = [[None] * ((end - begin) // step_s) for _ in kind.metrics]
    since_s = None
    if history is not None:
        name = params.topic or params.group or broker
        series = await in_thread(partial(history.read, kind, [name], tier, begin, end))
        columns, since_s = series[name]
    return Answer(
        body=HistoryView(
            broker=broker,
            topic=params.topic or UNSET,
            group=params.group or UNSET,
            now_ms=now_ms,
            from_ms=begin * 1000,
            to_ms=end * 1000,
            step_ms=step_s * 1000,
            kept_from_ms=None if since_s is None else since_s * 1000,
            problem=NO_HISTORY if history is None else history.problem,
            left_out=0 if history is None else history.left_out,
            metrics=[
                HistoryMetric(
                    name=public_name(metric.name, metric.is_count),
                    values=[
                        None if value is None else value / step_s if metric.is_count else value for value in column
                    ],
                )
                for metric, column in zip(kind.metrics, columns, strict=True)
                if metric in wanted
            ],
        )
    )


class LagsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    groups: Annotated[
        str, Meta(pattern=GROUP_NAMES_PATTERN, description="Names of at most 100 groups, with commas between them.")
    ]


class GroupLags(Model, frozen=True, kw_only=True, gc=False):
    """`lags` has one number for each minute: the largest lag of its samples, null where it is not known."""

    group: str
    lags: list[int | None]


class LagsView(Model, frozen=True, kw_only=True, gc=False):
    """Lag i of a group belongs to the minute that begins at `from_ms` plus i times `step_ms`; each group has 60.

    `problem` says why the history cannot be read or written, or is empty.
    """

    broker: str
    now_ms: int
    from_ms: int
    to_ms: int
    step_ms: int
    problem: str
    groups: list[GroupLags]


async def get_lags(request: Request[LagsParams]) -> Answer:
    """The lag of several groups in the last 60 whole minutes. A group that is not recorded has no lag that is known."""
    params = request.params
    broker = (await brokers.single_broker(params.broker)).name
    now_ms, history, minute = SystemClock().now().wall_ms, get_history(broker), TIERS[MINUTES]
    end_s = minute.start(now_ms // 1000)
    begin_s = max(0, end_s - HOUR_MS // 1000)
    names = list(dict.fromkeys(params.groups.split(",")))
    lags: dict[str, list[int | None]] = {name: [None] * ((end_s - begin_s) // minute.step_s) for name in names}
    if history is not None:
        series = await in_thread(partial(history.read, GROUP, names, MINUTES, begin_s, end_s))
        column = [metric.name for metric in GROUP.metrics].index("lag")
        lags = {name: one.columns[column] for name, one in series.items()}
    return Answer(
        body=LagsView(
            broker=broker,
            now_ms=now_ms,
            from_ms=begin_s * 1000,
            to_ms=end_s * 1000,
            step_ms=minute.step_s * 1000,
            problem=NO_HISTORY if history is None else history.problem,
            groups=[GroupLags(group=name, lags=values) for name, values in lags.items()],
        )
    )


class BoardLine(Model, frozen=True, kw_only=True, gc=False):
    """`at_ms` is the time of the board. `holds_total` is the number of held pulls at that time."""

    at_ms: int
    holds_total: int


class Boards(Model, frozen=True, kw_only=True, gc=False):
    """The oldest first. They are in the memory of the web process, so a restart forgets them."""

    broker: str
    boards: list[BoardLine]


class BoardParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    at_ms: Milliseconds


async def get_boards(request: Request[Params]) -> Answer:
    """The moments whose board is kept: the last 60, 10 s apart, while the engine answered."""
    broker = (await brokers.single_broker(request.params.broker)).name
    history = get_history(broker)
    lines = [] if history is None else history.boards.all()
    return Answer(
        body=Boards(
            broker=broker, boards=[BoardLine(at_ms=line.wall_ms, holds_total=line.holds_total) for line in lines]
        )
    )


async def get_board(request: Request[BoardParams]) -> Answer:
    """The last board that was kept at or before this time, with at most 500 holds and 500 queues."""
    broker = (await brokers.single_broker(request.params.broker)).name
    history = get_history(broker)
    snapshot = None if history is None else await in_thread(partial(history.boards.at, request.params.at_ms))
    if snapshot is None:
        raise Problem(
            404,
            f"no board of {broker} is kept from this time; /api/v1/history/boards lists the kept ones",
            code=ResponseCode.QUERY_NOT_FOUND,
            pointer="/at_ms",
        )
    return Answer(body=copied(SnapshotView, snapshot))


def public_name(name: str, is_count: bool) -> str:
    """The metric's name in the answer."""
    return f"{name}_tps" if is_count else name


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/history",
        handler=history,
        group="Observing",
        summary="The history of the broker, a topic or a group",
        params=HistoryParams,
        response=HistoryView,
        problems=(404,),
    ),
    Route(
        method="GET",
        path="/api/v1/history/lags",
        handler=get_lags,
        group="Observing",
        summary="The lag of several groups in the last hour",
        params=LagsParams,
        response=LagsView,
        problems=(404,),
    ),
    Route(
        method="GET",
        path="/api/v1/history/boards",
        handler=get_boards,
        group="Observing",
        summary="The moments whose board is kept",
        response=Boards,
    ),
    Route(
        method="GET",
        path="/api/v1/history/boards/{at_ms}",
        handler=get_board,
        group="Observing",
        summary="The board of a moment of the last 10 minutes",
        params=BoardParams,
        response=SnapshotView,
        problems=(404,),
    ),
)

"""The broker itself: its identity, the positions of its store, and its options."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.problems import Problem, invalid
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Route
from api.http.schemas import Model, copied
from bridge.port import OPTION_DESCRIPTIONS, BrokerError, commands

_TYPES: dict[str, type] = {"boolean": bool, "integer": int, "string": str}
_BOUNDS = {"minimum": "ge", "maximum": "le", "minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"}


class BrokerLine(Model, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One of several brokers. If it is not `available`, only its name and the `problem` are known."""

    broker: str
    available: bool
    problem: str = ""
    epoch: int | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    role: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    uptime_ms: int | UnsetType = UNSET
    read_only: bool | UnsetType = UNSET
    positions: commands.StorePositions | UnsetType = UNSET


class Brokers(Model, frozen=True, kw_only=True, gc=False):
    brokers: list[BrokerLine]


class BrokerDetail(Model, frozen=True, kw_only=True, gc=False):
    """`positions` are physical offsets, in bytes. `problem` is empty while messages are accepted."""

    broker: str
    epoch: int
    seq: int
    role: str
    version: str
    started_at_ms: int
    uptime_ms: int
    read_only: bool
    problem: str
    positions: commands.StorePositions
    config: dict[str, Any]
    changeable: list[str]
    recovery: list[str]
    store_path: str
    replication: commands.Replication


class BrokerOption(Model, frozen=True, kw_only=True, gc=False):
    """One option under RocketMQ's name. `schema` is the JSON Schema of its values."""

    name: str
    type: str
    default: Any
    value: Any
    changeable: bool
    description: str
    schema: dict[str, Any]


class BrokerOptions(Model, frozen=True, kw_only=True, gc=False):
    """All options; `config` has only their values, by name."""

    broker: str
    seq: int
    config: dict[str, Any]
    options: list[BrokerOption]


class SnapshotView(Model, frozen=True, kw_only=True, gc=False):
    """Everything a page needs before it applies events above `seq`. `*_total` include what a limit left out."""

    broker: str
    epoch: int
    seq: int
    wall_ms: int
    long_polling_enable: bool
    short_polling_time_mills: int
    problem: str
    holds_total: int
    holds: list[commands.HoldView]
    queues_total: int
    queues: list[commands.QueueView]
    wakeups: list[commands.WakeUp]
    counters: dict[str, int]
    wakeup_us: commands.Histogram
    held_ms: commands.Histogram
    positions: commands.StorePositions
    client_events: list[dict[str, Any]]


def _option_type(schema: dict[str, Any]) -> Any:
    """The Python type of what an option's JSON Schema allows."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    bounds: dict[str, Any] = {bound: schema[name] for name, bound in _BOUNDS.items() if name in schema}
    return Annotated[_TYPES[schema["type"]], Meta(**bounds)]


OPTION_TYPES = msgspec.defstruct(
    "OptionTypes", [(name, _option_type(schema) | UnsetType, UNSET) for name, schema in OPTION_DESCRIPTIONS.items()]
)
"""Every option with its type. A wrong value is refused with a pointer to it."""


class SnapshotParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_holds: Annotated[int, Meta(ge=1, le=2000, description="Maximum number of held pulls.")] = 1000
    max_queues: Annotated[int, Meta(ge=1, le=2000, description="Maximum number of queues.")] = 2000


async def get_brokers(request: Request[Params]) -> Answer:
    """All brokers of this process. A broker that does not answer has only a name and a problem."""
    ports = brokers.ports_of(request.params.broker)
    views = await asyncio.gather(
        *(ask(port, commands.GetBroker(), commands.BrokerView) for port in ports.values()), return_exceptions=True
    )
    lines = []
    for name, view in zip(ports, views, strict=True):
        if isinstance(view, BrokerError):
            lines.append(BrokerLine(broker=name, available=False, problem=view.remark))
        elif isinstance(view, BaseException):
            raise view
        else:
            lines.append(copied(BrokerLine, view, available=True))
    return Answer(body=Brokers(brokers=lines))


async def _view(request: Request[Params]) -> commands.BrokerView:
    broker = await brokers.single_broker(request.params.broker)
    return await ask(broker.port, commands.GetBroker(), commands.BrokerView)


async def get_broker(request: Request[Params]) -> Answer:
    """Version, role and age of the broker, its positions in the log, and why it accepts no messages, if so."""
    return Answer(body=copied(BrokerDetail, await _view(request)))


async def get_config(request: Request[Params]) -> Answer:
    """All options by RocketMQ's names, with their types, defaults and whether they can be changed while it runs."""
    return Answer(body=_options(await _view(request)))


def _options(view: commands.BrokerView) -> BrokerOptions:
    """Every option of the broker with its schema, its value, and whether it can be changed while the broker runs."""
    return BrokerOptions(
        broker=view.broker,
        seq=view.seq,
        config=view.config,
        options=[
            BrokerOption(
                name=name,
                type=_type_of(schema),
                default=schema.get("default"),
                value=view.config.get(name),
                changeable=name in view.changeable,
                description=schema.get("description", ""),
                schema={
                    key: value for key, value in schema.items() if key not in ("description", "changeable", "default")
                },
            )
            for name, schema in OPTION_DESCRIPTIONS.items()
        ],
    )


def _type_of(schema: dict[str, Any]) -> str:
    return "string" if "enum" in schema else str(schema.get("type", "string"))


async def patch_config(request: Request[Params]) -> Answer:
    """Changes options under RocketMQ's names: all of them or, with an error, none."""
    changes: dict[str, Any] = request.body
    if not changes:
        raise Problem(400, "name at least one option to change", pointer="")
    for name in changes:
        if name not in OPTION_DESCRIPTIONS:
            raise Problem(
                400, f"{name} is not an option of this broker; GET /api/v1/broker/config lists them", pointer=f"/{name}"
            )
    try:
        msgspec.convert(changes, OPTION_TYPES)
    except msgspec.ValidationError as error:
        raise invalid(error, "body") from error
    broker = await brokers.single_broker(request.params.broker)
    view = await ask(broker.port, commands.UpdateBrokerConfig(changes=changes), commands.BrokerView)
    return Answer(body=_options(view))


async def get_snapshot(request: Request[SnapshotParams]) -> Answer:
    """The whole state at one moment: counters, held pulls, queues, wake-ups. Events after `seq` continue it."""
    params = request.params
    broker = await brokers.single_broker(params.broker)
    snapshot = await ask(
        broker.port, commands.GetSnapshot(max_holds=params.max_holds, max_queues=params.max_queues), commands.Snapshot
    )
    return Answer(body=copied(SnapshotView, snapshot))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/snapshot",
        handler=get_snapshot,
        group="Observing",
        summary="The whole state at one moment",
        params=SnapshotParams,
        response=SnapshotView,
        problems=(504,),
    ),
    Route(
        method="GET",
        path="/api/v1/brokers",
        handler=get_brokers,
        group="Broker",
        summary="All brokers",
        response=Brokers,
        problems=(504,),
    ),
    Route(
        method="GET",
        path="/api/v1/broker",
        handler=get_broker,
        group="Broker",
        summary="The broker",
        response=BrokerDetail,
        problems=(504,),
    ),
    Route(
        method="GET",
        path="/api/v1/broker/config",
        handler=get_config,
        group="Broker",
        summary="Options of the broker",
        response=BrokerOptions,
        problems=(504,),
    ),
    Route(
        method="PATCH",
        path="/api/v1/broker/config",
        handler=patch_config,
        group="Broker",
        summary="Change options while the broker runs",
        bodies=(dict[str, Any],),
        response=BrokerOptions,
        problems=(504,),
    ),
)

"""Liveness of this process, and readiness for publishing or reading."""

from typing import Literal

from msgspec import UNSET, UnsetType

from api.http import brokers
from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Model
from bridge.port import PortTimeout, PortUnavailable, ResponseCode, commands, get_ports


class Health(Model, frozen=True, kw_only=True, gc=False):
    """`status` is `ok`. `mode` is `read-only` when messages can be read but not published."""

    status: Literal["ok"] = "ok"
    mode: Literal["read-only"] | UnsetType = UNSET


async def livez(request: Request[Params]) -> Answer:
    """200 as long as the web process runs."""
    return Answer(body=Health())


async def readyz(request: Request[Params]) -> Answer:
    """200 if a message can be published at one of the brokers; 200 with `mode` if messages can only be read."""
    try:
        views = (await brokers.ask_all(request.params.broker, commands.GetBroker(), commands.BrokerView)).by_broker
    except (PortTimeout, PortUnavailable) as error:
        # A time-out is 504 elsewhere, where a request may have been carried out; this one asked for nothing.
        detail = error.remark if isinstance(error, PortUnavailable) else "the broker's engine does not answer"
        raise Problem(
            503, detail, code=error.code, retry_after_s=1, answered_ms=_answered_ms(request.params.broker)
        ) from error
    if not all(view.problem for view in views.values()):
        return Answer(body=Health())
    if any(view.read_only for view in views.values()):
        return Answer(body=Health(mode="read-only"))
    problem = next(iter(views.values())).problem
    raise Problem(503, problem, code=ResponseCode.SERVICE_NOT_AVAILABLE, retry_after_s=5)


def _answered_ms(broker: str) -> int | None:
    """When an engine answered last, of this broker or of any; None if none has answered this process yet."""
    ports = get_ports()
    wanted = [ports[broker]] if broker in ports else ports.values()
    return max((port.answered_ms for port in wanted if port.answered_ms is not None), default=None)


ROUTES = (
    Route(
        method="GET",
        path="/livez",
        handler=livez,
        group="Service",
        summary="Whether the web process runs",
        response=Health,
        needs_broker=False,
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=readyz,
        group="Service",
        summary="Whether messages can be published or, in mode read-only, read",
        response=Health,
        problems=(504,),
    ),
)

"""Whether this process lives, and whether a message can be published."""

from typing import Literal

from api.http import brokers
from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Model
from bridge.port import PortTimeout, ResponseCode, commands


class Health(Model, frozen=True, kw_only=True, gc=False):
    """`status` is `ok`."""

    status: Literal["ok"] = "ok"


async def livez(request: Request[Params]) -> Answer:
    """200 as long as this process answers at all."""
    return Answer(body=Health())


async def readyz(request: Request[Params]) -> Answer:
    """200 when a message can be published: of several brokers, at one of them."""
    try:
        views = (await brokers.ask_all(request.params.broker, commands.GetBroker(), commands.BrokerView)).by_broker
    except PortTimeout as error:  # 504 is for what may have been done; here nothing was asked for
        raise Problem(503, "the broker's engine does not answer", code=error.code, retry_after_s=1) from error
    problems = [view.problem or ("the store is open read-only" if view.read_only else "") for view in views.values()]
    if all(problems):
        raise Problem(503, problems[0], code=ResponseCode.SERVICE_NOT_AVAILABLE, retry_after_s=5)
    return Answer(body=Health())


ROUTES = (
    Route(
        method="GET",
        path="/livez",
        handler=livez,
        group="Service",
        summary="Is this process alive",
        response=Health,
        needs_broker=False,
    ),
    Route(
        method="GET",
        path="/readyz",
        handler=readyz,
        group="Service",
        summary="Can a message be published",
        response=Health,
        problems=(504,),
    ),
)

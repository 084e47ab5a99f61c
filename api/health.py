"""Whether this process lives, and whether a message can be published."""

from api.problems import Problem
from api.request import Answer, Params, Request, ask
from api.schemas import Health
from bridge.port import PortTimeout, ResponseCode, commands, get_port


async def livez(request: Request[Params]) -> Answer:
    """200 as long as this process answers at all."""
    return Answer(body=Health())


async def readyz(request: Request[Params]) -> Answer:
    """200 when a message can be published."""
    try:
        view = await ask(get_port(), commands.GetBroker(), commands.BrokerView)
    except PortTimeout as error:  # 504 is for what may have been done; here nothing was asked for
        raise Problem(503, "the broker's engine does not answer", code=error.code, retry_after_s=1) from error
    problem = view.problem or ("the store is open read-only" if view.read_only else "")
    if problem:
        raise Problem(503, problem, code=ResponseCode.SERVICE_NOT_AVAILABLE, retry_after_s=5)
    return Answer(body=Health())

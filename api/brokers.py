"""Which broker a port leads to: its name stands in every shape that is answered."""

from weakref import WeakKeyDictionary

from api.problems import Problem
from api.request import ask
from bridge.port import EnginePort, ResponseCode, commands

_names: WeakKeyDictionary[EnginePort, str] = WeakKeyDictionary()


async def name_of(port: EnginePort) -> str:
    """The broker's name: asked for once, since it is part of the way that leads there."""
    name = _names.get(port)
    if name is None:
        name = _names[port] = (await ask(port, commands.GetBroker(), commands.BrokerView)).broker
    return name


async def require(port: EnginePort, wanted: str) -> None:
    """Problem 404 when ``?broker=`` names one that is not here."""
    name = await name_of(port)
    if name != wanted:
        raise Problem(404, f"there is no broker {wanted!r} here, but {name!r}", code=ResponseCode.QUERY_NOT_FOUND,
            pointer="/broker")

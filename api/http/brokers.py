"""The broker or brokers of a request.

``?broker=`` names one in every request. Without it, lists come from all brokers, a single object is looked for at
all of them, and messages go to the brokers of their topic in turn. A request that is only possible at one broker is
refused if several brokers are possible; the refusal lists their names.
"""

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

from msgspec import UNSET, UnsetType

from api.http.problems import Problem
from api.http.request import ask
from bridge.port import BrokerError, EnginePort, NotFoundError, commands, get_port, get_ports

R = TypeVar("R", bound=commands.Reply)
REMEMBER_S = 2.0
MAX_REMEMBERED = 1000


class Broker(NamedTuple):
    """A broker's name, which every answer contains, and its port."""

    name: str
    port: EnginePort


class Replies(NamedTuple, Generic[R]):
    """The replies of several brokers by name; ``unavailable`` are the brokers without a reply."""

    by_broker: dict[str, R]
    unavailable: list[str]

    @property
    def seq(self) -> int:
        """The sequence number of a single reply; for several, a number that grows with every event of any broker."""
        return sum(getattr(reply, "seq", 0) for reply in self.by_broker.values())

    @property
    def missing(self) -> list[str] | UnsetType:
        """``unavailable`` for an answer: UNSET when every broker replied."""
        return self.unavailable or UNSET


def named(broker: str) -> Mapping[str, EnginePort]:
    """The broker of that name; all brokers if it is empty. NotFoundError if there is none of that name."""
    return {broker: get_port(broker)} if broker else get_ports()


def first(broker: str) -> Broker:
    """The broker of that name, or the first one: for a stream with a client that names no broker."""
    return Broker(*next(iter(named(broker).items())))


async def ask_all(broker: str, command: commands.Command, expected: type[R]) -> Replies[R]:
    """Send the same command to all brokers that ``broker`` names. A broker that does not have the thing is skipped.

    Raises the first broker's error when there is no answer at all.
    """
    ports = named(broker)
    if len(ports) == 1:
        name, port = next(iter(ports.items()))
        return Replies({name: await ask(port, command, expected)}, [])
    replies = await asyncio.gather(*(ask(port, command, expected) for port in ports.values()), return_exceptions=True)
    found: dict[str, R] = {}
    errors: dict[str, BrokerError] = {}
    for name, reply in zip(ports, replies, strict=True):
        if isinstance(reply, BrokerError):
            errors[name] = reply
        elif isinstance(reply, BaseException):
            raise reply
        else:
            found[name] = reply
    away = [name for name, error in errors.items() if not isinstance(error, NotFoundError)]
    if not found:
        raise errors[away[0]] if away else next(iter(errors.values()))
    return Replies(found, away)


async def ask_first(broker: str, command: commands.Command, expected: type[R]) -> tuple[str, R]:
    """The answer of the first broker that has the thing, and its name."""
    replies = await ask_all(broker, command, expected)
    return next(iter(replies.by_broker.items()))


async def one(broker: str, topic: str = "") -> Broker:
    """The one broker of a request; of several, the only one that has ``topic``. Problem 400 if it must be named."""
    ports = named(broker)
    if len(ports) > 1:
        names = await having(topic) if topic else list(ports)
        if len(names) > 1:
            raise Problem(
                400, f"several brokers are possible: choose one of {', '.join(names)} with ?broker=", pointer="/broker"
            )
        ports = {names[0]: ports[names[0]]}
    return Broker(*next(iter(ports.items())))


async def for_publishing(broker: str, topic: str, *, key: str = "", queue_named: bool = False) -> Broker:
    """The broker for messages of ``topic``: those that have it in turn, and the same one for the same ``key``."""
    if broker or len(get_ports()) == 1 or queue_named:
        return await one(broker, topic)
    names = await having(topic)
    name = names[(crc32(key.encode()) if key else next(_turn)) % len(names)]
    return Broker(name, get_port(name))


async def having(topic: str) -> list[str]:
    """The brokers that have the topic, or all if none has it. Remembered for ``REMEMBER_S``."""
    loop = asyncio.get_running_loop()
    known = _having.get(topic)
    if known is None or known[0] < loop.time():
        try:
            names = list((await ask_all("", commands.GetTopic(topic=topic), commands.Topics)).by_broker)
        except NotFoundError:
            return list(get_ports())
        if len(_having) >= MAX_REMEMBERED:
            _having.clear()
        known = _having[topic] = (loop.time() + REMEMBER_S, names)
    return [name for name in known[1] if name in get_ports()] or list(get_ports())


def forget_topics() -> None:
    """Forget which brokers have which topics: topics were created or deleted."""
    _having.clear()


_turn = count()
_having: dict[str, tuple[float, list[str]]] = {}

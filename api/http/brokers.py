"""The broker or brokers of a request.

``?broker=`` names one in every request. Without it, lists come from all brokers, a single object is looked for at
all of them, and messages go to the brokers of their topic in turn. A request that is only possible at one broker is
refused if several brokers are possible; the refusal lists their names.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

from msgspec import UNSET, UnsetType

from api.http.problems import Problem
from api.http.request import ask
from bridge.port import BrokerError, EnginePort, NotFoundError, commands, get_port, get_ports

R = TypeVar("R", bound=commands.Reply)
S = TypeVar("S")
P = TypeVar("P", str, tuple[str, int])
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


def ports_of(broker: str) -> Mapping[str, EnginePort]:
    """The port of ``broker``, or of all brokers if it is empty, by name. NotFoundError if no broker has that name."""
    return {broker: get_port(broker)} if broker else get_ports()


def first_broker(broker: str) -> Broker:
    """The broker of that name; the first broker if the name is empty. For streams, which come from one broker."""
    return Broker(*next(iter(ports_of(broker).items())))


async def gather_by_broker(calls: Mapping[str, Awaitable[R]]) -> tuple[dict[str, R], dict[str, BrokerError]]:
    """Wait for a call to each broker. Returns the results and the errors, both by the broker's name."""
    results = await asyncio.gather(*calls.values(), return_exceptions=True)
    answered: dict[str, R] = {}
    errors: dict[str, BrokerError] = {}
    for name, result in zip(calls, results, strict=True):
        if isinstance(result, BrokerError):
            errors[name] = result
        elif isinstance(result, BaseException):
            raise result
        else:
            answered[name] = result
    return answered, errors


async def ask_all(broker: str, command: commands.Command, expected: type[R]) -> Replies[R]:
    """Send the same command to all brokers that ``broker`` names. A broker that does not have the thing is skipped.

    Raises the first broker's error when there is no answer at all.
    """
    ports = ports_of(broker)
    if len(ports) == 1:
        name, port = next(iter(ports.items()))
        return Replies({name: await ask(port, command, expected)}, [])
    answered, errors = await gather_by_broker({name: ask(port, command, expected) for name, port in ports.items()})
    unavailable = [name for name, error in errors.items() if not isinstance(error, NotFoundError)]
    if not answered:
        raise errors[unavailable[0]] if unavailable else next(iter(errors.values()))
    return Replies(answered, unavailable)


async def ask_first(broker: str, command: commands.Command, expected: type[R]) -> tuple[str, R]:
    """The answer of the first broker that has the thing, and its name."""
    replies = await ask_all(broker, command, expected)
    return next(iter(replies.by_broker.items()))


async def single_broker(broker: str, topic: str = "") -> Broker:
    """The broker of a request that only one broker can answer: the named one, or the only one that has ``topic``.

    Problem 400 if several brokers are possible.
    """
    ports = ports_of(broker)
    if len(ports) > 1:
        names = await brokers_with(topic) if topic else list(ports)
        if len(names) > 1:
            raise Problem(
                400, f"several brokers are possible: choose one of {', '.join(names)} with ?broker=", pointer="/broker"
            )
        ports = {names[0]: ports[names[0]]}
    return Broker(*next(iter(ports.items())))


async def for_publishing(broker: str, topic: str, *, key: str = "", queue_named: bool = False) -> Broker:
    """The broker for messages of ``topic``: those that have it in turn, and the same one for the same ``key``."""
    if broker or len(get_ports()) == 1 or queue_named:
        return await single_broker(broker, topic)
    names = await brokers_with(topic)
    name = names[(crc32(key.encode()) if key else next(_turn)) % len(names)]
    return Broker(name, get_port(name))


async def brokers_with(topic: str) -> list[str]:
    """The brokers that have the topic, or all if none has it. Remembered for ``REMEMBER_S``."""
    loop = asyncio.get_running_loop()
    known = _brokers_by_topic.get(topic)
    if known is None or known[0] < loop.time():
        try:
            names = list((await ask_all("", commands.GetTopic(topic=topic), commands.Topics)).by_broker)
        except NotFoundError:
            return list(get_ports())
        if len(_brokers_by_topic) >= MAX_REMEMBERED:
            _brokers_by_topic.clear()
        known = _brokers_by_topic[topic] = (loop.time() + REMEMBER_S, names)
    return [name for name in known[1] if name in get_ports()] or list(get_ports())


def first_page(pages: Iterable[tuple[list[S], bool]], place: Callable[[S], P]) -> tuple[list[S], P | None]:
    """One page, merged from the brokers' pages. Each of them is sorted, and says whether it has a next page.

    It ends where the first page ends that has a next one, so that nothing is left out. Returns the ``place`` of that
    end, None if there is no next page.
    """
    pages = list(pages)
    ends = [place(page[-1]) for page, has_next in pages if has_next]
    entries = [entry for page, _ in pages for entry in page]
    if not ends:
        return entries, None
    end = min(ends)
    return [entry for entry in entries if place(entry) <= end], end


def forget_topics() -> None:
    """Forget which brokers have which topics: topics were created or deleted."""
    _brokers_by_topic.clear()


_turn = count()
_brokers_by_topic: dict[str, tuple[float, list[str]]] = {}

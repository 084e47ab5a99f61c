"""The brokers of other clusters that are followed here."""

import asyncio

from msgspec import UNSET, UnsetType

from api.http import brokers
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Route
from api.http.schemas import Model, Unavailable, copied
from bridge.port import BrokerError, NotFoundError, commands


class AttachedBroker(Model, frozen=True, kw_only=True, gc=False):
    """A broker that is followed. Offsets are physical, in bytes; what is not known is null.

    `source` is the address that is followed. `state` is `connecting`, `following`, `waiting` (it tries again every 5 s)
    or `stopped` (copy and source cannot be joined; `problem` says why), since `since_ms`. The copy begins at `min`,
    whose message was stored at `min_ms`. `received` is the end of what has arrived, `confirmed` that of the last whole,
    checked record, which was stored at `confirmed_ms`. `lag_bytes` is what the copy lacks, `lag_ms` the age of its last
    record while it lacks something. `tables_ms` and `members_ms`: when topics, groups and offsets, and the members of
    all groups, were fetched last. `unindexed` records are in the copy and in no queue of it. `problem` also names
    topics that a copy cannot show as their broker does.
    """

    broker: str
    cluster: str
    source: str
    state: commands.FollowState
    since_ms: int
    min: int
    min_ms: int | None
    received: int | None
    confirmed: int
    confirmed_ms: int | None
    lag_bytes: int | None
    lag_ms: int | None
    bytes_per_second: int | None
    tables_ms: int | None
    members_ms: int | None
    unindexed: int
    problem: str


class AttachedBrokers(Model, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    brokers: list[AttachedBroker]
    unavailable: Unavailable | UnsetType = UNSET


async def get_attached(request: Request[Params]) -> Answer:
    """The brokers that are followed; an empty list where none is. Brokers that do not answer are `unavailable`."""
    ports = brokers.ports_of(request.params.broker)
    views = await asyncio.gather(
        *(ask(port, commands.GetAttached(), commands.Attached) for port in ports.values()), return_exceptions=True
    )
    found, unavailable = [], []
    for name, view in zip(ports, views, strict=True):
        if isinstance(view, commands.Attached):
            found.append(copied(AttachedBroker, view))
        elif not isinstance(view, BrokerError):
            raise view
        elif not isinstance(view, NotFoundError):
            unavailable.append(name)
    return Answer(body=AttachedBrokers(brokers=found, unavailable=unavailable or UNSET))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/attached",
        handler=get_attached,
        group="Broker",
        summary="Brokers that are followed",
        response=AttachedBrokers,
        problems=(504,),
    ),
)

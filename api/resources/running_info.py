"""What the members of a group are doing now. Each request asks brokers and clients."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.names import GroupName
from api.http.request import Answer, Params, Request, expect
from api.http.routes import Route
from api.http.schemas import Model, Unavailable, copied
from bridge.port import BrokerError, NotFoundError, RequestError, ResponseCode, commands

TIMEOUT_MS = 15_000
"""Clients have 9 s to answer."""


class AskedBroker(Model, frozen=True, kw_only=True, gc=False):
    """What one broker, at the address `source`, and its clients answered at `asked_ms`; null is unknown.

    `clients` are the first 50 of `members`; one with a `problem` did not answer. Of its `queues`, `cached` messages
    were pulled and are not consumed, `consumed_ms` is when it last finished with messages or got the queue, and
    `pulled_ms` when it pulled last, by its own clock. `queues` are the first 2000 of `queues_total`: the messages
    between `offset` (committed) and `pull_offset` (of the next pull) were handed to a client.
    """

    broker: str
    group: str
    source: str
    asked_ms: int
    members: int
    clients: list[commands.ConsumerRunningInfo]
    queues: list[commands.PulledQueue]
    queues_total: int


class RunningInfo(Model, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """`problems` says of each `unavailable` broker why it was not asked."""

    brokers: list[AskedBroker]
    unavailable: Unavailable | UnsetType = UNSET
    problems: dict[str, str] | UnsetType = UNSET


class RunningInfoParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName
    client: Annotated[str, Meta(max_length=255, description="Ask only this client.")] = ""
    stacks: Annotated[bool, Meta(description="Also the stacks of the client's threads; needs `client`.")] = False


async def get_running_info(request: Request[RunningInfoParams]) -> Answer:
    """Ask the brokers, and through them the members of the group, what they are doing now (RocketMQ's requests 38, 208
    and 307). Each request costs each of these clients an answer, so ask when you need it."""
    params = request.params
    if params.stacks and not params.client:
        raise RequestError("stacks are of one client: name it with ?client=", pointer="/client")
    command = commands.GetConsumerRunningInfo(group=params.group, client_id=params.client, stacks=params.stacks)
    ports = brokers.ports_of(params.broker)
    replies, errors = await brokers.gather_by_broker(
        {name: port.call(command, timeout_ms=TIMEOUT_MS) for name, port in ports.items()}
    )
    answers = [copied(AskedBroker, expect(reply, commands.ConsumerRunningInfos)) for reply in replies.values()]
    away = {name: error.remark for name, error in errors.items() if not _has_nothing(error)}
    if not answers:
        raise next((error for name, error in errors.items() if name in away), next(iter(errors.values())))
    return Answer(body=RunningInfo(brokers=answers, unavailable=list(away) or UNSET, problems=away or UNSET))


def _has_nothing(error: BrokerError) -> bool:
    """Whether the broker does not have the group or the client, or has no port for RocketMQ clients."""
    return isinstance(error, NotFoundError) or error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/groups/{group}/running-info",
        handler=get_running_info,
        group="Groups",
        summary="Ask the members of a group what they are doing",
        params=RunningInfoParams,
        response=RunningInfo,
        problems=(404, 504),
    ),
)

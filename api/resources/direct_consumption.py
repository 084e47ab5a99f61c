"""One message that a client of a group consumes at once, because an operator asks for it."""

from typing import Annotated

from msgspec import Meta

from api.http import brokers
from api.http.names import CLIENT_ID_PATTERN, GroupName
from api.http.problems import Problem, move_pointer
from api.http.request import Answer, Request, expect
from api.http.routes import Route
from api.http.schemas import Body, Model, copied
from api.resources.messages import MessageParams
from bridge.port import BrokerError, ResponseCode, commands

ANSWER_MS = 5000
"""What the engine gets in addition to the listener's time."""


class ConsumeDirectly(Body, frozen=True, kw_only=True, gc=False):
    """Which client of the group consumes the message, and how long its answer may take."""

    group: GroupName
    client_id: Annotated[
        str, Meta(min_length=1, pattern=CLIENT_ID_PATTERN, description="A member of the group, as in `/clients`.")
    ]
    timeout_ms: Annotated[int, Meta(ge=1000, le=60_000)] = 10_000


class DirectConsumption(Model, frozen=True, kw_only=True, gc=False):
    """RocketMQ's ConsumeMessageDirectlyResult: what the listener returned, after `spent_ms`.

    `remark` is the listener's error with CR_THROW_EXCEPTION. `order`: the client consumes in order.
    """

    broker: str
    group: str
    client_id: str
    message_id: str
    result: commands.CMResult
    remark: str
    spent_ms: int
    order: bool


async def consume_directly(request: Request[MessageParams]) -> Answer:
    """Has one client of the group call its listener with this message now (CONSUME_MESSAGE_DIRECTLY).

    Nothing is committed and the message is not sent back, whatever the listener returns; it may have consumed the
    message before. A dead letter is consumed as a message of its first topic. 504 if the client does not answer in
    time; its listener may then still be at work. WebSocket consumers cannot be asked: 409.
    """
    params, body = request.params, request.body
    assert isinstance(body, ConsumeDirectly)
    broker = await brokers.single_broker(params.broker, params.topic)
    command = commands.ConsumeMessageDirectly(
        group=body.group,
        client_id=body.client_id,
        message_id=params.id,
        topic=params.topic,
        timeout_ms=body.timeout_ms,
    )
    try:
        reply = await broker.port.call(command, timeout_ms=body.timeout_ms + ANSWER_MS)
    except BrokerError as error:
        if error.code == ResponseCode.CONSUME_MSG_TIMEOUT:
            raise Problem(504, error.remark, code=error.code) from error
        move_pointer(error, "/message_id", "/id")
        raise
    return Answer(
        body=copied(
            DirectConsumption,
            expect(reply, commands.ConsumedDirectly),
            broker=broker.name,
            group=body.group,
            client_id=body.client_id,
            message_id=params.id,
        )
    )


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/messages/{id}/consume-directly",
        handler=consume_directly,
        group="Messages",
        summary="Have a client consume a message now",
        params=MessageParams,
        bodies=(ConsumeDirectly,),
        response=DirectConsumption,
        problems=(404, 409, 504),
    ),
)

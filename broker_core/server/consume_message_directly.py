"""Asks a client to consume a message now, for a question that did not come over RocketMQ's protocol.

A question that did is passed on by the session of its connection (``broker_session.py``).
"""

from typing import Any, get_args

from broker_core.codes import ResponseCode
from broker_core.commands import CMResult, ConsumedDirectly, Failed, RelayToConsumer, Reply
from broker_core.errors import UnavailableError
from broker_core.formats.rocketmq_json import RocketmqJsonError
from broker_core.remoting import fastjson
from broker_core.remoting.requests.relay import TELLS_RUNNING_INFO
from broker_core.server.broker_session import BrokerSessions

MAX_REMARK = 4000
"""Characters of a client's remark that are passed on."""

RESULTS: tuple[CMResult, ...] = get_args(CMResult)


async def consume_message_directly(sessions: BrokerSessions | None, relay: RelayToConsumer) -> Reply:
    """ConsumedDirectly, or Failed with the reason. ``sessions`` None: no client of RocketMQ's protocol is connected."""
    client_id = relay.client_id
    if relay.version < TELLS_RUNNING_INFO:
        return _refused(f"client {client_id} has version {relay.version}, which is too old to be asked")
    session = None if sessions is None else sessions.find(client_id)
    if sessions is None or session is None:
        return _refused(f"client {client_id} has no connection of RocketMQ's protocol to this broker")
    try:
        answer = await session.consume_message_directly(relay)
    except TimeoutError:
        return Failed(
            code=ResponseCode.CONSUME_MSG_TIMEOUT,
            kind="unavailable",
            remark=f"client {client_id} did not answer within {relay.timeout_ms / 1000:g} s; its listener may still be "
            "at work on the message",
        )
    except (ConnectionError, UnavailableError, ValueError) as error:
        return Failed(code=ResponseCode.SYSTEM_ERROR, kind="unavailable", remark=f"client {client_id}: {error}")
    if answer.code != ResponseCode.SUCCESS:
        return _refused(f"client {client_id} answered {answer.code}: {answer.remark[:MAX_REMARK]}")
    return _result(client_id, answer.body)


def _refused(remark: str) -> Failed:
    return Failed(code=ResponseCode.SYSTEM_ERROR, kind="conflict", remark=remark, pointer="/client_id")


def _result(client_id: str, body: bytes) -> Reply:
    """RocketMQ's ConsumeMessageDirectlyResult. Go clients send the result's ordinal."""
    try:
        fields: dict[Any, Any] = fastjson.decode(body)
    except RocketmqJsonError:
        fields = {}
    result, spent_ms = fields.get("consumeResult"), fields.get("spentTimeMills")
    if type(result) is int and 0 <= result < len(RESULTS):
        result = RESULTS[result]
    if result not in RESULTS or type(spent_ms) is not int:
        return _refused(f"client {client_id} sent an answer that cannot be read")
    return ConsumedDirectly(
        result=result,
        remark=str(fields.get("remark") or "")[:MAX_REMARK],
        spent_ms=spent_ms,
        order=fields.get("order") is True,
    )

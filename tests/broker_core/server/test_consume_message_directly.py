"""A client is asked to consume a message, for a question that came over HTTP."""

import asyncio
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.server.broker_session import BrokerSessions
from broker_core.server.consume_message_directly import MAX_REMARK, consume_message_directly
from tests.broker_core.server.test_broker_session import Client, FakeRunner, next_frame
from tests.fakes.remoting import IDENTITY

RELAY = c.RelayToConsumer(
    group="g", client_id="c1", version=493, message_id="M1", topic="T", record=b"record", timeout_ms=5000
)


@pytest.fixture
def sessions() -> BrokerSessions:
    return BrokerSessions(FakeRunner(), IDENTITY)


async def asked(sessions: BrokerSessions, body: bytes, code: int = 0, remark: str = "") -> Any:
    """The reply, when the client answers like this."""
    client = Client(sessions)
    client.beat("c1")
    call = asyncio.ensure_future(consume_message_directly(sessions, RELAY))
    question = await next_frame(client)
    assert (question.code, question.body) == (309, b"record")
    assert question.ext_fields == {
        "consumerGroup": "g",
        "clientId": "c1",
        "msgId": "M1",
        "topic": "T",
        "brokerName": "broker-a",
    }
    client.session.receive([question.response(code, remark, {}, body)])
    return await call


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (
            b'{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}',
            c.ConsumedDirectly(result="CR_SUCCESS", remark="", spent_ms=3, order=False),
        ),
        (
            b'{"consumeResult":"CR_THROW_EXCEPTION","order":true,"remark":"java.lang.X: no","spentTimeMills":0}',
            c.ConsumedDirectly(result="CR_THROW_EXCEPTION", remark="java.lang.X: no", spent_ms=0, order=True),
        ),
        (
            b'{"consumeResult":1,"order":false,"remark":null,"spentTimeMills":7}',
            c.ConsumedDirectly(result="CR_LATER", remark="", spent_ms=7, order=False),
        ),
    ],
)
async def test_the_result_of_the_client(sessions: BrokerSessions, body: bytes, reply: c.Reply) -> None:
    assert await asked(sessions, body) == reply


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"consumeResult":"CR_SUCCESS"}', b'{"consumeResult":6,"spentTimeMills":1}',
     b'{"consumeResult":["x"],"spentTimeMills":1}', b'{"consumeResult":"NO","spentTimeMills":1}'],
)  # fmt: skip
async def test_an_answer_that_cannot_be_read(sessions: BrokerSessions, body: bytes) -> None:
    reply = await asked(sessions, body)
    assert isinstance(reply, c.Failed) and (reply.kind, reply.pointer) == ("conflict", "/client_id")
    assert "cannot be read" in reply.remark


async def test_a_remark_is_cut_and_a_refusal_is_passed_on(sessions: BrokerSessions) -> None:
    long = b'{"consumeResult":"CR_THROW_EXCEPTION","remark":"%s","spentTimeMills":1}' % (b"x" * 10_000)
    assert len((await asked(sessions, long)).remark) == MAX_REMARK
    refused = await asked(sessions, b"", 1, "no consumer of group g")
    assert refused.kind == "conflict" and refused.remark == "client c1 answered 1: no consumer of group g"


async def test_a_client_that_does_not_answer_or_goes(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    client.beat("c1")
    late = await consume_message_directly(sessions, c.RelayToConsumer(**fields(timeout_ms=1)))
    assert isinstance(late, c.Failed) and (late.code, late.kind) == (207, "unavailable")
    assert late.remark == "client c1 did not answer within 0.001 s; its listener may still be at work on the message"
    client.channel.take()
    call = asyncio.ensure_future(consume_message_directly(sessions, RELAY))
    await next_frame(client)
    client.session.closed()
    gone = await call
    assert isinstance(gone, c.Failed) and gone.kind == "unavailable" and "closed" in gone.remark


def fields(**changes: Any) -> dict[str, Any]:
    return {name: getattr(RELAY, name) for name in RELAY.__struct_fields__} | changes


@pytest.mark.parametrize(
    ("version", "serves", "why"),
    [(61, True, "version 61, which is too old"), (493, True, "has no connection"), (493, False, "has no connection")],
)
async def test_a_client_that_cannot_be_asked(sessions: BrokerSessions, version: int, serves: bool, why: str) -> None:
    reply = await consume_message_directly(sessions if serves else None, c.RelayToConsumer(**fields(version=version)))
    assert isinstance(reply, c.Failed) and reply.kind == "conflict" and why in reply.remark

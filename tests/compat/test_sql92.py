"""SQL92 filters: pulls with the expressions of the engine's table match the same messages at RocketMQ.

Each expression is tried with the properties of all rows of the table, not only with those of its own rows.
"""

import asyncio
import json

from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode, ResponseCode
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import encode
from broker_core.remoting.remoting_command import RemotingCommand
from tests.broker_core.filters.sql92.test_expressions import TABLE, evaluate
from tests.broker_core.filters.sql92.test_selector_parser import INVALID
from tests.compat.glassmq_broker import Address

TOPIC = "sql92-vectors"
GROUP = "sql92-group"
EXPRESSIONS = list(dict.fromkeys(expression for expression, _, _ in TABLE))
PROPERTIES = list({encode(properties): properties for _, properties, _ in TABLE}.values())
"""Message n has PROPERTIES[n]; its body is n."""


async def ask(client: RemotingClient, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
    return await client.invoke(code, fields, body, timeout_s=30)


async def send_all(client: RemotingClient) -> None:
    """Every message, into the only queue of the topic."""
    fields = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    answer = await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    letters = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0"}
    for number, properties in enumerate(PROPERTIES):
        answer = await ask(
            client, RequestCode.SEND_MESSAGE_V2, letters | {"i": encode(properties)}, str(number).encode()
        )
        assert answer.code == ResponseCode.SUCCESS, answer.remark


async def matched(client: RemotingClient, expression: str) -> list[int]:
    """The numbers of the messages that pulls with this filter get."""
    numbers: list[int] = []
    offset = 0
    while offset < len(PROPERTIES):
        fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "queueOffset": str(offset)}
        fields |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
        fields |= {"subscription": expression, "subVersion": "1", "expressionType": "SQL92"}
        answer = await ask(client, RequestCode.PULL_MESSAGE, fields)
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY), (expression, answer)
        numbers += [int(record.body) for record in decode_all(answer.body)]
        offset = int(answer.ext_fields["nextBeginOffset"])
    return numbers


async def checked(client: RemotingClient, expression: str) -> int:
    """The code with which CHECK_CLIENT_CONFIG answers a subscription."""
    subscription = {"topic": TOPIC, "subString": expression, "expressionType": "SQL92", "subVersion": 1}
    body = {"clientId": "me", "group": GROUP, "subscriptionData": subscription}
    return (await ask(client, RequestCode.CHECK_CLIENT_CONFIG, {}, json.dumps(body).encode())).code


async def differences(server: Address) -> tuple[dict[str, tuple[list[int], list[int]]], dict[str, int]]:
    """Expressions that match other messages than the engine says (its numbers, the broker's), and expressions whose
    check has another code."""
    host, port = server.broker.rsplit(":", 1)
    client = RemotingClient(host, int(port))
    others: dict[str, tuple[list[int], list[int]]] = {}
    codes: dict[str, int] = {}
    try:
        await send_all(client)
        for expression in EXPRESSIONS:
            expected = [n for n, properties in enumerate(PROPERTIES) if evaluate(expression, properties) is True]
            if (found := await matched(client, expression)) != expected:
                others[expression] = (expected, found)
            if (code := await checked(client, expression)) != ResponseCode.SUCCESS:
                codes[expression] = code
        for expression in INVALID:
            if (code := await checked(client, expression)) != ResponseCode.SUBSCRIPTION_PARSE_FAILED:
                codes[expression] = code
    finally:
        await client.close()
    return others, codes


def test_pulls_with_sql92_filters_match_the_same_messages(server: Address) -> None:
    others, codes = asyncio.run(differences(server))
    assert not others, [(one, [PROPERTIES[n] for n in set(a) ^ set(b)]) for one, (a, b) in others.items()]
    assert not codes

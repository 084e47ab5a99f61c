"""Heartbeats of Java and Go, locks, farewells."""

from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from broker_core.remoting.requests.client import MAX_ENTRIES, encode_heart_beat
from tests.fakes.remoting import EXAMPLES, HEARTBEAT, IDENTITY, LOCK, PEER, command_of, frame, go, java

GO_HEARTBEAT = (
    b'{"clientID":"10.0.0.3@77","producerDataSet":null,"consumerDataSet":[{"groupName":"g","consumeType":'
    b'"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
    b'"subscriptionDataSet":[{"classFilterMode":false,"topic":"T","subString":"*","tagsSet":null,"codeSet":null,'
    b'"subVersion":1700000000000000000,"expressionType":"TAG"},{"classFilterMode":false,"topic":"%RETRY%g",'
    b'"subString":"*","tagsSet":[],"codeSet":[],"subVersion":1700000000000000001,"expressionType":"TAG"}],'
    b'"unitMode":false}]}'
)


def beat(body: Any) -> object:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return decode(RemotingCommand.request(34, {}, data, opaque=1), PEER)


def answer(code: int, reply: c.Reply) -> RemotingCommand:
    response = encode(reply, RemotingCommand.request(code, *EXAMPLES[code], opaque=9), IDENTITY)
    assert isinstance(response, RemotingCommand)
    return response


def test_javas_heartbeat() -> None:
    assert decode(command_of(java(34, {}, HEARTBEAT)), PEER) == c.HeartBeat(
        client_id="10.0.0.2@1",
        protocol="remoting",
        language="JAVA",
        version=493,
        producer_groups=["CLIENT_INNER_PRODUCER"],
        consumers=[
            c.ConsumerData(
                group="g",
                subscriptions=[c.SubscriptionData(topic="T", sub_string="TagA || TagB", sub_version=1_700_000_000_000)],
            )
        ],
    )


def test_the_header_of_javas_heartbeat_as_it_is_on_the_wire() -> None:
    header = (
        '{"code":34,"extFields":{},"flag":0,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON",'
        '"version":493}'
    )
    assert frame(header)[:8] == bytes.fromhex("00000073 0000006f") and len(header) == 111
    assert isinstance(decode(command_of(frame(header, HEARTBEAT)), PEER), c.HeartBeat)


def test_gos_heartbeat() -> None:
    assert decode(command_of(go(34, {}, GO_HEARTBEAT)), PEER) == c.HeartBeat(
        client_id="10.0.0.3@77",
        protocol="remoting",
        language="GO",
        version=317,
        producer_groups=[],
        consumers=[
            c.ConsumerData(
                group="g",
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                subscriptions=[
                    c.SubscriptionData(topic="T", sub_version=1_700_000_000_000_000_000),
                    c.SubscriptionData(topic="%RETRY%g", sub_version=1_700_000_000_000_000_001),
                ],
            )
        ],
    )


def test_a_heartbeat_without_subscriptions() -> None:
    """The second version: what is consumed was said before."""
    command = beat(
        {
            "clientID": "me",
            "heartbeatFingerprint": 5,
            "withoutSub": True,
            "producerDataSet": [],
            "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": []}],
        }
    )
    assert command == c.HeartBeat(
        client_id="me",
        protocol="remoting",
        language="PYTHON",
        version=493,
        without_sub=True,
        consumers=[c.ConsumerData(group="g")],
    )


def test_nulls_and_old_words_are_decoded_as_rocketmq_does() -> None:
    command = beat(
        {
            "clientID": "me",
            "consumerDataSet": [
                {
                    "groupName": "g",
                    "consumeType": "PUSH",
                    "messageModel": "BROADCASTING",
                    "consumeFromWhere": None,
                    "subscriptionDataSet": [{"topic": "T", "subString": None, "expressionType": None}],
                }
            ],
        }
    )
    assert isinstance(command, c.HeartBeat)
    assert command.consumers == [
        c.ConsumerData(group="g", message_model="BROADCASTING", subscriptions=[c.SubscriptionData(topic="T")])
    ]
    active = beat({"clientID": "me", "consumerDataSet": [{"groupName": "g", "consumeType": "CONSUME_ACTIVELY"}]})
    assert isinstance(active, c.HeartBeat) and active.consumers[0].consume_type == "CONSUME_ACTIVELY"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "clientID"),
        ({"clientID": ""}, "clientID"),
        ({"clientID": "x" * 256}, "clientID"),
        ({"clientID": 5}, "clientID"),
        ({"clientID": "me", "producerDataSet": [{}]}, "groupName"),
        ({"clientID": "me", "producerDataSet": {}}, "producerDataSet"),
        ({"clientID": "me", "consumerDataSet": [{"groupName": None}]}, "groupName"),
        ({"clientID": "me", "consumerDataSet": [{"groupName": "g", "messageModel": "SHOUTING"}]}, "messageModel"),
        ({"clientID": "me", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{}]}]}, "topic"),
        (
            {
                "clientID": "me",
                "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{"topic": "T", "subVersion": 1 << 63}]}],
            },
            "subVersion",
        ),
        ({"clientID": "me", "producerDataSet": [{"groupName": "g"}] * (int(MAX_ENTRIES.max_length or 0) + 1)}, "4096"),
    ],
)
def test_heartbeats_that_are_refused(body: Any, field: str) -> None:
    failed = beat(body)
    assert isinstance(failed, c.Failed) and failed.code == ResponseCode.SYSTEM_ERROR and field in failed.remark


@pytest.mark.parametrize("changed", [True, False])
def test_the_answer_of_a_heartbeat(changed: bool) -> None:
    """The version tells Java that SQL subscriptions may be pulled here."""
    response = answer(34, c.HeartBeatDone(sub_changed=changed))
    assert response.ext_fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": str(changed).lower()}
    assert (response.code, response.version) == (0, 493)


def test_farewell() -> None:
    assert decode(command_of(java(35, EXAMPLES[35][0])), PEER) == c.UnregisterClient(
        client_id="10.0.0.2@1", producer_group="pg", consumer_group="g"
    )
    assert decode(command_of(java(35, {"clientID": "me"})), PEER) == c.UnregisterClient(client_id="me")


def test_check_client_config() -> None:
    assert decode(command_of(java(46, *EXAMPLES[46])), PEER) == c.CheckClientConfig(
        client_id="10.0.0.2@1",
        group="g",
        subscription=c.SubscriptionData(topic="T", sub_string="a > 1", expression_type="SQL92", sub_version=1),
    )


def test_locks() -> None:
    queues = [c.MessageQueue(topic="T", broker_name="broker-a", queue_id=0)]
    assert decode(command_of(java(41, {}, LOCK)), PEER) == c.LockBatchMq(
        group="g", client_id="10.0.0.2@1", queues=queues
    )
    without = LOCK.replace(b',"onlyThisBroker":false', b"")
    assert decode(command_of(go(42, {}, without)), PEER) == c.UnlockBatchMq(
        group="g", client_id="10.0.0.2@1", queues=queues
    )
    assert answer(41, c.LockedQueues(queues=queues)).body == (
        b'{"lockOKMQSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}]}'
    )
    assert answer(41, c.LockedQueues(queues=[])).body == b'{"lockOKMQSet":[]}'


def test_a_client_writes_the_heartbeat_that_a_broker_reads() -> None:
    command = c.HeartBeat(
        client_id="10.0.0.2@1",
        protocol="remoting",
        language="PYTHON",
        version=493,
        producer_groups=["CLIENT_INNER_PRODUCER"],
        consumers=[
            c.ConsumerData(
                group="g",
                subscriptions=[
                    c.SubscriptionData(topic="T", sub_string="TagA || TagB", sub_version=1_700_000_000_000),
                    c.SubscriptionData(topic="%RETRY%g", sub_version=5),
                ],
            )
        ],
    )
    body = encode_heart_beat(command)
    assert beat(body) == command
    theirs, ours = msgspec.json.decode(HEARTBEAT), msgspec.json.decode(body)
    subscription = theirs["consumerDataSet"][0]["subscriptionDataSet"][0]
    assert ours["consumerDataSet"][0]["subscriptionDataSet"][0] == subscription
    everything = ours["consumerDataSet"][0]["subscriptionDataSet"][1]
    assert (everything["subString"], everything["tagsSet"], everything["codeSet"]) == ("*", [], [])

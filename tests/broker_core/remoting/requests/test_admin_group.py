"""Groups in the words of RocketMQ's tools. Bodies are those of RocketMQ 5.4.0, but for the order of tables."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from broker_core.remoting.requests.admin_group import subscription_data
from tests.fakes.remoting import EXAMPLES, IDENTITY, PEER, client_view, command_of, java

VERSION = {"counter": 6, "stateVersion": 0, "timestamp": 1_700_000_000_000}
CONNECTION = b'{"clientAddr":"10.0.0.2:50000","clientId":"c1","language":"JAVA","version":493}'


def decoded(code: int, body: bytes | None = None, **fields: str) -> Any:
    example, example_body = EXAMPLES[code]
    return decode(command_of(java(code, example | fields, example_body if body is None else body)), PEER)


def answer(code: int, reply: c.Reply) -> RemotingCommand:
    response = encode(reply, RemotingCommand.request(code, EXAMPLES[code][0], opaque=9), IDENTITY)
    assert isinstance(response, RemotingCommand) and (response.code, response.remark, response.opaque) == (0, "", 9)
    return response


def test_configuring_groups() -> None:
    config = {"consumeEnable": True, "groupName": "g", "groupRetryPolicy": {"type": "CUSTOMIZED"}, "retryMaxTimes": 16}
    assert decoded(200) == c.UpdateSubscriptionGroup(config=config)
    assert decoded(225) == c.UpdateSubscriptionGroupList(configs=[config])
    many = b'{"groupConfigList":[' + b",".join([b"{}"] * 4097) + b"]}"
    for code, body in ((200, b""), (200, b"[]"), (225, b"{}"), (225, many), (225, b'{"groupConfigList":[1]}')):
        assert isinstance(decoded(code, body), c.Failed)
    assert answer(200, c.SubscriptionGroups(data_version=VERSION, configs={}, forbidden={})).body == b""


@pytest.mark.covers("group-config")
def test_configuration_of_one() -> None:
    assert decoded(352) == c.GetSubscriptionGroups(group="g", or_default=True)
    assert isinstance(decoded(352, group=""), c.Failed), "that would be all of them"
    reply = c.SubscriptionGroups(data_version=VERSION, configs={"g": {"groupName": "g"}}, forbidden={"h": {"T": 4}})
    assert answer(352, reply).body == b'{"groupName":"g"}'


def test_configuration_of_all() -> None:
    assert decoded(201) == c.GetSubscriptionGroups() == decode(command_of(java(201, {})), PEER)
    response = answer(
        201, c.SubscriptionGroups(data_version=VERSION, configs={"g": {"groupName": "g"}}, forbidden={"h": {"T": 4}})
    )
    assert response.ext_fields == {"totalGroupNum": "1"}
    assert response.body == (
        b'{"dataVersion":{"counter":6,"stateVersion":0,"timestamp":1700000000000},"forbiddenTable":{"h":{"T":4}},'
        b'"subscriptionGroupTable":{"g":{"groupName":"g"}}}'
    )


def test_deleting_a_group() -> None:
    assert decoded(207) == c.DeleteSubscriptionGroup(group="g", clean_offset=True)
    assert decode(command_of(java(207, {"groupName": "g"})), PEER) == c.DeleteSubscriptionGroup(group="g")


def test_requests_that_forbid_a_group_to_read_a_topic() -> None:
    assert decoded(353) == c.UpdateGroupForbidden(group="g", topic="T", readable=False)
    assert decode(command_of(java(353, {"group": "g", "topic": "T"})), PEER) == c.UpdateGroupForbidden(
        group="g", topic="T"
    )
    assert answer(353, c.GroupForbidden(group="g", topic="T", readable=False)).body == (
        b'{"group":"g","readable":false,"topic":"T"}'
    )


def test_members_of_a_group() -> None:
    assert decoded(203) == c.GetConsumerConnections(group="g")
    reply = c.ConsumerConnections(
        group="g",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        clients=[client_view("c1")],
        subscriptions=[c.SubscriptionData(topic="T", sub_string="TagA || TagB", sub_version=1_700_000_000_000)],
    )
    assert answer(203, reply).body == (
        b'{"connectionSet":[' + CONNECTION + b'],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":'
        b'"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"T":{"classFilterMode":false,"codeSet":'
        b'[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB","subVersion":1700000000000,"tagsSet":'
        b'["TagA","TagB"],"topic":"T"}}}'
    )


def test_members_of_a_producer_group() -> None:
    assert decoded(204) == c.GetProducerConnections(group="pg")
    assert isinstance(decoded(204, producerGroup=""), c.Failed), "that would be all of them"
    reply = c.ProducerConnections(groups={"pg": [client_view("c1")]})
    assert answer(204, reply).body == b'{"connectionSet":[' + CONNECTION + b"]}"


def test_producers_of_all_groups_are_encoded() -> None:
    assert decoded(328) == c.GetProducerConnections()
    reply = c.ProducerConnections(groups={"pg": [client_view("c1")], "none": []})
    assert answer(328, reply).body == (
        b'{"data":{"pg":[{"clientId":"c1","language":"JAVA","lastUpdateTimestamp":2,"remoteIP":"/10.0.0.2:50000",'
        b'"version":493}],"none":[]}}'
    )


def test_a_member_whose_language_rocketmq_does_not_know() -> None:
    reply = c.ProducerConnections(groups={"pg": [client_view("c1", language="", version=0)]})
    assert b'"language":"OTHER","version":0' in answer(204, reply).body


def test_tags_are_encoded_with_their_hash_codes() -> None:
    def tags(expression: str, kind: str = "TAG") -> tuple[Any, Any]:
        data = subscription_data(c.SubscriptionData(topic="T", sub_string=expression, expression_type=kind))
        return data["tagsSet"], data["codeSet"]

    assert tags("*") == tags("") == tags("a > 1", "SQL92") == ([], [])
    assert tags("TagA||  TagB || ", "") == (["TagA", "TagB"], [2_598_919, 2_598_920])

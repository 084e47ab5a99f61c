"""The broker in the words of RocketMQ's tools. Bodies are those of RocketMQ 5.4.0, but for the order of tables."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from tests.fakes.engine import Bench
from tests.fakes.remoting import EXAMPLES, IDENTITY, PEER, command_of, java


def decoded(code: int, body: bytes | None = None, **fields: str) -> Any:
    example, example_body = EXAMPLES[code]
    return decode(command_of(java(code, example | fields, example_body if body is None else body)), PEER)


def answer(code: int, reply: c.Reply, **fields: str | None) -> RemotingCommand:
    given = {name: value for name, value in (EXAMPLES[code][0] | fields).items() if value is not None}
    response = encode(reply, RemotingCommand.request(code, given, opaque=9), IDENTITY)
    assert isinstance(response, RemotingCommand) and (response.code, response.remark, response.opaque) == (0, "", 9)
    return response


def test_figures() -> None:
    assert decoded(28) == c.GetBrokerRuntimeInfo()
    assert answer(28, c.RuntimeInfo(table={"putTps": "0.0 0.0 0.0"})).body == b'{"table":{"putTps":"0.0 0.0 0.0"}}'


def test_statistics() -> None:
    assert decoded(315) == c.ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key="T")
    reply = c.BrokerStatsData(
        minute=c.StatsSnapshot(sum=5, tps=0.5, avgpt=1.0),
        hour=c.StatsSnapshot(sum=6, tps=0.25, avgpt=2.0),
        day=c.StatsSnapshot(sum=0, tps=0.0, avgpt=0.0),
    )
    assert answer(315, reply).body == (
        b'{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour":{"avgpt":2.0,"sum":6,"tps":0.25},'
        b'"statsMinute":{"avgpt":1.0,"sum":5,"tps":0.5}}'
    )


def test_options() -> None:
    assert decoded(26) == c.GetBrokerConfig()
    reply = c.BrokerConfig(
        config={"fileReservedTime": 72, "autoCreateTopicEnable": True, "brokerName": "broker-a", "namesrvAddr": ""},
        data_version={"counter": 4, "stateVersion": 0, "timestamp": 1_795_277_344_276},
    )
    response = answer(26, reply)
    assert response.ext_fields == {"version": '{"counter":4,"stateVersion":0,"timestamp":1795277344276}'}
    assert response.body == b"autoCreateTopicEnable=true\nbrokerName=broker-a\nfileReservedTime=72\nnamesrvAddr=\n"


def test_the_answer_has_every_option() -> None:
    reply = Bench().call(c.GetBrokerConfig())
    assert isinstance(reply, c.BrokerConfig)
    lines = answer(26, reply).body.decode().splitlines()
    assert [line.partition("=")[0] for line in lines] == sorted(reply.config)
    assert "longPollingEnable=true" in lines and "messageDelayLevel=1s 5s" in "\n".join(lines)


@pytest.mark.covers("option-unknown")
def test_changing_options() -> None:
    assert decoded(25, b"#comment\nfileReservedTime=48\nlongPollingEnable = false\n") == c.UpdateBrokerConfig(
        changes={"fileReservedTime": "48", "longPollingEnable": "false"}
    )
    bench = Bench()
    reply = bench.call(decoded(25, b"fileReservedTime=48\nlongPollingEnable=false"))
    assert isinstance(reply, c.BrokerView) and reply.config["longPollingEnable"] is False
    assert answer(25, reply).body == b""
    for body in (b"", b"none=1\n", b"brokerName=b\n", b"fileReservedTime=soon\n"):
        refused = bench.call(decoded(25, body))
        assert isinstance(refused, c.Failed) and refused.code == 29
    for body in (b"\xff=1", b"x" * 65_537):
        refused = decoded(25, body)
        assert isinstance(refused, c.Failed) and refused.code == 1


def test_units_of_a_queue() -> None:
    assert decoded(321) == c.QueryConsumeQueue(topic="T", queue_id=1, index=0, count=10, group="g")
    units = c.ConsumeQueueUnits(
        min_offset=0,
        max_offset=3,
        units=[(0, 227, 2_598_919), (454, 227, 2_598_919)],
        subscription=c.SubscriptionData(topic="T", sub_version=5),
    )
    data = (
        b'"maxQueueIndex":3,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":0,"physicSize":227,'
        b'"tagsCode":2598919},{"eval":false,"physicOffset":454,"physicSize":227,"tagsCode":2598919}]'
    )
    assert answer(321, units).body == (
        b"{" + data + b',"filterData":"null","subscriptionData":{"classFilterMode":false,"codeSet":[],"expressionType":'
        b'"TAG","subString":"*","subVersion":5,"tagsSet":[],"topic":"T"}}'
    )
    alone = c.ConsumeQueueUnits(min_offset=0, max_offset=3, units=units.units)
    assert answer(321, alone).body == b"{" + data + b',"filterData":"g@T is not online!"}'
    assert answer(321, alone, consumerGroup=None).body == b"{" + data + b"}"


def test_requests_to_clean_up() -> None:
    assert decoded(329) == c.DeleteExpiredCommitLog()
    assert decoded(306) == decoded(316) == c.Done()
    for code in (329, 306, 316):
        assert answer(code, c.Done()).body == b""


def test_timer_metrics() -> None:
    assert decoded(61) == c.GetTimerMetrics()
    metrics = c.TimerMetrics(time_ms=7, messages=2, by_topic={"T": 2})
    assert answer(61, metrics).body == b'{"timingCount":{"T":{"count":2,"timeStamp":7}}}'

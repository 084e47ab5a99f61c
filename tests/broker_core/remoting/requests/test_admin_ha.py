"""What slaves and tools ask about replication."""

from typing import Any

from broker_core import commands as c
from broker_core.formats import rocketmq_json
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from tests.fakes.engine import Bench
from tests.fakes.remoting import IDENTITY, PEER


def request(code: int, **fields: str) -> RemotingCommand:
    return RemotingCommand.request(code, fields, b"", opaque=1)


def answer(code: int, reply: Any) -> RemotingCommand:
    encoded = encode(reply, request(code), IDENTITY)
    assert isinstance(encoded, RemotingCommand) and encoded.code == 0
    return encoded


def view(bench: Bench) -> c.BrokerView:
    reply = bench.call(c.GetBroker())
    assert isinstance(reply, c.BrokerView)
    return reply


def test_status_without_slaves() -> None:
    assert decode(request(907), PEER) == c.GetBroker()
    bench = Bench()
    bench.send("T", b"1")
    end = bench.context.store.appended_offset
    assert answer(907, view(bench)).body == (
        b'{"haConnectionInfo":[],"inSyncSlaveNums":0,"master":true,"masterCommitLogMaxOffset":%d}' % end
    )


def test_status_of_slaves() -> None:
    bench = Bench(ha_listen_port=10912)
    bench.send("T", b"1")
    end = bench.context.store.appended_offset
    for slave, offset in (("10.0.0.7:50000", end - 7), ("10.0.0.8:50000", -(1 << 40))):
        report = c.ReportSlaveMaxOffset(address=slave, slave_ack_offset=offset, transferred=end)
        bench.call(report, connection=slave)
    status: Any = rocketmq_json.decode(answer(907, view(bench)).body)
    assert status["haConnectionInfo"] == [
        {
            "addr": "/10.0.0.7:50000",
            "diff": 7,
            "inSync": True,
            "slaveAckOffset": end - 7,
            "transferFromWhere": end,
            "transferredByteInSecond": 0,
        },
        {
            "addr": "/10.0.0.8:50000",
            "diff": end + (1 << 40),
            "inSync": False,
            "slaveAckOffset": -(1 << 40),
            "transferFromWhere": end,
            "transferredByteInSecond": 0,
        },
    ]
    assert (status["inSyncSlaveNums"], status["master"], status["masterCommitLogMaxOffset"]) == (1, True, end)


def test_where_the_ha_port_is() -> None:
    assert decode(request(906), PEER) == c.GetBroker()
    off = answer(906, view(Bench(broker_ip1="10.0.0.1")))
    assert off.ext_fields == {"masterFlushOffset": "0", "masterAddress": "10.0.0.1:10911"}
    on = answer(906, view(Bench(broker_ip1="10.0.0.1", ha_listen_port=10912)))
    assert on.ext_fields["masterHaAddress"] == "10.0.0.1:10912"


def test_a_master_is_not_given_another_master() -> None:
    refused = decode(request(906, masterHaAddress="10.0.0.9:10912"), PEER)
    assert isinstance(refused, c.Failed) and "is a master" in refused.remark


def test_the_check_point_of_timers() -> None:
    assert decode(request(60), PEER) == c.GetTimerMetrics()
    metrics = c.TimerMetrics(time_ms=7, messages=2, by_topic={}, read_time_ms=1000, queue_offset=3, version=9)
    assert answer(60, metrics).body == b"".join(number.to_bytes(8, "big") for number in (1000, 0, 3, 3, 0, 7, 9))


def test_offsets_have_the_version_without_which_a_slave_fails() -> None:
    bench = Bench()
    bench.send("T", b"1")
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="T", queue_id=0, offset=1)]))
    reply = bench.call(c.GetAllConsumerOffset())
    table: Any = rocketmq_json.decode(answer(43, reply).body)
    assert table["offsetTable"] == {"T@g": {0: 1}} and table["groupTopicMap"] == {}
    assert set(table["dataVersion"]) == {"counter", "stateVersion", "timestamp"}
    assert table["dataVersion"]["timestamp"] == bench.clock.now().wall_ms

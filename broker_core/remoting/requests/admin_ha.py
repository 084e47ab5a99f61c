"""Requests of slaves and of tools about replication; the tables that a slave fetches are in the other modules."""

from typing import Any

from broker_core.codes import ResponseCode
from broker_core.commands import BrokerView, GetBroker, GetTimerMetrics, TimerMetrics
from broker_core.errors import RequestError
from broker_core.formats import timer_checkpoint
from broker_core.formats.timer_checkpoint import TimerCheckpoint
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import json_body
from broker_core.remoting.requests.request_type import Identity, Peer


def decode_get_timer_check_point(request: RemotingCommand, peer: Peer) -> GetTimerMetrics:
    return GetTimerMetrics()


def encode_timer_check_point(reply: TimerMetrics, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """A TimerCheckpoint. The slave puts its messages into a wheel of its own, up to this broker's queue offset."""
    offset = reply.queue_offset
    checkpoint = TimerCheckpoint(reply.read_time_ms, 0, offset, offset, 0, reply.time_ms, reply.version)
    body = timer_checkpoint.encode(checkpoint)[: timer_checkpoint.ROCKETMQ_SIZE]
    return request.response(ResponseCode.SUCCESS, body=body)


def decode_exchange_broker_ha_info(request: RemotingCommand, peer: Peer) -> GetBroker:
    """RequestError if the request would change where this broker's master is: it has none."""
    if "masterHaAddress" in request.ext_fields:
        raise RequestError("this broker is a master: it follows no masterHaAddress")
    return GetBroker()


def encode_ha_info(reply: BrokerView, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's ExchangeHAInfoResponseHeader. masterHaAddress is left out while haListenPort is off."""
    config = reply.config
    fields = {
        "masterFlushOffset": str(reply.positions.flushed),
        "masterAddress": f"{config['brokerIP1']}:{config['listenPort']}",
    }
    if config["haListenPort"]:
        fields["masterHaAddress"] = f"{config['brokerIP1']}:{config['haListenPort']}"
    return request.response(ResponseCode.SUCCESS, ext_fields=fields)


def decode_get_broker_ha_status(request: RemotingCommand, peer: Peer) -> GetBroker:
    return GetBroker()


def encode_ha_status(reply: BrokerView, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """RocketMQ's HARuntimeInfo of a master."""
    end = reply.positions.appended
    connections: list[dict[str, Any]] = [
        {
            "addr": f"/{slave.address}",
            "diff": end - slave.slave_ack_offset,
            "inSync": slave.in_sync,
            "slaveAckOffset": slave.slave_ack_offset,
            "transferFromWhere": slave.transferred,
            "transferredByteInSecond": slave.bytes_per_second or 0,
        }
        for slave in reply.replication.slaves
    ]
    return request.response(
        ResponseCode.SUCCESS,
        body=json_body(
            {
                "haConnectionInfo": connections,
                "inSyncSlaveNums": sum(slave.in_sync for slave in reply.replication.slaves),
                "master": True,
                "masterCommitLogMaxOffset": end,
            }
        ),
    )

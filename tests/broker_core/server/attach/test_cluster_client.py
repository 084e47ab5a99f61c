"""What a follower asks a cluster, and what it makes of strange answers."""

import pytest

from broker_core.client.mq_client_exception import MQBrokerException, MQClientException
from broker_core.codes import RequestCode
from broker_core.server.attach.cluster_client import ALLOWED, BrokerMembers, ClusterClient, candidates
from tests.fakes.fake_master import fake_master
from tests.fakes.followed import SEGMENT, log_of, master

READS = {21, 26, 28, 33, 38, 43, 45, 106, 201, 202, 203, 208, 307}


def test_the_list_of_requests_is_closed_and_only_reads() -> None:
    assert {int(code) for code in ALLOWED} == READS


async def test_a_request_outside_the_list_is_not_sent() -> None:
    async with fake_master(master(1)) as leader:
        client = ClusterClient(leader.address)
        with pytest.raises(ValueError, match="does not send request HEART_BEAT"):
            await client._call(leader.address, RequestCode.HEART_BEAT)
        await client.close()
    assert leader.codes == []


async def test_a_broker_says_what_it_is() -> None:
    bench = master(20)
    async with fake_master(bench) as leader:
        client = ClusterClient(f"127.0.0.1:1;{leader.address}")
        assert (await client.brokers())["broker-a"].broker_addrs == {0: leader.address}
        source = await client.source(leader.address, 0)
        assert (source.min_offset, source.max_offset, source.segment_size) == (0, len(log_of(bench)), SEGMENT)
        assert source.ha_address == ("127.0.0.1", leader.ha_port) and not source.obstacle
        size = int.from_bytes(log_of(bench)[:4], "big")
        assert await client.record(leader.address, 0) == log_of(bench)[:size]
        assert await client.record(leader.address, 1) is None
        await client.close()


async def test_an_empty_log_has_no_negative_offset() -> None:
    async with fake_master(master(0)) as leader:
        client = ClusterClient(leader.address)
        source = await client.source(leader.address, 0)
        assert (source.min_offset, source.max_offset) == (0, 0)
        await client.close()


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (RequestCode.GET_BROKER_RUNTIME_INFO, b"<html>"),
        (RequestCode.GET_BROKER_RUNTIME_INFO, b'{"table":{"commitLogMinOffset":"x","commitLogMaxOffset":"1"}}'),
        (RequestCode.GET_BROKER_RUNTIME_INFO, b'{"table":[]}'),
    ],
)
async def test_an_answer_that_makes_no_sense_is_an_error_with_its_address(code: int, body: bytes) -> None:
    async with fake_master(master(1)) as leader:
        leader.answers[code] = 0, body
        client = ClusterClient(leader.address)
        with pytest.raises(MQClientException, match=leader.address):
            await client.source(leader.address, 0)
        await client.close()


async def test_a_configuration_without_an_ha_port_is_no_brokers() -> None:
    async with fake_master(master(1)) as leader:
        leader.answers[RequestCode.GET_BROKER_CONFIG] = 0, b"# nothing\nkey=value=more"
        client = ClusterClient(leader.address)
        source = await client.source(leader.address, 0)
        assert source.config == {"key": "value=more"}
        with pytest.raises(MQClientException, match="gives no mappedFileSizeCommitLog"):
            _ = source.segment_size
        await client.close()


async def test_a_group_without_members_is_no_error_and_a_refusal_is_one() -> None:
    async with fake_master(master(1)) as leader:
        client = ClusterClient(leader.address)
        assert await client.members(leader.address, "g") is None
        leader.answers[RequestCode.GET_CONSUMER_CONNECTION_LIST] = 16, b""
        with pytest.raises(MQBrokerException, match="answered NO_PERMISSION"):
            await client.members(leader.address, "g")
        await client.close()


@pytest.mark.parametrize("address", ["", " ; ", "nowhere", "host:port", "host:99999"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(MQClientException):
        ClusterClient(address)


def test_slaves_come_before_their_master() -> None:
    members = BrokerMembers(cluster="c", broker_name="b", broker_addrs={0: "m:1", 2: "s:2", 1: "s:1"})
    assert candidates(members, "auto") == [(1, "s:1"), (2, "s:2"), (0, "m:1")]
    assert candidates(members, "slave") == [(1, "s:1"), (2, "s:2")]
    assert candidates(members, "master") == [(0, "m:1")]

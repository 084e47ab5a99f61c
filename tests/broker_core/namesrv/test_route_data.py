"""The exact texts that Apache RocketMQ 5.4.0 writes for the same brokers."""

import pytest

from broker_core.namesrv.route_data import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicRouteData,
    decode_route,
    encode_bare,
    encode_standard,
)

BROKER = BrokerData(
    broker_addrs={0: "127.0.0.1:10911", 1: "127.0.0.1:10921"},
    broker_name="broker-a",
    cluster="DefaultCluster",
    enable_acting_master=False,
)
QUEUES = QueueData(broker_name="broker-a", perm=7, read_queue_nums=8, write_queue_nums=8)


def test_a_route_in_standard_json_and_with_keys_without_quotes() -> None:
    route = TopicRouteData(broker_datas=[BROKER], filter_server_table={}, queue_datas=[QUEUES])
    text = (
        b'{"brokerDatas":[{"brokerAddrs":{%b"127.0.0.1:10911",%b"127.0.0.1:10921"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{'
        b'"brokerName":"broker-a","perm":7,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
    )
    assert encode_standard(route) == text % (b'"0":', b'"1":')
    assert encode_bare(route) == text % (b"0:", b"1:")
    assert decode_route(encode_standard(route)) == decode_route(encode_bare(route)) == route


def test_optional_members_of_a_route() -> None:
    broker = BrokerData(
        broker_addrs={0: "4.1.1.1:1"}, broker_name="b4", cluster="C1", enable_acting_master=True, zone_name="z1"
    )
    queues = QueueData(broker_name="b4", perm=6, read_queue_nums=4, topic_sys_flag=1, write_queue_nums=3)
    route = TopicRouteData(
        broker_datas=[broker],
        filter_server_table={"4.1.1.1:1": ["f:1"]},
        order_topic_conf="b1:4;b2:4",
        queue_datas=[queues],
    )
    assert encode_standard(route) == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"4.1.1.1:1"},"brokerName":"b4","cluster":"C1",'
        b'"enableActingMaster":true,"zoneName":"z1"}],"filterServerTable":{"4.1.1.1:1":["f:1"]},'
        b'"orderTopicConf":"b1:4;b2:4","queueDatas":[{"brokerName":"b4","perm":6,"readQueueNums":4,"topicSysFlag":1,'
        b'"writeQueueNums":3}]}'
    )


def test_cluster_info() -> None:
    info = ClusterInfo(broker_addr_table={"broker-a": BROKER}, cluster_addr_table={"DefaultCluster": ["broker-a"]})
    assert encode_bare(info) == (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},'
        b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}},'
        b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
    )


def test_data_version() -> None:
    version = DataVersion(counter=3, state_version=1, timestamp=1_700_000_000_000)
    assert encode_standard(version) == b'{"counter":3,"stateVersion":1,"timestamp":1700000000000}'
    assert version == DataVersion(3, 1, 1_700_000_000_000) != DataVersion(3, 1, 1_700_000_000_001)


def test_a_route_of_an_older_name_server() -> None:
    assert decode_route(
        b'{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"c"}],"queueDatas":[]}'
    ) == (
        TopicRouteData(
            broker_datas=[
                BrokerData(broker_addrs={0: "a:1"}, broker_name="b", cluster="c", enable_acting_master=False)
            ],
            filter_server_table={},
            queue_datas=[],
        )
    )


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"{}", b'{"brokerDatas":[5],"queueDatas":[]}', b'{"brokerDatas":5}']
)
def test_bodies_that_are_no_route(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_route(body)

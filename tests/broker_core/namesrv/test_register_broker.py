import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.clock import Now
from broker_core.codes import RequestCode, ResponseCode
from broker_core.errors import RequestError
from broker_core.namesrv.register_broker import (
    RegisterBrokerHeader,
    Registration,
    address,
    body_crc32,
    decode_registration,
    describe_broker,
    encode_registration,
    identity,
)
from broker_core.namesrv.route_data import DataVersion
from broker_core.options import Options
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import read_header
from broker_core.topics import TopicConfig, TopicConfigManager
from tests.fakes.name_server import broker_header, register_body, topic_config

GOLDEN_BODY = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,"stateVersion":0,'
    b'"timestamp":1700000000000},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":0},'
    b'"topicConfigTable":{"T":{"topicName":"T","readQueueNums":4,"writeQueueNums":4,"perm":6,"order":false,'
    b'"topicFilterType":"SINGLE_TAG","topicSysFlag":0,"attributes":{}}},"topicQueueMappingDetailMap":{},'
    b'"topicQueueMappingInfoMap":{}}}'
)


def broker(**changes: Any) -> Registration:
    return Registration(
        **(
            {
                "cluster": "DefaultCluster",
                "broker_name": "broker-a",
                "broker_id": 0,
                "broker_addr": "127.0.0.1:10911",
                "ha_server_addr": "127.0.0.1:10912",
                "data_version": DataVersion(3, 0, 1_700_000_000_000),
                "topics": {"T": TopicConfig(topic_name="T")},
            }
            | changes
        )
    )


def decode(request: RemotingCommand) -> Registration:
    return decode_registration(read_header(RegisterBrokerHeader, request.ext_fields), request)


def request(body: bytes, version: int = 493, **fields: str) -> RemotingCommand:
    fields = broker_header("b", "1.1.1.1:1") | fields
    made = RemotingCommand.request(RequestCode.REGISTER_BROKER, fields, body, opaque=1)
    made.version = version
    return made


def refusal(*args: Any, **fields: str) -> str:
    with pytest.raises(RequestError) as caught:
        decode(request(*args, **fields))
    assert caught.value.code == ResponseCode.SYSTEM_ERROR
    return caught.value.remark


def test_the_encoded_request() -> None:
    fields, body = encode_registration(broker())
    assert body == GOLDEN_BODY
    assert fields == {
        "brokerName": "broker-a",
        "brokerAddr": "127.0.0.1:10911",
        "clusterName": "DefaultCluster",
        "brokerId": "0",
        "haServerAddr": "127.0.0.1:10912",
        "compressed": "false",
        "enableActingMaster": "false",
        "bodyCrc32": str(zlib.crc32(GOLDEN_BODY) & 0x7FFFFFFF),
    }


def test_the_fields_that_identify_a_broker() -> None:
    assert identity(broker()) == {
        "brokerName": "broker-a",
        "brokerAddr": "127.0.0.1:10911",
        "clusterName": "DefaultCluster",
        "brokerId": "0",
    }


def described(read_only: bool = False, **options: Any) -> Registration:
    made = Options(**options)
    topics = TopicConfigManager(made, None, Now(1_700_000_000_000, 0))
    topics.update("orders", 3, 2, 6, Now(1_700_000_000_001, 0))
    return describe_broker(made, topics, read_only=read_only)


def test_this_brokers_registration() -> None:
    says = described(
        broker_name="b", broker_cluster_name="c", broker_ip1="10.0.0.1", listen_port=20911, ha_listen_port=20912
    )
    assert (says.broker_name, says.cluster, says.broker_id) == ("b", "c", 0)
    assert (says.broker_addr, says.ha_server_addr) == ("10.0.0.1:20911", "10.0.0.1:20912")
    assert says.data_version.timestamp == 1_700_000_000_001 and says.data_version.counter == len(says.topics)
    assert says.topics["orders"] == TopicConfig(topic_name="orders", read_queue_nums=3, write_queue_nums=2)
    assert says.topics["TBW102"].perm == 7 and len(says.topics) >= 2
    assert address("::1", 1) == "[::1]:1"


def test_a_broker_without_a_port_for_slaves_announces_none() -> None:
    assert described().ha_server_addr == "" == described(read_only=True, ha_listen_port=10912).ha_server_addr
    fields, _ = encode_registration(described())
    assert fields["haServerAddr"] == ""  # a name server of RocketMQ refuses a registration without the field


@pytest.mark.parametrize(
    ("read_only", "permission", "perms"),
    [(False, 6, (6, 7)), (True, 6, (4, 4)), (False, 4, (4, 4)), (False, 2, (2, 2)), (True, 2, (0, 0))],
)
def test_topic_permissions_are_limited_to_the_brokers(read_only: bool, permission: int, perms: tuple[int, int]) -> None:
    says = described(read_only, broker_permission=permission)
    assert (says.topics["orders"].perm, says.topics["TBW102"].perm) == perms


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
topics = st.builds(
    TopicConfig,
    topic_name=names,
    read_queue_nums=st.integers(0, 65_536),
    write_queue_nums=st.integers(0, 65_536),
    perm=st.integers(0, 15),
    order=st.booleans(),
    topic_sys_flag=st.integers(0, 3),
    attributes=st.dictionaries(names, names, max_size=2),
)


@given(
    st.builds(
        Registration,
        cluster=names,
        broker_name=names,
        broker_id=st.integers(0, 99),
        broker_addr=names,
        ha_server_addr=names,
        heartbeat_timeout_ms=st.none() | st.integers(1, 86_400_000),
        enable_acting_master=st.booleans(),
        zone_name=st.none() | names,
        data_version=st.builds(DataVersion, *[st.integers(0, 1 << 62)] * 3),
        topics=st.lists(topics, max_size=5).map(lambda configs: {config.topic_name: config for config in configs}),
        filter_servers=st.lists(names, max_size=3),
    )
)
def test_registrations_round_trip(registration: Registration) -> None:
    fields, body = encode_registration(registration)
    assert decode(RemotingCommand.request(RequestCode.REGISTER_BROKER, fields, body, opaque=1)) == registration


def test_without_a_body_there_are_no_topics() -> None:
    empty = decode(request(b""))
    assert (empty.topics, empty.data_version, empty.enable_acting_master) == ({}, DataVersion(), None)
    assert decode(request(b"{}")).topics == {}
    assert decode(request(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{}}}')).topics == {}


def test_brokers_before_3_0_11_send_only_the_wrapper() -> None:
    body = json.loads(register_body(topic_config("T", queues=3), counter=5))["topicConfigSerializeWrapper"]
    old = decode(request(json.dumps(body).encode(), version=36))
    assert old.topics["T"].read_queue_nums == 3 and old.data_version.counter == 5


def test_keys_without_quotes_are_read() -> None:
    body = register_body(topic_config("T")).replace(
        b'"topicQueueMappingInfoMap":{}', b'"topicQueueMappingInfoMap":{"T":{"currIdMap":{0:0,1:1}}}'
    )
    assert list(decode(request(body)).topics) == ["T"]


def test_the_checksum_is_checked_unless_it_is_0() -> None:
    body = register_body(topic_config("T"))
    assert decode(request(body, bodyCrc32="0")).topics
    assert decode(request(body, bodyCrc32=str(zlib.crc32(body) & 0x7FFFFFFF))).topics
    assert refusal(body, bodyCrc32="5") == "crc32 not match"
    assert body_crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


# --- The compressed form --------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()


def plain(*topics: str, mapping: bytes = b"\0\0\0\0") -> bytes:
    return (
        text('{"counter":1,"stateVersion":0,"timestamp":5}')
        + struct.pack(">i", len(topics))
        + b"".join(map(text, topics))
        + text('["f:1"]')
        + mapping
    )


def compressed(data: bytes) -> RemotingCommand:
    body = zlib.compress(data)
    return request(body, compressed="true", bodyCrc32=str(body_crc32(body)))


def test_the_compressed_form() -> None:
    read = decode(compressed(plain('c1 4 5 6 SINGLE_TAG {"+message.type":"FIFO"}', "c2 1 2 4 MULTI_TAG")))
    assert read.data_version == DataVersion(1, 0, 5) and read.filter_servers == ["f:1"]
    assert read.topics == {
        "c1": TopicConfig(topic_name="c1", read_queue_nums=4, write_queue_nums=5, perm=6),
        "c2": TopicConfig(
            topic_name="c2", read_queue_nums=1, write_queue_nums=2, perm=4, topic_filter_type="MULTI_TAG"
        ),
    }
    assert decode(compressed(plain("c2 1 2 4 SINGLE_TAG", mapping=b""))).topics  # a broker before release 5


def test_a_truncated_compressed_form_is_refused() -> None:
    whole = plain("c1 4 4 6 SINGLE_TAG", "c2 4 4 6 SINGLE_TAG", mapping=b"")
    for end in range(len(whole)):
        with pytest.raises(RequestError):
            decode(compressed(whole[:end]))
    stream = zlib.compress(whole)
    for end in range(1, len(stream)):
        with pytest.raises(RequestError):
            decode(request(stream[:end], compressed="true"))


@pytest.mark.parametrize(
    "data",
    [
        plain("c1 4 4 6"),
        plain("c1 x 4 6 SINGLE_TAG"),
        struct.pack(">i", -1),
        struct.pack(">i", 1 << 30),
        plain(f"{'t' * 256} 4 4 6 SINGLE_TAG"),
        plain("c1 4 4 6 SINGLE_TAG").replace(b"c1", b"\xff1"),
        plain("c1 4 70000 6 SINGLE_TAG"),
    ],
)
def test_invalid_compressed_forms_are_refused(data: bytes) -> None:
    with pytest.raises(RequestError):
        decode(compressed(data))


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.namesrv.register_broker.MAX_UNCOMPRESSED", 1000)
    with pytest.raises(RequestError, match="1000 bytes"):
        decode(compressed(bytes(100_000)))


def test_the_number_of_topics_in_a_registration_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.namesrv.register_broker.MAX_TOPICS", 2)
    topics = [f"c{number} 4 4 6 SINGLE_TAG" for number in range(3)]
    assert len(decode(compressed(plain(*topics[:2]))).topics) == 2
    with pytest.raises(RequestError, match="3 topics; the limit is 2"):
        decode(compressed(plain(*topics)))


# --- What is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        b"[]",
        b"7",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"filterServerList":[7]}',
        b"\xff",
        b"[" * 100_000,
        b'{"filterServerList":[""]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T","perm":{}}}}}',
        register_body(topic_config("")),
        register_body(topic_config("t" * 256)),
        register_body(topic_config("T", queues=-1)),
        register_body(topic_config("T", queues=65_537)),
        register_body(topic_config("T"), filter_servers=tuple("f" for _ in range(101))),
        register_body(topic_config("T")).replace(b'"T"', b'"\\ud800"').replace(b'InfoMap":{}', b'InfoMap":{0:0}'),
    ],
)
def test_invalid_bodies_are_refused(body: bytes) -> None:
    assert refusal(body)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("brokerName", ""),
        ("brokerName", "b" * 256),
        ("brokerAddr", ""),
        ("clusterName", ""),
        ("brokerId", "x"),
        ("brokerId", "-1"),
        ("bodyCrc32", "x"),
        ("heartbeatTimeoutMillis", "0"),
        ("compressed", "maybe"),
        ("heartbeatTimeoutMillis", "86400001"),
    ],
)
def test_invalid_headers_are_refused(field: str, value: str) -> None:
    assert field in refusal(b"", **{field: value})


@given(st.binary(max_size=200))
def test_any_body_is_either_read_or_refused(body: bytes) -> None:
    for fields in ({}, {"compressed": "true"}):
        try:
            decode(request(body, **fields))
        except RequestError as error:
            assert error.code == ResponseCode.SYSTEM_ERROR

"""Requests and their answers, byte for byte those of Apache RocketMQ 5.4.0 unless a test says otherwise."""

import json
import logging
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.codes import RequestCode, ResponseCode
from broker_core.namesrv.namesrv_processor import HANDLERS, NamesrvProcessor
from tests.fakes.name_server import NameServerBench, broker_header, register_body, topic_config

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{%b"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
    b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":7,'
    b'"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
)
UNKNOWN = (
    "No topic route info in name server for the topic: {}\n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)


@pytest.fixture
def bench() -> NameServerBench:
    """A name server with broker-a, registered like a real broker."""
    bench = NameServerBench()
    body = register_body(topic_config("TBW102", 8, 7), topic_config("broker-a", 1, 7), topic_config("orders"))
    answer = bench.ask(103, broker_header("broker-a", "127.0.0.1:10911", cluster="DefaultCluster"), body)
    assert (answer.code, answer.remark, answer.ext_fields, answer.body) == (0, "", {}, b"")
    return bench


def answer_to(bench: NameServerBench, code: int, ext_fields: dict[str, str] | None = None, body: bytes = b"") -> Any:
    """(code, remark or extFields, body) of an answer."""
    answer = bench.ask(code, ext_fields, body)
    return answer.code, answer.remark or answer.ext_fields, answer.body


# --- Routes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "fields", "key"),
    [
        (493, {}, b'"0":'),
        (401, {}, b'"0":'),
        (400, {}, b"0:"),
        (317, {}, b"0:"),
        (0, {}, b"0:"),
        (317, {"acceptStandardJsonOnly": "true"}, b'"0":'),
        (317, {"acceptStandardJsonOnly": "false"}, b"0:"),
    ],
)
def test_a_route(bench: NameServerBench, version: int, fields: dict[str, str], key: bytes) -> None:
    answer = bench.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"} | fields, version=version)
    assert (answer.code, answer.ext_fields, answer.body) == (0, {}, ROUTE % key)
    assert (answer.opaque, answer.is_response, answer.version) == (7, True, 493)


def test_an_unknown_topic_is_17(bench: NameServerBench) -> None:
    assert answer_to(bench, 105, {"topic": "nope"}) == (17, UNKNOWN.format("nope"), b"")


def test_an_unregistered_broker_has_no_topics(bench: NameServerBench) -> None:
    bench.controller.routes.connection_closed("c")
    assert answer_to(bench, 105, {"topic": "orders"}) == (17, UNKNOWN.format("orders"), b"")
    assert answer_to(bench, 106) == (0, {}, b'{"brokerAddrTable":{},"clusterAddrTable":{}}')


def test_two_brokers_with_one_topic(bench: NameServerBench) -> None:
    bench.register("b2", "2.1.1.1:1", "orders", "x")
    bench.register("b2", "2.1.1.2:1", "orders", "x", broker_id=1)
    assert bench.route("orders") == {
        "brokerDatas": [
            {
                "brokerAddrs": {"0": "127.0.0.1:10911"},
                "brokerName": "broker-a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            },
            {
                "brokerAddrs": {"0": "2.1.1.1:1", "1": "2.1.1.2:1"},
                "brokerName": "b2",
                "cluster": "C1",
                "enableActingMaster": False,
            },
        ],
        "filterServerTable": {},
        "queueDatas": [
            {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4},
            {"brokerName": "b2", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4},
        ],
    }


def test_order_topics(bench: NameServerBench) -> None:
    answer_to(bench, 100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "b1:4;b2:4"})
    assert "orderTopicConf" not in bench.route("orders")
    assert answer_to(bench, 318, body=b"orderMessageEnable=true") == (0, {}, b"")
    assert bench.route("orders")["orderTopicConf"] == "b1:4;b2:4"
    assert "orderTopicConf" not in bench.route("TBW102")
    assert bench.register("b1", "1:1", "t1", "t2").body == b'{"table":{"orders":"b1:4;b2:4"}}'
    answer_to(bench, 318, body=b"returnOrderTopicConfigToBroker=false")
    assert bench.register("b1", "1:1", "t1", "t2").body == b""


def test_cluster_info_has_bare_keys(bench: NameServerBench) -> None:
    assert answer_to(bench, 106) == (
        0,
        {},
        (
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a",'
            b'"cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
        ),
    )


def test_member_group(bench: NameServerBench) -> None:
    group = b'{"brokerMemberGroup":{"brokerAddrs":{%b},"brokerName":"%b","cluster":"DefaultCluster"}}'
    assert answer_to(bench, 901, {"clusterName": "DefaultCluster", "brokerName": "broker-a"}) == (
        0,
        {},
        group % (b'0:"127.0.0.1:10911"', b"broker-a"),
    )
    assert answer_to(bench, 901, {"clusterName": "DefaultCluster", "brokerName": "zz"}) == (0, {}, group % (b"", b"zz"))


# --- Topic lists ------------------------------------------------------------------------------------------------


def test_topic_lists(bench: NameServerBench) -> None:
    everything = b'{"topicList":["TBW102","broker-a","orders"]}'
    assert answer_to(bench, 206) == (0, {}, everything)
    assert answer_to(bench, 224, {"cluster": "DefaultCluster"}) == (0, {}, everything)
    assert answer_to(bench, 224, {"cluster": "x"}) == (0, {}, b'{"topicList":[]}')
    assert answer_to(bench, 304) == (
        0,
        {},
        b'{"brokerAddr":"127.0.0.1:10911","topicList":["DefaultCluster","broker-a"]}',
    )
    assert NameServerBench().ask(304).body == b'{"topicList":[]}'
    for code in (311, 312, 313):
        assert answer_to(bench, code) == (0, {}, b'{"topicList":[]}')


def test_unit_topics(bench: NameServerBench) -> None:
    body = register_body(topic_config("z1", sys_flag=1), topic_config("z2", sys_flag=2), topic_config("z3", sys_flag=3))
    bench.ask(103, broker_header("b4", "4.1.1.1:1"), body)
    assert answer_to(bench, 311)[2] == b'{"topicList":["z1","z3"]}'
    assert answer_to(bench, 312)[2] == b'{"topicList":["z2","z3"]}'
    assert answer_to(bench, 313)[2] == b'{"topicList":["z2"]}'


# --- Administration of topics and permissions -------------------------------------------------------------------


def test_write_permissions(bench: NameServerBench) -> None:
    assert answer_to(bench, 205, {"brokerName": "broker-a"}) == (0, {"wipeTopicCount": "3"}, b"")
    assert [bench.route(topic)["queueDatas"][0]["perm"] for topic in ("TBW102", "orders")] == [5, 4]
    assert answer_to(bench, 327, {"brokerName": "broker-a"}) == (0, {"addTopicCount": "3"}, b"")
    assert [bench.route(topic)["queueDatas"][0]["perm"] for topic in ("TBW102", "orders")] == [6, 6]
    assert answer_to(bench, 205, {"brokerName": "zz"}) == (0, {"wipeTopicCount": "0"}, b"")


def test_topics_registered_and_deleted_by_an_administrator(bench: NameServerBench) -> None:
    queue = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 3, "writeQueueNums": 3, "topicSysFlag": 0}
    assert answer_to(bench, 217, {"topic": "nt"}, json.dumps({"queueDatas": [queue]}).encode()) == (0, {}, b"")
    assert bench.route("nt")["queueDatas"] == [queue]
    unknown = json.dumps({"queueDatas": [queue | {"brokerName": "zz"}]}).encode()
    assert answer_to(bench, 217, {"topic": "nt2"}, unknown) == (0, {}, b"")
    assert answer_to(bench, 217, {"topic": "nt2"}) == (0, {}, b"")
    assert bench.route("nt2") is None
    assert answer_to(bench, 217, {"topic": "nt3"}, b"x")[0] == ResponseCode.SYSTEM_ERROR
    assert answer_to(bench, 216, {"topic": "nt", "clusterName": "zzz"}) == (0, {}, b"")
    assert bench.route("nt") is not None
    assert answer_to(bench, 216, {"topic": "nt", "clusterName": "DefaultCluster"}) == (0, {}, b"")
    assert bench.route("nt") is None
    assert answer_to(bench, 216, {"topic": "orders"}) == answer_to(bench, 216, {"topic": "orders"}) == (0, {}, b"")
    assert bench.route("orders") is None


# --- Brokers ------------------------------------------------------------------------------------------------------


def test_registrations_that_are_refused(bench: NameServerBench) -> None:
    only = register_body(topic_config("only"))
    assert answer_to(bench, 103, broker_header("b1", "1:1"), only) == (1, "register broker failed", b"")
    assert answer_to(bench, 103, broker_header("b1", "1:1", bodyCrc32="5"), only) == (1, "crc32 not match", b"")
    assert answer_to(bench, 103, broker_header("b1", "1:1"), b"notjson")[0] == 1
    assert answer_to(bench, 103, {"brokerName": "b"})[0] == 1
    assert bench.addresses() == {"broker-a": {0: "127.0.0.1:10911"}}


def test_a_registration_with_its_checksum(bench: NameServerBench) -> None:
    body = register_body(topic_config("t1"), topic_config("t2"))
    fields = broker_header("b1", "1:1", bodyCrc32=str(zlib.crc32(body) & 0x7FFFFFFF))
    assert answer_to(bench, 103, fields, body) == (0, {}, b"")
    assert bench.addresses()["b1"] == {0: "1:1"}


def test_the_answer_to_a_slave_contains_its_masters_address(bench: NameServerBench) -> None:
    answer = bench.ask(103, broker_header("broker-a", "127.0.0.1:10921", 1, "DefaultCluster"))
    assert answer.ext_fields == {"haServerAddr": "127.0.0.1:10911", "masterAddr": "127.0.0.1:10911"}


def test_a_slave_of_a_master_without_a_port_for_slaves_is_told_of_none(bench: NameServerBench) -> None:
    body = register_body(topic_config("t1"), topic_config("t2"))
    bench.ask(103, broker_header("b1", "1:1", haServerAddr=""), body)
    answer = bench.ask(103, broker_header("b1", "2:2", 1), body)
    assert answer.ext_fields == {"masterAddr": "1:1"}


def test_a_broker_unregisters(bench: NameServerBench) -> None:
    fields = broker_header("broker-a", "127.0.0.1:10911", cluster="DefaultCluster")
    assert answer_to(bench, 104, fields) == (0, {}, b"")
    assert bench.addresses() == {}
    assert answer_to(bench, 104, fields) == (0, {}, b"")


def test_data_versions(bench: NameServerBench) -> None:
    fields = broker_header("broker-a", "127.0.0.1:10911", cluster="DefaultCluster")
    known = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    assert answer_to(bench, 322, fields, known) == (0, {"changed": "false"}, known)
    assert answer_to(bench, 322, fields, known.replace(b"1,", b"2,")) == (0, {"changed": "true"}, known)
    assert answer_to(bench, 322, fields) == (0, {"changed": "true"}, known)
    assert answer_to(bench, 322, broker_header("zz", "9:1"), known) == (0, {"changed": "true"}, b"")
    assert answer_to(bench, 322, fields, b"x")[0] == 1


@pytest.mark.parametrize("code", [322, 904])
def test_a_heartbeat_keeps_a_broker_registered(bench: NameServerBench, code: int) -> None:
    fields = broker_header("broker-a", "127.0.0.1:10911", cluster="DefaultCluster")
    bench.clock.advance(119_000)
    assert bench.ask(code, fields).code == 0
    assert bench.controller.routes.scan_not_active_broker(bench.clock.advance(119_000)) == []
    assert bench.controller.routes.scan_not_active_broker(bench.clock.advance(1001)) == ["c"]
    assert bench.ask(904, fields).code == 0 and bench.addresses() == {}


# --- Configuration ------------------------------------------------------------------------------------------------


def test_key_value_configuration(bench: NameServerBench) -> None:
    key = {"namespace": "a", "key": "b"}
    missing = (22, "No config item, Namespace: a Key: b", b"")
    assert answer_to(bench, 101, key) == missing
    assert answer_to(bench, 219, {"namespace": "a"}) == (22, "No config item, Namespace: a", b"")
    assert answer_to(bench, 100, key | {"value": "c d"}) == (0, {}, b"")
    assert answer_to(bench, 101, key) == (0, {"value": "c d"}, b"")
    assert answer_to(bench, 219, {"namespace": "a"}) == (0, {}, b'{"table":{"b":"c d"}}')
    assert answer_to(bench, 102, key) == (0, {}, b"")
    assert answer_to(bench, 101, key) == missing
    assert answer_to(bench, 219, {"namespace": "a"}) == (0, {}, b'{"table":{}}')
    assert answer_to(bench, 102, {"namespace": "zz", "key": "b"}) == (0, {}, b"")
    assert answer_to(bench, 100, {"namespace": "a"})[0] == 1
    assert answer_to(bench, 100, key | {"value": "v" * 65_537})[0] == 1


def test_options(bench: NameServerBench) -> None:
    assert b"orderMessageEnable=false\n" in answer_to(bench, 319)[2]
    assert answer_to(bench, 318, body=b"orderMessageEnable=true\nfoo=bar\n") == (0, {}, b"")
    assert b"orderMessageEnable=true\n" in answer_to(bench, 319)[2]
    assert answer_to(bench, 318, body=b"kvConfigPath=/x") == (16, "Can not update config in black list.", b"")
    assert answer_to(bench, 318) == (0, {}, b"")
    assert answer_to(bench, 318, body=b"\xff")[0] == 1


# --- Any request -----------------------------------------------------------------------------------------------


def test_requests_that_are_not_for_a_name_server(bench: NameServerBench) -> None:
    assert answer_to(bench, 10) == (3, " request type 10 not supported", b"")
    assert answer_to(bench, -5) == (3, " request type -5 not supported", b"")


def test_a_defect_is_answered_and_logged(
    bench: NameServerBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(HANDLERS, 206, (HANDLERS[206][0], broken))
    with caplog.at_level(logging.ERROR):
        assert answer_to(bench, 206)[0] == ResponseCode.SYSTEM_ERROR
    assert "request 206 failed" in caplog.text


FIELDS = [
    "topic",
    "brokerName",
    "brokerAddr",
    "clusterName",
    "cluster",
    "brokerId",
    "namespace",
    "key",
    "value",
    "bodyCrc32",
    "compressed",
    "acceptStandardJsonOnly",
    "heartbeatTimeoutMillis",
    "enableActingMaster",
]


@given(
    st.sampled_from(sorted(HANDLERS)),
    st.dictionaries(st.sampled_from(FIELDS), st.text(st.characters(codec="utf-8"), max_size=8) | st.just("1")),
    st.binary(max_size=60) | st.just(register_body(topic_config("a"), topic_config("b"))),
)
def test_any_request_is_answered(code: int, fields: dict[str, str], body: bytes) -> None:
    bench = NameServerBench()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker_core.namesrv.namesrv_processor.log.exception", lambda *_: pytest.fail("a defect"))
        answer = bench.ask(code, fields, body)
    assert answer.code in (0, 1, 16, 17, 22) and answer.encode()
    assert isinstance(bench.processor, NamesrvProcessor)

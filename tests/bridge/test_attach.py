"""From the name servers of a cluster to a place for each of its brokers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.attach import (
    CannotAttach,
    FoundBroker,
    Newcomers,
    attached_places,
    conf_of,
    find_brokers,
    followed_before,
    plan,
)
from broker_core.broker_conf import read_broker_conf
from broker_core.codes import RequestCode
from broker_core.options import make_options
from broker_core.server.attach.cluster_client import Source
from tests.fakes.fake_master import fake_master
from tests.fakes.followed import log_of, master

ATTACH = {"GLASSMQ_ATTACH": "10.0.0.1:9876"}


def settings(folder: Path) -> Any:
    return SimpleNamespace(GLASSMQ_DATA_DIR=folder, GLASSMQ_SOCKET=folder / "engine.sock", GLASSMQ_ATTACH_KEEP_HOURS=48)


def found(name: str = "broker-a", **config: str) -> FoundBroker:
    source = Source("10.0.0.2:10911", 0, "V5_4_0", 0, 5_000_000, {"mappedFileSizeCommitLog": "1073741824"} | config)
    return FoundBroker(name, "C", source, "")


async def test_the_brokers_of_a_cluster_are_found() -> None:
    bench = master(20)
    async with fake_master(bench) as leader:
        (broker,) = await find_brokers(leader.address, [], "auto")
        text = plan([broker], leader.address, 20)
        assert broker.source is not None and (broker.name, broker.cluster, broker.problem) == ("broker-a", "C", "")
        assert f"{len(log_of(bench)):,} bytes" in text and f"127.0.0.1:{leader.ha_port}" in text
        assert "the master at" in text and "20 MB/s" in text
        with pytest.raises(CannotAttach, match="no broker broker-z; they know broker-a"):
            await find_brokers(leader.address, ["broker-z"], "auto")
        leader.config = {"enableDLegerCommitLog": "true"}
        (broker,) = await find_brokers(leader.address, [], "auto")
        assert broker.source is None and "DLedger" in broker.problem
        assert "not followed: " in plan([broker], leader.address, 20)
        leader.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = 0, b"{}"
        with pytest.raises(CannotAttach, match="know no broker"):
            await find_brokers(leader.address, [], "auto")


@pytest.mark.parametrize(("address", "sentence"), [("x", "is not an address"), ("127.0.0.1:1", "no name server")])
async def test_name_servers_that_do_not_answer_are_named(address: str, sentence: str) -> None:
    with pytest.raises(CannotAttach, match=sentence):
        await find_brokers(address, [], "auto")


def test_each_broker_gets_a_store_a_socket_and_a_configuration(tmp_path: Path) -> None:
    first, second = attached_places(settings(tmp_path), [found(), found("broker-b")], ATTACH)
    assert (first.name, first.socket, first.attached) == ("broker-a", tmp_path / "engine-broker-a.sock", True)
    assert first.environment["GLASSMQ_STORE_DIR"] == str(tmp_path / "attached" / "broker-a" / "store")
    assert first.environment["GLASSMQ_ATTACH"] == "10.0.0.1:9876"
    assert (first.environment["GLASSMQ_BROKER_PORT"], first.environment["GLASSMQ_NAMESRV_ADDR"]) == ("0", "")
    assert (tmp_path / "attached" / "broker-b").stat().st_mode & 0o777 == 0o700
    values, unknown = read_broker_conf(Path(second.environment["GLASSMQ_BROKER_CONF"]))
    options = make_options(values)
    assert not unknown and options.mapped_file_size_commit_log == 1 << 30 and options.file_reserved_time == 48


def test_the_configuration_has_what_both_brokers_share() -> None:
    broker = found(brokerIP1="10.0.0.2", listenPort="10911", messageDelayLevel="1s 5s", brokerPermission="2")
    assert broker.source is not None
    lines = conf_of(broker, broker.source, 48).splitlines()
    assert {"brokerIP1=10.0.0.2", "listenPort=10911", "messageDelayLevel=1s 5s", "brokerClusterName=C"} < set(lines)
    assert not any(line.startswith("brokerPermission") for line in lines)


def test_a_broker_that_is_away_is_followed_if_there_is_a_copy(tmp_path: Path) -> None:
    away = FoundBroker("broker-a", "C", None, "10.0.0.2:10911: no connection")
    with pytest.raises(CannotAttach, match=r"No broker can be followed: .*no connection"):
        attached_places(settings(tmp_path), [away], ATTACH)
    attached_places(settings(tmp_path), [found()], ATTACH)
    (place,) = attached_places(settings(tmp_path), [away], ATTACH)
    assert place.name == "broker-a"


def test_a_broker_that_left_its_name_servers_is_remembered(tmp_path: Path) -> None:
    attached_places(settings(tmp_path), [found(), found("broker-b")], ATTACH)
    (away,) = followed_before(settings(tmp_path), [found()])
    assert (away.name, away.source) == ("broker-b", None)
    assert "not followed: the name servers do not know it" in plan([away], "10.0.0.1:9876", 20)
    assert followed_before(settings(tmp_path), [found()._replace(cluster="another")]) == []


def test_a_name_that_is_no_folder_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(CannotAttach, match="is no name for a folder"):
        attached_places(settings(tmp_path), [found("../x")], ATTACH)


def test_the_number_of_followed_brokers_is_limited(tmp_path: Path) -> None:
    with pytest.raises(CannotAttach, match="26 can be followed"):
        attached_places(settings(tmp_path), [found(f"b{number}") for number in range(27)], ATTACH)


async def test_a_broker_that_joins_later_is_found_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with fake_master(master(20)) as leader:
        newcomers = Newcomers(settings(tmp_path), leader.address, "auto", ATTACH, ["broker-b"])
        leader.config = {"enableDLegerCommitLog": "true"}
        assert await newcomers.find_places() == await newcomers.find_places() == []
        assert caplog.text.count("DLedger") == 1  # said once, and tried again
        leader.config = {}
        (place,) = await newcomers.find_places()
        assert (place.name, place.attached) == ("broker-a", True)
        assert (tmp_path / "attached" / "broker-a" / "broker.conf").exists()
        assert await newcomers.find_places() == []


async def test_no_more_brokers_are_added_than_can_be_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with fake_master(master(1)) as leader:
        newcomers = Newcomers(
            settings(tmp_path), leader.address, "auto", ATTACH, [f"b{number}" for number in range(26)]
        )
        assert await newcomers.find_places() == []
    assert "26 brokers are followed, so broker-a is not" in caplog.text
    assert await newcomers.find_places() == []  # and while no name server answers

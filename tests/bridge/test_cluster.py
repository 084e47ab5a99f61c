from pathlib import Path
from string import ascii_lowercase
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.cluster import cluster, lone_broker
from broker_core.options import make_options


def settings(**changes: Any) -> Any:
    fields = {
        "GLASSMQ_OPTIONS": make_options({}),
        "GLASSMQ_CLUSTER_NAMES": [f"broker-{letter}" for letter in ascii_lowercase],
        "GLASSMQ_SOCKET": Path("/data/engine.sock"),
        "GLASSMQ_DATA_DIR": Path("/data"),
        "GLASSMQ_STORE_DIR": Path("/elsewhere"),
        "GLASSMQ_BROKER_PORT": 10911,
        "GLASSMQ_BROKER_HOST": "127.0.0.1",
        "GLASSMQ_NAMESRV_PORT": 9876,
    }
    return SimpleNamespace(**fields | changes)


def test_a_lone_broker_has_the_values_of_the_settings() -> None:
    assert lone_broker(settings()) == ("broker-a", Path("/data/engine.sock"), {}, False)


def test_each_broker_has_its_own_store_socket_and_port() -> None:
    first, second, third = cluster(settings(), 3)
    assert (first.name, first.socket) == ("broker-a", Path("/data/engine.sock"))
    assert first.environment["GLASSMQ_STORE_DIR"] == "/elsewhere"
    assert (second.name, second.socket) == ("broker-b", Path("/data/engine-broker-b.sock"))
    assert second.environment == {
        "GLASSMQ_BROKER_NAME": "broker-b",
        "GLASSMQ_BROKER_PORT": "10921",
        "GLASSMQ_STORE_DIR": "/data/brokers/broker-b/store",
        "GLASSMQ_NAMESRV_PORT": "0",
        "GLASSMQ_NAMESRV_ADDR": "127.0.0.1:9876",
    }
    assert third.environment["GLASSMQ_BROKER_PORT"] == "10931"


def test_other_name_servers_are_kept() -> None:
    there = make_options({"namesrvAddr": "10.0.0.1:9876"})
    assert cluster(settings(GLASSMQ_OPTIONS=there), 1)[0].environment["GLASSMQ_NAMESRV_ADDR"] == (
        "127.0.0.1:9876;10.0.0.1:9876"
    )
    alone = cluster(settings(GLASSMQ_OPTIONS=there, GLASSMQ_NAMESRV_PORT=0), 1)
    assert alone[0].environment["GLASSMQ_NAMESRV_ADDR"] == "10.0.0.1:9876"


@pytest.mark.parametrize(
    ("host", "name_server"), [("10.0.0.5", "10.0.0.5:9876"), ("0.0.0.0", "127.0.0.1:9876"), ("::1", "[::1]:9876")]
)
def test_the_name_server_has_the_address_for_rocketmqs_clients(host: str, name_server: str) -> None:
    [place] = cluster(settings(GLASSMQ_BROKER_HOST=host), 1)
    assert place.environment["GLASSMQ_NAMESRV_ADDR"] == name_server


def test_without_a_listener_there_are_no_ports() -> None:
    assert {place.environment["GLASSMQ_BROKER_PORT"] for place in cluster(settings(GLASSMQ_BROKER_PORT=0), 3)} == {"0"}


def test_ports_above_65535_are_refused() -> None:
    with pytest.raises(ValueError, match="65530 to 65550"):
        cluster(settings(GLASSMQ_BROKER_PORT=65530), 3)


def test_only_one_broker_can_have_the_port_for_slaves() -> None:
    with_slaves = settings(GLASSMQ_OPTIONS=make_options({"haListenPort": 10912}))
    assert len(cluster(with_slaves, 1)) == 1
    with pytest.raises(ValueError, match="haListenPort is the port of one broker"):
        cluster(with_slaves, 2)

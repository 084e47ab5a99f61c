"""Several brokers on one machine, each with its own engine: the store, socket and ports of each.

    broker-a   GLASSMQ_STORE_DIR                     engine.sock            GLASSMQ_BROKER_PORT
    broker-b   <data>/brokers/broker-b/store         engine-broker-b.sock   GLASSMQ_BROKER_PORT + 10
    ...

They share one web process and one name server (``manage.py namesrv``), with which each registers.
"""

from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

from broker_core.namesrv.register_broker import address

PORT_STEP = 10
MAX_BROKERS = len(ascii_lowercase)


class BrokerPlace(NamedTuple):
    """One broker: its name, the Unix socket of its engine, and the environment variables of its process.

    One that is ``attached`` follows a broker of another cluster and serves no RocketMQ clients.
    """

    name: str
    socket: Path
    environment: Mapping[str, str]
    attached: bool = False


def lone_broker(settings: Any) -> BrokerPlace:
    """The one broker of the settings."""
    return BrokerPlace(settings.GLASSMQ_OPTIONS.broker_name, settings.GLASSMQ_SOCKET, {})


def cluster(settings: Any, count: int) -> list[BrokerPlace]:
    """``count`` brokers; the first is that of the settings. ValueError if there are no ports for them."""
    first_port = settings.GLASSMQ_BROKER_PORT
    last_port = first_port + PORT_STEP * (count - 1)
    if first_port and last_port > 65_535:
        raise ValueError(f"{count} brokers need the ports {first_port} to {last_port}, but the highest port is 65535")
    if count > 1 and settings.GLASSMQ_OPTIONS.ha_listen_port:
        raise ValueError("haListenPort is the port of one broker: start each broker that has slaves on its own")
    host = settings.GLASSMQ_BROKER_HOST
    if host in {"0.0.0.0", "::"}:
        host = "127.0.0.1"
    nameservers = [address(host, settings.GLASSMQ_NAMESRV_PORT)] if settings.GLASSMQ_NAMESRV_PORT else []
    elsewhere = settings.GLASSMQ_OPTIONS.namesrv_addr
    addresses = ";".join([*nameservers, *filter(None, [elsewhere])])
    shared = {"GLASSMQ_NAMESRV_PORT": "0", "GLASSMQ_NAMESRV_ADDR": addresses}
    places = []
    for number, name in enumerate(settings.GLASSMQ_CLUSTER_NAMES[:count]):
        store, socket = settings.GLASSMQ_STORE_DIR, settings.GLASSMQ_SOCKET
        if number:
            store = settings.GLASSMQ_DATA_DIR / "brokers" / name / "store"
            socket = socket.with_name(f"{socket.stem}-{name}{socket.suffix}")
        port = first_port + PORT_STEP * number if first_port else 0
        places.append(
            BrokerPlace(
                name,
                socket,
                shared
                | {"GLASSMQ_BROKER_NAME": name, "GLASSMQ_BROKER_PORT": str(port), "GLASSMQ_STORE_DIR": str(store)},
            )
        )
    return places

"""The brokers of a running RocketMQ cluster, each followed by an engine of its own.

    broker-a   <data>/attached/broker-a/store   engine-broker-a.sock   <data>/attached/broker-a/broker.conf
    ...

The ``broker.conf`` contains what an engine must share with the broker that it follows: the size of a segment, the
delay levels, and the address in message ids.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bridge.cluster import BrokerPlace
from broker_core.broker_conf import read_broker_conf
from broker_core.client.mq_client_exception import MQClientException
from broker_core.server.attach.cluster_client import ClusterClient, Source, candidates
from broker_core.server.attach.follower import choose

log = logging.getLogger(__name__)

FOLDER = "attached"
CONF = "broker.conf"
MAX_BROKERS = 26
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,60}")
_SHARED = ("brokerIP1", "listenPort", "mappedFileSizeCommitLog", "messageDelayLevel")


class FoundBroker(NamedTuple):
    """A broker of the cluster. ``source`` is None if it cannot be followed now; ``problem`` says why."""

    name: str
    cluster: str
    source: Source | None
    problem: str


class CannotAttach(Exception):
    """No broker can be followed. The message is a sentence: why, and what to do."""


async def find_brokers(namesrv_addr: str, wanted: Sequence[str], source: str) -> list[FoundBroker]:
    """The brokers that the name servers know, or the ``wanted`` ones of them. CannotAttach without any."""
    try:
        client = ClusterClient(namesrv_addr)
    except MQClientException as error:
        raise CannotAttach(f"{error}.") from error
    try:
        known = await client.brokers()
        missing = [name for name in wanted if name not in known]
        if missing or not known:
            raise CannotAttach(
                f"The name servers {namesrv_addr} know "
                + (
                    f"no broker {', '.join(missing)}; they know {', '.join(known) or 'none'}."
                    if missing
                    else "no broker."
                )
            )
        found = []
        for name in wanted or known:
            sources, problems = [], []
            for broker_id, address in candidates(known[name], source):
                try:
                    sources.append(await client.source(address, broker_id))
                except (OSError, MQClientException) as error:
                    problems.append(f"{address}: {error}")
            problems += [one.obstacle for one in sources if one.obstacle]
            found.append(FoundBroker(name, known[name].cluster, choose(sources), "; ".join(problems)))
        return found
    except (OSError, MQClientException) as error:
        raise CannotAttach(f"The cluster of {namesrv_addr} cannot be read: {error}.") from error
    finally:
        await client.close()


def followed_before(settings: Any, found: Sequence[FoundBroker]) -> list[FoundBroker]:
    """Brokers of the same cluster of which there is a copy, but that the name servers do not know at the moment."""
    names, clusters = {broker.name for broker in found}, {broker.cluster for broker in found}
    before = []
    for conf in sorted((settings.GLASSMQ_DATA_DIR / FOLDER).glob(f"*/{CONF}")):
        name, cluster = conf.parent.name, read_broker_conf(conf)[0].get("brokerClusterName", "")
        if name not in names and cluster in clusters:
            before.append(FoundBroker(name, cluster, None, "the name servers do not know it at the moment"))
    return before


def attached_places(settings: Any, found: Sequence[FoundBroker], attach: Mapping[str, str]) -> list[BrokerPlace]:
    """The places of these brokers, and of those that were followed before and cannot be reached now.

    ``attach`` contains the environment variables that say how to follow. Writes the ``broker.conf`` of each broker.
    CannotAttach if there is none.
    """
    places, problems = [], []
    for broker in found:
        folder = settings.GLASSMQ_DATA_DIR / FOLDER / broker.name
        if not _NAME.fullmatch(broker.name):
            problems.append(f"{broker.name!r} is no name for a folder")
            continue
        if broker.source is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = conf_of(broker, broker.source, settings.GLASSMQ_ATTACH_KEEP_HOURS)
            (folder / CONF).write_text(text, encoding="utf-8")
        elif not (folder / CONF).exists():
            problems.append(broker.problem or f"{broker.name} has no broker that can be followed")
            continue
        places.append(_place(settings, broker.name, folder, attach))
    if not places:
        raise CannotAttach(f"No broker can be followed: {'; '.join(problems)}.")
    if len(places) > MAX_BROKERS:
        raise CannotAttach(
            f"The cluster has {len(places)} brokers, and {MAX_BROKERS} can be followed: choose some with "
            "GLASSMQ_ATTACH_BROKERS or --broker."
        )
    return places


class Newcomers:
    """The brokers that join the cluster after the start.

    ``known`` are those that are followed, by name. ``attach`` is that of ``attached_places``.
    """

    def __init__(
        self, settings: Any, namesrv_addr: str, source: str, attach: Mapping[str, str], known: Iterable[str]
    ) -> None:
        self._settings = settings
        self._namesrv_addr = namesrv_addr
        self._source = source
        self._attach = attach
        self._known = set(known)
        self._problem = ""

    async def find_places(self) -> list[BrokerPlace]:
        """The places of brokers that can be followed from now on. A reason why one cannot be is logged once."""
        try:
            names = await broker_names(self._namesrv_addr)
            new = [name for name in names if name not in self._known]
            if not new:
                return []
            room = MAX_BROKERS - len(self._known)
            if room <= 0:
                raise CannotAttach(f"{len(self._known)} brokers are followed, so {', '.join(new)} is not")
            found = await find_brokers(self._namesrv_addr, new[:room], self._source)
            places = attached_places(self._settings, found, self._attach)
        except (CannotAttach, OSError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("no broker is added: %s", error)
            return []
        self._known |= {place.name for place in places}
        return places


async def broker_names(namesrv_addr: str) -> list[str]:
    """The names of the brokers that the name servers know; CannotAttach if none answers."""
    client = ClusterClient(namesrv_addr)
    try:
        return list(await client.brokers())
    except (OSError, MQClientException) as error:
        raise CannotAttach(f"the cluster of {namesrv_addr} cannot be read: {error}") from error
    finally:
        await client.close()


def _place(settings: Any, name: str, folder: Path, attach: Mapping[str, str]) -> BrokerPlace:
    socket = settings.GLASSMQ_SOCKET.with_name(f"engine-{name}.sock")
    return BrokerPlace(
        name,
        socket,
        {
            **attach,
            "GLASSMQ_BROKER_CONF": str(folder / CONF),
            "GLASSMQ_BROKER_NAME": name,
            "GLASSMQ_BROKER_IP1": "",
            "GLASSMQ_BROKER_PORT": "0",
            "GLASSMQ_NAMESRV_PORT": "0",
            "GLASSMQ_NAMESRV_ADDR": "",
            "GLASSMQ_STORE_DIR": str(folder / "store"),
            "GLASSMQ_STORE_ADOPT": "0",
        },
        attached=True,
    )


def conf_of(broker: FoundBroker, source: Source, keep_hours: int) -> str:
    """The ``broker.conf`` of the engine that follows a broker."""
    values = {name: source.config[name] for name in _SHARED if source.config.get(name)}
    values |= {"brokerClusterName": broker.cluster, "fileReservedTime": str(keep_hours), "deleteWhen": "0"}
    values["deleteWhen"] = ";".join(f"{hour:02d}" for hour in range(24))
    return "".join(f"{name}={' '.join(value.split())}\n" for name, value in values.items())


def plan(found: Sequence[FoundBroker], namesrv_addr: str, max_rate: int) -> str:
    """What would be followed, and what it would cost, for people."""
    lines = [f"The name servers {namesrv_addr} know {len(found)} broker{'' if len(found) == 1 else 's'}:", ""]
    for broker in found:
        source = broker.source
        if source is None:
            lines.append(f"  {broker.name}  not followed: {broker.problem or 'none is registered'}")
            continue
        role = "the master" if source.broker_id == 0 else f"slave {source.broker_id}"
        size = source.max_offset - source.min_offset
        host, port = source.ha_address
        lines += [
            f"  {broker.name}  {role} at {source.address}, {source.version or 'version unknown'}",
            f"    its commit log      {size:,} bytes, from {source.min_offset:,} to {source.max_offset:,}",
            f"    HA port             {host}:{port}, read at {max_rate} MB/s at most",
            "    sent to the broker  one report every 5 s, never an acknowledgement; some read-only requests every 5 s",
        ]
    lines += ["", "Nothing is registered at a name server, so no client is sent to the copy."]
    return "\n".join(lines)

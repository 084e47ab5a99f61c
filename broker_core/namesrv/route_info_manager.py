"""The name server's tables: which broker has which topics, where brokers are, and which of them are alive.

    topicQueueTable     topic -> broker name -> queues and permissions
    brokerAddrTable     broker name -> cluster, and addresses by broker id
    clusterAddrTable    cluster -> broker names
    brokerLiveTable     (cluster, address) -> when it was heard, which state of its topics it told, on which connection

Brokers fill them: by REGISTER_BROKER, or, when the broker is in the same process, directly. A broker leaves by saying
so, with its connection, or when it was not heard for as long as it announced.
"""

from collections.abc import Callable, Hashable, Iterator

import msgspec

from broker_core.clock import Now
from broker_core.namesrv.register_broker import MAX_TOPICS, Registration, refused
from broker_core.namesrv.route_data import (
    MASTER_ID,
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicRouteData,
)
from broker_core.topics import PERM_READ, PERM_WRITE, TopicConfig

BROKER_EXPIRY_MS = 120_000
"""How long a broker that named no other time may be silent."""
MAX_ADDRESSES = 10_000
MAX_ROUTES = 1_000_000
"""Pairs of topic and broker, about 200 bytes each: many topics on many brokers are not both to be had."""
UNIT, UNIT_SUB = 1, 2
"""Bits of topicSysFlag."""

Address = tuple[str, str]
"""Cluster and address."""


class BrokerLiveInfo(msgspec.Struct, kw_only=True):
    """RocketMQ's BrokerLiveInfo. ``timeout_ms`` None: it lives as long as its connection, or this process."""

    broker_name: str
    broker_id: int
    heard_ns: int
    timeout_ms: int | None
    data_version: DataVersion
    connection: Hashable
    ha_server_addr: str
    filter_servers: list[str]


class Registered(msgspec.Struct, frozen=True):
    """What a slave is told: where its master is. Both empty for a master, or when there is none."""

    ha_server_addr: str = ""
    master_addr: str = ""


class RouteInfoManager:
    """RocketMQ's RouteInfoManager."""

    def __init__(self) -> None:
        self._topic_queue_table: dict[str, dict[str, QueueData]] = {}
        self._routes = 0  # pairs of topic and broker in it
        self._broker_addr_table: dict[str, BrokerData] = {}
        self._cluster_addr_table: dict[str, set[str]] = {}
        self._broker_live_table: dict[Address, BrokerLiveInfo] = {}

    # --- Brokers come and go ------------------------------------------------------------------------------------

    def register_broker(
        self, broker: Registration, connection: Hashable, now: Now, *, expires: bool = True
    ) -> Registered:
        """Enter a broker, or renew it. RequestError when RocketMQ refuses it, or a table is full.

        Topics are taken over when ``data_version`` is another one than before; those that it does not name stay.
        """
        address = (broker.cluster, broker.broker_addr)
        data = self._broker_addr_table.get(broker.broker_name)
        addrs = {} if data is None else data.broker_addrs
        old_addr = addrs.get(broker.broker_id)
        if old_addr not in (None, broker.broker_addr):
            old = self._broker_live_table.get((broker.cluster, old_addr or ""))
            if old is not None and old.data_version.state_version > broker.data_version.state_version:
                self._remove(address)
                return Registered()  # the one that is there was elected later; this one will notice
        if old_addr is None and len(broker.topics) == 1:
            # A change of one topic, told to a name server that forgot the broker: it must tell all its topics first.
            raise refused("register broker failed")
        heard = self._broker_live_table.get(address)
        if heard is not None and heard.broker_name == broker.broker_name:
            heard.heard_ns = now.mono_ns  # there may be no room for more of its topics: what it has stays
        self._make_room(broker, address)
        self._leave_other_place(broker, address)
        self._enter(broker)
        known = self._broker_live_table.get(address)
        if self._tells_topics(broker):
            self._take_topics(
                broker, everything=old_addr is None or known is None or known.data_version != broker.data_version
            )
        timeout_ms = (broker.heartbeat_timeout_ms or BROKER_EXPIRY_MS) if expires else None
        self._broker_live_table[address] = BrokerLiveInfo(
            broker_name=broker.broker_name,
            broker_id=broker.broker_id,
            heard_ns=now.mono_ns,
            timeout_ms=timeout_ms,
            data_version=broker.data_version,
            connection=connection,
            ha_server_addr=broker.ha_server_addr,
            filter_servers=broker.filter_servers,
        )
        return self._master_of(broker)

    def _make_room(self, broker: Registration, address: Address) -> None:
        if address not in self._broker_live_table and len(self._broker_live_table) >= MAX_ADDRESSES:
            raise refused(f"this name server knows {MAX_ADDRESSES} brokers, the most it takes")
        self._require_room(
            topics=sum(topic not in self._topic_queue_table for topic in broker.topics),
            routes=sum(broker.broker_name not in self._topic_queue_table.get(topic, ()) for topic in broker.topics),
        )

    def _require_room(self, *, topics: int, routes: int) -> None:
        """RequestError when there cannot be so many more."""
        if topics and len(self._topic_queue_table) + topics > MAX_TOPICS:
            raise refused(
                f"this name server knows {len(self._topic_queue_table)} topics and takes {MAX_TOPICS}; "
                f"{topics} more are too many"
            )
        if routes and self._routes + routes > MAX_ROUTES:
            raise refused(
                f"this name server knows {self._routes} pairs of topic and broker and takes {MAX_ROUTES}; "
                f"{routes} more are too many"
            )

    def _leave_other_place(self, broker: Registration, address: Address) -> None:
        """One address is one broker, in one cluster: what it was before under another name or id, it is no more."""
        known = self._broker_live_table.get(address)
        if known is not None and known.broker_name != broker.broker_name:
            self._remove(address)
        data = self._broker_addr_table.get(broker.broker_name)
        if data is not None and data.cluster != broker.cluster:
            for addr in list(data.broker_addrs.values()):
                self._remove((data.cluster, addr))
        elif data is not None:
            for broker_id in [
                broker_id
                for broker_id, addr in data.broker_addrs.items()
                if addr == broker.broker_addr and broker_id != broker.broker_id
            ]:
                del data.broker_addrs[broker_id]

    def _enter(self, broker: Registration) -> None:
        data = self._broker_addr_table.get(broker.broker_name)
        if data is None:
            data = BrokerData(
                broker_addrs={}, broker_name=broker.broker_name, cluster=broker.cluster, enable_acting_master=False
            )
            self._broker_addr_table[broker.broker_name] = data
        data.enable_acting_master = bool(broker.enable_acting_master)
        data.zone_name = broker.zone_name
        old_addr = data.broker_addrs.get(broker.broker_id)
        if old_addr not in (None, broker.broker_addr):
            self._broker_live_table.pop((broker.cluster, old_addr or ""), None)
        data.broker_addrs[broker.broker_id] = broker.broker_addr
        self._cluster_addr_table.setdefault(broker.cluster, set()).add(broker.broker_name)

    def _tells_topics(self, broker: Registration) -> bool:
        """A master does; of slaves the first one, for a master that is away, unless it is too old to know of that."""
        first = min(self._broker_addr_table[broker.broker_name].broker_addrs)
        return broker.broker_id == MASTER_ID or (broker.enable_acting_master is not None and broker.broker_id == first)

    def _take_topics(self, broker: Registration, *, everything: bool) -> None:
        acting = broker.broker_id != MASTER_ID and broker.enable_acting_master
        for topic, config in broker.topics.items():
            queues = self._topic_queue_table.setdefault(topic, {})
            known = broker.broker_name in queues
            if everything or not known:
                self._routes += not known
                perm = config.perm & ~PERM_WRITE if acting else config.perm
                queues[broker.broker_name] = _queue_data(broker.broker_name, config, perm)

    def _master_of(self, broker: Registration) -> Registered:
        if broker.broker_id == MASTER_ID:
            return Registered()
        master = self._broker_addr_table[broker.broker_name].broker_addrs.get(MASTER_ID)
        live = self._broker_live_table.get((broker.cluster, master)) if master else None
        return Registered(live.ha_server_addr, master or "") if live else Registered()

    def unregister_broker(self, cluster: str, broker_addr: str) -> None:
        """A broker takes its leave; nothing happens when it is not known."""
        self._remove((cluster, broker_addr))

    def connection_closed(self, connection: Hashable) -> None:
        """Brokers are gone with the connection on which they registered last."""
        for address in [address for address, live in self._broker_live_table.items() if live.connection is connection]:
            self._remove(address)

    def scan_not_active_broker(self, now: Now) -> list[Hashable]:
        """Forget brokers that were silent for too long; the connections on which they had registered."""
        silent = [
            (address, live.connection)
            for address, live in self._broker_live_table.items()
            if live.timeout_ms is not None and now.mono_ns - live.heard_ns > live.timeout_ms * 1_000_000
        ]
        for address, _ in silent:
            self._remove(address)
        return [connection for _, connection in silent]

    def _remove(self, address: Address) -> None:
        live = self._broker_live_table.pop(address, None)
        data = self._broker_addr_table.get(live.broker_name) if live else None
        if live is None or data is None or data.broker_addrs.get(live.broker_id) != address[1]:
            return
        del data.broker_addrs[live.broker_id]
        if not data.broker_addrs:
            del self._broker_addr_table[live.broker_name]
            self._leave_cluster(address[0], live.broker_name)
            for topic in list(self._topics_of(live.broker_name)):
                self._delete_queues(topic, live.broker_name)
        elif data.enable_acting_master and MASTER_ID not in data.broker_addrs:
            self._change_perms(live.broker_name, lambda perm: perm & ~PERM_WRITE)

    def _leave_cluster(self, cluster: str, broker_name: str) -> None:
        names = self._cluster_addr_table.get(cluster, set())
        names.discard(broker_name)
        if not names:
            self._cluster_addr_table.pop(cluster, None)

    # --- Between registrations ------------------------------------------------------------------------------------

    def heard_of(self, cluster: str, broker_addr: str, now: Now) -> DataVersion | None:
        """A broker shows that it is alive. The state of its topics that is known here, None for an unknown broker."""
        live = self._broker_live_table.get((cluster, broker_addr))
        if live is None:
            return None
        live.heard_ns = now.mono_ns
        return live.data_version

    def wipe_write_perm_of_broker(self, broker_name: str) -> int:
        """Let nobody send to a broker any more, until it registers a change. The number of its topics."""
        return self._change_perms(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm_of_broker(self, broker_name: str) -> int:
        """RocketMQ's opposite of wiping: all topics may be read and written. The number of them."""
        return self._change_perms(broker_name, lambda perm: PERM_READ | PERM_WRITE)

    def _change_perms(self, broker_name: str, change: Callable[[int], int]) -> int:
        count = 0
        for topic in self._topics_of(broker_name):
            queues = self._topic_queue_table[topic]
            queue = queues[broker_name]
            queues[broker_name] = msgspec.structs.replace(queue, perm=change(queue.perm))
            count += 1
        return count

    # --- Topics -------------------------------------------------------------------------------------------------

    def register_topic(self, topic: str, queue_datas: list[QueueData]) -> None:
        """Enter a topic for brokers that are known; RequestError when there is no room."""
        known = [queue for queue in queue_datas if queue.broker_name in self._broker_addr_table]
        if not known:
            return
        before = self._topic_queue_table.get(topic, {})
        more = len({queue.broker_name for queue in known} - before.keys())
        self._require_room(topics=not before, routes=more)
        self._routes += more
        queues = self._topic_queue_table.setdefault(topic, before)
        for queue in known:
            queues[queue.broker_name] = queue

    def delete_topic(self, topic: str, cluster: str = "") -> None:
        """Forget a topic, or its queues on the brokers of one cluster; brokers that still have it tell it again."""
        names = self._cluster_addr_table.get(cluster, set()) if cluster else set(self._topic_queue_table.get(topic, ()))
        for broker_name in names:
            self._delete_queues(topic, broker_name)

    def delete_topic_of_broker(self, topic: str, broker_name: str) -> None:
        """Forget a topic's queues on one broker."""
        self._delete_queues(topic, broker_name)

    def _delete_queues(self, topic: str, broker_name: str) -> None:
        queues = self._topic_queue_table.get(topic)
        if queues is None:
            return
        self._routes -= queues.pop(broker_name, None) is not None
        if not queues:
            del self._topic_queue_table[topic]

    def _topics_of(self, broker_name: str) -> Iterator[str]:
        return (topic for topic, queues in self._topic_queue_table.items() if broker_name in queues)

    # --- Answers --------------------------------------------------------------------------------------------------

    def pick_topic_route(self, topic: str) -> TopicRouteData | None:
        """The route of a topic; None when it is not known, or none of its brokers is there."""
        queues = self._topic_queue_table.get(topic)
        if not queues:
            return None
        brokers = [data for name in queues if (data := self._broker_addr_table.get(name)) is not None]
        if not brokers:
            return None
        filter_servers = {
            addr: live.filter_servers
            for data in brokers
            for addr in data.broker_addrs.values()
            if (live := self._broker_live_table.get((data.cluster, addr))) is not None and live.filter_servers
        }
        return TopicRouteData(
            broker_datas=brokers, filter_server_table=filter_servers, queue_datas=list(queues.values())
        )

    def cluster_info(self) -> ClusterInfo:
        """All brokers and clusters. To be encoded before anything changes."""
        return ClusterInfo(
            broker_addr_table=self._broker_addr_table,
            cluster_addr_table={cluster: sorted(names) for cluster, names in self._cluster_addr_table.items()},
        )

    def broker_addrs(self, broker_name: str) -> dict[int, str]:
        """A broker's addresses by id; empty when it is not known."""
        data = self._broker_addr_table.get(broker_name)
        return {} if data is None else data.broker_addrs

    def topics(self) -> list[str]:
        """Every topic's name."""
        return list(self._topic_queue_table)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Names of topics that a broker of this cluster has."""
        names = self._cluster_addr_table.get(cluster, set())
        return [topic for topic, queues in self._topic_queue_table.items() if not names.isdisjoint(queues)]

    def system_topics(self) -> tuple[list[str], str]:
        """What RocketMQ calls a name server's system topics: names of clusters and brokers. And a broker's address."""
        names = [*self._cluster_addr_table, *self._broker_addr_table]
        addr = next((addr for data in self._broker_addr_table.values() for addr in data.broker_addrs.values()), "")
        return names, addr

    def unit_topics(self, *, unit: bool | None, unit_sub: bool | None) -> list[str]:
        """Topics by the unit bits of their flag; None: either way."""

        def matches(queues: dict[str, QueueData]) -> bool:
            flag = next(iter(queues.values())).topic_sys_flag
            return unit in (None, bool(flag & UNIT)) and unit_sub in (None, bool(flag & UNIT_SUB))

        return [topic for topic, queues in self._topic_queue_table.items() if matches(queues)]


def _queue_data(broker_name: str, config: TopicConfig, perm: int) -> QueueData:
    return QueueData(
        broker_name=broker_name,
        perm=perm,
        read_queue_nums=config.read_queue_nums,
        topic_sys_flag=config.topic_sys_flag,
        write_queue_nums=config.write_queue_nums,
    )

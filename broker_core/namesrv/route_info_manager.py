"""The name server's tables: the topics of each broker, the addresses of brokers, and which brokers are alive.

    topicQueueTable     topic -> broker name -> queues and permissions
    brokerAddrTable     broker name -> cluster, and addresses by broker id
    clusterAddrTable    cluster -> broker names
    brokerLiveTable     (cluster, address) -> time of the last heartbeat, version of its topics, connection

Brokers register by REGISTER_BROKER; a broker in the same process does so by a call. A broker is removed when it
unregisters, when its connection closes, or when it sent no heartbeat for the time given in its registration.
"""

from collections.abc import Callable, Hashable, Iterator

import msgspec

from broker_core.clock import Now
from broker_core.namesrv.register_broker import MAX_TOPICS, Registration, queue_data, refused
from broker_core.namesrv.route_data import (
    MASTER_ID,
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicRouteData,
)
from broker_core.topics import PERM_READ, PERM_WRITE

BROKER_EXPIRY_MS = 120_000
"""How long a broker may send no heartbeat if its registration contains no other time."""
MAX_ADDRESSES = 10_000
MAX_ROUTES = 1_000_000
"""Limit of (topic, broker) pairs, which need about 200 bytes each."""
UNIT, UNIT_SUB = 1, 2
"""Bits of topicSysFlag."""

Address = tuple[str, str]
"""Cluster and address."""


class BrokerLiveInfo(msgspec.Struct, kw_only=True):
    """RocketMQ's BrokerLiveInfo. If ``timeout_ms`` is None, it lives as long as its connection or this process."""

    broker_name: str
    broker_id: int
    heard_ns: int
    timeout_ms: int | None
    data_version: DataVersion
    connection: Hashable
    ha_server_addr: str
    filter_servers: list[str]


class Registered(msgspec.Struct, frozen=True):
    """RocketMQ's RegisterBrokerResult: where a slave's master is. Empty for a master, or if there is no master."""

    ha_server_addr: str = ""
    master_addr: str = ""


class RouteInfoManager:
    """RocketMQ's RouteInfoManager."""

    def __init__(self) -> None:
        self._topic_queue_table: dict[str, dict[str, QueueData]] = {}
        self._routes = 0  # number of (topic, broker) pairs in it
        self._broker_addr_table: dict[str, BrokerData] = {}
        self._cluster_addr_table: dict[str, set[str]] = {}
        self._broker_live_table: dict[Address, BrokerLiveInfo] = {}

    # --- Registering and removing brokers -----------------------------------------------------------------------

    def register_broker(
        self, broker: Registration, connection: Hashable, now: Now, *, expires: bool = True
    ) -> Registered:
        """Add a broker, or renew its registration. RequestError if RocketMQ refuses it too, or a table is full.

        Its topics are updated if ``data_version`` has changed. Topics that the registration does not contain stay.
        """
        address = (broker.cluster, broker.broker_addr)
        data = self._broker_addr_table.get(broker.broker_name)
        addrs = {} if data is None else data.broker_addrs
        old_addr = addrs.get(broker.broker_id)
        if old_addr not in (None, broker.broker_addr):
            old = self._broker_live_table.get((broker.cluster, old_addr or ""))
            if old is not None and old.data_version.state_version > broker.data_version.state_version:
                self._remove(address)
                return Registered()  # the registered broker was elected later; this one will notice
        if old_addr is None and len(broker.topics) == 1:
            # The change of one topic, from a broker that is not registered (any more): it must send all topics first.
            raise refused("register broker failed")
        live = self._broker_live_table.get(address)
        if live is not None and live.broker_name == broker.broker_name:
            live.heard_ns = now.mono_ns  # it stays alive even if there is no room for more of its topics
        self._make_room(broker, address)
        self._leave_other_place(broker, address)
        self._enter(broker)
        known = self._broker_live_table.get(address)
        if self._may_set_topics(broker):
            self._set_topics(
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
            raise refused(f"this name server has {MAX_ADDRESSES} brokers, which is its limit")
        self._require_room(
            topics=sum(topic not in self._topic_queue_table for topic in broker.topics),
            routes=sum(broker.broker_name not in self._topic_queue_table.get(topic, ()) for topic in broker.topics),
        )

    def _require_room(self, *, topics: int, routes: int) -> None:
        """Raise RequestError if the tables have no room for so many more."""
        if topics and len(self._topic_queue_table) + topics > MAX_TOPICS:
            raise refused(
                f"this name server has {len(self._topic_queue_table)} topics; {topics} more would exceed its limit of "
                f"{MAX_TOPICS}"
            )
        if routes and self._routes + routes > MAX_ROUTES:
            raise refused(
                f"this name server has {self._routes} pairs of topic and broker; {routes} more would exceed its limit "
                f"of {MAX_ROUTES}"
            )

    def _leave_other_place(self, broker: Registration, address: Address) -> None:
        """Remove the address from its previous name, id or cluster: an address belongs to one broker only."""
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

    def _may_set_topics(self, broker: Registration) -> bool:
        """Whether the topics in a registration count: a master's, or those of the first slave while there is no master.

        A slave that is too old to send enableActingMaster does not stand in for its master.
        """
        first = min(self._broker_addr_table[broker.broker_name].broker_addrs)
        return broker.broker_id == MASTER_ID or (broker.enable_acting_master is not None and broker.broker_id == first)

    def _set_topics(self, broker: Registration, *, everything: bool) -> None:
        acting = broker.broker_id != MASTER_ID and broker.enable_acting_master
        for topic, config in broker.topics.items():
            queues = self._topic_queue_table.setdefault(topic, {})
            known = broker.broker_name in queues
            if everything or not known:
                self._routes += not known
                perm = config.perm & ~PERM_WRITE if acting else config.perm
                queues[broker.broker_name] = queue_data(broker.broker_name, config, perm)

    def _master_of(self, broker: Registration) -> Registered:
        if broker.broker_id == MASTER_ID:
            return Registered()
        master = self._broker_addr_table[broker.broker_name].broker_addrs.get(MASTER_ID)
        live = self._broker_live_table.get((broker.cluster, master)) if master else None
        return Registered(live.ha_server_addr, master or "") if live else Registered()

    def unregister_broker(self, cluster: str, broker_addr: str) -> None:
        """Remove a broker, if it is registered."""
        self._remove((cluster, broker_addr))

    def connection_closed(self, connection: Hashable) -> None:
        """Remove the brokers that registered last on this connection."""
        for address in [address for address, live in self._broker_live_table.items() if live.connection is connection]:
            self._remove(address)

    def scan_not_active_broker(self, now: Now) -> list[Hashable]:
        """Remove brokers without a recent heartbeat. Returns the connections on which they had registered."""
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

    def renew_broker(self, cluster: str, broker_addr: str, now: Now) -> DataVersion | None:
        """Note a heartbeat. Returns the version of the broker's topics here, or None for an unknown broker."""
        live = self._broker_live_table.get((cluster, broker_addr))
        if live is None:
            return None
        live.heard_ns = now.mono_ns
        return live.data_version

    def wipe_write_perm_of_broker(self, broker_name: str) -> int:
        """Remove write permission from a broker's topics until it registers a change. Returns their number."""
        return self._change_perms(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm_of_broker(self, broker_name: str) -> int:
        """Give read and write permission to all of a broker's topics. Returns their number."""
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
        """Add a topic to those of the brokers that are registered. RequestError if there is no room."""
        known = [queue for queue in queue_datas if queue.broker_name in self._broker_addr_table]
        if not known:
            return
        old_queues = self._topic_queue_table.get(topic, {})
        more = len({queue.broker_name for queue in known} - old_queues.keys())
        self._require_room(topics=not old_queues, routes=more)
        self._routes += more
        queues = self._topic_queue_table.setdefault(topic, old_queues)
        for queue in known:
            queues[queue.broker_name] = queue

    def delete_topic(self, topic: str, cluster: str = "") -> None:
        """Remove a topic, or its queues on the brokers of one cluster. Brokers that still have it register it again."""
        names = self._cluster_addr_table.get(cluster, set()) if cluster else set(self._topic_queue_table.get(topic, ()))
        for broker_name in names:
            self._delete_queues(topic, broker_name)

    def delete_topic_of_broker(self, topic: str, broker_name: str) -> None:
        """Remove a topic's queues on one broker."""
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
        """The route of a topic; None if the topic is unknown or none of its brokers is registered."""
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
        """All brokers and clusters. Encode it before the tables change."""
        return ClusterInfo(
            broker_addr_table=self._broker_addr_table,
            cluster_addr_table={cluster: sorted(names) for cluster, names in self._cluster_addr_table.items()},
        )

    def broker_addrs(self, broker_name: str) -> dict[int, str]:
        """A broker's addresses by id; empty for an unknown broker."""
        data = self._broker_addr_table.get(broker_name)
        return {} if data is None else data.broker_addrs

    def topics(self) -> list[str]:
        """The names of all topics."""
        return list(self._topic_queue_table)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """The names of topics of this cluster's brokers."""
        names = self._cluster_addr_table.get(cluster, set())
        return [topic for topic, queues in self._topic_queue_table.items() if not names.isdisjoint(queues)]

    def system_topics(self) -> tuple[list[str], str]:
        """RocketMQ's system topics of a name server (names of clusters and brokers), and the address of a broker."""
        names = [*self._cluster_addr_table, *self._broker_addr_table]
        addr = next((addr for data in self._broker_addr_table.values() for addr in data.broker_addrs.values()), "")
        return names, addr

    def unit_topics(self, *, unit: bool | None, unit_sub: bool | None) -> list[str]:
        """Topics by the unit bits of their flag. None matches both values."""

        def matches(queues: dict[str, QueueData]) -> bool:
            flag = next(iter(queues.values())).topic_sys_flag
            return unit in (None, bool(flag & UNIT)) and unit_sub in (None, bool(flag & UNIT_SUB))

        return [topic for topic, queues in self._topic_queue_table.items() if matches(queues)]

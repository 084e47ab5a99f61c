"""The tables by the rules of Apache RocketMQ 5.4.0, and their invariants."""

from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from broker_core.errors import RequestError
from broker_core.namesrv import route_info_manager
from broker_core.namesrv.register_broker import Registration
from broker_core.namesrv.route_data import DataVersion, QueueData
from broker_core.namesrv.route_info_manager import BROKER_EXPIRY_MS, Registered, RouteInfoManager
from broker_core.topics import TopicConfig
from tests.fakes.clock import VirtualClock


class Routes:
    """A manager with a clock and short calls."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.manager = RouteInfoManager()

    def register(
        self,
        name: str,
        addr: str,
        *topics: str,
        broker_id: int = 0,
        cluster: str = "C1",
        queues: int = 4,
        perm: int = 6,
        counter: int = 1,
        state_version: int = 0,
        connection: Hashable = "c",
        expires: bool = True,
        **more: Any,
    ) -> Registered:
        configs = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
            for topic in topics
        }
        broker = Registration(
            cluster=cluster,
            broker_name=name,
            broker_id=broker_id,
            broker_addr=addr,
            topics=configs,
            ha_server_addr=f"ha-{addr}",
            data_version=DataVersion(counter, state_version),
            **more,
        )
        return self.manager.register_broker(broker, connection, self.clock.now(), expires=expires)

    def addresses(self) -> dict[str, dict[int, str]]:
        info = self.manager.cluster_info()
        return {name: dict(data.broker_addrs) for name, data in info.broker_addr_table.items()}

    def clusters(self) -> dict[str, list[str]]:
        return self.manager.cluster_info().cluster_addr_table

    def queues(self, topic: str) -> dict[str, tuple[int, int]]:
        """Broker name -> (queues, perm)."""
        route = self.manager.pick_topic_route(topic)
        return (
            {}
            if route is None
            else {queue.broker_name: (queue.read_queue_nums, queue.perm) for queue in route.queue_datas}
        )

    def scan(self, ms: float) -> list[Hashable]:
        return self.manager.scan_not_active_broker(self.clock.advance(ms))


@pytest.fixture
def routes() -> Routes:
    return Routes()


# --- Registering ----------------------------------------------------------------------------------------------


def test_a_broker_and_its_topics(routes: Routes) -> None:
    assert routes.register("b1", "1:1", "t1", "t2") == Registered()
    assert routes.addresses() == {"b1": {0: "1:1"}} and routes.clusters() == {"C1": ["b1"]}
    assert routes.queues("t1") == routes.queues("t2") == {"b1": (4, 6)}
    assert routes.manager.topics() == ["t1", "t2"] and routes.manager.pick_topic_route("t3") is None


def test_an_unknown_broker_with_exactly_one_topic_is_refused(routes: Routes) -> None:
    with pytest.raises(RequestError, match="register broker failed"):
        routes.register("b1", "1:1", "only")
    assert routes.addresses() == {} and routes.clusters() == {} and routes.manager.topics() == []
    routes.register("b1", "1:1")  # none is fine
    routes.register("b1", "1:1", "only", counter=2)
    assert routes.queues("only") == {"b1": (4, 6)}


def test_topics_change_with_the_data_version_only(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2")
    routes.register("b1", "1:1", "t1", "t9", queues=9)
    assert routes.queues("t1") == {"b1": (4, 6)}
    assert routes.queues("t9") == {"b1": (9, 6)}, "an unknown topic is always added"
    routes.register("b1", "1:1", "t1", queues=9, counter=2)
    assert routes.queues("t1") == {"b1": (9, 6)}
    assert routes.queues("t2") == {"b1": (4, 6)}, "a topic that the registration does not contain stays"


def test_a_new_address_replaces_a_brokers_old_one(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2", connection="old")
    routes.register("b1", "2:1", "t1", "t2", queues=7, connection="new")
    assert routes.addresses() == {"b1": {0: "2:1"}} and routes.queues("t1") == {"b1": (7, 6)}
    routes.manager.connection_closed("old")
    assert routes.addresses() == {"b1": {0: "2:1"}}


def test_a_broker_that_was_elected_later_is_not_replaced(routes: Routes) -> None:
    routes.register("b1", "3:1", "t1", "t2", state_version=5)
    assert routes.register("b1", "4:1", "t1", "t2", queues=7, state_version=4) == Registered()
    assert routes.addresses() == {"b1": {0: "3:1"}} and routes.queues("t1") == {"b1": (4, 6)}
    routes.register("b1", "4:1", "t1", "t2", queues=7, state_version=5)
    assert routes.addresses() == {"b1": {0: "4:1"}} and routes.queues("t1") == {"b1": (7, 6)}


def test_an_address_has_only_one_broker_id(routes: Routes) -> None:
    routes.register("b1", "3:1", "t1", "t2")
    routes.register("b1", "3:1", "t1", "t2", broker_id=1, queues=6)
    assert routes.addresses() == {"b1": {1: "3:1"}}
    assert routes.queues("t1") == {"b1": (4, 6)}, "topics of a slave that is too old to stand in do not count"


def test_an_address_has_only_one_name_and_cluster(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2")
    routes.register("b2", "1:1", "t1", "t2")
    assert routes.addresses() == {"b2": {0: "1:1"}} and routes.clusters() == {"C1": ["b2"]}
    routes.register("b2", "1:1", "t1", "t2", cluster="C2")
    assert routes.addresses() == {"b2": {0: "1:1"}} and routes.clusters() == {"C2": ["b2"]}
    assert routes.queues("t1") == {"b2": (4, 6)}
    routes.manager.unregister_broker("C1", "1:1")
    assert routes.addresses() == {"b2": {0: "1:1"}}
    routes.manager.unregister_broker("C2", "1:1")
    assert routes.addresses() == {} and routes.clusters() == {} and routes.manager.topics() == []


def test_zone_and_filter_servers_are_in_the_route(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2", zone_name="z", filter_servers=["f:1"])
    route = routes.manager.pick_topic_route("t1")
    assert route is not None
    assert route.filter_server_table == {"1:1": ["f:1"]} and route.broker_datas[0].zone_name == "z"


# --- Slaves -----------------------------------------------------------------------------------------------------


def test_a_slave_gets_its_masters_address(routes: Routes) -> None:
    assert routes.register("b2", "2:2", "s1", "s2", broker_id=1) == Registered()
    routes.register("b2", "2:1", "t1", "t2")
    assert routes.register("b2", "2:2", "s1", "s2", broker_id=1) == Registered("ha-2:1", "2:1")
    assert routes.addresses() == {"b2": {0: "2:1", 1: "2:2"}}
    assert routes.queues("s1") == {} and routes.queues("t1") == {"b2": (4, 6)}


def test_the_first_slave_replaces_a_missing_master(routes: Routes) -> None:
    routes.register("b3", "3:2", "a1", "a2", broker_id=1, enable_acting_master=True)
    routes.register("b3", "3:3", "x1", "x2", broker_id=2, enable_acting_master=True)
    assert routes.queues("a1") == {"b3": (4, 4)} and routes.queues("x1") == {}
    routes.register("b3", "3:1", "a1", "a2", enable_acting_master=True, connection="master")
    assert routes.queues("a1") == {"b3": (4, 6)}
    routes.manager.connection_closed("master")
    assert routes.queues("a1") == {"b3": (4, 4)}, "no client can send to a slave"


def test_slaves_that_do_not_stand_in_do_not_change_permissions(routes: Routes) -> None:
    routes.register("b2", "2:1", "t1", "t2", connection="master", enable_acting_master=False)
    routes.register("b2", "2:2", broker_id=1, enable_acting_master=False)
    routes.manager.connection_closed("master")
    assert routes.addresses() == {"b2": {1: "2:2"}} and routes.queues("t1") == {"b2": (4, 6)}


# --- Leaving ----------------------------------------------------------------------------------------------------


def test_a_broker_unregisters(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2")
    routes.register("b2", "2:1", "t1", "t3")
    routes.manager.unregister_broker("C2", "1:1")
    routes.manager.unregister_broker("C1", "9:9")
    assert set(routes.addresses()) == {"b1", "b2"}
    routes.manager.unregister_broker("C1", "1:1")
    assert routes.addresses() == {"b2": {0: "2:1"}} and routes.clusters() == {"C1": ["b2"]}
    assert routes.manager.topics() == ["t1", "t3"] and routes.queues("t1") == {"b2": (4, 6)}


def test_a_closed_connections_brokers_are_removed(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2", connection="x")
    routes.register("b2", "2:1", "t1", "t2", connection="x")
    routes.register("b3", "3:1", "t1", "t2", connection="y")
    routes.register("b1", "1:1", "t1", "t2", connection="y")
    routes.manager.connection_closed("x")
    assert set(routes.addresses()) == {"b1", "b3"}


def test_a_broker_without_heartbeats_is_removed(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2", connection="x")
    routes.register("b2", "2:1", "t1", "t2", connection="y", heartbeat_timeout_ms=1000)
    routes.register("b3", "3:1", "t1", "t2", connection=None, expires=False)
    assert routes.scan(1000) == []
    assert routes.scan(1) == ["y"]
    assert set(routes.addresses()) == {"b1", "b3"}
    assert routes.scan(BROKER_EXPIRY_MS - 1001) == []
    assert routes.manager.renew_broker("C1", "1:1", routes.clock.now()) == DataVersion(1)
    assert routes.scan(BROKER_EXPIRY_MS) == []
    assert routes.scan(1) == ["x"]
    assert routes.scan(1e9) == [] and set(routes.addresses()) == {"b3"}


def test_a_heartbeat_of_an_unknown_broker(routes: Routes) -> None:
    assert routes.manager.renew_broker("C1", "1:1", routes.clock.now()) is None


# --- Administration -----------------------------------------------------------------------------------------------


def test_write_permission_is_wiped_until_the_broker_registers_a_change(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2", perm=7)
    routes.register("b2", "2:1", "t1", "t3")
    assert routes.manager.wipe_write_perm_of_broker("b1") == 2
    assert routes.queues("t1") == {"b1": (4, 5), "b2": (4, 6)}
    routes.register("b1", "1:1", "t1", "t2", perm=7)
    assert routes.queues("t1")["b1"] == (4, 5)
    assert routes.manager.add_write_perm_of_broker("b1") == 2
    assert routes.queues("t1")["b1"] == (4, 6), "RocketMQ drops the inherit bit here"
    routes.register("b1", "1:1", "t1", "t2", perm=7, counter=2)
    assert routes.queues("t1")["b1"] == (4, 7)
    assert routes.manager.wipe_write_perm_of_broker("nobody") == 0


def test_topics_registered_and_deleted_by_an_administrator(routes: Routes) -> None:
    routes.register("b1", "1:1", "t1", "t2")
    routes.register("b2", "2:1", "t1", "t2", cluster="C2")
    known = QueueData(broker_name="b1", perm=6, read_queue_nums=3, write_queue_nums=3)
    unknown = QueueData(broker_name="zz", perm=6, read_queue_nums=3, write_queue_nums=3)
    routes.manager.register_topic("nt", [known, unknown])
    routes.manager.register_topic("nt2", [unknown])
    routes.manager.register_topic("nt3", [])
    assert routes.queues("nt") == {"b1": (3, 6)} and sorted(routes.manager.topics()) == ["nt", "t1", "t2"]
    routes.manager.delete_topic("nope")
    routes.manager.delete_topic("t1", "zzz")
    routes.manager.delete_topic("t1", "C2")
    assert routes.queues("t1") == {"b1": (4, 6)}
    routes.manager.delete_topic("t1")
    routes.manager.delete_topic_of_broker("t2", "b2")
    assert routes.queues("t1") == {} and routes.queues("t2") == {"b1": (4, 6)}


def test_lists(routes: Routes) -> None:
    assert routes.manager.system_topics() == ([], "")
    routes.register("b1", "1:1", "t1", "t2")
    routes.register("b2", "2:1", "t2", "t3", cluster="C2")
    assert routes.manager.topics_of_cluster("C2") == ["t2", "t3"] and routes.manager.topics_of_cluster("C3") == []
    assert routes.manager.system_topics() == (["C1", "C2", "b1", "b2"], "1:1")
    assert routes.manager.broker_addrs("b2") == {0: "2:1"} and routes.manager.broker_addrs("b3") == {}


def test_unit_topics(routes: Routes) -> None:
    routes.register("b1", "1:1")
    for flag in range(4):
        routes.manager.register_topic(
            f"t{flag}",
            [QueueData(broker_name="b1", perm=6, read_queue_nums=1, write_queue_nums=1, topic_sys_flag=flag)],
        )
    assert routes.manager.unit_topics(unit=True, unit_sub=None) == ["t1", "t3"]
    assert routes.manager.unit_topics(unit=None, unit_sub=True) == ["t2", "t3"]
    assert routes.manager.unit_topics(unit=False, unit_sub=True) == ["t2"]


def test_tables_are_limited(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_info_manager, "MAX_TOPICS", 3)
    monkeypatch.setattr(route_info_manager, "MAX_ADDRESSES", 2)
    routes.register("b1", "1:1", "t1", "t2")
    with pytest.raises(RequestError, match="2 more would exceed"):
        routes.register("b2", "2:1", "t3", "t4")
    assert routes.addresses() == {"b1": {0: "1:1"}}
    routes.register("b2", "2:1", "t2", "t3")
    queue = QueueData(broker_name="b1", perm=6, read_queue_nums=1, write_queue_nums=1)
    routes.manager.register_topic("t3", [queue])
    with pytest.raises(RequestError, match="3 topics"):
        routes.manager.register_topic("t4", [queue])
    with pytest.raises(RequestError, match="2 brokers"):
        routes.register("b3", "3:1", "t1", "t2")
    routes.register("b2", "2:1", "t2", "t3", counter=2)


def test_a_broker_stays_registered_if_a_new_topic_has_no_room(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_info_manager, "MAX_TOPICS", 2)
    routes.register("b1", "1:1", "t1", "t2")
    for _ in range(3):
        assert routes.scan(100_000) == []
        with pytest.raises(RequestError, match="1 more"):
            routes.register("b1", "1:1", "t1", "t2", "t3", counter=2)
    assert routes.addresses() == {"b1": {0: "1:1"}} and routes.queues("t3") == {}
    with pytest.raises(RequestError, match="1 more"):
        routes.register("other", "1:1", "t1", "t3")  # not the registered broker, in spite of its address
    assert len(routes.scan(100_000)) == 0 and len(routes.scan(100_000)) == 1


def test_pairs_of_topic_and_broker_are_limited(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_info_manager, "MAX_ROUTES", 5)
    routes.register("b1", "1:1", "t1", "t2", "t3")
    with pytest.raises(RequestError, match="3 pairs of topic and broker; 3 more would exceed its limit of 5"):
        routes.register("b2", "2:1", "t1", "t2", "t3")
    assert routes.addresses() == {"b1": {0: "1:1"}} and routes.queues("t1") == {"b1": (4, 6)}
    routes.register("b2", "2:1", "t1", "t2")
    routes.register("b2", "2:1", "t1", "t2", queues=8, counter=2)  # existing topics may change
    queue = QueueData(broker_name="b2", perm=6, read_queue_nums=1, write_queue_nums=1)
    with pytest.raises(RequestError, match="1 more"):
        routes.manager.register_topic("t3", [queue])
    routes.manager.register_topic("t2", [queue])
    routes.manager.unregister_broker("C1", "1:1")
    routes.manager.register_topic("t3", [queue])
    routes.register("b1", "1:1", "t1", "t2")


# --- Whatever happens ---------------------------------------------------------------------------------------------

NAMES, ADDRS, CLUSTERS, TOPICS = ["b1", "b2", "b3"], ["1:1", "2:1", "3:1", "4:1"], ["C1", "C2"], ["t1", "t2", "t3"]


class RoutesInAnyOrder(RuleBasedStateMachine):
    """Brokers register, change and leave in any order."""

    connections = Bundle("connections")

    def __init__(self) -> None:
        super().__init__()
        self.routes = Routes()
        self.count = 0

    @rule(target=connections)
    def connect(self) -> int:
        self.count += 1
        return self.count

    @rule(
        connection=connections,
        name=st.sampled_from(NAMES),
        addr=st.sampled_from(ADDRS),
        broker_id=st.integers(0, 2),
        cluster=st.sampled_from(CLUSTERS),
        topics=st.lists(st.sampled_from(TOPICS), unique=True),
        counter=st.integers(0, 2),
        state_version=st.integers(0, 1),
        acting=st.none() | st.booleans(),
        timeout=st.none() | st.just(1000),
    )
    def register(
        self,
        connection: int,
        name: str,
        addr: str,
        broker_id: int,
        cluster: str,
        topics: list[str],
        counter: int,
        state_version: int,
        acting: bool | None,
        timeout: int | None,
    ) -> None:
        before = self.routes.addresses()
        try:
            self.routes.register(
                name,
                addr,
                *topics,
                broker_id=broker_id,
                cluster=cluster,
                counter=counter,
                state_version=state_version,
                connection=connection,
                enable_acting_master=acting,
                heartbeat_timeout_ms=timeout,
            )
        except RequestError:
            assert self.routes.addresses() == before and len(topics) == 1

    @rule(connection=consumes(connections))
    def close(self, connection: int) -> None:
        self.routes.manager.connection_closed(connection)
        assert all(live.connection != connection for live in self.routes.manager._broker_live_table.values())

    @rule(cluster=st.sampled_from(CLUSTERS), addr=st.sampled_from(ADDRS))
    def unregister(self, cluster: str, addr: str) -> None:
        self.routes.manager.unregister_broker(cluster, addr)

    @rule(ms=st.integers(0, 2000))
    def scan(self, ms: int) -> None:
        self.routes.scan(ms)

    @rule(topic=st.sampled_from(TOPICS), cluster=st.sampled_from(["", *CLUSTERS]))
    def delete(self, topic: str, cluster: str) -> None:
        self.routes.manager.delete_topic(topic, cluster)

    @rule(topic=st.sampled_from(TOPICS), names=st.lists(st.sampled_from(NAMES)))
    def enter_topic(self, topic: str, names: list[str]) -> None:
        self.routes.manager.register_topic(
            topic, [QueueData(broker_name=name, perm=6, read_queue_nums=1, write_queue_nums=1) for name in names]
        )

    @invariant()
    def the_tables_agree(self) -> None:
        manager = self.routes.manager
        brokers = manager._broker_addr_table
        lived = {
            (cluster, live.broker_name, live.broker_id, addr)
            for (cluster, addr), live in manager._broker_live_table.items()
        }
        listed = {
            (data.cluster, name, broker_id, addr)
            for name, data in brokers.items()
            for broker_id, addr in data.broker_addrs.items()
        }
        assert lived == listed
        assert all(data.broker_addrs for data in brokers.values())
        assert {(cluster, name) for cluster, names in manager._cluster_addr_table.items() for name in names} == {
            (data.cluster, name) for name, data in brokers.items()
        }
        assert all(manager._cluster_addr_table.values())
        assert manager._routes == sum(map(len, manager._topic_queue_table.values()))
        for topic, queues in manager._topic_queue_table.items():
            assert queues and set(queues) <= set(brokers)
            assert manager.pick_topic_route(topic) is not None


RoutesInAnyOrder.TestCase.settings = settings(stateful_step_count=30)
TestAnyOrder = RoutesInAnyOrder.TestCase

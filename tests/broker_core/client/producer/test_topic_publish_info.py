"""From routes to queues."""

from broker_core.client.producer.topic_publish_info import TopicPublishInfo, queues_to_read, queues_to_write
from broker_core.namesrv.route_data import BrokerData, QueueData, TopicRouteData


def route(*queue_datas: QueueData, slaves_only: str = "") -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[
            BrokerData(
                broker_addrs={1 if data.broker_name == slaves_only else 0: "127.0.0.1:10911"},
                broker_name=data.broker_name,
                cluster="c",
                enable_acting_master=False,
            )
            for data in queue_datas
        ],
        filter_server_table={},
        queue_datas=list(queue_datas),
    )


def data(broker: str, perm: int = 6, read: int = 2, write: int = 3) -> QueueData:
    return QueueData(broker_name=broker, perm=perm, read_queue_nums=read, write_queue_nums=write)


def names(queues: list) -> list[str]:  # type: ignore[type-arg]
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


def test_queues_are_sorted_by_broker_and_number() -> None:
    both = route(data("b"), data("a", read=11))
    assert names(queues_to_read("T", both)) == [f"a{n}" for n in range(11)] + ["b0", "b1"]
    assert names(queues_to_write("T", both)) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert {queue.topic for queue in queues_to_read("T", both)} == {"T"}


def test_permissions_count() -> None:
    some = route(data("a", perm=4), data("b", perm=2))
    assert names(queues_to_read("T", some)) == ["a0", "a1"]
    assert names(queues_to_write("T", some)) == ["b0", "b1", "b2"]


def test_producers_need_a_master() -> None:
    some = route(data("a"), data("b"), slaves_only="a")
    assert names(queues_to_write("T", some)) == ["b0", "b1", "b2"]
    assert names(queues_to_read("T", some)) == ["a0", "a1", "b0", "b1"]


def test_a_topic_that_is_not_there_yet_has_the_queues_that_the_producer_asks_for() -> None:
    assert names(queues_to_write("T", route(data("a", write=8)), 4)) == ["a0", "a1", "a2", "a3"]
    assert names(queues_to_write("T", route(data("a", write=2)), 4)) == ["a0", "a1"]


def test_queues_take_turns() -> None:
    info = TopicPublishInfo(queues_to_write("T", route(data("a", write=2), data("b", write=1))), 1)
    picked = [info.select_one(lambda queue: True) for _ in range(4)]
    assert names(picked) == ["a1", "b0", "a0", "a1"]
    assert names([info.select_one(lambda queue: queue.broker_name == "a") for _ in range(3)]) == ["a0", "a1", "a0"]
    assert info.select_one(lambda queue: False) is None
    assert TopicPublishInfo([], 0).select_one(lambda queue: True) is None

"""Which broker comes next when one is slow or gone."""

import pytest

from broker_core.client.producer.mq_fault_strategy import MQFaultStrategy
from broker_core.client.producer.topic_publish_info import TopicPublishInfo
from broker_core.commands import MessageQueue

MS = 1_000_000


def publish_info(*brokers: str) -> TopicPublishInfo:
    return TopicPublishInfo([MessageQueue(topic="T", broker_name=broker, queue_id=0) for broker in brokers], 0)


def pick(strategy: MQFaultStrategy, info: TopicPublishInfo, last: str = "", now_ns: int = 0) -> str:
    queue = strategy.select_one_message_queue(info, last, now_ns)
    assert queue is not None
    return queue.broker_name


def test_the_broker_that_failed_is_avoided_at_the_next_attempt() -> None:
    strategy, info = MQFaultStrategy(), publish_info("a", "b")
    strategy.update_fault_item("a", 60_000, 0, isolation=True)  # counts only with fault tolerance
    assert [pick(strategy, info) for _ in range(4)] == ["a", "b", "a", "b"]
    assert [pick(strategy, info, last="a") for _ in range(3)] == ["b", "b", "b"]


def test_the_only_broker_is_tried_again() -> None:
    for strategy in (MQFaultStrategy(), MQFaultStrategy(send_latency_fault_enable=True)):
        assert pick(strategy, publish_info("a"), last="a") == "a"
        assert strategy.select_one_message_queue(publish_info(), "", 0) is None


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [(0, 0), (49.9, 0), (50, 0), (549, 0), (550, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (60_000, 30_000)],
)
def test_a_slow_broker_rests(latency_ms: float, pause_ms: int) -> None:
    strategy = MQFaultStrategy(send_latency_fault_enable=True)
    strategy.update_fault_item("a", latency_ms, 0)
    assert strategy.is_available("a", pause_ms * MS)
    assert not pause_ms or not strategy.is_available("a", pause_ms * MS - 1)


def test_resting_brokers_are_left_out_unless_all_rest() -> None:
    strategy, info = MQFaultStrategy(send_latency_fault_enable=True), publish_info("a", "b", "c")
    strategy.update_fault_item("a", 1, 0, isolation=True)
    assert [pick(strategy, info) for _ in range(4)] == ["b", "c", "b", "c"]
    assert [pick(strategy, info, last="b") for _ in range(2)] == ["c", "c"]
    for broker in "bc":
        strategy.update_fault_item(broker, 1, 0, isolation=True)
    assert {pick(strategy, info, last="b") for _ in range(4)} == {"a", "c"}
    strategy.update_fault_item("b", 1, 0)
    assert pick(strategy, info) == "b"
    assert {pick(strategy, info, now_ns=10_000 * MS) for _ in range(3)} == {"a", "b", "c"}

"""A client's metrics, as Prometheus reads them."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from broker_core.client import DefaultMQProducer, DefaultMQPushConsumer, Message, MQClientException, MQClientInstance
from broker_core.client.listeners.prometheus_metrics import PrometheusMetrics
from tests.fakes.client import Inbox
from tests.fakes.virtual_cluster import NAMESRV, PULL, SEND, VirtualCluster, run_virtually


def test_sends_pulls_and_consumption_are_measured() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        registry = CollectorRegistry()
        metrics = PrometheusMetrics(registry, clock=cluster.loop)
        instance = MQClientInstance(NAMESRV, clock=cluster.loop, event_listener=metrics)
        inbox = Inbox(fail=lambda message: message.body == b"bad")
        consumer = DefaultMQPushConsumer("cg", instance=instance)
        consumer.subscribe("orders")
        consumer.register_message_listener(inbox)
        async with DefaultMQProducer("pg", instance=instance) as producer, consumer:
            await asyncio.sleep(2)
            inbox.open.clear()
            await producer.send(Message("orders", b"good"))
            await asyncio.sleep(0.05)
            inbox.open.set()
            await producer.send(Message("orders", b"bad"))
            await inbox.until(2)
            broker.refuse |= {PULL: 2, SEND: 13}
            with pytest.raises(MQClientException):
                await producer.send(Message("orders", b"refused"))
            await asyncio.sleep(20)

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, {"topic": "orders", **labels})

        sender, group = {"producer_group": "pg"}, {"consumer_group": "cg"}
        assert value("rocketmq_send_cost_time_count", **sender, invocation_status="success") == 2
        assert value("rocketmq_send_cost_time_count", **sender, invocation_status="failure") == 1
        assert value("rocketmq_delivery_latency_count", **group) == 2
        assert value("rocketmq_delivery_latency_bucket", **group, le="1.0") == 2
        assert value("rocketmq_process_time_sum", **group, invocation_status="success") == pytest.approx(50, abs=1)
        assert value("rocketmq_process_time_bucket", **group, invocation_status="success", le="10.0") == 0
        for status in ("success", "failure"):
            assert value("rocketmq_consumed_messages_total", **group, invocation_status=status) == 1
        assert value("rocketmq_pull_answers_total", **group, status="FOUND") == 2
        assert (value("rocketmq_pull_answers_total", **group, status="failure") or 0) > 2
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            PrometheusMetrics(registry)

    run_virtually(story)

"""Metrics of a client for Prometheus, with the names and labels of RocketMQ's clients. It needs prometheus_client.

instance = MQClientInstance("127.0.0.1:9876", event_listener=PrometheusMetrics())
"""

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from broker_core.client.client_events import ClientEvent, MessagesConsumed, MessageSent, MessagesPut, PullAnswered
from broker_core.clock import Clock, SystemClock

SEND_MS = (1, 5, 10, 20, 50, 200, 500)
PROCESS_MS = (1, 5, 10, 100, 1000, 10_000, 60_000)
DELIVERY_MS = (1, 5, 20, 100, 1000, 5000, 10_000)


class PrometheusMetrics:
    """An event listener that fills ``registry``. Clients of one process can share one. Times are in ms, as RocketMQ's.

    | metric | labels |
    |---|---|
    | ``rocketmq_send_cost_time`` | topic, producer_group, invocation_status (success, failure) |
    | ``rocketmq_delivery_latency`` | topic, consumer_group; from the broker's clock at storage to the client's |
    | ``rocketmq_process_time`` | topic, consumer_group, invocation_status; calls of the listener |
    | ``rocketmq_consumed_messages_total`` | topic, consumer_group, invocation_status |
    | ``rocketmq_pull_answers_total`` | topic, consumer_group, status (FOUND, NO_NEW_MSG, ..., failure) |
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, clock: Clock | None = None) -> None:
        """ValueError if ``registry`` has these metrics already."""
        self._clock = clock or SystemClock()
        group = "topic", "consumer_group"
        status = "invocation_status"
        self._sends = Histogram(
            "rocketmq_send_cost_time",
            "Sends, retries included, in ms",
            ("topic", "producer_group", status),
            registry=registry,
            buckets=SEND_MS,
        )
        self._latencies = Histogram(
            "rocketmq_delivery_latency",
            "From storage to the client, in ms",
            group,
            registry=registry,
            buckets=DELIVERY_MS,
        )
        self._calls = Histogram(
            "rocketmq_process_time",
            "Calls of the listener, in ms",
            (*group, status),
            registry=registry,
            buckets=PROCESS_MS,
        )
        self._consumed = Counter(
            "rocketmq_consumed_messages", "Messages that a listener got", (*group, status), registry=registry
        )
        self._pulls = Counter("rocketmq_pull_answers", "Answers to pulls", (*group, "status"), registry=registry)

    def __call__(self, event: ClientEvent) -> None:
        """The client's event listener."""
        if isinstance(event, MessageSent):
            status = "success" if event.send_status else "failure"
            self._sends.labels(event.topic, event.group, status).observe(event.duration_ns / 1e6)
        elif isinstance(event, PullAnswered):
            self._pulls.labels(event.queue.topic, event.group, event.status or "failure").inc()
        elif isinstance(event, MessagesPut):
            now_ms = self._clock.now().wall_ms
            latencies = self._latencies.labels(event.queue.topic, event.group)
            for message in event.messages:
                latencies.observe(max(0, now_ms - message.store_timestamp))
        elif isinstance(event, MessagesConsumed):
            topic, failed = event.queue.topic, len(event.messages) - event.consumed
            status = "failure" if failed else "success"
            self._calls.labels(topic, event.group, status).observe(event.duration_ns / 1e6)
            if event.consumed:
                self._consumed.labels(topic, event.group, "success").inc(event.consumed)
            if failed:
                self._consumed.labels(topic, event.group, "failure").inc(failed)

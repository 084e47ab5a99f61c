"""Each group's progress, and the store's, as Prometheus metrics.

Where RocketMQ 5 has a metric, this one has its name and its labels: ``cluster``, ``node_type``, ``node_id`` (the
broker's name), ``topic``, ``consumer_group``, ``is_retry``, ``is_system``. The others begin with ``glassmq_``. A value
that is unknown has no sample.
"""

from collections.abc import Iterable
from typing import NamedTuple, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from bridge.port import State, commands

RETRY_PREFIX = "%RETRY%"
NODE = ["cluster", "node_type", "node_id"]
STORAGE = [*NODE, "storage_type", "storage_medium"]
STATES: tuple[str, ...] = get_args(State)


class Answers(NamedTuple):
    """What one broker answered at a scrape; a part without an answer is None."""

    snapshot: commands.Snapshot | None
    metrics: commands.BrokerMetrics | None


def group_metrics(brokers: Iterable[commands.BrokerMetrics]) -> list[Metric]:
    """The groups' metrics."""
    by_topic = [*NODE, "consumer_group", "topic", "is_retry", "is_system"]
    lag = GaugeMetricFamily(
        "rocketmq_consumer_lag_messages",
        "Messages that wait for the group, not committed; with tags or an SQL92 filter, an estimate.",
        labels=by_topic,
    )
    latency = GaugeMetricFamily(
        "rocketmq_consumer_lag_latency", "Age of the oldest message in the lag, ms.", labels=by_topic
    )
    in_flight = GaugeMetricFamily(
        "rocketmq_consumer_inflight_messages",
        "Messages that were pulled and are not committed, or popped, not in order, and not acknowledged.",
        labels=by_topic,
    )
    ready = GaugeMetricFamily("rocketmq_consumer_ready_messages", "Messages that were not pulled yet.", labels=by_topic)
    out = CounterMetricFamily("rocketmq_messages_out", "Messages delivered.", labels=by_topic)
    dead = CounterMetricFamily(
        "rocketmq_send_to_dlq_messages", "Messages that became dead letters.", labels=[*NODE, "consumer_group"]
    )
    of_group = ["broker", "consumer_group"]
    unknown = GaugeMetricFamily(
        "glassmq_consumer_unknown_queues", "Queues whose lag is unknown.", labels=[*of_group, "topic"]
    )
    state = GaugeMetricFamily(
        "glassmq_consumer_group_state", "1 for the group's state, 0 for the others.", labels=[*of_group, "state"]
    )
    problem = GaugeMetricFamily(
        "glassmq_consumer_group_problem",
        "1 for each error and warning among the group's verdicts.",
        labels=[*of_group, "verdict", "severity"],
    )
    holds = GaugeMetricFamily("glassmq_consumer_group_held_pulls", "Held pulls of the group.", labels=of_group)
    retrying = GaugeMetricFamily(
        "glassmq_consumer_group_retrying_messages", "Messages that wait for another try.", labels=of_group
    )
    letters = GaugeMetricFamily("glassmq_consumer_group_dead_letters", "Dead letters that are stored.", labels=of_group)
    for broker in brokers:
        node = _node(broker)
        for group in broker.groups:
            place = [broker.broker, group.group]
            for name in STATES:
                state.add_metric([*place, name], int(name == group.state))
            for verdict in group.verdicts:
                if verdict.severity in ("error", "warning"):
                    problem.add_metric([*place, verdict.id, verdict.severity], 1)
            if group.holds is not None:
                holds.add_metric(place, group.holds)
            letters.add_metric(place, group.dead_letters)
            dead.add_metric([*node, group.group], group.dead_lettered)
            _add(retrying, place, group.retrying)
            for row in group.topics:
                labels = [
                    *node,
                    group.group,
                    row.topic,
                    str(row.topic.startswith(RETRY_PREFIX)).lower(),
                    str(row.is_system).lower(),
                ]
                unknown.add_metric([*place, row.topic], row.unknown_queues)
                _add(lag, labels, row.lag)
                _add(latency, labels, row.oldest_ms)
                _add(in_flight, labels, row.in_flight)
                _add(ready, labels, row.ready)
                _add(out, labels, row.delivered)
    return [lag, latency, in_flight, ready, out, dead, unknown, state, problem, holds, retrying, letters]


def storage_metrics(brokers: Iterable[Answers]) -> list[Metric]:
    """The disk and the commit log's metrics."""
    used = GaugeMetricFamily(
        "glassmq_disk_used_ratio", "How full the store's file system is, 0 to 1.", labels=["broker"]
    )
    unflushed = GaugeMetricFamily(
        "rocketmq_storage_flush_behind_bytes", "Bytes of the commit log that are not on the disk.", labels=STORAGE
    )
    undispatched = GaugeMetricFamily(
        "rocketmq_storage_dispatch_behind_bytes", "Bytes of the commit log that are in no queue yet.", labels=STORAGE
    )
    slaves = GaugeMetricFamily("glassmq_slaves", "Slaves that copy the commit log.", labels=["broker"])
    lag = GaugeMetricFamily(
        "glassmq_slave_lag_bytes", "Bytes of the commit log that the slave furthest behind lacks.", labels=["broker"]
    )
    timeouts = CounterMetricFamily(
        "glassmq_slave_timeouts", "Requests that were answered FLUSH_SLAVE_TIMEOUT.", labels=["broker"]
    )
    for snapshot, metrics in brokers:
        if metrics is None:
            continue
        used.add_metric([metrics.broker], metrics.disk_used_percent / 100)
        slaves.add_metric([metrics.broker], metrics.slaves)
        timeouts.add_metric([metrics.broker], metrics.slave_timeouts)
        if metrics.slave_lag_bytes is not None:
            lag.add_metric([metrics.broker], metrics.slave_lag_bytes)
        if snapshot is not None:
            positions, node = snapshot.positions, _storage(metrics)
            unflushed.add_metric(node, max(0, positions.appended - positions.flushed))
            undispatched.add_metric(node, max(0, positions.appended - positions.dispatched))
    return [used, slaves, lag, timeouts, unflushed, undispatched]


def timer_metrics(brokers: Iterable[commands.BrokerMetrics]) -> list[Metric]:
    """The timer wheel's metrics. RocketMQ's ``rocketmq_timer_dequeue_lag`` counts all messages in the wheel, too."""
    enqueue_lag = GaugeMetricFamily(
        "rocketmq_timer_enqueue_lag", "Messages for an exact time that are not in the timer wheel yet.", labels=STORAGE
    )
    enqueue_latency = GaugeMetricFamily(
        "rocketmq_timer_enqueue_latency", "Age of the first of them, ms.", labels=STORAGE
    )
    dequeue_lag = GaugeMetricFamily(
        "rocketmq_timer_dequeue_lag", "Messages in the timer wheel, due or not.", labels=STORAGE
    )
    dequeue_latency = GaugeMetricFamily(
        "rocketmq_timer_dequeue_latency",
        "How long ago the second that is being delivered ended, ms; 0 if it has not ended.",
        labels=STORAGE,
    )
    by_topic = [*STORAGE, "topic"]
    timing = GaugeMetricFamily("rocketmq_timing_messages", "Messages in the timer wheel.", labels=by_topic)
    enqueued = CounterMetricFamily(
        "rocketmq_timer_enqueue", "Messages that were put into the timer wheel.", labels=by_topic
    )
    dequeued = CounterMetricFamily(
        "rocketmq_timer_dequeue", "Messages that were stored again from the timer wheel.", labels=by_topic
    )
    for broker in brokers:
        timers, node = broker.timers, _storage(broker)
        if timers is None:
            continue
        enqueue_lag.add_metric(node, timers.enqueue_lag)
        _add(enqueue_latency, node, timers.enqueue_latency_ms)
        dequeue_lag.add_metric(node, timers.dequeue_lag)
        dequeue_latency.add_metric(node, timers.dequeue_latency_ms)
        _add_topics(timing, node, timers.waiting or {})
        _add_topics(enqueued, node, timers.enqueued)
        _add_topics(dequeued, node, timers.dequeued)
    return [enqueue_lag, enqueue_latency, dequeue_lag, dequeue_latency, timing, enqueued, dequeued]


def transaction_metrics(brokers: Iterable[commands.BrokerMetrics]) -> list[Metric]:
    """The ends of transactions."""
    by_topic = [*NODE, "topic"]
    committed = CounterMetricFamily("rocketmq_commit_messages", "Transactions that were committed.", labels=by_topic)
    rolled_back = CounterMetricFamily(
        "rocketmq_rollback_messages", "Transactions that were rolled back.", labels=by_topic
    )
    for broker in brokers:
        if broker.transactions is not None:
            _add_topics(committed, _node(broker), broker.transactions.committed)
            _add_topics(rolled_back, _node(broker), broker.transactions.rolled_back)
    return [committed, rolled_back]


def left_out_metric(brokers: Iterable[Answers]) -> Metric:
    """What the other metrics leave out because there is too much of it."""
    left_out = GaugeMetricFamily(
        "glassmq_metrics_left_out",
        "What is beyond the limits of this page.",
        labels=["broker", "what"],
    )
    for snapshot, metrics in brokers:
        if metrics is not None:
            left_out.add_metric([metrics.broker, "groups"], metrics.groups_left_out)
            left_out.add_metric([metrics.broker, "group_topics"], metrics.topics_left_out)
            if metrics.timers is not None:
                left_out.add_metric([metrics.broker, "timer_messages"], metrics.timers.left_out)
            if metrics.transactions is not None:
                left_out.add_metric([metrics.broker, "transactions"], metrics.transactions.left_out)
        if snapshot is not None:
            left_out.add_metric([snapshot.broker, "queues"], max(0, snapshot.queues_total - len(snapshot.queues)))
    return left_out


def _node(broker: commands.BrokerMetrics) -> list[str]:
    return [broker.cluster, "broker", broker.broker]


def _storage(broker: commands.BrokerMetrics) -> list[str]:
    return [*_node(broker), "local", "disk"]


def _add_topics(family: GaugeMetricFamily | CounterMetricFamily, labels: list[str], by_topic: dict[str, int]) -> None:
    for topic, count in by_topic.items():
        family.add_metric([*labels, topic], count)


def _add(family: GaugeMetricFamily | CounterMetricFamily, labels: list[str], value: int | None) -> None:
    if value is not None:
        family.add_metric(labels, value)

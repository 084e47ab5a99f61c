"""Prometheus metrics, made from what the engines answer at the moment of the scrape."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeVar

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from api.http import brokers
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Route
from api.resources.group_metrics import (
    Answers,
    group_metrics,
    left_out_metric,
    storage_metrics,
    timer_metrics,
    transaction_metrics,
)
from bridge.port import BrokerError, EnginePort, PortUnavailable, commands

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_QUEUES = 2000

R = TypeVar("R", bound=commands.Reply)

WAKE_CAUSES = ("arrival", "filter_advanced", "missed_arrival", "timeout", "short_poll", "shutdown")


_NOW = {
    "damaged_ranges_now": (
        "glassmq_damaged_ranges",
        "Ranges of the commit log that are in the store's quarantine or missing.",
    ),
    "damaged_bytes_now": (
        "glassmq_damaged_bytes",
        "Bytes of the commit log that are in the store's quarantine or missing.",
    ),
    "transactions_pending_now": (
        "glassmq_transactions_pending",
        "Half messages that wait for their transactions to end.",
    ),
    "timer_messages_now": ("glassmq_timer_messages", "Messages that wait for an exact time."),
    "messages_invisible_now": (
        "glassmq_messages_invisible",
        "Messages that were popped, not in order, and are not acknowledged.",
    ),
    "connections_now": ("glassmq_connections", "Open connections of RocketMQ clients and WebSockets."),
    "groups_now": ("glassmq_consumer_groups", "Consumer groups that have members."),
    "members_now": ("glassmq_consumer_group_members", "Members of all consumer groups."),
}


class BrokerCollector(Collector):
    """Answers by broker as metrics. A broker without an answer has only `glassmq_up` 0."""

    def __init__(self, brokers: Mapping[str, Answers]) -> None:
        self._brokers = brokers
        self._snapshots = [one.snapshot for one in brokers.values() if one.snapshot is not None]
        self._metrics = [one.metrics for one in brokers.values() if one.metrics is not None]

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("glassmq_up", "1 when the broker's engine answers.", labels=["broker"])
        for broker, answers in self._brokers.items():
            up.add_metric([broker], 0 if answers.snapshot is None else 1)
        yield up
        yield from group_metrics(self._metrics)
        yield from timer_metrics(self._metrics)
        yield from transaction_metrics(self._metrics)
        yield from storage_metrics(self._brokers.values())
        yield left_out_metric(self._brokers.values())
        if not self._snapshots:
            return
        yield from self._state()
        yield from self._counters()
        yield self._queues()
        yield self._histogram(
            "glassmq_wakeup_seconds",
            "Time from an arrival to the answer of the pull that it woke.",
            "wakeup_us",
            1_000_000,
        )
        yield self._histogram("glassmq_held_seconds", "How long pulls were held.", "held_ms", 1000)

    def _state(self) -> Iterable[Metric]:
        info = GaugeMetricFamily(
            "glassmq_broker_info", "1; the labels say which broker this is.", labels=["broker", "epoch"]
        )
        accepts = GaugeMetricFamily("glassmq_accepts_messages", "1 when a message can be published.", labels=["broker"])
        holds = GaugeMetricFamily("glassmq_held_pulls", "Rows of the pullRequestTable.", labels=["broker"])
        queues = GaugeMetricFamily("glassmq_queues", "Queues of all topics.", labels=["broker"])
        long_polling = GaugeMetricFamily("glassmq_long_polling_enabled", "longPollingEnable.", labels=["broker"])
        positions = GaugeMetricFamily(
            "glassmq_commit_log_offset_bytes", "Physical offsets of the commit log.", labels=["broker", "position"]
        )
        for snapshot in self._snapshots:
            broker = snapshot.broker
            info.add_metric([broker, str(snapshot.epoch)], 1)
            accepts.add_metric([broker], 0 if snapshot.problem else 1)
            holds.add_metric([broker], snapshot.holds_total)
            queues.add_metric([broker], snapshot.queues_total)
            long_polling.add_metric([broker], int(snapshot.long_polling_enable))
            for name in ("min", "appended", "flushed", "dispatched"):
                positions.add_metric([broker, name], getattr(snapshot.positions, name))
        return info, accepts, holds, queues, long_polling, positions

    def _counters(self) -> Iterable[Metric]:
        """A counter for each, or a gauge if it can decrease. Wake-ups are one counter with their cause as label."""
        woken = CounterMetricFamily(
            "glassmq_pulls_woken", "Held pulls that were answered, by cause.", labels=["broker", "cause"]
        )
        families: dict[str, CounterMetricFamily] = {}
        now: dict[str, GaugeMetricFamily] = {}
        for snapshot in self._snapshots:
            for name, value in snapshot.counters.items():
                if name.removeprefix("woken_") in WAKE_CAUSES:
                    woken.add_metric([snapshot.broker, name.removeprefix("woken_")], value)
                elif name in _NOW:
                    gauge = now.setdefault(name, GaugeMetricFamily(*_NOW[name], labels=["broker"]))
                    gauge.add_metric([snapshot.broker], value)
                elif name != "holds_now":  # the snapshot has a gauge for it
                    family = families.setdefault(
                        name,
                        CounterMetricFamily(
                            f"glassmq_{name}", f"{name.replace('_', ' ')} since the engine's start.", labels=["broker"]
                        ),
                    )
                    family.add_metric([snapshot.broker], value)
        return *now.values(), *families.values(), woken

    def _queues(self) -> Metric:
        offsets = GaugeMetricFamily(
            "glassmq_queue_max_offset",
            f"Max offset of a queue; of {MAX_QUEUES} queues at most.",
            labels=["broker", "topic", "queue_id"],
        )
        for snapshot in self._snapshots:
            for queue in snapshot.queues:
                offsets.add_metric([snapshot.broker, queue.topic, str(queue.queue_id)], queue.max_offset)
        return offsets

    def _histogram(self, name: str, text: str, field: str, unit: int) -> Metric:
        """Counts per bound as Prometheus requires them: cumulative, in seconds."""
        family = HistogramMetricFamily(name, text, labels=["broker"])
        for snapshot in self._snapshots:
            histogram: commands.Histogram = getattr(snapshot, field)
            buckets: list[tuple[str, float]] = []
            total = 0
            for bound, count in zip([*histogram.bounds, None], histogram.counts, strict=True):
                total += count
                buckets.append(("+Inf" if bound is None else repr(bound / unit), total))
            family.add_metric([snapshot.broker], buckets, sum_value=None)
        return family


async def _answer(port: EnginePort, command: commands.Command, expected: type[R]) -> R | None:
    try:
        return await ask(port, command, expected)
    except BrokerError:
        return None


async def _answers(port: EnginePort, alone: bool) -> Answers:
    return Answers(
        *await asyncio.gather(
            _answer(port, commands.GetSnapshot(max_holds=1, max_queues=MAX_QUEUES), commands.Snapshot),
            _answer(port, commands.GetMetrics(estimate=True, alone=alone), commands.BrokerMetrics),
        )
    )


async def metrics(request: Request[Params]) -> Answer:
    """Metrics are also returned while the engine is away: `glassmq_up` is 0 then."""
    try:
        ports = brokers.ports_of(request.params.broker)
    except PortUnavailable:
        ports = {}
    alone = len(brokers.ports_of("")) == 1 if ports else False  # members also have queues at brokers that are not asked
    answers = await asyncio.gather(*(_answers(port, alone) for port in ports.values()))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(dict(zip(ports, answers, strict=True))))
    ProcessCollector(registry=registry)
    Gauge("glassmq_web_tasks", "asyncio tasks of this web process.", registry=registry).set(len(asyncio.all_tasks()))
    text = await asyncio.to_thread(generate_latest, registry)  # thousands of lines: other requests are served meanwhile
    return Answer(content=text, content_type=CONTENT_TYPE)


ROUTES = (
    Route(
        method="GET",
        path="/metrics",
        handler=metrics,
        group="Service",
        summary="Prometheus metrics",
        response_type="text/plain",
        needs_broker=False,
    ),
)

"""Prometheus metrics, made from the engine's snapshot at the moment of the scrape."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from api.request import Answer, Params, Request, ask
from bridge.port import BrokerError, commands, get_port

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_QUEUES = 2000

WAKE_CAUSES = ("arrival", "filter_advanced", "missed_arrival", "timeout", "short_poll", "shutdown")


class SnapshotCollector(Collector):
    """One snapshot as metrics; without one, only that the engine is not there."""

    def __init__(self, snapshot: commands.Snapshot | None) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        snapshot = self._snapshot
        yield GaugeMetricFamily("glassmq_up", "1 when the broker's engine answers.", value=0 if snapshot is None else 1)
        if snapshot is not None:
            yield from _state(snapshot)
            yield from _counters(snapshot)
            yield _queues(snapshot)
            yield _histogram("glassmq_wakeup_seconds", "From an arrival to the answer of the pull it woke.",
                snapshot.wakeup_us, 1_000_000)
            yield _histogram("glassmq_held_seconds", "How long pulls were held.", snapshot.held_ms, 1000)


def _state(snapshot: commands.Snapshot) -> Iterable[Metric]:
    info = GaugeMetricFamily("glassmq_broker_info", "1; the labels say which broker this is.",
        labels=["broker", "epoch"])
    info.add_metric([snapshot.broker, str(snapshot.epoch)], 1)
    yield info
    yield GaugeMetricFamily("glassmq_accepts_messages", "1 when a message can be published.",
        value=0 if snapshot.problem else 1)
    yield GaugeMetricFamily("glassmq_held_pulls", "Rows of the pullRequestTable.", value=snapshot.holds_total)
    yield GaugeMetricFamily("glassmq_queues", "Queues of all topics.", value=snapshot.queues_total)
    yield GaugeMetricFamily("glassmq_long_polling_enabled", "longPollingEnable.",
        value=int(snapshot.long_polling_enable))
    positions = GaugeMetricFamily("glassmq_commit_log_offset_bytes", "Physical offsets of the commit log.",
        labels=["position"])
    for name in ("min", "appended", "flushed", "dispatched"):
        positions.add_metric([name], getattr(snapshot.positions, name))
    yield positions


def _counters(snapshot: commands.Snapshot) -> Iterable[Metric]:
    """One counter each; the wake-ups are one counter with their cause as label."""
    woken = CounterMetricFamily("glassmq_pulls_woken", "Held pulls that were answered, by cause.", labels=["cause"])
    for name, value in snapshot.counters.items():
        if name.removeprefix("woken_") in WAKE_CAUSES:
            woken.add_metric([name.removeprefix("woken_")], value)
        elif name != "holds_now":
            yield CounterMetricFamily(f"glassmq_{name}", f"{name.replace('_', ' ')} since the engine's start.",
                value=value)
    yield woken


def _queues(snapshot: commands.Snapshot) -> Metric:
    offsets = GaugeMetricFamily("glassmq_queue_max_offset", f"Max offset of a queue; of {MAX_QUEUES} queues at most.",
        labels=["topic", "queue_id"])
    for queue in snapshot.queues:
        offsets.add_metric([queue.topic, str(queue.queue_id)], queue.max_offset)
    return offsets


def _histogram(name: str, text: str, histogram: commands.Histogram, unit: int) -> Metric:
    """Counts per bound as Prometheus wants them: cumulative, in seconds."""
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*histogram.bounds, None], histogram.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else repr(bound / unit), total))
    family = HistogramMetricFamily(name, text)
    family.add_metric([], buckets, sum_value=None)
    return family


async def metrics(request: Request[Params]) -> Answer:
    """Answered also while the engine is away: then `glassmq_up` is 0."""
    try:
        snapshot = await ask(get_port(), commands.GetSnapshot(max_holds=1, max_queues=MAX_QUEUES), commands.Snapshot)
    except BrokerError:
        snapshot = None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SnapshotCollector(snapshot))
    ProcessCollector(registry=registry)
    return Answer(content=generate_latest(registry), content_type=CONTENT_TYPE)

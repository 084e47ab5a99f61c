"""What a report reads of a store: the commit log, the poll journal, and what the broker's tables say."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_core.formats import rocketmq_json
from spark_jobs.commit_log_segments import LogPlan, filler_size, plan_log
from spark_jobs.poll_journal_files import JournalSurvey, survey
from spark_jobs.reports.shape import OFFSETS, TOPICS, Inputs, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE_MS = 60_000
_SMALLEST_SPLIT = 16 * 1024 * 1024
_SPLITS_A_CORE = 3


class StoreInputs:
    """The inputs of reports on one store, as of the moment when this is made; what is not asked for is not looked at.

    NotAStoreError for a path that is none.
    """

    def __init__(self, spark: "SparkSession", store: Path, report: Report, bounds: Sequence[int],
                 to_ms: int | None) -> None:
        self._spark = spark
        self.store = store
        self._bounds = tuple(bounds)
        self._to_ms = to_ms
        self.plan: LogPlan | None = plan_log(store) if report.reads else None
        self.journal: JournalSurvey | None = survey(store) if report.polls else None

    def of(self, report: Report) -> Inputs:
        """What there is for a report."""
        return Inputs(self._messages(report.reads), self._polls(report.polls, looks_back=report.looks_back),
            self._offsets, self._topics, self._bounds, self._to_ms, self.of)

    def _messages(self, columns: tuple[str, ...]) -> "DataFrame":
        from spark_jobs.commit_log_source import FORMAT, pruned

        plan = self.plan
        if plan is None or not columns:
            return self._spark.createDataFrame([], pruned(*columns or ("topic",)))
        cores = self._spark.sparkContext.defaultParallelism
        split_bytes = max(_SMALLEST_SPLIT, (plan.end - plan.start) // (cores * _SPLITS_A_CORE))
        return (self._spark.read.format(FORMAT).schema(pruned(*columns)).option("split_bytes", str(split_bytes))
            .option("start", str(plan.start)).option("end", str(plan.end)).load(plan.store))

    def _polls(self, columns: tuple[str, ...], *, looks_back: bool) -> "DataFrame":
        from spark_jobs.poll_journal_source import FORMAT, pruned

        if self.journal is None or not columns or not self.journal.files:
            return self._spark.createDataFrame([], pruned(*columns or ("topic",)))
        reader = self._spark.read.format(FORMAT).schema(pruned(*columns))
        if self._bounds and not looks_back:
            reader = reader.option("from_ms", str(self._bounds[0]))
        if self._to_ms is not None:
            reader = reader.option("to_ms", str(self._to_ms))
        return reader.load(str(self.store))

    @cached_property
    def _offsets(self) -> "DataFrame":
        return self._spark.createDataFrame(stored_offsets(self.store), OFFSETS)

    @cached_property
    def _topics(self) -> "DataFrame":
        return self._spark.createDataFrame(stored_topics(self.store), TOPICS)


def stored_offsets(store: Path) -> list[tuple[str, str, int, int]]:
    """(group, topic, queue, offset) of ``config/consumerOffset.json``."""
    found = []
    for name, queues in _table(store, "consumerOffset", "offsetTable").items():
        topic, _, group = str(name).partition("@")
        if group and isinstance(queues, dict):
            found += [(group, topic, int(queue), offset) for queue, offset in queues.items()
                if str(queue).isdecimal() and type(offset) is int]
    return found


def stored_topics(store: Path) -> list[tuple[str, int]]:
    """(topic, queues that can be written to) of ``config/topics.json``."""
    return [(str(name), topic["writeQueueNums"]) for name, topic in _table(store, "topics", "topicConfigTable").items()
        if isinstance(topic, dict) and type(topic.get("writeQueueNums")) is int]


def _table(store: Path, file: str, name: str) -> dict[str | int, Any]:
    """One of the broker's tables; empty when it is not there or not whole."""
    try:
        found = rocketmq_json.decode((store / "config" / f"{file}.json").read_bytes()).get(name)
    except (OSError, rocketmq_json.RocketmqJsonError):
        return {}
    return found if isinstance(found, dict) else {}


def log_described(plan: LogPlan, segments: list[dict[str, Any]]) -> dict[str, Any]:
    """What was read of the log, and what could not be: ``torn_bytes`` lie between records and are no filler."""
    records = {segment["segment"]: segment for segment in segments}
    stops: dict[int, tuple[str, int, int]] = {}
    for found in plan.ranges:
        first = stops.get(found.base, (found.path, found.start, 0))[1]
        stops[found.base] = (found.path, first, found.stop)
    torn, gone = 0, []
    for base, (path, start, stop) in stops.items():
        of_records = records.get(base, {"bytes": 0, "end": start})
        filler = filler_size(path, base, of_records["end"], stop)
        if filler is None:
            gone.append(Path(path).name)
        else:
            torn += stop - start - of_records["bytes"] - filler
    return {
        "start_offset": plan.start,
        "end_offset": plan.end,
        "ended_by": plan.ended_by,
        "messages": sum(segment["messages"] for segment in segments),
        "segments_read": len(stops) - len(gone),
        "segments_gone": gone,
        "segments_unread": list(plan.segments_unread),
        "foreign_files": list(plan.foreign_files),
        "torn_bytes": torn,
    }

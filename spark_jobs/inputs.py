"""What a report reads of a store: the commit log, the poll journal, and what the broker's tables say."""

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_core.formats import rocketmq_json
from spark_jobs.lake.lake import Lake
from spark_jobs.lake.report_lake import LAKE_SEGMENT, known_of_journal, with_lake
from spark_jobs.reports.shape import OFFSETS, TOPICS, Inputs, Report
from spark_jobs.sources.commit_log_segments import SMALLEST_SHARE, LogPlan, filler_size, plan_log, share
from spark_jobs.sources.poll_journal_files import JournalSurvey, survey
from spark_jobs.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW_ROWS, FEW_RANGES = 200_000, 2
"""Rows of journal and lake, and ranges of the log, that are read once and kept for all parts of a report."""


class StoreInputs:
    """The inputs of reports on one store, as of the moment when this is made; what is not asked for is not looked at.

    With a lake its rows come from there, and from log and journal only what is behind them. NotAStoreError for a path
    that is no store.
    """

    def __init__(
        self,
        spark: "SparkSession",
        store: Path,
        report: Report,
        bounds: Sequence[int],
        to_ms: int | None,
        lake: Lake | None = None,
    ) -> None:
        self._spark = spark
        self.store = store
        self.lake = lake
        self._report = report
        self._bounds = tuple(bounds)
        self._to_ms = to_ms
        self._known = known_of_journal(lake)
        self.plan: LogPlan | None = None
        if report.reads:
            self.plan = plan_log(store, start=(lake.position or 0) if lake else 0)
        self.journal: JournalSurvey | None = None
        if report.polls:
            tail = survey(store, self._known)
            self.journal = with_lake(tail, store, lake) if lake else tail
        self._stored_offsets, self._stored_topics = stored_offsets(store), stored_topics(store)

    @cached_property
    def are_few(self) -> bool:
        """Whether there is so little to read that to plan and to spread it takes longer than to do it."""
        ranges = self.plan.ranges if self.plan else ()
        of_lake = sum(file.rows for file in self.lake.messages) if self.lake else 0
        of_journal = self.journal.entries if self.journal else 0
        return (
            len(ranges) <= FEW_RANGES
            and sum(part.stop - part.start for part in ranges) <= SMALLEST_SHARE
            and of_lake + of_journal <= FEW_ROWS
        )

    def of(self, report: Report) -> Inputs:
        """What there is for a report: the one that this was made for, or a part of it, which reads no more than it."""
        messages, polls = self._kept_for(report) if self.are_few else self._rows(report)
        return Inputs(messages, polls, self._offsets, self._topics, self._bounds, self._to_ms, self.of)

    @property
    def _from_ms(self) -> int | None:
        return self._bounds[0] if self._bounds else None

    def _rows(self, report: Report) -> "tuple[DataFrame, DataFrame]":
        """(messages, polls) as the report asks for them."""
        window = (self._from_ms, self._to_ms) if report.within_window else (None, None)
        return self._messages(report.reads, *window), self._polls(
            report.polls, None if report.looks_back else self._from_ms
        )

    def _kept_for(self, report: Report) -> "tuple[DataFrame, DataFrame]":
        """The same, of what is read once for all parts."""
        messages, polls = self._kept
        if report.polls and not report.looks_back and self._from_ms is not None:
            polls = polls.where(f"at_ms >= {self._from_ms}")
        return messages.select(*report.reads), polls.select(*report.polls)

    @cached_property
    def _kept(self) -> "tuple[DataFrame, DataFrame]":
        messages, polls = self._rows(self._report)
        has_polls = self.journal is not None and self.journal.files > 0
        return messages.coalesce(1).persist(), polls.coalesce(1).persist() if has_polls else polls

    def forget(self) -> None:
        """Give back what was kept for the parts."""
        with suppress(Exception):  # a session whose Java is gone has nothing to give back
            for rows in self.__dict__.pop("_kept", ()):
                rows.unpersist()

    def _messages(self, columns: tuple[str, ...], from_ms: int | None, to_ms: int | None) -> "DataFrame":
        """The log's, with those of a lake stored in [from_ms, to_ms)."""
        from pyspark.sql import functions as F

        from spark_jobs.lake.tables import lake_messages
        from spark_jobs.sources.commit_log_source import FORMAT, pruned

        plan = self.plan
        if plan is None or not columns:
            return self._nothing(pruned(*columns or ("topic",)))
        tail = self._log(plan, FORMAT, pruned(*columns)) if plan.ranges or not self.lake else None
        if self.lake is None:
            assert tail is not None
            return tail
        others = [name for name in columns if name != "segment"]
        found = lake_messages(self._spark, self.lake, others, from_ms, to_ms).select(
            *(F.lit(LAKE_SEGMENT).cast("long").alias(name) if name == "segment" else name for name in columns)
        )
        return found if tail is None else found.unionAll(tail)

    @cached_property
    def _parallelism(self) -> int:
        return parallelism(self._spark)

    def _log(self, plan: LogPlan, source: str, schema: str) -> "DataFrame":
        split_bytes = share(plan.end - plan.start, self._parallelism)
        return (
            self._spark.read.format(source)
            .schema(schema)
            .option("split_bytes", str(split_bytes))
            .option("start", str(plan.start))
            .option("end", str(plan.end))
            .load(plan.store)
        )

    def _polls(self, columns: tuple[str, ...], from_ms: int | None) -> "DataFrame":
        from spark_jobs.lake.tables import lake_polls
        from spark_jobs.sources.poll_journal_source import FORMAT, pruned

        if self.journal is None or not columns or not self.journal.files:
            return self._nothing(pruned(*columns or ("topic",)))
        reader = self._spark.read.format(FORMAT).schema(pruned(*columns)).option("known", json.dumps(self._known))
        if from_ms is not None:
            reader = reader.option("from_ms", str(from_ms))
        if self._to_ms is not None:
            reader = reader.option("to_ms", str(self._to_ms))
        tail = reader.load(str(self.store))
        if self.lake is None:
            return tail
        return lake_polls(self._spark, self.lake, columns, from_ms, self._to_ms).unionAll(tail)

    def _nothing(self, schema: str) -> "DataFrame":
        """A table without rows."""
        return self._spark.createDataFrame([], schema).limit(0)  # by which Spark knows that what is made of it is empty

    def _offsets(self) -> "DataFrame":
        return self._spark.createDataFrame(self._stored_offsets, OFFSETS)

    def _topics(self) -> "DataFrame":
        return self._spark.createDataFrame(self._stored_topics, TOPICS)


def stored_offsets(store: Path) -> list[tuple[str, str, int, int]]:
    """(group, topic, queue, offset) of ``config/consumerOffset.json``."""
    found = []
    for name, queues in _table(store, "consumerOffset", "offsetTable").items():
        topic, _, group = str(name).partition("@")
        if group and isinstance(queues, dict):
            found += [
                (group, topic, int(queue), offset)
                for queue, offset in queues.items()
                if str(queue).isdecimal() and type(offset) is int
            ]
    return found


def stored_topics(store: Path) -> list[tuple[str, int]]:
    """(topic, queues that can be written to) of ``config/topics.json``."""
    return [
        (str(name), topic["writeQueueNums"])
        for name, topic in _table(store, "topics", "topicConfigTable").items()
        if isinstance(topic, dict) and type(topic.get("writeQueueNums")) is int
    ]


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
    torn, gone = {}, []
    for base, (path, start, stop) in stops.items():
        of_records = records.get(base, {"bytes": 0, "end": start})
        filler = filler_size(path, base, of_records["end"], stop)
        if filler is None:
            gone.append(Path(path).name)
        else:
            torn[base] = stop - start - of_records["bytes"] - filler
    messages = sum(segment["messages"] for segment in segments)
    size = sum(segment["bytes"] for segment in segments)
    return {
        "start_offset": plan.start,
        "end_offset": plan.end,
        "ended_by": plan.ended_by,
        "messages": messages,
        "mean_size": size / messages if messages else 0.0,
        "segments_read": len(stops) - len(gone),
        "segments_gone": gone,
        "segments_unread": list(plan.segments_unread),
        "foreign_files": list(plan.foreign_files),
        "torn_bytes": sum(torn.values()),
        "torn_segments": [base for base, size in torn.items() if size],
    }

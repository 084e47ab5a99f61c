"""The inputs of a report from the brokers' stores: commit logs, poll journals, and the brokers' own tables."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.catalogue import REPORTS
from spark_jobs.job import BrokerStore
from spark_jobs.lake.delta import files_in
from spark_jobs.lake.lake import Lake
from spark_jobs.lake.report_lake import LAKE_SEGMENT, with_lake
from spark_jobs.lake.tables import lake_messages, lake_polls
from spark_jobs.reports import load
from spark_jobs.reports.shape import SCHEMAS, STORED_AT, Inputs, Report
from spark_jobs.reports.topics import pop_retry_owner
from spark_jobs.sources import commit_log_source, poll_journal_source
from spark_jobs.sources.commit_log_segments import SMALLEST_SHARE, LogPlan, filler_size, plan_log, share
from spark_jobs.sources.consume_queues import broker_table, consume_queue_ends, known_queues, store_time
from spark_jobs.sources.poll_journal_files import JournalSurvey, find_files, survey
from spark_jobs.spark.session import parallelism
from spark_jobs.spark.small_tables import small_table

FEW_ROWS = 200_000
"""Up to so many rows of journals and lakes are read once and cached for all parts of a report."""

OFFSETS_WRITTEN_MS = 60_000
"""A broker has written a commit to consumerOffset.json by then. It writes the file each 5 s by default."""
MOST_LOOKED_UP = 10_000
"""Messages before a window whose store times are looked up one by one."""
Window = tuple[int | None, int | None]


class StoreInputs:
    """One broker's store as of now. Only what the report reads is examined.

    With a lake, log and journal are read from the lake's end only. ``window``: the store times that are needed; None
    leaves a side open. NotAStoreError for a path that is not a store.
    """

    def __init__(
        self,
        broker: str,
        store: Path,
        report: Report,
        lake: Lake | None = None,
        window: Window = (None, None),
    ) -> None:
        self.broker = broker
        self.store = store
        self.lake = lake
        self.plan: LogPlan | None = None
        if report.reads:
            start = (lake.position or 0) if lake else 0
            self.plan = plan_log(store, start=start, from_ms=window[0], to_ms=window[1])
        self.journal: JournalSurvey | None = None
        if report.polls:
            tail = survey(store, lake.journal if lake else None, window)
            self.journal = with_lake(tail, lake, window) if lake else tail
        self.window = window
        offsets, topics, groups = stored_offsets(store), stored_topics(store), stored_groups(store)
        known = known_queues(store)
        self._tables: dict[str, Sequence[tuple[Any, ...]]] = {
            "offsets": offsets,
            "topics": [(topic, queues, known.get(topic)) for topic, queues in topics],
            "groups": groups,
            "pop_retries": pop_retries({topic for topic, _ in topics}, {group for (group,) in groups}),
        }

    def table(self, name: str) -> Sequence[tuple[Any, ...]]:
        """The rows of one of the broker's tables in SCHEMAS. ``queue_ends`` is read from the consume queues now."""
        if name == "queue_ends":
            return [(end.topic, end.queue_id, end.end_offset) for end in consume_queue_ends(self.store)]
        return self._tables[name]

    def messages(self, spark: SparkSession, columns: tuple[str, ...], window: Window) -> DataFrame:
        """The log's records, and those of the lake that were stored in the window."""
        plan = self.plan
        if plan is None or not columns:
            return self._nothing(spark, commit_log_source.pruned(*columns or ("topic",)))
        if self.lake is None:
            return self._log(spark, plan, columns)
        others = [name for name in columns if name != "segment"]
        of_lake = lake_messages(spark, self.lake, others, *window).select(
            *(F.lit(LAKE_SEGMENT).cast("long").alias(name) if name == "segment" else name for name in columns)
        )
        return of_lake.unionAll(self._log(spark, plan, columns)) if plan.ranges else of_lake

    def _log(self, spark: SparkSession, plan: LogPlan, columns: tuple[str, ...]) -> DataFrame:
        return (
            spark.read.format(commit_log_source.FORMAT)
            .schema(commit_log_source.pruned(*columns))
            .option("split_bytes", str(share(plan.end - plan.start, parallelism(spark))))
            .option("start", str(plan.start))
            .option("end", str(plan.end))
            .load(plan.store)
        )

    def polls(self, spark: SparkSession, columns: tuple[str, ...], window: Window) -> DataFrame:
        """The entries of journal and lake that were written in the window."""
        if self.journal is None or not columns or not self.journal.files:
            return self._nothing(spark, poll_journal_source.pruned(*columns or ("topic",)))
        reader = spark.read.format(poll_journal_source.FORMAT).schema(poll_journal_source.pruned(*columns))
        if self.lake is not None and self.lake.journal is not None:
            reader = reader.option("after", json.dumps(self.lake.journal))
        for name, bound in zip(("from_ms", "to_ms"), window, strict=True):
            if bound is not None:
                reader = reader.option(name, str(bound))
        tail = reader.load(str(self.store))
        if self.lake is None:
            return tail
        return lake_polls(spark, self.lake, columns, *window).unionAll(tail)

    def _nothing(self, spark: SparkSession, schema: str) -> DataFrame:
        """A table without rows. From the limit Spark knows that everything computed from it is empty."""
        return small_table(spark, (), schema).limit(0)


def reads_little(stores: Sequence[BrokerStore], lakes: Sequence[Lake | None]) -> bool:
    """Whether logs and poll journals have at most SMALLEST_SHARE bytes together, and there is no lake."""
    if any(lake is not None for lake in lakes):
        return False
    plans = [plan_log(store.path) for store in stores]
    size = sum(plan.log_end - plan.log_start for plan in plans)
    return size + sum(file.size for store in stores for file in find_files(store.path)) <= SMALLEST_SHARE


def window_read(report: str, from_ms: int | None, to_ms: int | None) -> Window:
    """The time range of the messages and polls that the report of that name needs for a window."""
    look_back_ms = REPORTS[report].look_back_ms
    return None if from_ms is None else from_ms - look_back_ms, None if to_ms is None else to_ms + look_back_ms


class RunInputs:
    """The inputs of a report and its parts: the rows of all its stores together.

    ``bounds``: the beginnings of the periods that have figures of their own, ms, ascending. ``to_ms``: the end of the
    last one. ``now_ms``: the time of the run.
    """

    def __init__(
        self,
        spark: SparkSession,
        stores: Sequence[StoreInputs],
        report: str,
        bounds: Sequence[int] = (),
        to_ms: int | None = None,
        now_ms: int = 0,
    ) -> None:
        self._spark = spark
        self.stores = tuple(stores)
        self._report = report
        self._bounds = tuple(bounds)
        self._from_ms = self._bounds[0] if self._bounds else None
        self._to_ms = to_ms
        self._now_ms = now_ms

    @cached_property
    def are_few(self) -> bool:
        """Whether there is so little to read that planning and distributing takes longer than reading."""
        ranges = [part for store in self.stores if store.plan for part in store.plan.ranges]
        rows = sum(store.journal.entries for store in self.stores if store.journal)
        for store in self.stores:
            if store.lake and store.plan:
                rows += sum(file.rows for file in files_in(store.lake.messages, *store.window))
        return sum(part.stop - part.start for part in ranges) <= SMALLEST_SHARE and rows <= FEW_ROWS

    def of(self, name: str) -> Inputs:
        """The inputs of the constructor's report, or of a part of that report, which reads no other columns."""
        report, since_ms, until_ms = load(name), *window_read(name, self._from_ms, self._to_ms)
        if self.are_few:
            messages, polls = self._kept
            for bound, compare in ((since_ms, ">="), (until_ms, "<")):
                if bound is not None and report.polls:
                    polls = polls.where(f"at_ms {compare} {bound}")
            messages, polls = messages.select("broker", *report.reads), polls.select("broker", *report.polls)
        else:
            messages, polls = self._rows(report, (since_ms, until_ms))
        return Inputs(
            messages,
            polls,
            self._table,
            self._bounds,
            self._to_ms,
            len(self.stores),
            self.of,
            since_ms=since_ms,
            is_current=until_ms is None or until_ms >= self._now_ms,
            settled_ms=self._now_ms - OFFSETS_WRITTEN_MS,
            stored_at=self._stored_at,
        )

    def _stored_at(self, wanted: DataFrame) -> DataFrame:
        stores = {store.broker: store.store for store in self.stores}
        rows = [(*row, store_time(stores[row[0]], *row[1:])) for row in wanted.limit(MOST_LOOKED_UP).collect()]
        return self._spark.createDataFrame(rows, STORED_AT)

    def _rows(self, report: Report, window: Window) -> tuple[DataFrame, DataFrame]:
        """(messages, polls) as the report asks for them."""
        return (
            self._union(lambda store: store.messages(self._spark, report.reads, window)),
            self._union(lambda store: store.polls(self._spark, report.polls, window)),
        )

    def _union(self, rows_of: Callable[[StoreInputs], DataFrame]) -> DataFrame:
        return reduce(
            DataFrame.unionAll, (rows_of(store).withColumn("broker", F.lit(store.broker)) for store in self.stores)
        )

    @cached_property
    def _kept(self) -> tuple[DataFrame, DataFrame]:
        """The rows that are read once for all parts."""
        window = window_read(self._report, self._from_ms, self._to_ms)
        messages, polls = self._rows(load(self._report), window)
        has_polls = any(store.journal is not None and store.journal.files > 0 for store in self.stores)
        return messages.coalesce(1).persist(), polls.coalesce(1).persist() if has_polls else polls

    def forget(self) -> None:
        """Drop the cached rows."""
        with suppress(Exception):  # a session whose Java is gone has no cache
            for rows in self.__dict__.pop("_kept", ()):
                rows.unpersist()

    def _table(self, name: str) -> DataFrame:
        rows = [(store.broker, *row) for store in self.stores for row in store.table(name)]
        return small_table(self._spark, rows, SCHEMAS[name])


def stored_offsets(store: Path) -> list[tuple[str, str, int, int]]:
    """(group, topic, queue, offset) of ``config/consumerOffset.json``."""
    rows = []
    for name, queues in broker_table(store, "consumerOffset", "offsetTable").items():
        topic, _, group = str(name).partition("@")
        if group and isinstance(queues, dict):
            rows += [
                (group, topic, int(queue), offset)
                for queue, offset in queues.items()
                if str(queue).isdecimal() and type(offset) is int
            ]
    return rows


def stored_topics(store: Path) -> list[tuple[str, int]]:
    """(topic, queues that can be written to) of ``config/topics.json``."""
    return [
        (str(name), topic["writeQueueNums"])
        for name, topic in broker_table(store, "topics", "topicConfigTable").items()
        if isinstance(topic, dict) and type(topic.get("writeQueueNums")) is int
    ]


def stored_groups(store: Path) -> list[tuple[str]]:
    """(group,) of ``config/subscriptionGroup.json``, and of those that have stored offsets.

    Empty if no group has stored an offset: then it is not known which groups were deleted.
    """
    with_offsets = {group for group, *_ in stored_offsets(store)}
    configured = map(str, broker_table(store, "subscriptionGroup", "subscriptionGroupTable"))
    return [(group,) for group in sorted(with_offsets.union(configured))] if with_offsets else []


def pop_retries(topics: set[str], groups: set[str]) -> list[tuple[str, str, str]]:
    """(retry topic, group, original topic) of each topic for retries of pop."""
    owners = ((topic, pop_retry_owner(topic, topics, groups)) for topic in topics)
    return [(topic, *owner) for topic, owner in owners if owner is not None]


def log_described(plan: LogPlan, segments: list[dict[str, Any]]) -> dict[str, Any]:
    """What was read of the log, and what could not be read. ``torn_bytes`` are neither records nor filler."""
    records = {segment["segment"]: segment for segment in segments}
    spans, torn, gone = plan.spans, dict[int, int](), []
    for span in spans:
        of_records = records.get(span.base, {"bytes": 0, "end": span.start})
        filler = filler_size(span, of_records["end"])
        if filler is None:
            gone.append(Path(span.path).name)
        else:
            torn[span.base] = span.stop - span.start - of_records["bytes"] - filler
    messages = sum(segment["messages"] for segment in segments)
    size = sum(segment["bytes"] for segment in segments)
    return {
        "start_offset": plan.start,
        "end_offset": plan.end,
        "ended_by": plan.ended_by,
        "messages": messages,
        "mean_size": round(size / messages, 1) if messages else 0.0,
        "segments_read": len(spans) - len(gone),
        "segments_outside": plan.segments_outside,
        "segments_gone": gone,
        "segments_unread": list(plan.segments_unread),
        "foreign_files": list(plan.foreign_files),
        "torn_bytes": sum(torn.values()),
        "torn_segments": [base for base, size in torn.items() if size],
    }

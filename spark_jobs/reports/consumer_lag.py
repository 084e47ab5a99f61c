"""The report ``consumer_lag``: how far behind each group is, in messages and in time, at the end of every step.

Committed offsets come from the journal, the ends of queues from the log. Between two entries both stay as they were,
so every queue has a lag in every step from its group's first commit on. The lag in time is the age of the first message
that is not committed. Without a journal there are only the offsets that the broker stored last: one step, at the log's
end. If a topic was deleted and created again, its queues begin at 0 again, and only the newest topic counts. Topics and
groups that were deleted, and the broker's own topics, are left out.

A broker that is killed loses the commits since it last wrote its offsets, but the journal may have them. So a stored
offset that must be newer than the journal's last commit takes its place in the end.

A run with a window reads LOOK_BACK_MS before and after it. What was read says what was before: a commit has the offset
before it, and a queue's first message has the offset at which the queue ended. If a group has not committed up to now,
its stored offset has not changed since; the same is true of the end of a queue without a message.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from broker_core.verdicts import group_state
from broker_core.verdicts.group_state import StateFacts, decisions, is_beyond_noise
from spark_jobs.reports.shape import Chart, Figure, Inputs, Report, Table
from spark_jobs.reports.spreads import sums
from spark_jobs.reports.steps import MINUTE_MS, floored, reason, step_for, stored
from spark_jobs.reports.topics import is_of_clients

READS = ("physical_offset", "segment", "topic", "queue_id", "queue_offset", "total_size", "store_ts")
POLLS = ("at_ms", "kind", "topic", "queue_id", "group", "from_offset", "next_offset", "max_offset")
MOST_STEPS = 720
"""Steps between the first commit and the last message. Every queue of every group has a row for each step."""
LOOKED_AT = 10
"""The last steps, from which a queue's state is derived."""
ACTIVE_IN = 3
"""Steps without a pull and without a commit after which a group has stopped."""
PATIENCE_MS = group_state.PATIENCE_MS + MINUTE_MS
"""How long messages may wait; what is known is counted by the minute."""
_END = {"last_ts": "max(last_ts)"}
_QUEUE = ("broker", "topic", "queue_id")
_KEYS = ("group", *_QUEUE)
_GROUP = ("broker", "topic", "group")


class Timeline(NamedTuple):
    """The first step, the last known time, and the length of a step that gives at most MOST_STEPS; ms."""

    first_ts: int
    last_ts: int
    step_ms: int


def on_queues(messages: DataFrame) -> DataFrame:
    """``stored`` by queue and minute, with the first offset, the queue's end, and the last time."""
    return stored(
        messages.withColumn("minute_ts", floored(F.col("store_ts"))),
        "topic",
        "queue_id",
        "minute_ts",
        begin_offset="min_by(queue_offset, physical_offset)",
        end_offset="max_by(queue_offset, physical_offset) + 1",
        last_ts="max(store_ts)",
    )


def seen(polls: DataFrame) -> DataFrame:
    """By group, queue and minute: the offset before the commits and behind them, the queue's end, and how many commits
    and pulls. The offset is null where none was committed in that minute: a commit that changes nothing is no entry.
    The queue is null for pops that got nothing.
    """
    is_commit = F.col("kind") == "committed"
    when = F.when(is_commit, F.struct("at_ms", "next_offset"))
    ends = F.when(F.col("max_offset").isNotNull(), F.struct("at_ms", "max_offset"))
    return (
        polls.withColumn("minute_ts", floored(F.col("at_ms")))
        .groupBy(*_KEYS, "minute_ts")
        .agg(
            F.min_by("from_offset", when).alias("before"),
            F.max_by("next_offset", when).alias("offset"),
            F.max_by("max_offset", ends).alias("end_offset"),
            F.count_if(is_commit).alias("commits"),
            F.count_if(~is_commit).alias("pulls"),
            F.max("at_ms").alias("last_ts"),
        )
    )


def existing(seen: DataFrame, known: DataFrame, key: str) -> DataFrame:
    """The rows of topics or groups that exist; all rows of a broker without a table of them."""
    unknown = seen.join(F.broadcast(known), "broker", "left_anti")
    return seen.join(F.broadcast(known), ["broker", key], "left_semi").unionByName(unknown)


def left_out(seen: DataFrame, kept: DataFrame) -> DataFrame:
    """The queues in ``seen`` that are not in ``kept``, with the reason, in the last minute in which they were seen."""
    of_queues = seen.where("queue_id is not null")
    queues = of_queues.groupBy(*_KEYS).agg(
        F.max("minute_ts").alias("minute_ts"), F.lit(1).cast("long").alias("samples")
    )
    dropped = queues.join(kept.select(*_KEYS).distinct(), [*_KEYS], "left_anti")
    is_own = ~is_of_clients(F.col("topic"))
    return reason(dropped.where(is_own), "broker_topic").unionByName(reason(dropped.where(~is_own), "deleted"))


def with_offsets(
    seen: DataFrame, offsets: DataFrame, stored: DataFrame, since_ms: int | None = None, settled_ms: int = 0
) -> DataFrame:
    """The same rows, and for queues without a commit the offset that the broker stored, as of the log's end.

    Commits from before ``settled_ms`` are in the stored offsets. If a stored offset differs from the last of them, the
    broker lost that commit in a crash, or the journal lacks a later one. The stored offset then counts in the end
    (``is_stored``).

    If only the time from ``since_ms`` on was read, also the offsets before that. Where nothing was committed up to now,
    the stored offset was valid since the journal's first entry that was read.
    """
    commits = seen.where("offset is not null")
    log_ends = sums(stored, "broker", **_END)
    others = offsets.join(commits.select(*_KEYS).distinct(), [*_KEYS], "left_anti").join(log_ends, "broker", "left")
    if since_ms is not None:
        begins = sums(seen, "broker", begin_ts="min(minute_ts)")
        others = others.join(begins, "broker", "left").withColumn("last_ts", F.coalesce("begin_ts", "last_ts"))
        earlier = sums(commits, *_KEYS, offset="min_by(before, minute_ts)").where("offset is not null")
        seen = seen.unionByName(_known_at(earlier, F.lit(since_ms - MINUTE_MS)), allowMissingColumns=True)
    ends = sums(seen.select("broker", "last_ts").unionByName(stored.select("broker", "last_ts")), "broker", **_END)
    latest = sums(commits, *_KEYS, committed="max_by(offset, minute_ts)", at="max(minute_ts)")
    settled = latest.where(F.col("at") <= settled_ms - MINUTE_MS)
    newer = offsets.join(settled, [*_KEYS]).where("offset != committed").join(ends, "broker")
    newer = _known_at(newer, F.col("last_ts")).withColumn("is_stored", F.lit(True))
    others = _known_at(others.where("last_ts is not null"), F.col("last_ts"))
    return seen.unionByName(newer, allowMissingColumns=True).unionByName(others, allowMissingColumns=True)


def _known_at(offsets: DataFrame, ts: Column) -> DataFrame:
    """Rows for ``seen`` of offsets that are known from elsewhere, as of a time."""
    return offsets.select(*_KEYS, floored(ts).alias("minute_ts"), "offset", ts.alias("last_ts"))


def ends_before(stored: DataFrame, seen: DataFrame, queue_ends: DataFrame | None, since_ms: int) -> DataFrame:
    """Where queues ended before ``since_ms``: at the first offset that was stored later.

    ``stored`` may have earlier messages, too, since whole segments are read. ``queue_ends``: where queues end now, if
    that is known. A queue that got no message later ended there before ``since_ms``, too.
    """
    later = stored.where(F.col("minute_ts") >= since_ms - since_ms % MINUTE_MS)
    first = later.groupBy(*_QUEUE).agg(F.min_by("begin_offset", "minute_ts").alias("end_offset"))
    if queue_ends is not None:
        known = first.select(*_QUEUE).unionByName(seen.where("end_offset is not null").select(*_QUEUE)).distinct()
        first = first.unionByName(queue_ends.join(known, [*_QUEUE], "left_anti").select(*_QUEUE, "end_offset"))
    ts = F.lit(since_ms - MINUTE_MS)
    return first.select(*_QUEUE, floored(ts).cast("long").alias("minute_ts"), ts.alias("last_ts"), "end_offset")


def timeline(seen: DataFrame, stored: DataFrame, from_ms: int | None, to_ms: int | None) -> Timeline:
    """The steps in which something is known; without any the last time lies before the first step."""
    times = seen.select("minute_ts", "last_ts").unionByName(stored.select("last_ts"), allowMissingColumns=True)
    [(first_ts, last_ts)] = times.agg(F.min("minute_ts"), F.max("last_ts")).collect()
    if first_ts is None:
        return Timeline(0, -1, MINUTE_MS)
    first_ts = first_ts if from_ms is None else max(first_ts, from_ms)
    last_ts = last_ts if to_ms is None else min(last_ts, to_ms - 1)
    if last_ts < first_ts:
        return Timeline(0, -1, MINUTE_MS)
    step_ms = step_for(last_ts - first_ts + 1, MOST_STEPS)
    return Timeline(first_ts - first_ts % step_ms, last_ts, step_ms)


def changes(seen: DataFrame, stored: DataFrame, when: Timeline, before: DataFrame | None = None) -> DataFrame:
    """By group, queue and step with a change: the offset if it changed, the queue's end, commits and pulls.

    A pop that got nothing counts as a pull of each queue of the group.
    Changes before the first step count in the first step. ``before``: the result of ``ends_before``.
    """
    known = (
        stored.select(*_QUEUE, "minute_ts", "last_ts", "end_offset")
        .unionByName(seen.select(*_QUEUE, "minute_ts", "last_ts", "end_offset"))
        .where("end_offset is not null")
    )
    known = known if before is None else known.unionByName(before)
    ends = known.groupBy(*_QUEUE, "minute_ts").agg(
        F.max_by("end_offset", F.struct("last_ts", "end_offset")).alias("end_offset")
    )
    since = sums(seen, *_KEYS, since_ts="min(minute_ts)")
    minute = F.col("minute_ts")
    grown = since.join(ends, [*_QUEUE]).select(
        *_KEYS, F.greatest("minute_ts", "since_ts").alias("minute_ts"), minute.alias("end_ts"), "end_offset"
    )
    pops = seen.where("queue_id is null").select(*_GROUP, "minute_ts", "pulls")
    of_queues = seen.where("queue_id is not null")
    pops = pops.join(of_queues.select(*_KEYS).distinct(), [*_GROUP])
    of_groups = (
        of_queues.drop("last_ts", "end_offset", "before")
        .unionByName(pops, allowMissingColumns=True)
        .unionByName(grown, allowMissingColumns=True)
    )
    is_known = minute <= when.last_ts if when.first_ts <= when.last_ts else F.lit(False)
    return sums(
        of_groups.where(is_known).withColumn(
            "step_ts", F.greatest(floored(minute, when.step_ms), F.lit(when.first_ts))
        ),
        *_KEYS,
        "step_ts",
        offset="max_by(offset, if(offset is null, null, struct(minute_ts, is_stored)))",
        end_offset="max_by(end_offset, end_ts)",
        commits=f"coalesce(sum(commits) FILTER (WHERE minute_ts >= {when.first_ts}), 0)",
        pulls=f"coalesce(sum(pulls) FILTER (WHERE minute_ts >= {when.first_ts}), 0)",
    )


def states(changes: DataFrame) -> DataFrame:
    """The same rows from the first known offset on, with the offset, end and lag until the next change.

    A queue without a known end was never written to, and is left out.
    """
    order = Window.partitionBy(*_KEYS).orderBy("step_ts")
    return (
        changes.select(
            *_KEYS,
            "step_ts",
            "commits",
            "pulls",
            F.last("offset", ignorenulls=True).over(order).alias("offset"),
            F.last("end_offset", ignorenulls=True).over(order).alias("end_offset"),
            F.lead("step_ts").over(order).alias("until_ts"),
        )
        .where("offset is not null and end_offset is not null")
        .withColumn("lag", F.greatest(F.col("end_offset") - F.col("offset"), F.lit(0)))
    )


def with_oldest(states: DataFrame, messages: DataFrame) -> DataFrame:
    """The states with the store time of the first message that is not committed; null if the log does not have it."""
    wanted = states.where("lag > 0").select(*_QUEUE, F.col("offset")).distinct()
    found = (
        messages.withColumnRenamed("queue_offset", "offset")
        .join(wanted, [*_QUEUE, "offset"], "left_semi")
        .groupBy(*_QUEUE, "offset")
        .agg(F.max_by("store_ts", "physical_offset").alias("oldest_ts"))
    )
    return states.join(found, [*_QUEUE, "offset"], "left")


def unread(states: DataFrame, stored: DataFrame) -> DataFrame:
    """The first messages that are not committed, of those that lie before everything that was read of their queue."""
    first = stored.groupBy(*_QUEUE).agg(F.min("begin_offset").alias("begin_offset"))
    wanted = states.where("lag > 0").join(first, [*_QUEUE], "left")
    return wanted.where("begin_offset is null or offset < begin_offset").select(*_QUEUE, "offset").distinct()


def no_commits(seen: DataFrame, offsets: DataFrame, minute_ts: int) -> DataFrame:
    """Queues of groups whose offsets are unknown, because their commits are far away from the window."""
    queues = offsets.join(seen.where("offset is not null").select(*_KEYS).distinct(), [*_KEYS], "left_anti")
    queues = queues.where(is_of_clients(F.col("topic")))
    return reason(queues.withColumns({"minute_ts": F.lit(minute_ts), "samples": F.lit(1)}), "no_commit")


def by_step(states: DataFrame, when: Timeline) -> DataFrame:
    """A row for each group, queue and step up to the last: the lag at the step's end."""
    last_step = F.lit(when.last_ts - when.last_ts % when.step_ms)
    until = F.coalesce(F.col("until_ts") - when.step_ms, last_step)
    steps = F.sequence(F.col("step_ts"), until.cast("long"), F.lit(when.step_ms).cast("long"))
    age = F.least(F.col("minute_ts") + when.step_ms, F.lit(when.last_ts)) - F.col("oldest_ts")
    is_first = F.col("minute_ts") == F.col("step_ts")
    return states.withColumn("minute_ts", F.explode(steps)).select(
        *_KEYS,
        F.col("broker").alias("home"),
        "minute_ts",
        *(F.when(is_first, F.col(name)).otherwise(0).alias(name) for name in ("commits", "pulls")),
        "offset",
        "end_offset",
        "lag",
        F.when(F.col("lag") == 0, 0).otherwise(F.greatest(age, F.when(age.isNotNull(), 0))).alias("lag_ms"),
    )


def facts(inputs: Inputs) -> dict[str, DataFrame]:
    def read(part: int, **facts: DataFrame) -> dict[str, DataFrame]:
        """Later steps read these facts several times. In a single plan Spark would compute them each time."""
        return inputs.read(facts, part, 4) if inputs.read else facts

    since_ms = inputs.since_ms
    scanned = read(0, stored=on_queues(inputs.messages), seen=seen(inputs.polls))
    of_the_log, offsets = scanned["stored"], inputs.table("offsets")
    given = offsets if inputs.is_current else offsets.limit(0)
    everything = read(1, seen=with_offsets(scanned["seen"], given, of_the_log, since_ms, inputs.settled_ms))["seen"]
    known = existing(existing(everything, inputs.table("topics"), "topic"), inputs.table("groups"), "group")
    known = known.where(is_of_clients(F.col("topic")))
    when = timeline(known, of_the_log, inputs.bounds[0] if inputs.bounds else None, inputs.to_ms)
    before = None
    if since_ms is not None:
        now = inputs.table("queue_ends") if inputs.is_current else None
        before = ends_before(of_the_log, everything, now, since_ms)
    changed = read(2, states=states(changes(known, of_the_log, when, before)))["states"]
    aged, missing = with_oldest(changed, inputs.messages), left_out(everything, known)
    if since_ms is not None and inputs.stored_at:
        earlier = inputs.stored_at(unread(changed, of_the_log)).withColumnRenamed("oldest_ts", "earlier_ts")
        aged = aged.join(earlier, [*_QUEUE, "offset"], "left")
        aged = aged.withColumn("oldest_ts", F.coalesce("oldest_ts", "earlier_ts")).drop("earlier_ts")
    if not inputs.is_current and inputs.to_ms is not None:
        missing = missing.unionByName(no_commits(everything, offsets, inputs.to_ms - MINUTE_MS))
    return {"stored": of_the_log, "lag": by_step(aged, when), "left_out": missing}


def with_progress(lag: DataFrame) -> DataFrame:
    """One row per group and queue: its last step, and what its last steps say about its progress.

    ``stuck``: messages waited in each step, and the offset stayed the same. ``moving``: messages wait at the end, and
    the offset moved, or nothing waited for a time. ``young``: no message waits too long. ``unknown``: there is only one
    step. ``growth``: the change of the lag; ``growing`` if it is more than noise.
    """
    newest_first = Window.partitionBy(*_KEYS, "home").orderBy(F.desc("minute_ts"))
    looked_at = lag.withColumn("nth", F.row_number().over(newest_first)).where(F.col("nth") <= LOOKED_AT)
    last, first = F.max_by("lag", "minute_ts"), F.min_by("lag", "minute_ts")
    waited, stayed = F.min("lag") > 0, F.min("offset") == F.max("offset")
    return looked_at.groupBy(*_KEYS, "home").agg(
        *(F.max_by(name, "minute_ts").alias(name) for name in ("offset", "end_offset", "lag", "lag_ms")),
        F.sum(F.when(F.col("nth") <= ACTIVE_IN, F.col("pulls") + F.col("commits")).otherwise(0)).alias("active"),
        _as_number(waited & (F.count("*") < 2)).alias("unknown"),
        _as_number(waited & (F.count("*") >= 2) & stayed).alias("stuck"),
        _as_number((last > 0) & ((F.min("lag") == 0) | (F.min("offset") != F.max("offset")))).alias("moving"),
        ((F.min("lag") == 0) | F.coalesce(F.max_by("lag_ms", "minute_ts") <= PATIENCE_MS, F.lit(False))).alias("young"),
        _as_number(is_beyond_noise(last - first, first)).alias("growing"),
        (last - first).alias("growth"),
    )


def _as_number(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)


def _state() -> Column:
    """The state of a group or queue, by the rule of the live states, from the columns of ``with_progress``.

    A group has stopped if messages wait and it neither pulled nor committed lately: a journal cannot show who is there.
    """
    column = F.col
    facts = StateFacts(
        is_gone=(column("active") == 0) & (column("stuck") + column("moving") > 0),
        is_failing=F.lit(False),
        is_shared=F.lit(True),
        is_counted=F.lit(True),
        waiting=column("lag"),
        unknown=column("unknown"),
        stuck=column("stuck"),
        moving=column("moving"),
        is_young=column("young"),
        growing=column("growing"),
        growth=column("growth"),
    )
    found = F.lit("catching up")
    for state, holds in reversed(decisions(facts)):
        found = F.when(holds, state).otherwise(found)
    return found


def by_group(lag: DataFrame) -> DataFrame:
    """One row per topic and group: its last and largest lag, and its state."""
    sums = ("active", "unknown", "stuck", "moving", "growing", "growth")
    progress = (
        with_progress(lag)
        .groupBy(*_GROUP)
        .agg(
            F.count("*").alias("queues"),
            F.sum("lag").alias("lag"),
            F.bool_and("young").alias("young"),
            *(F.sum(name).alias(name) for name in sums),
        )
        .select(*_GROUP, "queues", _state().alias("state"))
    )
    return (
        _over_time(lag, *_GROUP)
        .join(progress, [*_GROUP])
        .select(*_GROUP, "queues", "lag", "lag_ms", "most_lag", "most_lag_ms", "commits", "state")
    )


def _over_time(lag: DataFrame, *keys: str) -> DataFrame:
    """The sum of all queues' lags in messages, and the largest lag in time: at the end, and at most."""
    return (
        _by_minute(lag, *keys)
        .groupBy(*keys)
        .agg(
            F.max_by("lag", "minute_ts").alias("lag"),
            F.max_by("lag_ms", "minute_ts").alias("lag_ms"),
            F.max("lag").alias("most_lag"),
            F.max("lag_ms").alias("most_lag_ms"),
            F.sum("commits").alias("commits"),
        )
    )


def _by_minute(lag: DataFrame, *keys: str) -> DataFrame:
    return lag.groupBy(*keys, "minute_ts").agg(
        F.sum("lag").alias("lag"), F.max("lag_ms").alias("lag_ms"), F.sum("commits").alias("commits")
    )


def by_queue(lag: DataFrame) -> DataFrame:
    """One row per topic, group and queue, at the end."""
    progress = with_progress(lag).withColumn("state", _state())
    return progress.select(*_GROUP, "queue_id", "offset", "end_offset", "lag", "lag_ms", "state")


def by_minute(lag: DataFrame) -> DataFrame:
    """One row per step, topic and group: the lag at its end."""
    return _by_minute(lag, *_GROUP).select("broker", "minute_ts", "topic", "group", "lag", "lag_ms", "commits")


def figures(lag: DataFrame, *keys: str) -> DataFrame:
    """How far all groups are behind: at the end, and at most."""
    return _over_time(lag, *keys).select(*keys, "lag", "lag_ms", "most_lag", "most_lag_ms")


REPORT = Report(
    reads=READS,
    polls=POLLS,
    facts=facts,
    tables={
        "by_group": Table("lag", by_group, worst="lag"),
        "by_queue": Table("lag", by_queue, worst="lag", across=False),
        "by_minute": Table("lag", by_minute),
    },
    figures={"lag": figures},
    headlines=(
        Figure("lag", "Messages behind, at the end", "less"),
        Figure("lag_ms", "Behind in time, at the end", "less"),
        Figure("most_lag", "Messages behind, at most", "less"),
        Figure("most_lag_ms", "Behind in time, at most", "less"),
    ),
    charts=(
        Chart("time", "Behind over time", "by_minute", ("lag", "lag_ms"), split=("group", "topic")),
        Chart("bars", "By queue", "by_queue", ("lag", "lag_ms"), split=("topic", "queue_id"), choose="group"),
    ),
)

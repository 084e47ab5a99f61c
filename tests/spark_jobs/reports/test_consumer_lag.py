"""How far groups are behind."""

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from spark_jobs.reports import consumer_lag
from spark_jobs.reports.shape import SCHEMAS, STORED_AT, Inputs
from spark_jobs.reports.steps import in_window
from tests.spark_jobs.frames import MINUTE, inputs, read, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT = consumer_lag.REPORT


def stored(queue: int, *times: int) -> list[dict[str, Any]]:
    """A message for each time, from the offset 0 on."""
    return [{"queue_id": queue, "queue_offset": offset, "store_ts": at} for offset, at in enumerate(times)]


def committed(at: int, offset: int, end: int, **more: Any) -> dict[str, Any]:
    return {"kind": "committed", "at_ms": at, "next_offset": offset, "max_offset": end} | more


def lag_of(spark: "SparkSession", **given: Any) -> "DataFrame":
    return REPORT.facts(inputs(spark, REPORT, **given)._replace(read=read))["lag"]


def over_time(lag: "DataFrame") -> list[tuple[Any, ...]]:
    return rows(consumer_lag.by_minute(lag), "minute_ts", "lag", "lag_ms", "commits")


def test_a_queue_grows_while_nothing_is_committed(spark: "SparkSession") -> None:
    log = stored(0, 10, 20, MINUTE + 5, 3 * MINUTE, 3 * MINUTE + 7)
    empty_pop = {"kind": "woken", "at_ms": 31, "queue_id": None, "messages": 0}
    journal = [committed(30, 1, 2), empty_pop, committed(2 * MINUTE, 3, 3)]
    facts = REPORT.facts(inputs(spark, REPORT, log=log, journal=journal)._replace(read=read))
    lag = facts["lag"]
    assert rows(facts["left_out"]) == [], "a pop that got nothing has no queue"
    assert over_time(lag) == [
        (0, 1, MINUTE - 20, 1),  # offset 1 of 2; the message at 20 waits
        (MINUTE, 2, 2 * MINUTE - 20, 0),
        (2 * MINUTE, 0, 0, 1),
        (3 * MINUTE, 2, 7, 0),
    ]  # the log ends 7 ms after the first of them


def test_deleted_topics_and_groups_and_the_brokers_own_topics_are_left_out(spark: "SparkSession") -> None:
    journal = [
        committed(51_000, 0, 2),
        committed(51_000, 0, 2, group="deleted"),
        committed(51_000, 0, 2, topic="deleted"),
        committed(51_000, 0, 2, topic="rmq_sys_wheel_timer"),
    ]
    topics = [("orders", 1), ("rmq_sys_wheel_timer", 1)]
    offsets, log = [("g", "deleted", 0, 1)], [{"topic": "deleted", "queue_offset": 8, "store_ts": 0}]
    facts = REPORT.facts(
        inputs(spark, REPORT, log=log, journal=journal, offsets=offsets, topics=topics, groups=["g"])._replace(
            read=read
        )
    )
    assert rows(consumer_lag.by_group(facts["lag"]), "topic", "group", "lag") == [("orders", "g", 2)]
    assert rows(facts["left_out"], "reason", "topic", "group", "count") == [
        ("broker_topic", "rmq_sys_wheel_timer", "g", 1),
        ("deleted", "deleted", "g", 1),
        ("deleted", "orders", "deleted", 1),
    ]
    unknown = REPORT.facts(inputs(spark, REPORT, journal=journal)._replace(read=read))
    assert rows(consumer_lag.by_group(unknown["lag"]), "topic", "group") == [
        ("orders", "g"),
        ("orders", "deleted"),
        ("deleted", "g"),
    ]


def test_queues_are_summed_up_and_the_oldest_message_counts(spark: "SparkSession") -> None:
    log = stored(0, 0, 0, 0) + stored(1, 50_000, 50_000, MINUTE)
    lag = lag_of(
        spark,
        log=log,
        journal=[committed(51_000, 2, 3), committed(51_000, 0, 2, queue_id=1), committed(51_000, 0, 1, group="other")],
    )
    assert rows(consumer_lag.by_group(lag), "group", "queues", "lag", "lag_ms", "most_lag") == [
        ("g", 2, 4, MINUTE, 4),
        ("other", 1, 3, MINUTE, 3),
    ]


def test_the_lag_of_one_step(spark: "SparkSession") -> None:
    """Each topic is named after what is known of it."""
    deleted = {"queue_id": 0, "queue_offset": 8, "store_ts": 5, "topic": "the first message is deleted"}
    log = [deleted, *(row | {"topic": "stored offsets"} for row in stored(0, 0, 100, 200))]
    of_journal = {
        "the first message is deleted": [committed(10, 3, 9)],
        "the log is gone": [committed(10, 3, 9), committed(20, 4, 9)],
        "created again, of the journal alone": [committed(10, 90, 100), committed(20, 1, 3)],
        "the journal is newer than the stored offset": [committed(5, 2, 2)],
    }
    journal = [row | {"topic": topic} for topic, rows in of_journal.items() for row in rows]
    offsets = [
        ("g", "stored offsets", 0, 1),
        ("g", "the journal is newer than the stored offset", 0, 0),
        ("gone", "nowhere", 0, 5),
    ]
    lag = lag_of(spark, log=log, journal=journal, offsets=offsets)
    assert rows(lag, "topic", "minute_ts", "offset", "end_offset", "lag", "lag_ms", "commits") == [
        ("the first message is deleted", 0, 3, 9, 6, None, 1),
        ("the log is gone", 0, 4, 9, 5, None, 2),
        ("created again, of the journal alone", 0, 1, 3, 2, None, 2),
        ("the journal is newer than the stored offset", 0, 2, 2, 0, 0, 1),
        ("stored offsets", 0, 1, 3, 2, 100, 0),
    ]
    states = dict(rows(consumer_lag.by_queue(lag), "topic", "state"))
    assert (states["stored offsets"], states["the journal is newer than the stored offset"]) == ("unknown", "ok")


@pytest.mark.parametrize(("settled_ms", "offset"), [(MINUTE - 1, 30), (MINUTE, 20)])
def test_the_broker_lost_a_commit_that_the_journal_has(spark: "SparkSession", settled_ms: int, offset: int) -> None:
    """30 was committed 6 s after 20. The stored offset counts in the end, once the broker must have written it."""
    log = stored(0, *[0] * 40, 3 * MINUTE)
    journal = [committed(0, 20, 40), committed(6_000, 30, 40)]
    given = inputs(spark, REPORT, log=log, journal=journal, offsets=[("g", "orders", 0, 20)])
    lag = REPORT.facts(given._replace(read=read, settled_ms=settled_ms))["lag"]
    assert rows(lag, "minute_ts", "offset", "lag") == [
        *((step * MINUTE, 30, 10) for step in range(3)),
        (3 * MINUTE, offset, 41 - offset),
    ]


def test_a_commit_of_the_last_minute_is_lost(spark: "SparkSession") -> None:
    given = inputs(
        spark, REPORT, log=stored(0, *[0] * 40), journal=[committed(6, 30, 40)], offsets=[("g", "orders", 0, 20)]
    )
    assert rows(REPORT.facts(given._replace(read=read, settled_ms=MINUTE))["lag"], "offset", "lag") == [(20, 20)]


def test_a_window_begins_with_what_was_before(spark: "SparkSession") -> None:
    log = stored(0, *range(0, 10 * MINUTE, MINUTE))
    lag = lag_of(spark, log=log, journal=[committed(MINUTE + 1, 2, 2)], bounds=(5 * MINUTE,), to_ms=7 * MINUTE)
    assert over_time(lag) == [(5 * MINUTE, 4, 4 * MINUTE, 0), (6 * MINUTE, 5, 5 * MINUTE - 1, 0)]


HOUR = 60 * MINUTE
SINCE, FROM, TO = 4 * HOUR, 5 * HOUR, 7 * HOUR


class History(NamedTuple):
    """Ten hours of three queues and two groups. Queue 2 gets nothing after the first hour, and is not read later."""

    log: list[dict[str, Any]]
    journal: list[dict[str, Any]]
    offsets: list[tuple[str, str, int, int]]
    ends: list[tuple[str, str, int, int]]

    @classmethod
    def random(cls, seed: int) -> "History":
        chance, log, journal = random.Random(seed), [], []
        ends = dict.fromkeys(range(3), 0)
        offsets = {(group, queue): 0 for group in "gh" for queue in range(3)}
        for group, queue in offsets:
            journal.append(committed(0, 0, 0, queue_id=queue, group=group, from_offset=None))
        for at in sorted(chance.sample(range(10 * HOUR), 120)):
            queue = chance.randrange(3)
            if chance.random() < 0.6:
                if queue != 2 or at < HOUR:
                    log.append({"queue_id": queue, "queue_offset": ends[queue], "store_ts": at})
                    ends[queue] += 1
                continue
            group = chance.choice(["g", "h"])
            if (queue == 2 or (queue == 1 and group == "h")) and at > 2 * HOUR:  # it has stopped
                continue
            offset, last = chance.randint(0, ends[queue]), offsets[group, queue]
            if offset != last:
                where = {"queue_id": queue, "group": group, "from_offset": last}
                journal.append(committed(at, offset, ends[queue], **where))
                offsets[group, queue] = offset
        return cls(
            log,
            journal,
            [(group, "orders", queue, offset) for (group, queue), offset in offsets.items()],
            [("a", "orders", queue, end) for queue, end in ends.items()],
        )

    def inputs(self, spark: "SparkSession", since: int, until: int) -> Inputs:
        """What a report over [FROM, TO) reads if it reads [since, until)."""
        times = {("a", "orders", row["queue_id"], row["queue_offset"]): row["store_ts"] for row in self.log}
        found = inputs(
            spark,
            REPORT,
            log=[row for row in self.log if row["store_ts"] < until],  # of whole segments, so also earlier ones
            journal=[row for row in self.journal if since <= row["at_ms"] < until],
            offsets=self.offsets,
            bounds=(FROM,),
            to_ms=TO,
        )
        return found._replace(
            since_ms=since or None,
            is_current=until >= 10 * HOUR,
            table=lambda name: (
                spark.createDataFrame(self.ends, SCHEMAS[name]) if name == "queue_ends" else found.table(name)
            ),
            stored_at=lambda wanted: spark.createDataFrame(
                [(*row, times.get(tuple(row))) for row in wanted.collect()], STORED_AT
            ),
            read=read,
        )


def in_the_window(facts: "dict[str, DataFrame]") -> list[tuple[Any, ...]]:
    lag = in_window(facts["lag"], FROM, TO)
    return sorted(rows(lag, "group", "queue_id", "minute_ts", "offset", "end_offset", "lag", "lag_ms", "commits"))


@pytest.mark.seeds(1)
def test_a_window_that_reads_a_part_has_the_lag_of_one_that_reads_everything(spark: "SparkSession", seed: int) -> None:
    history = History.random(seed)
    wanted = in_the_window(REPORT.facts(history.inputs(spark, 0, 10 * HOUR)))
    assert {(group, queue) for group, queue, *_ in wanted} == {(g, queue) for g in "gh" for queue in range(3)}
    assert in_the_window(REPORT.facts(history.inputs(spark, SINCE, 10 * HOUR))) == wanted
    # Without what came later, a group without a commit is unknown. It is counted, and not guessed.
    old = REPORT.facts(history.inputs(spark, SINCE, 8 * HOUR))
    known = in_the_window(old)
    assert set(known) < set(wanted)
    unknown = {row[:2] for row in wanted} - {row[:2] for row in known}
    assert ("h", 1) in unknown
    assert sum(count for why, count in rows(old["left_out"], "reason", "count") if why == "no_commit") <= len(unknown)
    assert ("no_commit", "h") in rows(old["left_out"], "reason", "group")


def test_a_topic_that_was_deleted_and_created_again_begins_at_0(spark: "SparkSession") -> None:
    log = stored(0, *range(100)) + stored(0, MINUTE + 1, MINUTE + 2, MINUTE + 3)
    journal = [committed(50, 0, 100, group="old"), committed(60, 100, 100), committed(MINUTE + 10, 1, 3)]
    lag = lag_of(spark, log=log, journal=journal)
    assert rows(consumer_lag.by_group(lag), "group", "queues", "lag", "most_lag", "commits") == [
        ("g", 1, 2, 2, 2),
        ("old", 1, 3, 100, 1),
    ]
    # its log has the offset 1 twice: it waits once, since the newer one was stored
    assert [row for row in rows(lag, "group", "minute_ts", "lag", "lag_ms") if row[0] == "g"] == [
        ("g", 0, 0, 0),
        ("g", MINUTE, 2, 8),
    ]


def committing(speed: int) -> list[dict[str, Any]]:
    """A commit each minute, by which the offset moves by half of this."""
    return [committed(at * MINUTE, at * speed // 2 + 1, 0) for at in range(8)]


def test_states(spark: "SparkSession") -> None:
    """The topic of each journal is named after the state of the group there; 2 or 6 messages come in each minute."""
    pulls = [{"kind": "woken", "at_ms": at * MINUTE, "max_offset": 2 * at} for at in range(8)]
    empty_pops = [{"kind": "woken", "at_ms": at * MINUTE, "queue_id": None, "messages": 0} for at in range(4, 8)]
    journals = {
        "ok": (2, committing(4)),
        "catching up": (2, committing(1)),  # 11 messages more are noise
        "falling behind": (6, committing(1)),
        "catching up, after a while": (6, [*committing(1)[:-1], committed(7 * MINUTE, 30, 0)]),
        "stalled": (2, [committed(0, 1, 1), *pulls]),
        "stopped": (2, [committed(0, 1, 1)]),
        "stopped, minutes ago": (2, committing(4)[:4]),
        "catching up, until two steps ago": (2, committing(1)[:6]),
        "catching up, with pops that get nothing": (2, [*committing(4)[:4], *empty_pops]),
        "stalled, but one queue moves": (2, [*committing(4), *pulls, committed(0, 1, 1, queue_id=1)]),
    }
    log = [
        row | {"topic": topic, "queue_id": queue_id}
        for topic, (speed, _) in journals.items()
        for row in stored(0, *range(0, 8 * MINUTE, MINUTE // speed))
        for queue_id in (0, 1)[: 2 if "one queue" in topic else 1]
    ]
    journal = [row | {"topic": topic} for topic, (_, rows) in journals.items() for row in rows]
    lag = lag_of(spark, log=log, journal=journal)
    assert sorted(rows(consumer_lag.by_group(lag), "topic", "state")) == sorted(
        (topic, topic.partition(",")[0]) for topic in journals
    )
    assert {
        queue_id: state
        for topic, queue_id, state in rows(consumer_lag.by_queue(lag), "topic", "queue_id", "state")
        if "one queue" in topic
    } == {0: "ok", 1: "stopped"}


def test_long_times_have_long_steps(spark: "SparkSession") -> None:
    journal = [committed(0, 0, 1), committed(30 * 86_400_000, 0, 1, group="late")]
    lag = lag_of(spark, log=stored(0, 0), journal=journal)
    assert lag.where("`group` = 'g'").count() <= consumer_lag.MOST_STEPS + 1


def test_ten_thousand_queues(spark: "SparkSession") -> None:
    journal = [committed(at, at, 3, queue_id=queue) for queue in range(10_000) for at in (1, 2)]
    lag = lag_of(spark, journal=journal)
    assert rows(consumer_lag.by_group(lag), "queues", "lag", "commits") == [(10_000, 10_000, 20_000)]

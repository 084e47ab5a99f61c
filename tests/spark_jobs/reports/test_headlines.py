"""Headlines and tables agree, whatever was stored: at two brokers, with random messages and ends of pulls."""

import re
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.catalogue import REPORTS
from spark_jobs.job import Period
from spark_jobs.output.result import Result, compute
from spark_jobs.reports import load
from spark_jobs.reports.daily_summary import COUNTS, FIGURES
from spark_jobs.reports.histograms import ERROR
from spark_jobs.reports.polling_savings import INTERVALS_US, LONG
from spark_jobs.reports.shape import ALL_BROKERS
from spark_jobs.reports.steps import DAY_MS, about
from tests.spark_jobs.frames import MINUTE, Rows, inputs, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tables = dict[str, list[dict[str, Any]]]
Total = dict[str, Any]
ROWS = 60


def random_time(chance: Random) -> int:
    """A time of five minutes in which a day ends, in ms."""
    return DAY_MS + chance.randrange(-2 * MINUTE, 3 * MINUTE)


def random_pull(chance: Random) -> dict[str, Any]:
    """An end of a pull, or a commit."""
    begin, messages = chance.randrange(7), chance.randrange(5)
    return random_place(chance) | {
        "topic": chance.choice(("orders", "payments")),
        "at_ms": random_time(chance),
        "kind": chance.choice(("answered_at_once", "woken", "released", "committed")),
        "cause": chance.choice(("arrival", "timeout", "channel_gone")),
        "status": chance.choice(("FOUND", "PULL_NOT_FOUND")),
        "protocol": chance.choice(("remoting", "http")),
        "group": chance.choice("gh"),
        "client_id": chance.choice(("c1", "c2", "c3")),
        "messages": messages,
        "bytes": chance.randrange(1_000),
        "from_offset": begin,
        "next_offset": begin + messages,
        "max_offset": chance.randrange(13),
        "held_us": chance.randrange(20_000_000),
        "wake_us": chance.choice((None, chance.randrange(5_000))),
        "granted_ms": chance.randrange(15_000),
        "oldest_store_ms": random_time(chance),
    }


def random_message(chance: Random) -> dict[str, Any]:
    """A record of the log, without its queue offset."""
    return random_place(chance) | {
        "topic": chance.choice(("orders", "payments", "%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX")),
        "store_ts": random_time(chance),
        "born_ts": random_time(chance),
        "body_length": chance.randrange(5_000),
        "born_host": chance.choice(("10.0.0.1", "10.0.0.2")),
        "real_topic": "orders",
        "uniq_key": chance.choice("ABC"),
        "due_ts": random_time(chance),
        "reconsume_times": chance.randrange(4),
    }


def random_place(chance: Random) -> dict[str, Any]:
    return {"broker": chance.choice("ab"), "queue_id": chance.randrange(3)}


def with_offsets(messages: list[dict[str, Any]]) -> Rows:
    """The messages, each with the next offset of its queue."""
    ends: dict[tuple[Any, ...], int] = {}
    for message in messages:
        queue = tuple(message[name] for name in ("broker", "topic", "queue_id"))
        message["queue_offset"] = ends.get(queue, 0)
        ends[queue] = message["queue_offset"] + 1
    return messages


def total_of(rows: list[dict[str, Any]], column: str, **only: Any) -> Any:
    """The sum of a column over the rows with these values."""
    return sum(row[column] or 0 for row in rows if all(row[name] == value for name, value in only.items()))


def require_within(value: Any, rows: list[dict[str, Any]], column: str, **only: Any) -> None:
    """A percentile of all lies between those of its parts, but for the width of a bucket; none without any."""
    parts = [row[column] for row in rows if all(row[name] == wanted for name, wanted in only.items())]
    if not parts:
        assert value is None
    else:
        assert min(parts) * (1 - 2 * ERROR) - 1 <= value <= max(parts) * (1 + 2 * ERROR) + 1


def check_throughput(total: Total, tables: Tables) -> None:
    for name in ("messages", "bytes", "body_bytes"):
        for table in ("by_topic", "by_kind", "by_producer", "by_minute", "by_size"):
            if name in {"messages", "body_bytes"} or table != "by_size":
                assert total[name] == total_of(tables[table], name), table


def check_wakeup_latency(total: Total, tables: Tables) -> None:
    for table in ("by_topic", "by_group", "by_cause", "by_minute", "histogram"):
        assert total["wakeups"] == total_of(tables[table], "samples", stage="stored_to_answered")
    for percentile in ("p50_us", "p99_us"):
        require_within(total[f"wake_{percentile}"], tables["by_group"], percentile, stage="woken_to_answered")
    require_within(total["stored_to_answered_p99_us"], tables["by_topic"], "p99_us", stage="stored_to_answered")


def check_hold_time(total: Total, tables: Tables) -> None:
    assert total["holds"] == total_of(tables["by_cause"], "holds") == total_of(tables["over_time"], "holds")
    assert total["holds"] == total_of(tables["by_topic"], "samples", measure="held")
    for name, measure in (("held_p50_us", "held"), ("held_p99_us", "held"), ("late_p99_us", "late")):
        require_within(total[name], tables["by_group"], name.removeprefix(f"{measure}_"), measure=measure)


def check_empty_polls(total: Total, tables: Tables) -> None:
    for rows in tables.values():
        answers = total_of(rows, "answers")
        assert total["answers"] == answers
        if answers:
            assert total["empty_share"] == round(total_of(rows, "empty") / answers, 4)
            assert total["messages_an_answer"] == pytest.approx(total_of(rows, "messages") / answers, abs=0.006)


def check_polling_savings(total: Total, tables: Tables) -> None:
    assert total["requests"] == total_of(tables["by_topic"], "requests", method=LONG)
    methods = {row["method"]: row for row in tables["by_method"]}
    for method, name in zip((LONG, *INTERVALS_US), ("", "_1s", "_100ms"), strict=True):
        if methods:
            assert total[f"delay{name}_p50_us"] == methods[method]["p50_us"]
            assert not name or total[f"saved_requests{name}"] == methods[method]["saved_requests"]


def check_consumer_lag(total: Total, tables: Tables) -> None:
    groups, steps = tables["by_group"], tables["by_minute"]
    if not groups:
        assert total["lag"] is None
        return
    assert total["lag"] == total_of(groups, "lag") == total_of(steps, "lag", minute_ts=steps[-1]["minute_ts"])
    assert total["lag_ms"] == max((row["lag_ms"] for row in groups if row["lag_ms"] is not None), default=None)
    assert total["most_lag"] == max(total_of(steps, "lag", minute_ts=row["minute_ts"]) for row in steps)
    assert total["most_lag_ms"] == max((row["lag_ms"] for row in steps if row["lag_ms"] is not None), default=None)


def check_skew(total: Total, tables: Tables) -> None:
    for name, table, parts in (("queue", "by_topic", "queues"), ("client", "by_group", "clients")):
        known = [row["imbalance"] for row in tables[table] if row[parts] > 1 and row["messages"] >= 10 * row[parts]]
        assert known and total[f"{name}_imbalance"] == max(known, default=None)


def check_end_to_end_latency(total: Total, tables: Tables) -> None:
    assert total["deliveries"] == total_of(tables["by_group"], "samples", stage="stored_to_delivered")
    for stage in ("born_to_stored", "stored_to_delivered", "born_to_delivered"):
        require_within(total[f"{stage}_p99_ms"], tables["by_topic"], "p99_ms", stage=stage)


def check_retries(total: Total, tables: Tables) -> None:
    for name, fate in (("retries", "retry"), ("dead_letters", "dead letter")):
        assert total[name] == total_of(tables["by_topic"], name) == total_of(tables["by_group"], name)
        assert total[name] == total_of(tables["by_minute"], "messages", fate=fate)
    assert total["delayed_delivered"] == total_of(tables["delayed_by_level"], "samples")
    require_within(total["late_p99_ms"], tables["delayed_by_topic"], "p99_ms")


def check_slow_consumers(total: Total, tables: Tables) -> None:
    assert total["slow_clients"] == total_of(tables["by_client"], "is_slow")
    for measure in ("away", "committed"):
        parts = [row for row in tables["by_group"] if row[f"{measure}_p99_ms"] is not None]
        require_within(total[f"{measure}_p99_ms"], parts, f"{measure}_p99_ms")


def check_daily_summary(total: Total, tables: Tables) -> None:
    days, topics = tables["by_day"], tables["by_topic"]
    assert {row["day_ts"] for row in days} == {row["day_ts"] for row in topics} <= {0, DAY_MS}
    for name in COUNTS:
        assert total[name] == total_of(topics, name) or name == "slow_clients", name
        assert total[name] == total_of(days, name) or name == "slow_clients", name
    assert total["lag"] == total_of(days, "lag", day_ts=DAY_MS) == total_of(topics, "lag", day_ts=DAY_MS)
    for name in ("most_lag", "most_lag_ms"):
        assert total[name] == max(row[name] for row in days if row[name] is not None), name
    for name in FIGURES:
        if re.search(r"_p\d+_", name):
            require_within(total[name], [row for row in days if row[name] is not None], name)
            require_within(total[name], [row for row in topics if row[name] is not None], name)


CHECKS: dict[str, Callable[[Total, Tables], None]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_throughput,
        check_wakeup_latency,
        check_hold_time,
        check_empty_polls,
        check_polling_savings,
        check_consumer_lag,
        check_skew,
        check_end_to_end_latency,
        check_retries,
        check_slow_consumers,
        check_daily_summary,
    )
}


def test_every_report_is_checked() -> None:
    assert set(CHECKS) == set(REPORTS)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.seeds(1)
def test_headlines_and_tables_agree(spark: "SparkSession", name: str, seed: int) -> None:
    chance = Random(seed)
    count = 20 * ROWS if name == "skew" else ROWS  # it compares only what has many messages
    log = with_offsets([random_message(chance) for _ in range(count)])
    journal = [random_pull(chance) for _ in range(count)]
    report = load(name)
    facts = report.facts(inputs(spark, report, log=log, journal=journal)._replace(read=read, brokers=2))
    result = compute(report, read(facts, 0, 1), Period(None, None), MINUTE, 2, lambda doing: None)
    tables = {
        table: [row for row in rows.to_pylist() if row["broker"] == ALL_BROKERS]
        for table, rows in result.tables.items()
    }
    CHECKS[name](result.total, tables)
    for table, rows in result.tables.items():
        if report.tables[table].across:
            assert {row["broker"] for row in rows.to_pylist()} <= {ALL_BROKERS, "a", "b"}


def result_of_group(spark: "SparkSession", name: str, log: Rows, journal: Rows, group: str) -> Result:
    """What a run of the report with this group finds."""
    report = load(name)
    given = inputs(spark, report, log=log, journal=journal)._replace(read=read, brokers=2, group=group)
    facts = {fact: about(rows, None, group) for fact, rows in report.facts(given).items()}
    return compute(report, read(facts, 0, 1), Period(None, None), MINUTE, 2, lambda doing: None)


@pytest.mark.parametrize("name", [name for name in REPORTS if load(name).polls])
@pytest.mark.seeds(1)
def test_pulls_without_a_group_change_no_figure_of_a_group(spark: "SparkSession", name: str, seed: int) -> None:
    chance = Random(seed)
    log = with_offsets([random_message(chance) for _ in range(ROWS)])
    journal = [random_pull(chance) for _ in range(ROWS)]
    anonymous = [row | {"group": "", "client_id": ""} for row in journal if row["kind"] != "committed"]
    found = result_of_group(spark, name, log, [*journal, *anonymous], "g")
    assert found == result_of_group(spark, name, log, journal, "g")
    assert found != result_of_group(spark, name, log, [], "g"), "the group's own pulls count"

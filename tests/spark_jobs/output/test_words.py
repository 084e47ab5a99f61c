"""What a report says in sentences."""

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats.poll_journal import CAUSES
from spark_jobs.catalogue import REPORTS
from spark_jobs.output.words import ENDS, clock, many, more, ms, percent, size, top, us, words
from spark_jobs.reports import load
from tests.spark_jobs.reports.test_reports import SCHEMAS

GROUPS = [
    {"topic": "orders", "group": "a", "lag": 5, "most_lag": 5, "most_lag_ms": None, "state": "ok"},
    *(
        {"topic": "orders", "group": name, "lag": lag, "most_lag": 2 * lag, "most_lag_ms": 60_000, "state": "stopped"}
        for name, lag in (("b", 10), ("c", 40), ("d", 30), ("e", 20))
    ),
]
SAVINGS = {
    "requests": 10,
    "saved_requests_1s": 40,
    "saved_requests_100ms": 390,
    "open_pulls": 1.5,
    "delay_p50_us": 80,
    "delay_1s_p50_us": 500_000,
    "delay_100ms_p50_us": 50_000,
}


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{"broker": "a"} | row for row in rows])


@pytest.mark.parametrize(("brokers", "queue"), [(("a",), "Queue 0"), (("a", "b"), "Queue 0 at b")])
def test_the_fullest_queue_is_named_with_its_broker_if_there_are_several(brokers: tuple[str, ...], queue: str) -> None:
    topic = {"topic": "orders", "queue_id": 0, "queues": 2, "messages": 20, "most_share": 0.7, "imbalance": 1.4}
    few = topic | {"topic": "few", "messages": 19}
    queues = [{"broker": name, "topic": "orders", "queue_id": 0, "messages": ord(name)} for name in brokers]
    tables = {
        "by_topic": table(few, topic),
        "by_queue": pa.Table.from_pylist(queues),
        "by_group": table({"clients": 1, "messages": 20, "imbalance": 1.0}),
    }
    assert words("skew", {"queue_imbalance": 1.4, "client_imbalance": None}, tables) == [
        f"{queue} of orders has 70 % of its messages, 1.40 times what a queue has on average; no topic with at least "
        "10 messages a queue is less even.",
        "No group with two or more clients has at least 10 messages a client.",
    ]
    tables["by_topic"] = table(few)
    [sentence, _] = words("skew", {"queue_imbalance": None, "client_imbalance": None}, tables)
    assert sentence == "No topic with two or more queues has at least 10 messages a queue."


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_without_data_has_no_sentences(name: str) -> None:
    """Of an empty store, and of one without a journal: figures that are not known are None."""
    report = load(name)
    empty = {
        of: pa.table(
            {
                column.split()[0].strip("`"): pa.array(
                    [],
                    {"string": pa.string(), "boolean": pa.bool_(), "double": pa.float64()}.get(
                        column.split()[1], pa.int64()
                    ),
                )
                for column in made.split(", ")
            }
        )
        for of, made in SCHEMAS[name].items()
    }
    total = dict.fromkeys(figure.name for figure in report.headlines)
    assert words(name, total, empty) == []


def test_sentences_of_hold_time() -> None:
    held = [
        {"topic": "orders", "group": group, "measure": "held", "p50_us": p50} for group, p50 in (("a", 9), ("b", 8))
    ]
    said = words(
        "hold_time",
        {"holds": 8, "held_p50_us": 2_000_000, "held_p99_us": 15_000_000},
        {
            "by_cause": table(
                {"cause": "arrival", "holds": 4},
                {"cause": "timeout", "holds": 3},
                {"cause": "filter_advanced", "holds": 1},
            ),
            "by_group": table(*held, held[0] | {"measure": "late", "p50_us": 99}),
        },
    )
    assert said == [
        "8 pulls waited: 50 % until messages arrived; 37.5 % without a message, until their time was up; "
        "12.5 % until a filter passed over what came.",
        "Half of the pulls waited for no longer than 2 s, 99 % for no longer than 15 s.",
        "a waits longest on orders, half of the time for 9 µs or more.",
    ]


def test_pulls_without_a_group_are_called_so() -> None:
    slowest = {"topic": "orders", "group": "", "stage": "stored_to_answered", "p99_us": 9}
    [_, _, sentence] = words(
        "wakeup_latency",
        {"wakeups": 1, "wake_p50_us": None, "wake_p99_us": None},
        {
            "by_cause": table({"stage": "stored_to_answered", "cause": "timeout", "samples": 1}),
            "by_group": table(slowest),
        },
    )
    assert sentence == "Slowest from stored to answered is a client without a group on orders: 99 % within 9 µs."


def test_the_largest_cause_of_empty_answers_is_that_of_all_statuses() -> None:
    said = words(
        "empty_polls",
        {"answers": 2_000, "empty_share": 0.43},
        {
            "by_topic": table({"topic": "orders", "empty": 600}, {"topic": "bills", "empty": 260}),
            "by_status": table(
                {"status": "NO_MATCHED_MESSAGE", "how": "at once", "empty": 374},
                {"status": "FOUND", "how": "at once", "empty": 20},
                {"status": "PULL_NOT_FOUND", "how": "timeout", "empty": 300},
                {"status": "OFFSET_OVERFLOW_ONE", "how": "timeout", "empty": 166},
            ),
        },
    )
    assert said[1] == (
        "Empty answers came most often after a wait without a message (466); the topic with the most is orders (600)."
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(sorted(CAUSES)), st.integers(0, 50)), min_size=1))
def test_the_cause_in_the_headline_is_the_largest_of_the_table(rows: list[tuple[str, str, int]]) -> None:
    sums: dict[str, int] = {}
    for _, how, empty in rows:
        sums[how] = sums.get(how, 0) + empty
    said = words(
        "empty_polls",
        {"answers": 9_999, "empty_share": 0.5},
        {
            "by_topic": table({"topic": "orders", "empty": 1}),
            "by_status": table(*({"status": status, "how": how, "empty": empty} for status, how, empty in rows)),
        },
    )
    if max(sums.values()):
        assert said[1].endswith(f" ({max(sums.values()):,}); the topic with the most is orders (1).")
    else:
        assert said == ["9,999 answers came, and none was empty."]


def test_every_cause_has_its_words() -> None:
    assert set(ENDS) == set(CAUSES)


@pytest.mark.parametrize(
    ("step_ms", "when"),
    [(60_000, "minute was 2023-11-14 22:13 UTC"), (300_000, "5 min began at 2023-11-14 22:13 UTC")],
)
def test_the_sentence_about_the_busiest_time(step_ms: int, when: str) -> None:
    said = words(
        "throughput",
        {"messages": 3, "bytes": 9, "step_ms": step_ms},
        {
            "by_topic": table({"topic": "orders", "messages": 3}),
            "by_minute": table(
                {"minute_ts": 1_699_999_980_000, "topic": "orders", "messages": 2},
                {"minute_ts": 1_700_000_580_000, "topic": "orders", "messages": 1},
            ),
        },
    )
    assert said[1] == f"The busiest {when}, with 2 messages."


def test_sentences_of_polling_savings() -> None:
    assert words("polling_savings", SAVINGS, {}) == [
        "Consumers made 10 requests, and half of the messages were on their way within 80 µs of their arrival.",
        "Asking each second they would have made at most 50, 5.0 times as many, and half of the messages would have "
        "been 500 ms late or more.",
        "Asking every 100 ms they would have made at most 400, 40.0 times as many, and half of the messages would have "
        "been 50 ms late or more.",
        "The price: 1.5 pulls lay open on average.",
    ]
    nothing_came = SAVINGS | {"delay_p50_us": None, "delay_1s_p50_us": None, "delay_100ms_p50_us": None}
    assert "late" not in " ".join(words("polling_savings", nothing_came, {}))
    few = words("polling_savings", SAVINGS | {"open_pulls": 0.03}, {})
    assert few[-1] == "The price: 0.03 pulls lay open on average."


def test_sentences_of_consumer_lag() -> None:
    total = {"lag": 105, "lag_ms": 90_000}
    assert words("consumer_lag", total, {"by_group": table(*GROUPS)}) == [
        "At the end, groups still had 105 messages to commit, and the oldest had waited for 1.5 min.",
        "c on orders is stopped, 40 messages behind; d on orders is stopped, 30 messages behind; e on orders is "
        "stopped, 20 messages behind and 1 more.",
        "Farthest behind was c on orders, by 80 messages and 1 min.",
    ]
    assert words("consumer_lag", total, {"by_group": table(GROUPS[0])})[1:] == [
        "No group is falling behind, stalled or stopped.",
        "Farthest behind was a on orders, by 5 messages.",
    ]


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (1, "1 delayed message came, within 31 ms of the due time."),
        (99, "99 delayed messages came, half within 5 ms of the due time, all within 31 ms."),
        (100, "100 delayed messages came, half within 5 ms of the due time, 99 % within 30 ms."),
    ],
)
def test_percentiles_are_said_of_enough_delayed_messages(count: int, sentence: str) -> None:
    total = {"retries": 0, "dead_letters": 0, "delayed_delivered": count, "late_p50_ms": 5, "late_p99_ms": 30}
    levels = table({"level": 2, "max_ms": 31}, {"level": 3, "max_ms": None}, {"level": 4, "max_ms": 7})
    tables = {"by_topic": table({"topic": "orders"}), "by_group": table({"retries": 0}), "delayed_by_level": levels}
    assert words("retries", total, tables) == ["No message came back, and none died.", sentence]


def test_sentences_of_slow_consumers() -> None:
    fast = {"topic": "t", "client_id": "x", "away_p50_ms": 1, "committed_p50_ms": None, "is_slow": False}
    slow = fast | {"client_id": "y", "committed_p50_ms": 700, "is_slow": True}
    assert words("slow_consumers", {}, {"by_client": table(fast)}) == ["No client is much slower than its group."]
    assert words("slow_consumers", {}, {"by_client": table(fast, slow)}) == [
        "Slower than the group: y on t, where half of its answers take 700 ms or more."
    ]


AGREEING = re.compile(r"\b(am|is|are|was|were|has|have|does|do|lies?|comes?|takes?|waits?|brings?|names?)\b")
"""Words whose form depends on the number of their subject."""
COUNTED = re.compile(
    r"(?<![\d.,])(\d[\d,]*) (?!of|on|in|at|came|died|lay|%|ms|s\b|[KMG]?i?B\b)(more |delayed )?([a-z]+)"
)


def totals(count: int) -> dict[str, Any]:
    """Every figure that a sentence uses, with this count."""
    counts = (
        "messages",
        "bytes",
        "wakeups",
        "holds",
        "answers",
        "requests",
        "saved_requests_1s",
        "lag",
        "lag_ms",
        "retries",
        "dead_letters",
        "delayed_delivered",
        "most_lag",
        "slow_clients",
    )
    times = ("wake_p50_us", "wake_p99_us", "held_p50_us", "held_p99_us", "late_p50_ms", "late_p99_ms")
    shares = {"empty_share": 0.25, "queue_imbalance": None, "client_imbalance": None, "step_ms": 60_000}
    return SAVINGS | dict.fromkeys(counts, count) | dict.fromkeys(times, 5) | shares


def tables_with(count: int) -> dict[str, pa.Table]:
    """Tables with this count in each column of counts, and with so many rows of topics and days, but one at least."""
    rows = max(count, 1)
    row = {"topic": "orders", "group": "a", "client_id": "c", "state": "stopped", "minute_ts": 0, "day_ts": 0}
    row |= dict.fromkeys(("messages", "holds", "samples", "lag", "most_lag", "empty", "retries"), count)
    row |= {"p50_us": 5, "p99_us": 5, "away_p50_ms": 5, "committed_p50_ms": None, "most_lag_ms": None, "is_slow": True}
    names = ("by_topic", "by_minute", "by_group", "by_status", "by_client", "by_day")
    made = {name: table(*[row | {"cause": "timeout", "how": "timeout"}] * rows) for name in names}
    by_cause = row | {"cause": "timeout", "stage": "stored_to_answered", "measure": "held"}
    return made | {
        "by_cause": table(by_cause).slice(0, count),
        "by_group": table(*[by_cause] * rows),
        "by_queue": table(row | {"queue_id": 0}),
        "delayed_by_level": table({"max_ms": 5}),
    }


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("name", sorted({*REPORTS} - {"skew", "end_to_end_latency"}))  # these say no counts
def test_sentences_are_right_for_any_count(name: str, count: int) -> None:
    said = " ".join(words(name, totals(count), tables_with(count)))
    for number, _, noun in COUNTED.findall(said):
        assert noun.endswith("s") == (number != "1"), f"{number} {noun} in {said!r}"
    for clause in re.split(r"[.;:] |, and ", said):
        counted = COUNTED.search(clause)
        is_subject = counted and not counted[3].startswith("time")
        verb = AGREEING.search(clause, counted.end()) if counted and is_subject else None
        assert not verb, f"{verb} depends on the count in {clause!r}"


def test_what_sentences_say_of_one() -> None:
    one, only_one = totals(1), tables_with(1)
    said = {name: words(name, one, only_one)[0] for name in ("throughput", "consumer_lag", "retries", "daily_summary")}
    assert said == {
        "throughput": "1 message (1 B) went into 1 topic, 100 % of the messages into orders.",
        "consumer_lag": "At the end, groups still had 1 message to commit, and the oldest had waited for 1 ms.",
        "retries": "1 message came back, 1 died; most came from a, of orders.",
        "daily_summary": "1 message (1 B) on 1 day.",
    }


def test_figures_in_words() -> None:
    assert [us(0), us(999), us(1_500), us(2_000_000)] == ["less than 1 µs", "999 µs", "1.5 ms", "2 s"]
    assert [ms(0), ms(90_000), ms(7_200_000), ms(200_000_000)] == ["less than 1 ms", "1.5 min", "2 h", "2.3 days"]
    assert [percent(value) for value in (0, 0.0004, 0.12, 0.9996, 1)] == [
        "0 %",
        "under 0.1 %",
        "12 %",
        "99.96 %",
        "100 %",
    ]
    assert [size(0), size(1023), size(1024), size(5 << 40)] == ["0 B", "1,023 B", "1 KiB", "5 TiB"]
    assert [many(1, "pull"), many(2_000, "pull"), more(3), more(5)] == ["1 pull", "2,000 pulls", "", " and 2 more"]
    assert clock(1_700_000_000_000) == "2023-11-14 22:13 UTC"


def test_the_first_of_the_largest() -> None:
    rows = table({"name": "a", "n": 1}, {"name": "b", "n": 2}, {"name": "c", "n": 2}, {"name": "d", "n": None})
    assert top(rows, "n") == {"broker": "a", "name": "b", "n": 2}
    assert top(rows.slice(0, 0), "n") == {}

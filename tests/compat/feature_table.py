"""Writes docs/rocketmq-features.md: how many cases of each feature passed at both brokers.

A run of all of ``tests/compat`` with ``--compat`` writes it. A run that leaves out a feature, or one of the brokers,
leaves the page alone.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rocketmq-features.md"
BROKERS = ("rocketmq", "glassmq")
FEATURES = {
    "sending": r"producer\.",
    "SQL92 filters": r"push\.sql92|test_sql92",
    "push consumers": r"push\.",
    "pull consumers and lite pull consumers": r"(pull|lite)\.",
    "held pulls and pops: their time, and what is checked again": r"hold\.",
    "consuming in order": r"orderly\.",
    "groups: members, offsets, resets": r"group\.|test_java_clients\.test_members_can_be_told_of_a_reset",
    "retries and dead letters": r"retry\.",
    "delay levels": r"delay\.",
    "messages for an exact time, and their recall": r"timer\.|test_timer_store",
    "transactions": r"transaction\.",
    "request and reply": r"request\.",
    "pop consumption": r"pop\.|test_pop_(in_order|requests)",
    "batch consume queues": r"batch_queue\.|test_batch_consume_queues",
    "attributes of topics and groups, priorities": r"test_topic_attributes",
    "queries of messages": r"query\.",
    "administration": r"admin\.|mqadmin\.",
    "codes of refusals": r"codes\.",
    "options of a broker": r"test_options",
    "the wire": r"transport\.",
    "gRPC clients, through Apache's proxy": r"grpc\.",
    "the store: one broker opens that of the other": r"test_(pending_)?there_and_back",
}
"""Feature -> a pattern of its cases and tests. The first feature that matches a name has it."""

HEAD = """# RocketMQ feature by feature

`make compat` writes this page. It runs the stock clients and `mqadmin`, and tests of single requests, options and
stores, with Apache RocketMQ 5.4.0 and with GlassMQ. "2 of 3" means that 2 of 3 cases passed. Each command of `mqadmin`
is a case. Cases of the Java clients that fail at RocketMQ are run a second time, and the second result counts, because
its requests time out on a busy machine. Intended differences are listed in
[coming-from-rocketmq.md](coming-from-rocketmq.md#what-is-different-and-why).

| feature | RocketMQ 5.4.0 | GlassMQ | run by |
|---|---|---|---|
"""
ENDING = "\n## What was run\n\n"

Case = tuple[str, str]
"""The client that runs a case, or "tests", and the name of the case."""

_waiting: list[tuple[str, str, bool]] = []
_held: dict[str, dict[Case, bool]] = {broker: {} for broker in BROKERS}


def note_cases(client: str, rows: Iterable[dict[str, Any]]) -> None:
    """Note the results of a program's cases until ``take_cases``, which the report of the test calls."""
    _waiting.extend((client, str(row["name"]), bool(row["ok"])) for row in rows)


def take_cases() -> list[tuple[str, str, bool]]:
    """Return the cases that were noted since the last call, as (client, name, passed)."""
    cases = [*_waiting]
    _waiting.clear()
    return cases


def note_test(node: str, cases: list[tuple[str, str, bool]], *, passed: bool) -> None:
    """Note a test that was run, with the cases of its program. A test of no particular broker counts for both."""
    broker = next((broker for broker in BROKERS if f"[{broker}" in node), "")
    ran = [((client, name), ok) for client, name, ok in cases]
    if not ran:
        name = node.rpartition("/")[2].partition("[")[0].replace(".py::", ".")
        ran = [(("tests", name), passed)]
    for each in [broker] if broker else BROKERS:
        for case, ok in ran:
            _held[each][case] = _held[each].get(case, True) and ok


def feature_of(name: str) -> str | None:
    """The feature to which a case or a test belongs."""
    return next((feature for feature, pattern in FEATURES.items() if re.match(pattern, name)), None)


def write_if_complete(page: Path = PAGE) -> bool:
    """Write the page if both brokers ran something of every feature. Returns whether it did."""
    if any(FEATURES.keys() - {feature_of(name) for _, name in _held[broker]} for broker in BROKERS):
        return False
    page.write_text(render(_held), encoding="utf-8")
    return True


def render(held: dict[str, dict[Case, bool]]) -> str:
    """The page."""
    rows, lists = [], []
    for feature in FEATURES:
        of = {
            broker: {case: ok for case, ok in cases.items() if feature_of(case[1]) == feature}
            for broker, cases in held.items()
        }
        counts = [f"{sum(cases.values())} of {len(cases)}" for cases in of.values()]
        names: dict[str, set[str]] = {}
        for client, name in {case for cases in of.values() for case in cases}:
            names.setdefault(client, set()).add(name)
        clients = ", ".join(f"{client} ({len(names[client])})" for client in sorted(names))
        rows.append(f"| {feature} | {' | '.join(counts)} | {clients} |\n")
        lists.append(f"- {feature}: " + ", ".join(f"`{name}`" for name in sorted(set().union(*names.values()))) + "\n")
    return HEAD + "".join(rows) + ENDING + "".join(lists)

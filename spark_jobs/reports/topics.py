"""What a topic is for, by its name: users' messages, or RocketMQ's retries, delays, transactions, pop and the like."""

from collections.abc import Collection

from pyspark.sql import Column
from pyspark.sql import functions as F

RETRY, DEAD = "%RETRY%", "%DLQ%"
KINDS = (
    ("pop retry", r"^%RETRY%.*\+"),
    ("retry", r"^%RETRY%"),
    ("dead letter", r"^%DLQ%"),
    ("delay", r"^SCHEDULE_TOPIC_XXXX$"),
    ("timer", r"^rmq_sys_wheel_timer$"),
    ("transaction", r"^(RMQ_SYS_TRANS_(OP_)?HALF_TOPIC|TRANS_CHECK_MAX_TIME_TOPIC)$"),
    ("pop", r"^rmq_sys_REVIVE_LOG_"),
    ("trace", r"^RMQ_SYS_TRACE_TOPIC$"),
    (
        "system",
        r"^(rmq_sys_|RMQ_SYS_)|^(TBW102|BenchmarkTest|SELF_TEST_TOPIC|OFFSET_MOVED_EVENT|CHECKPOINT_TOPIC)$"
        r"|_REPLY_TOPIC$",
    ),
)
"""(kind, pattern of the names); the first that matches counts. All other topics are of the kind MESSAGES."""
MESSAGES = "messages"
OF_CLIENTS = (MESSAGES, "retry", "pop retry", "dead letter", "trace")
"""Kinds whose messages clients consume; the others are the broker's own."""


def kind_of(topic: Column) -> Column:
    """The kind of a topic: one of KINDS, or MESSAGES."""
    kind = F.lit(MESSAGES)
    for name, pattern in reversed(KINDS):
        kind = F.when(topic.rlike(pattern), name).otherwise(kind)
    return kind


def is_of_clients(topic: Column) -> Column:
    """Whether clients consume the topic's messages; false for the broker's own topics."""
    return kind_of(topic).isin(*OF_CLIENTS)


def pop_retry_owner(topic: str, topics: Collection[str], groups: Collection[str]) -> tuple[str, str] | None:
    """(group, topic) of a topic for retries of pop: ``%RETRY%<group>+<topic>``, or formerly ``%RETRY%<group>_<topic>``.

    None for every other topic. Both names may contain ``_``: the older form counts where group and topic exist, and
    only if there is no group of the whole name. Of several possible topics the longest counts.
    """
    if not topic.startswith(RETRY):
        return None
    rest = topic.removeprefix(RETRY)
    group, plus, origin = rest.partition("+")
    if plus:
        return group, origin
    if rest in groups:
        return None
    cuts = (index for index, letter in enumerate(rest) if letter == "_")
    owners = ((rest[:cut], rest[cut + 1 :]) for cut in cuts)
    return next(((group, origin) for group, origin in owners if group in groups and origin in topics), None)

"""The list of reports. It imports nothing of Spark, so the web processes can import it."""

from typing import NamedTuple


class ReportInfo(NamedTuple):
    """The description of a report for people. Its module in ``spark_jobs/reports`` has the same name."""

    name: str
    title: str
    description: str
    is_daily: bool = False
    """Whether a scheduled run covers the previous day."""
    look_back_ms: int = 0
    """How much of the time before a window it reads too, and of the time after it; ms. What is further away is unknown
    to a run with a window."""


LOOK_BACK_MS = 24 * 3_600_000
"""Longer than messages are usually delayed, and than groups are behind."""

REPORTS = {
    info.name: info
    for info in (
        ReportInfo(
            "throughput",
            "Throughput",
            "Messages and bytes stored, by topic, by queue, by producer and by minute, and how large the messages are.",
        ),
        ReportInfo(
            "wakeup_latency",
            "Wake-up latency",
            "How fast a held pull is answered when a message arrives: stored, woken, answered.",
        ),
        ReportInfo(
            "hold_time",
            "Hold time",
            "How long pulls are held, by cause of their end, and how late time-outs are.",
        ),
        ReportInfo("empty_polls", "Empty polls", "How many answers bring no messages, and why."),
        ReportInfo(
            "polling_savings",
            "Long against short polling",
            "Requests and waiting that long polling saves, compared with a pull every second and every 100 ms.",
        ),
        ReportInfo(
            "consumer_lag",
            "Consumer lag",
            "How far groups are behind, in messages and in time.",
            look_back_ms=LOOK_BACK_MS,
        ),
        ReportInfo(
            "skew",
            "Skew",
            "How evenly messages are spread over the queues of a topic, and work over the consumers of a group.",
        ),
        ReportInfo(
            "end_to_end_latency",
            "End-to-end latency",
            "How long messages take from birth to storage, and from storage to delivery.",
            look_back_ms=LOOK_BACK_MS,
        ),
        ReportInfo(
            "retries",
            "Retries and delays",
            "Messages sent back, dead letters, and how late delayed messages are delivered.",
            look_back_ms=LOOK_BACK_MS,
        ),
        ReportInfo(
            "slow_consumers",
            "Slow consumers",
            "How long clients wait between pulls and before commits, and which are slower than their group.",
        ),
        ReportInfo(
            "daily_summary",
            "Daily summary",
            "The figures of all other reports, by day and topic.",
            is_daily=True,
            look_back_ms=LOOK_BACK_MS,
        ),
    )
}

"""The reports there are. Imports nothing of Spark, so that the web may read it."""

from typing import NamedTuple


class ReportInfo(NamedTuple):
    """What people are told about a report. Its module in ``spark_jobs/reports`` has the same name."""

    name: str
    title: str
    description: str
    needs_journal: bool = False
    """Whether it has nothing to say of a store without a poll journal."""
    is_daily: bool = False
    """Whether its schedules are about the day before."""


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
            "How fast held pulls are answered once a message is there: stored, woken, answered.",
            True,
        ),
        ReportInfo(
            "hold_time", "Hold time", "How long pulls are held, by how they ended, and how late time-outs are.", True
        ),
        ReportInfo("empty_polls", "Empty polls", "How many answers bring no messages, and why.", True),
        ReportInfo(
            "polling_savings",
            "Long against short polling",
            "Requests and waiting that long polling saves beside asking every second, and every 100 ms.",
            True,
        ),
        ReportInfo("consumer_lag", "Consumer lag", "How far groups are behind, in messages and in time."),
        ReportInfo(
            "skew", "Skew", "How evenly messages lie on the queues of a topic, and work on the consumers of a group."
        ),
        ReportInfo(
            "end_to_end_latency", "End-to-end latency", "How long messages take from born over stored to delivered."
        ),
        ReportInfo(
            "retries",
            "Retries and delays",
            "Messages sent back, dead letters, and how late delayed messages are delivered.",
        ),
        ReportInfo(
            "slow_consumers",
            "Slow consumers",
            "How long clients take before they ask again and before they commit, and who is slower than its group.",
            True,
        ),
        ReportInfo(
            "daily_summary", "Daily summary", "The figures of all other reports, by day and topic.", is_daily=True
        ),
    )
}

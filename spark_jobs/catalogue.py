"""The reports there are. Imports nothing of Spark, so that the web may read it."""

from typing import NamedTuple


class ReportInfo(NamedTuple):
    """What people are told about a report."""

    name: str
    title: str
    description: str


REPORTS = {info.name: info for info in (
    ReportInfo("throughput", "Throughput",
        "Messages and bytes stored, by topic, by queue and by minute, and how large the messages are."),
)}

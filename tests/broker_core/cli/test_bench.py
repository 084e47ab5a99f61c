"""``glassmq bench``."""

from broker_core.cli.bench import figures
from tests.broker_core.cli.conftest import Glassmq


def test_all_messages_are_sent_and_consumed(glassmq: Glassmq) -> None:
    done = glassmq("bench", "--messages", "50", "--size", "10", "--tasks", "4", "--json")
    assert done.code == 0, done.err
    assert done.json["send"]["messages_per_s"] > 0 and done.json["consume"]["p99_us"] >= done.json["consume"]["p50_us"]
    (topic,) = (topic for topic in glassmq("topics", "--json").json["topics"] if topic["topic"] == "glassmq-bench")
    assert topic["messages"] == 51
    assert glassmq("bench", "--messages", "1").out.splitlines()[-1].startswith("1 messages of 128 bytes")


def test_figures() -> None:
    assert figures([1_000_000] * 10, 2_000_000_000) == {"messages_per_s": 5, "p50_us": 1000, "p99_us": 1000}
    assert figures([7_000], 0)["p50_us"] == 7

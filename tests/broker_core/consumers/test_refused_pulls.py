"""Refused pulls, until one succeeds."""

import pytest

from broker_core.consumers import refused_pulls
from broker_core.consumers.pull_offset_table import PullOffsetTable
from broker_core.consumers.refused_pulls import RefusedPulls

S = 1_000_000_000


def note(table: RefusedPulls, at_s: int, code: int = 24, group: str = "g", topic: str = "t", client: str = "A") -> None:
    table.note(group, client, topic, 0, code, f"reason {code}", at_s * 1000, at_s * S)


def present(table: RefusedPulls, at_s: int, pulls: PullOffsetTable | None = None) -> list[tuple[int, int, int]]:
    found = table.present("g", pulls or PullOffsetTable(), at_s * S)
    return [(refusal.code, refusal.count, refusal.since_ms) for refusal in found]


def test_equal_refusals_are_counted() -> None:
    table = RefusedPulls()
    for at in (10, 13, 16):
        note(table, at)
    note(table, 16, code=16)
    assert present(table, 17) == [(24, 3, 10_000), (16, 1, 16_000)] and "g" in table
    assert present(table, 77) == [], "nobody repeats them any more"
    note(table, 90)
    assert present(table, 90) == [(24, 1, 90_000)], "a new beginning"


def test_a_pull_of_the_same_client_ends_the_refusals_of_its_topic() -> None:
    table, pulls = RefusedPulls(), PullOffsetTable()
    note(table, 10)
    pulls.note("g", "t", 0, "B", "remoting", 0, 11 * S, 0, 0)
    assert present(table, 12, pulls) == [(24, 1, 10_000)], "another client"
    pulls.note("g", "t", 0, "A", "remoting", 0, 12 * S, 0, 0)
    assert present(table, 13, pulls) == []
    note(table, 14)
    assert present(table, 14, pulls) == [(24, 2, 10_000)]


def test_the_next_success_in_the_queue_ends_the_refusals_of_a_client_without_a_name() -> None:
    """Before its first heartbeat a client's id is empty; over HTTP it may be an address, new with each connection."""
    for client in ("", "10.0.0.9:53211", "::1:53211"):
        table, pulls = RefusedPulls(), PullOffsetTable()
        pulls.note("g", "t", 0, "A", "remoting", 0, 10 * S, 0, 0)
        note(table, 10, client=client)
        assert present(table, 12, pulls) == [(24, 1, 10_000)], "the pull was earlier"
        pulls.note("g", "t", 1, "A", "remoting", 0, 11 * S, 0, 0)
        assert present(table, 12, pulls) == [(24, 1, 10_000)], "another queue"
        pulls.note("g", "t", 0, "A", "remoting", 0, 12 * S, 0, 0)
        assert present(table, 13, pulls) == []
        note(table, 14, client=client)
        table.pop_succeeded("g", "A", "u")
        assert len(present(table, 14, pulls)) == 1
        table.pop_succeeded("g", "A", "t")
        assert present(table, 14, pulls) == []


@pytest.mark.parametrize("client_id", ["10.0.0.9@77", "web:1", "A", "10.0.0.9"])
def test_who_has_a_name(client_id: str) -> None:
    assert refused_pulls.is_named(client_id)


def test_a_dropped_entry_leaves_a_mark_on_those_with_its_code() -> None:
    table = RefusedPulls()
    for number in range(refused_pulls.MAX_A_GROUP):
        note(table, 10, client=f"10.0.0.9:{number}", code=16 if number > 13 else 24)
    assert all(one.counted for one in table.present("g", PullOffsetTable(), 10 * S))
    note(table, 11, client="10.0.0.9:99")
    found = [(one.code, one.counted) for one in table.present("g", PullOffsetTable(), 11 * S)]
    assert found == [(24, False)] * 13 + [(16, True)] * 2 + [(24, False)]
    note(table, 100, client="10.0.0.9:100")
    (fresh,) = table.present("g", PullOffsetTable(), 100 * S)
    assert fresh.counted, "what was dropped is older than a minute"


def test_the_number_of_entries_is_limited() -> None:
    table = RefusedPulls()
    for number in range(100):
        note(table, 10, topic=f"topic-{number}")
    assert len(present(table, 10)) == refused_pulls.MAX_A_GROUP
    for number in range(refused_pulls.MAX_GROUPS):
        note(table, 10, group=f"group-{number}")
    assert "g" not in table
    table.note("x" * 9999, "y" * 9999, "z" * 9999, 0, 1, "r" * 9999, 0, 1)
    (refusal,) = table.present("x" * 255, PullOffsetTable(), 1)
    assert (len(refusal.client_id), len(refusal.topic), len(refusal.reason)) == (255, 255, 500)


def test_a_group_is_forgotten() -> None:
    table = RefusedPulls()
    note(table, 10)
    table.remove_group("g")
    table.remove_group("g")
    assert present(table, 10) == []


def test_a_pop_with_success_ends_the_refusals_of_its_client_and_topic() -> None:
    refused = RefusedPulls()
    for client_id, topic in (("A", "t"), ("A", "u"), ("B", "t")):
        refused.note("g", client_id, topic, -1, 16, "no", 1000, 5)
    refused.pop_succeeded("g", "A", "t")
    refused.pop_succeeded("other", "A", "t")
    left = [(one.client_id, one.topic) for one in refused.present("g", PullOffsetTable(), 6)]
    assert left == [("A", "u"), ("B", "t")]
    for client_id, topic in left:
        refused.pop_succeeded("g", client_id, topic)
    assert "g" not in refused

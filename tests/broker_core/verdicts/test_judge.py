"""All verdicts on a group: their order, the group's state, and what green needs."""

import random
from typing import Any

import pytest
from msgspec import structs

from broker_core import commands as c
from broker_core.verdicts.catalogue import CATALOGUE
from broker_core.verdicts.verdict import SEVERITIES
from tests.fakes.facts import (
    NOW_MS,
    client,
    condition,
    facts,
    first,
    ids,
    queue,
    recent,
    refusal,
    retries,
    verdicts,
    window,
)


def test_a_group_that_keeps_up() -> None:
    moving = queue(offset=88, moved_ms_ago=3000, lag_ms=2000, handed=12, handed_ms_ago=2000)
    assert first(facts(moving)) == (
        "ok",
        "ok",
        "g keeps up: its committed offset moved 3 s ago, and 12 messages wait, the oldest for 2 s.",
    )
    assert first(facts(queue(moved_ms_ago=3000)))[2].endswith("moved 3 s ago, and nothing waits.")


def test_a_group_for_which_nothing_waits() -> None:
    assert first(facts(queue(), queue(1, state="polling"))) == (
        "ok",
        "idle",
        "Nothing waits for g: it has consumed its queues to their ends. Pulls are held on 1 of 2 queues.",
    )
    empty = queue(offset=None, max_offset=0, pull_offset=0)
    assert first(facts(empty))[2].startswith("Nothing waits for g: its queues are empty.")


def test_catching_up_and_falling_behind() -> None:
    behind = {"offset": 50, "moved_ms_ago": 3000, "lag_ms": 600_000, "lag_before_ms_ago": 40_000}
    state, name, sentence = first(facts(queue(**behind, lag_before=80)))
    assert (state, name) == ("catching up", "catching_up")
    assert sentence == (
        "g catches up: 50 messages wait, the oldest for 10 min 0 s, 30 fewer than at an earlier commit."
    )
    assert first(facts(queue(**behind, lag_before=49)))[0] == "catching up", "one message more is noise"
    steady = verdicts(facts(queue(**behind, lag_before=50))).verdicts[0]
    assert steady.sentence == (
        "g keeps its distance: 50 messages wait, the oldest for 10 min 0 s, as many as at an earlier commit."
    )
    assert steady.advice.startswith("Add members")
    assert "50 messages wait, the oldest for 10 min 0 s, 1 more than" in first(facts(queue(**behind, lag_before=49)))[2]
    behind["is_growing"] = True
    state, name, sentence = first(facts(queue(**behind, lag_before=20)))
    assert (state, name) == ("falling behind", "falling_behind")
    assert sentence.endswith("30 more than at an earlier commit.")
    young = behind | {"lag_before_ms_ago": 100}
    assert first(facts(queue(**young, lag_before=20)))[0] == "catching up", "too early to see a trend"


def test_a_client_is_not_blamed_for_the_time_of_the_one_before_it() -> None:
    blocked = {"offset": 10, "handed": 90, "handed_ms_ago": 522_000, "moved_ms_ago": None, "lag_ms": 522_000}
    state, name, sentence = first(facts(queue(**blocked, taken_ms_ago=10_000)))
    assert (state, name) == ("stalled", "stands_still")
    assert sentence == (
        "g stands still: 90 messages wait in orders@0, the oldest for 8 min 42 s, and the committed offset has not "
        "moved; java-1 took orders@0 over 10 s ago."
    )
    state, name, sentence = first(facts(queue(**blocked, taken_ms_ago=40_000)))
    assert (state, name) == ("stalled", "listener_blocked")
    assert "90 messages handed to java-1, nothing committed for 40 s" in sentence


def test_messages_handed_out_a_moment_ago_are_no_progress_yet() -> None:
    just = queue(offset=97, moved_ms_ago=900_000, lag_ms=2000, handed=3, handed_ms_ago=2000)
    assert first(facts(just)) == (
        "catching up",
        "consuming",
        "3 messages were handed to clients, and g has committed none of them yet.",
    )


def test_an_unknown_lag_is_unknown() -> None:
    answer = verdicts(facts(queue(), queue(1, offset=None, pull_offset=None, polled_by=None, state="polling")))
    assert (answer.state, ids(answer)) == ("unknown", ["lag_unknown"])
    assert answer.verdicts[0].evidence["queues"] == ["orders@1"]
    more = facts(queue(), queues_total=3000)
    assert verdicts(more).state == "unknown", "only some of its queues were looked at"


def test_a_group_that_stands_still_for_no_other_reason() -> None:
    after_restart = queue(offset=10, pull_offset=100, moved_ms_ago=None)
    assert first(facts(after_restart)) == (
        "stalled",
        "stands_still",
        "g stands still: 90 messages wait in orders@0, the oldest for 10 min 0 s, "
        "and the committed offset has not moved.",
    )
    retry = queue(topic="%RETRY%g", offset=95, moved_ms_ago=40_000)
    answer = verdicts(facts(queue(), retry))
    assert (answer.state, ids(answer)) == ("stalled", ["stands_still"])
    assert answer.verdicts[0].sentence.endswith("and the committed offset has not moved for 40 s.")
    assert answer.verdicts[0].evidence == {
        "queues": ["%RETRY%g@0"],
        "waiting": 5,
        "oldest_ms": 600_000,
        "since_ms": NOW_MS - 40_000,
        "moved_ms_ago": 40_000,
        "taken": [],
    }
    left = queue(offset=50, state="unassigned", assigned_to=None, polled_by=None, polled_ms_ago=None, lag_ms=None)
    answer = verdicts(facts(), facts(left, at="broker-b", members=[]))
    assert ids(answer) == ["stands_still"] and answer.verdicts[0].evidence["queues"] == ["orders@0 at broker-b"]
    blocked = queue(offset=90, handed=10, handed_ms_ago=60_000)
    assert "stands_still" not in ids(verdicts(facts(blocked))), "another error explains it"


def test_facts_that_are_not_complete_are_not_green() -> None:
    answer = verdicts(facts(queues_total=3000))
    assert (answer.state, ids(answer)) == ("unknown", ["lag_unknown"])
    assert answer.verdicts[0].evidence == {"shown": 1, "total": 3000}
    answer = verdicts(facts(retries=retries(counted=False)))
    assert (answer.state, ids(answer)) == ("unknown", ["lag_unknown"])
    assert answer.verdicts[0].sentence.startswith("The retries of g are not counted yet")
    answer = verdicts(without_queues())
    assert (answer.state, ids(answer)) == ("unknown", ["lag_unknown"])
    assert answer.verdicts[0].sentence.startswith("g has no queue")


def without_queues() -> c.GroupFacts:
    """A member subscribes to nothing that exists."""
    one = facts()
    return structs.replace(one, detail=structs.replace(one.detail, queues=[], queues_total=0))


def test_a_broadcasting_group_keeps_its_offsets_itself() -> None:
    handed = queue(offset=None, handed=4, handed_ms_ago=90_000, assigned_to=None)
    answer = verdicts(facts(handed, message_model="BROADCASTING"))
    assert (answer.state, ids(answer)) == ("unknown", ["broadcasting"])


def test_the_worst_comes_first() -> None:
    answer = verdicts(
        facts(
            queue(**{"state": "not_polling", "polled_ms_ago": 45_000, "offset": 60, "pull_offset": 60}),
            members=[client(), client("zz")],
            recent=[recent()],
            retries=retries(1, NOW_MS + 1),
            refused=[refusal(client_id="other")],
        )
    )
    severities = [SEVERITIES.index(verdict.severity) for verdict in answer.verdicts]
    assert severities == sorted(severities)
    assert ids(answer)[:3] == ["pulls_refused", "not_pulling", "filter_rejects_all"]


def test_several_brokers() -> None:
    far = facts(queue(offset=10, pull_offset=100, handed=90, handed_ms_ago=60_000), at="broker-b")
    answer = verdicts(facts(), far)
    assert answer.state == "stalled" and answer.verdicts[0].evidence["queues"] == ["orders@0 at broker-b"]


def test_the_answer_is_bounded() -> None:
    answer = verdicts(facts(*(queue(number, offset=140) for number in range(300))))
    assert len(answer.verdicts) == 100


# --- Whatever the facts are ----------------------------------------------------------------------------------------


def anything(rng: random.Random, at: str = "broker-a") -> c.GroupFacts:
    """Facts of every kind, consistent enough to occur."""
    pick = rng.choice
    names = ["java-1", "web-1", "zz"]
    members = [
        client(name, pick([100, 40_000, 90_000]), protocol="websocket" if name == "web-1" else "remoting")
        for name in rng.sample(names, rng.randrange(4))
    ]
    here = [member.client_id for member in members]

    def any_queue(number: int) -> c.GroupQueueView:
        least, most = pick([(0, 0), (0, 100), (40, 100)])
        offset = pick([None, least, most, most - 1 if most else 0, 10, 140])
        handed = pick([0, 0, 5])
        pulled = pick([None, *names])
        fields: dict[str, Any] = {
            "topic": pick(["orders", "orders", "%RETRY%g"]),
            "assigned_to": pick([None, *here]),
            "polled_by": pulled,
            "polled_ms_ago": None if pulled is None else pick([0, 5000, 90_000]),
            "state": pick(["not_polling", "unassigned"] if pulled is None else ["held", "polling", "not_polling"]),
            "offset": offset,
            "pull_offset": None if pulled is None else pick([least, most]),
            "min_offset": least,
            "max_offset": most,
            "moved_ms_ago": pick([None, 100, 29_000, 500_000]),
            "handed": handed,
            "handed_ms_ago": pick([100, 31_000, 900_000]) if handed else None,
            "lag_before": pick([None, 0, 50]),
            "lag_before_ms_ago": pick([None, 100, 40_000]),
            "taken_ms_ago": pick([None, 100, 90_000]),
            "is_growing": pick([False, True]),
            "locked_by": pick([None, None, *names]),
            "reset_to": pick([None, None, 3]),
        }
        return queue(number, **fields)

    queues = [any_queue(number) for number in range(rng.randrange(4))]
    some = facts(
        *queues,
        at=at,
        members=members,
        message_model=pick(["CLUSTERING", "CLUSTERING", "BROADCASTING"]) if members else "",
        missing_topics=pick([[], ["oders"]]),
        retries=retries(*pick([(0, None), (3, NOW_MS + 5000), (0, None, 2)]), counted=pick([True, True, False])),
        broker=condition(broker=at, draining=pick([False, False, True]), problem=pick(["", "", "the disk is full"])),
        refused=pick([[], [], [refusal()]]),
        windows=pick([[], [window()], [window(unacknowledged=3)]]) if "web-1" in here else [],
        recent=pick([[], [recent()], [recent(passed=3)]]),
        returned=pick([c.ReturnedMessages(delivered=d, returned=r, window_ms=1) for d, r in ((0, 0), (9, 9), (9, 2))]),
        changed_ms=pick([None, NOW_MS - 3000, NOW_MS - 900_000]),
        consume_enable=pick([True, True, False]),
    )
    total = len(queues) + pick([0, 0, 0, 2000])
    return structs.replace(some, detail=structs.replace(some.detail, queues=queues, queues_total=total))


@pytest.mark.parametrize("seed", range(40))
def test_green_needs_evidence_and_unknown_is_never_0(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        known = [anything(rng, at) for at in rng.choice([["broker-a"], ["broker-a", "broker-b"]])]
        views = [view for one in known for view in one.detail.queues]
        away = rng.choice([[], [], ["broker-c"]])
        answer = verdicts(*known, unavailable=away)
        assert answer.verdicts, "there is always a reason"
        severities = [SEVERITIES.index(verdict.severity) for verdict in answer.verdicts]
        assert severities == sorted(severities)
        assert {verdict.id for verdict in answer.verdicts} <= CATALOGUE.keys()
        assert all(verdict.advice and verdict.sentence.endswith(".") for verdict in answer.verdicts)
        if answer.state == "ok":
            assert not away and any(view.topic == "orders" for view in views)
            assert all(one.detail.retries.counted and one.detail.queues_total < 2000 for one in known)
            for view in views:
                in_queue = view.max_offset > view.min_offset
                at = view.offset if view.offset is not None else view.pull_offset
                assert not in_queue or (at is not None and (view.offset is not None or not view.handed))
                waits = in_queue and at is not None and at < view.max_offset
                moved = view.moved_ms_ago is not None and view.moved_ms_ago <= 30_000
                young = view.handed_ms_ago is not None and view.handed_ms_ago <= 30_000
                assert not waits or moved or young
        if any(verdict.severity == "ok" for verdict in answer.verdicts):
            assert answer.state == "ok"
            assert not {"error", "warning"} & {verdict.severity for verdict in answer.verdicts}
        is_pulled = any(view.state in ("held", "polling") for view in views)
        if not is_pulled and not any(one.detail.members for one in known):
            assert answer.state in ("stopped", "unknown")

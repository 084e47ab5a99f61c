"""Situations of the group's clients."""

import shlex

import pytest

from broker_core import commands as c
from broker_core.verdicts.verdict import Verdicts
from tests.fakes.facts import (
    NOW_MS,
    client,
    facts,
    first,
    found,
    ids,
    queue,
    refusal,
    retries,
    verdicts,
    window,
)

HANDED = {"offset": 10, "pull_offset": 100, "handed": 90, "handed_ms_ago": 522_000, "moved_ms_ago": 530_000}
WEB = {"assigned_to": "web-1", "polled_by": "web-1"}


def web(**fields: object) -> c.ClientView:
    return client("web-1", protocol="websocket", language="HTTP", **fields)


def test_a_blocked_listener() -> None:
    state, name, sentence = first(facts(queue(**HANDED), queue(1, **HANDED)))
    assert (state, name) == ("stalled", "listener_blocked")
    assert sentence == (
        "g stands still: 180 messages handed to java-1, nothing committed for 8 min 42 s; its listener is "
        "probably blocked."
    )
    verdict = found(verdicts(facts(queue(**HANDED))), "listener_blocked")
    assert verdict.evidence["stands_still_ms"] == 522_000 and verdict.evidence["since_ms"] == NOW_MS - 522_000
    assert "-g g -i java-1 -s" in verdict.advice and "307" in verdict.advice


@pytest.mark.parametrize(
    ("member", "changed_ms", "polled_ms_ago", "is_alive"),
    [
        ({"beat_ms_ago": 4000}, 800_000, 34_000, True),
        ({"beat_ms_ago": 33_000}, 800_000, 34_000, False),  # it may be frozen since then
        ({"beat_ms_ago": 33_000}, 800_000, 3000, True),
        ({"beat_ms_ago": 1000}, 20_000, 34_000, False),  # it was removed, and is back
        ({"last_heartbeat_ms": None}, 800_000, None, False),
    ],
)
def test_only_a_listener_of_a_client_that_runs_is_probably_blocked(
    member: dict[str, int | None], changed_ms: int, polled_ms_ago: int | None, is_alive: bool
) -> None:
    held = queue(**(HANDED | {"handed_ms_ago": 35_000, "polled_ms_ago": polled_ms_ago}))
    one = facts(held, members=[client(**member)], changed_ms=NOW_MS - changed_ms)  # type: ignore[arg-type]
    verdict = found(verdicts(one), "listener_blocked")
    assert verdict.evidence["is_alive"] is is_alive
    expected = "probably blocked." if is_alive else "blocked, or its process or its network stood still."
    assert verdict.sentence.endswith(f"nothing committed for 35 s; its listener is {expected}")


def test_a_client_id_is_one_word_of_the_command_that_an_operator_copies() -> None:
    strange = "10.0.0.1@1; reboot #'"
    held = queue(**HANDED, assigned_to=strange, polled_by=strange)
    verdict = found(verdicts(facts(held, members=[client(strange)])), "listener_blocked")
    command = verdict.advice.partition(": ")[2].partition(" prints")[0]
    assert shlex.split(command) == ["mqadmin", "consumerStatus", "-g", "g", "-i", strange, "-s"]


def test_a_groups_name_stays_as_it_is_in_the_command() -> None:
    blocked = verdicts(facts(queue(**HANDED), group="PAY_CLIENT_GROUP"))
    assert "-g PAY_CLIENT_GROUP -i java-1 -s" in found(blocked, "listener_blocked").advice


def test_a_commit_or_a_delivery_a_moment_ago_is_no_block() -> None:
    assert "listener_blocked" not in ids(verdicts(facts(queue(**(HANDED | {"moved_ms_ago": 20_000})))))
    assert "listener_blocked" not in ids(verdicts(facts(queue(**(HANDED | {"handed_ms_ago": 20_000})))))
    assert "listener_blocked" in ids(verdicts(facts(queue(**(HANDED | {"moved_ms_ago": None})))))
    assert "listener_blocked" in ids(verdicts(facts(queue(**(HANDED | {"handed_ms_ago": 1500}))), patience_ms=1000))


def test_an_orderly_consumer_names_the_suspended_queue() -> None:
    sentence = first(facts(queue(**HANDED, locked_by="java-1")))[2]
    assert sentence.endswith("its listener is probably blocked (orderly, orders@0 suspended).")


def test_a_group_without_an_offset_is_blocked_too() -> None:
    state, name, sentence = first(facts(queue(**(HANDED | {"offset": None, "moved_ms_ago": None}))))
    assert (state, name) == ("stalled", "listener_blocked") and "90 messages" in sentence


def test_a_websocket_consumer_that_acknowledges_nothing() -> None:
    still = queue(**HANDED, **WEB)
    answer = verdicts(facts(still, members=[web()], windows=[window(unacknowledged=90)]))
    assert answer.state == "stalled" and ids(answer)[0] == "not_acknowledged"
    assert answer.verdicts[0].sentence == (
        "g stands still: 90 messages sent to web-1, none acknowledged for 8 min 42 s; its permits are used up, so it "
        "gets no more."
    )
    assert answer.verdicts[0].evidence["permits"] == 0 and answer.verdicts[0].evidence["unacknowledged"] == 90
    pulled_ahead = verdicts(facts(still, members=[web()], windows=[window(unacknowledged=87)])).verdicts[0]
    assert "87 messages sent to web-1" in pulled_ahead.sentence and pulled_ahead.evidence["messages"] == 87
    full = verdicts(facts(still, members=[web()], windows=[window(permits=3, unacknowledged=90, is_full=True)]))
    assert full.verdicts[0].sentence.endswith("; too many are not acknowledged, so it gets no more.")
    unknown = verdicts(facts(still, members=[web()], windows=[window(permits=7, unacknowledged=1)]))
    assert unknown.verdicts[0].evidence["permits"] is None, "an old report: unknown, not 7 and not 0"


def test_received_messages_without_an_acknowledgement() -> None:
    pops = c.UnacknowledgedPops(topic="orders", client_id="web-1", messages=7, still_ms=45_000)
    polled = queue(state="polling", polled_by="web-1", assigned_to=None)
    answer = verdicts(facts(polled, members=[], unacknowledged=[pops]))
    assert answer.state == "stalled" and ids(answer)[0] == "not_acknowledged"
    assert answer.verdicts[0].sentence == (
        "g stands still: web-1 received messages of orders and has acknowledged none for 45 s; 7 messages are hidden "
        "until the lease is over."
    )
    assert answer.verdicts[0].evidence["messages"] == 7 and answer.verdicts[0].evidence["since_ms"] == NOW_MS - 45_000
    assert "not_acknowledged" not in ids(verdicts(facts(polled, members=[], unacknowledged=[pops]), patience_ms=60_000))


QUIET = {"state": "not_polling", "polled_ms_ago": 45_000, "offset": 60, "pull_offset": 60}


def test_without_permits() -> None:
    answer = verdicts(facts(queue(**(QUIET | WEB)), members=[web()], windows=[window()]))
    assert answer.state == "stalled" and ids(answer) == ["no_permits"]
    assert answer.verdicts[0].sentence == (
        "orders@0 is assigned to web-1, which does not ask for messages: it has given no permits."
    )
    assert answer.verdicts[0].evidence["waiting"] == 40
    nothing_waits = queue(**(QUIET | WEB | {"offset": 100}))
    assert verdicts(facts(nothing_waits, members=[web()], windows=[window()])).verdicts[0].severity == "warning"


def test_with_all_permits_used_up_the_messages_in_hand_are_the_reason() -> None:
    answer = verdicts(facts(queue(**(QUIET | WEB)), members=[web()], windows=[window(unacknowledged=5)]))
    assert ids(answer) == ["not_acknowledged"]
    assert "its permits are used up, and it has not acknowledged 5 messages" in answer.verdicts[0].sentence


def test_a_suspended_consumer() -> None:
    state, name, sentence = first(facts(queue(**QUIET)))
    assert (state, name) == ("stalled", "not_pulling")
    assert sentence == (
        "orders@0 is assigned to java-1, which has not asked for 45 s: it is suspended, frozen, cut off, "
        "or busy with its messages."
    )
    idle = verdicts(facts(queue(**(QUIET | {"offset": 100}))))
    assert (idle.state, idle.verdicts[0].severity) == ("ok", "warning"), "nothing waits, but it would"


def test_a_member_that_never_pulled() -> None:
    fresh = queue(**(QUIET | {"polled_by": None, "polled_ms_ago": None, "pull_offset": None}))
    assert first(facts(fresh))[2] == "orders@0 is assigned to java-1, which has not asked for messages yet."
    other = queue(**(QUIET | {"polled_by": "java-9"}))
    assert first(facts(other))[2] == "orders@0 is assigned to java-1, but the last pull came from java-9."


def test_a_moment_after_a_change_of_members_it_is_a_rebalance() -> None:
    fresh = queue(**(QUIET | {"polled_by": None, "polled_ms_ago": None, "pull_offset": None}))
    answer = verdicts(facts(fresh, changed_ms=NOW_MS - 5000))
    assert ids(answer)[0] == "rebalancing"
    assert answer.verdicts[0].sentence == "The members changed 5 s ago: java-1 gets orders@0 and has not pulled yet."
    assert ids(verdicts(facts(fresh, changed_ms=NOW_MS - 21_000)))[0] == "not_pulling"


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (16, "consumeEnable"),
        (24, "the same topics"),
        (25, "next heartbeat"),
        (1, "enablePropertyFilter"),
        (27, "SQL92"),
        (215, "maxHolds"),
        (29, ""),
    ],
)
def test_refused_pulls(code: int, advice: str) -> None:
    stuck = queue(state="not_polling", offset=60, pull_offset=60, polled_by=None, polled_ms_ago=None)
    answer = verdicts(facts(stuck, refused=[refusal(code)]))
    assert answer.state == "stalled" and ids(answer) == ["pulls_refused"], "the reason is said once"
    assert answer.verdicts[0].sentence == (
        "The pulls of java-1 from orders are refused since 2025-11-23T16:54:10Z, 353 times, last at "
        "2025-11-23T17:04:09Z: group g does not subscribe to topic orders."
    )
    assert advice in answer.verdicts[0].advice and answer.verdicts[0].advice
    assert answer.verdicts[0].evidence["since_ms"] == NOW_MS - 600_000


def test_refusals_for_one_reason_are_one_verdict() -> None:
    several = [
        refusal(count=2, last_ms=NOW_MS - 2000),
        refusal(count=3, topic="more"),
        refusal(16, count=4, reason="group g may not consume"),
    ]
    answer = verdicts(facts(refused=several))
    assert "5 times, last at 2025-11-23T17:04:09Z: " in answer.verdicts[0].sentence, "the newest refusal of both topics"
    assert [verdict.evidence["count"] for verdict in answer.verdicts if verdict.id == "pulls_refused"] == [5, 4]


def test_refusals_that_were_not_all_counted() -> None:
    answer = verdicts(facts(refused=[refusal(count=9, counted=False), refusal(count=7, client_id="zz")]))
    assert ", at least 16 times, last at " in answer.verdicts[0].sentence
    assert answer.verdicts[0].evidence["counted"] is False


def test_a_group_that_may_not_consume() -> None:
    answer = verdicts(facts(queue(**QUIET), consume_enable=False))
    assert ids(answer) == ["may_not_consume"] and "its consumeEnable is off" in answer.verdicts[0].sentence
    answer = verdicts(facts(queue(**QUIET), unreadable_topics=["orders"]))
    assert ids(answer) == ["may_not_consume"] and "the perm does not contain 4" in answer.verdicts[0].sentence


def test_no_member() -> None:
    alone = {"assigned_to": None, "state": "unassigned"}
    answer = verdicts(facts(queue(**alone, offset=60), members=[]))
    assert (answer.state, ids(answer), answer.verdicts[0].severity) == ("stopped", ["no_member"], "error")
    assert answer.verdicts[0].sentence == "No member of g is online, and no client pulls for it; 40 messages wait."
    unknown = verdicts(facts(queue(**alone), queue(1, **alone, offset=None), members=[]))
    assert (unknown.state, unknown.verdicts[0].severity) == ("stopped", "error")
    assert "the lag of 1 queue is unknown" in unknown.verdicts[0].sentence
    done = verdicts(facts(queue(**alone), members=[]))
    assert (done.state, done.verdicts[0].severity) == ("stopped", "info")
    assert done.verdicts[0].sentence.endswith("no client pulls for it. Nothing waits.")


def test_no_member_names_the_last_one_if_it_expired() -> None:
    alone = queue(assigned_to=None, state="unassigned", offset=60)
    last, earlier = (
        c.ExpiredMember(client_id=name, at_ms=NOW_MS - ms) for name, ms in (("java-1", 9000), ("zz", 90_000))
    )
    verdict = verdicts(facts(alone, members=[], expired=earlier), facts(alone, members=[], expired=last)).verdicts[0]
    assert verdict.sentence == (
        "No member of g is online, and no client pulls for it; 80 messages wait. java-1 was removed at "
        "2025-11-23T17:04:01Z, because it sent no heartbeat for 2 min."
    )
    assert "process is stopped" in verdict.advice and verdict.evidence["expired_ms"] == NOW_MS - 9000


def test_a_group_that_was_seen_and_never_committed_is_unknown() -> None:
    """Its pulls may have been a try. Messages that wait for another try need a member nevertheless."""
    seen = queue(assigned_to=None, state="unassigned", offset=None)
    answer = verdicts(facts(seen, members=[], consume_enable=False))
    assert answer.state == "unknown"
    assert [(one.id, one.severity) for one in answer.verdicts if one.id != "may_not_consume"] == [
        ("no_member", "info"),
        ("lag_unknown", "info"),
    ]
    retrying = verdicts(facts(seen, members=[], retries=retries(2)))
    assert (retrying.state, first(facts(seen, members=[], retries=retries(2)))[1]) == ("unknown", "no_member")
    assert retrying.verdicts[0].severity == "error"
    empty = verdicts(facts(queue(assigned_to=None, state="unassigned", offset=None, max_offset=0), members=[]))
    assert (empty.state, empty.verdicts[0].severity) == ("stopped", "info")


def test_of_a_group_that_is_gone_the_first_sentence_says_so() -> None:
    """Whatever it left behind: failed messages, a group that may not consume, messages without an acknowledgement."""
    left = queue(assigned_to=None, state="unassigned", polled_by=None, offset=60)
    failed = c.ReturnedMessages(delivered=2, returned=2, window_ms=600_000, tries=1)
    pops = [c.UnacknowledgedPops(topic="orders", client_id="web-1", messages=2, still_ms=480_000)]
    answer = verdicts(facts(left, members=[], returned=failed, unacknowledged=pops, consume_enable=False))
    assert answer.state == "stopped"
    assert ids(answer) == ["no_member", "may_not_consume", "every_message_fails", "not_acknowledged"]
    assert answer.verdicts[0].sentence == "No member of g is online, and no client pulls for it; 40 messages wait."


def test_messages_that_wait_for_another_try_need_a_member_too() -> None:
    done = queue(assigned_to=None, state="unassigned", polled_by=None)
    failed = c.ReturnedMessages(delivered=2, returned=2, window_ms=600_000, tries=1)
    answer = verdicts(facts(done, members=[], returned=failed, retries=retries(2)))
    assert ids(answer)[:2] == ["no_member", "every_message_fails"]
    assert answer.verdicts[0].sentence.endswith("no client pulls for it; 2 messages wait for another try.")


def test_pulls_without_members() -> None:
    answer = verdicts(facts(queue(assigned_to=None, polled_by="10.0.0.1:7"), members=[]))
    assert answer.state == "ok" and "pulled_by_non_members" in ids(answer)


def test_a_frozen_client() -> None:
    answer = verdicts(facts(queue(**QUIET), members=[client(beat_ms_ago=77_000)]))
    assert answer.state == "stalled" and ids(answer) == ["heartbeat_late"]
    assert answer.verdicts[0].sentence == (
        "java-1 has sent no heartbeat for 1 min 17 s; its process is frozen or its network is cut. It has 1 queue."
    )
    assert answer.verdicts[0].severity == "error"
    assert ids(verdicts(facts(queue(**QUIET), members=[client(beat_ms_ago=45_000)]))) == ["not_pulling"]


def test_a_frozen_client_for_which_nothing_waits_is_a_warning() -> None:
    answer = verdicts(facts(queue(), members=[client(beat_ms_ago=77_000)]))
    assert answer.state == "ok" and ids(answer) == ["heartbeat_late"]
    assert answer.verdicts[0].severity == "warning"


def test_a_queue_that_another_client_has_locked() -> None:
    answer = verdicts(facts(queue(**QUIET, locked_by="java-9")))
    assert ids(answer) == ["locked_by_another"] and answer.state == "stalled"
    assert answer.verdicts[0].sentence == (
        "java-9 has the lock of orders@0; java-1, which has the queue, waits for it."
    )


def test_a_client_that_pulls_the_queue_of_another() -> None:
    taken = queue(polled_by="zz", polled_ms_ago=400)
    answer = verdicts(facts(taken))
    assert ids(answer)[0] == "pulled_by_another" and "zz is not a member" in answer.verdicts[0].sentence
    assert (
        "allocate queues differently" in verdicts(facts(taken, members=[client(), client("zz")])).verdicts[0].sentence
    )
    assert "pulled_by_another" not in ids(verdicts(facts(taken, changed_ms=NOW_MS - 1000))), "a rebalance is under way"


def test_more_members_than_queues() -> None:
    answer = verdicts(facts(members=[client(), client("zz")]))
    assert "more_members_than_queues" in ids(answer) and answer.state == "ok"
    assert found(answer, "more_members_than_queues").sentence == "2 members for 1 queue: zz has no queue."


def retry_only(answer: Verdicts) -> list[str]:
    return [name for name in ids(answer) if name in ("not_pulling", "rebalancing")]


def test_the_retry_topic_is_no_reason_to_pull() -> None:
    retry = queue(topic="%RETRY%g", state="not_polling", min_offset=0, max_offset=0, offset=None, pull_offset=None)
    assert retry_only(verdicts(facts(queue(), retry))) == []

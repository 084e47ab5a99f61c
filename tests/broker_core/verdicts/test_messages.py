"""Situations of the group's messages."""

from broker_core import commands as c
from tests.fakes.facts import NOW_MS, client, facts, found, ids, queue, recent, retries, subscription, verdicts


def returned(of: int, came_back: int, tries: int | None = 6) -> c.ReturnedMessages:
    return c.ReturnedMessages(delivered=of, returned=came_back, window_ms=600_000, tries=tries)


def test_every_message_fails() -> None:
    answer = verdicts(facts(returned=returned(20, 20), retries=retries(20, NOW_MS + 2500)))
    assert answer.state == "stalled" and ids(answer)[0] == "every_message_fails"
    assert answer.verdicts[0].sentence == (
        "Every message fails: 20 of 20 came back in the last 10 min 0 s, try 6, next in 2 s."
    )
    assert found(answer, "retries_pending").evidence == {
        "waiting": 20,
        "next_due_ms": NOW_MS + 2500,
        "dead_letters": 0,
        "counted": True,
    }


def test_messages_in_the_listeners_hands_have_not_failed_yet() -> None:
    in_hand = queue(offset=90, pull_offset=100, handed=3, handed_ms_ago=100)
    answer = verdicts(facts(in_hand, returned=returned(23, 20)))
    assert ids(answer)[0] == "every_message_fails" and ": 20 of 20 came back" in answer.verdicts[0].sentence
    assert ids(verdicts(facts(in_hand, returned=returned(24, 20))))[0] == "some_messages_fail"


def test_messages_in_hand_since_before_the_window_prove_nothing() -> None:
    slow = queue(offset=60, pull_offset=100, handed=40, handed_ms_ago=1000, moved_ms_ago=2000, lag_ms=1000)
    answer = verdicts(facts(slow, returned=returned(18, 1, None)))
    assert answer.state == "ok" and ids(answer) == ["some_messages_fail"]
    assert answer.verdicts[0].sentence == "Some messages fail: 1 message came back in the last 10 min 0 s."


def test_some_messages_fail() -> None:
    answer = verdicts(facts(returned=returned(20, 3, None)))
    assert answer.state == "ok" and ids(answer) == ["some_messages_fail"]
    assert answer.verdicts[0].sentence == "Some messages fail: 3 of 20 came back in the last 10 min 0 s."


def test_messages_that_wait_and_dead_letters() -> None:
    answer = verdicts(facts(retries=retries(3, NOW_MS + 75_000, 2)))
    assert found(answer, "retries_pending").sentence == (
        "3 messages wait for another try, the next at 2025-11-23T17:05:25Z (in 1 min 15 s); 2 messages are dead."
    )
    least = verdicts(facts(retries=retries(1, NOW_MS - 5, counted=False)))
    assert found(least, "retries_pending").sentence == (
        "At least 1 message waits for another try, the next at 2025-11-23T17:04:09Z (now)."
    )
    assert answer.state == "ok", "the group consumes what is due"


def test_a_filter_that_rejects_everything() -> None:
    answer = verdicts(facts(recent=[recent()], subscriptions=[subscription(expression="TagX")]))
    assert ids(answer)[0] == "filter_rejects_all"
    assert answer.verdicts[0].sentence == (
        "40 messages of orders came since 2025-11-23T16:54:10Z, none passed TagX; their tags were TagA 20 and TagB 20."
    )
    untagged = recent(messages=1, tags=[c.TagCount(tag="", messages=1)])
    assert "(no tag) 1" in verdicts(facts(recent=[untagged])).verdicts[0].sentence


def test_an_sql92_filter_that_lets_nothing_pass_and_why() -> None:
    sql = {"expression": "size > 3", "expression_type": "SQL92"}
    one = recent(unknown=5, failed=2, problem="'x' is no integer of 32 bits", **sql)
    answer = verdicts(facts(recent=[one])).verdicts[0]
    assert answer.sentence == (
        "40 messages of orders came since 2025-11-23T16:54:10Z, none passed size > 3; it is false for 33, unknown "
        "for 5 (for example because a property is missing) and an error for 2, such as: 'x' is no integer of 32 bits."
    )
    only_false = verdicts(facts(recent=[recent(**sql)])).verdicts[0].sentence
    assert only_false.endswith("none passed size > 3; it is false for 40.")


def test_a_filter_that_let_something_pass_is_no_reason() -> None:
    for one in (recent(passed=1), recent(delivered=True), recent(messages=0)):
        assert "filter_rejects_all" not in ids(verdicts(facts(recent=[one])))
    here, there = facts(recent=[recent()]), facts(recent=[recent(delivered=True)])
    assert "filter_rejects_all" not in ids(verdicts(here, there)), "it received messages from the other broker"


def differ(client_id: str, expression: str) -> c.MemberSubscription:
    return c.MemberSubscription(client_id=client_id, topic="orders", expression=expression)


def test_members_that_disagree() -> None:
    one = facts(
        disagreements=[differ("A", "TagA"), differ("B", "TagB")],
        recent=[recent(passed=20, unreached=10)],
        members=[client("A"), client("B")],
    )
    answer = verdicts(one)
    assert ids(answer)[0] == "subscriptions_disagree"
    assert answer.verdicts[0].sentence == (
        "The members disagree about orders: A takes TagA and B takes TagB; each message reaches only the owner of its "
        "queue (10 reached nobody)."
    )
    nothing = verdicts(facts(disagreements=[differ("A", ""), differ("B", "*")])).verdicts[0].sentence
    assert "A takes nothing and B takes *" in nothing and "reached nobody" not in nothing


def test_a_mistyped_topic() -> None:
    answer = verdicts(facts(missing_topics=["oders"]))
    assert ids(answer)[0] == "topic_missing"
    assert answer.verdicts[0].sentence == "g subscribes to oders, but this topic does not exist."
    elsewhere = verdicts(facts(missing_topics=["oders"]), facts())
    assert "topic_missing" not in ids(elsewhere), "the other broker has it"


def test_a_topic_that_nobody_subscribes_to() -> None:
    left = queue(topic="old", assigned_to=None, state="unassigned", offset=60)
    answer = verdicts(facts(queue(), left))
    assert found(answer, "topic_not_subscribed").sentence == "No member subscribes to old, where 40 messages wait."
    assert "topic_not_subscribed" not in ids(verdicts(facts(queue(), queue(topic="old", state="unassigned"))))


def test_offsets_outside_the_queue() -> None:
    left = queue(offset=10, min_offset=40, lag=90, assigned_to=None, state="unassigned")
    assert verdicts(facts(left, members=[])).verdicts[0].sentence.endswith("; 60 messages wait.")
    deleted = verdicts(facts(queue(offset=10, min_offset=40, lag=90)))
    assert found(deleted, "offset_deleted").sentence == (
        "30 messages of orders@0 were deleted before g consumed them: its offset is 10, and the queue begins at 40."
    )
    beyond = verdicts(facts(queue(offset=140)))
    assert found(beyond, "offset_beyond_end").sentence == (
        "The offset of g in orders@0 is 140, but the queue ends at 100."
    )


def test_a_reset_that_the_client_has_not_fetched() -> None:
    assert found(verdicts(facts(queue(reset_to=1000))), "reset_pending").sentence == (
        "The answer to the next pull from orders@0 moves g to offset 1,000."
    )


def test_a_new_group_that_started_at_the_end() -> None:
    new = queue(offset=None, pull_offset=100)
    answer = verdicts(facts(new))
    assert answer.state == "ok" and ids(answer) == ["started_at_end", "idle"]
    assert answer.verdicts[0].sentence == (
        "g is new and started at the end of orders@0: it does not receive 100 older messages."
    )
    first = facts(new, consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    assert "started_at_end" not in ids(verdicts(first))


def test_delayed_messages_that_are_not_due() -> None:
    def delayed(messages: int, in_ms: int, counted: bool = True) -> c.DelayedMessages:
        return c.DelayedMessages(topic="orders", messages=messages, next_due_ms=NOW_MS + in_ms, counted=counted)

    answer = verdicts(facts(delayed=[delayed(3, 75_000)]))
    assert answer.state == "ok"
    assert found(answer, "delayed_pending").sentence == (
        "3 delayed messages of orders are not due yet, the next at 2025-11-23T17:05:25Z (in 1 min 15 s)."
    )
    both = verdicts(facts(delayed=[delayed(1, 75_000, False)]), facts(at="broker-b", delayed=[delayed(2, 8_000)]))
    assert found(both, "delayed_pending").sentence.startswith("At least 3 delayed messages of orders are not due yet")
    assert found(both, "delayed_pending").evidence["next_due_ms"] == NOW_MS + 8_000

"""The list of groups: in pages, with figures, and with the same problems as the groups' verdicts."""

import re
from typing import Any

import pytest

from broker_core import commands as c
from broker_core import walk
from broker_core.processors.why import group_list
from broker_core.processors.why import judged as judged_groups
from broker_core.processors.why.live_state import NOT_LISTED
from broker_core.verdicts.judge import judge
from tests.fakes.engine import Bench
from tests.fakes.members import beats, join


def listed(bench: Bench, group: str = "g", *, alone: bool = True) -> c.ConsumerGroupView:
    reply = bench.call(c.GetConsumerGroups(alone=alone), "asker")
    assert isinstance(reply, c.ConsumerGroups)
    return next(view for view in reply.groups if view.group == group)


def judged(bench: Bench) -> tuple[str, str | None, list[str]]:
    """(state, worst severity, problems) of the group's verdicts, which must be those of the list and of the metrics."""
    facts = bench.call(c.GetGroupFacts(group="g"), "asker")
    assert isinstance(facts, c.GroupFacts)
    verdicts = judge([facts])
    problems = [(one.severity, one.id) for one in verdicts.verdicts if one.severity in ("error", "warning")]
    found = (verdicts.state, problems[0][0] if problems else None, list(dict.fromkeys(name for _, name in problems)))
    view = listed(bench)
    assert (view.state, view.severity, view.problems) == found
    metrics = bench.call(c.GetMetrics(alone=True, sentences=True), "asker")
    assert isinstance(metrics, c.BrokerMetrics)
    [measured] = [one for one in metrics.groups if one.group == "g"]
    lines = {one.id: one.sentence for one in reversed(verdicts.verdicts) if one.severity in ("error", "warning")}
    lines = lines or {one.id: one.sentence for one in verdicts.verdicts[:1]}
    assert measured.state == verdicts.state
    known = {name: re.sub(r", next (in \S+ s|now)", "", sentence) for name, sentence in lines.items()}
    assert {one.id: one.sentence for one in measured.verdicts} == known, "the next try is not looked for"
    assert measured.verdicts[0].id == verdicts.verdicts[0].id
    return found


def orders(**more: Any) -> Bench:
    """One queue of three messages, and a member that has consumed all of them."""
    bench = Bench(default_topic_queue_nums=1)
    bench.send("orders", b"1", b"2", b"3", tag="TagB")
    join(bench, "A", **more)
    pull(bench, 3, commit_offset=3)
    return bench


def pull(bench: Bench, offset: int, client: str = "A", **fields: Any) -> None:
    bench.pull("orders", offset, client, **({"subscription": None, "check_group": True} | fields))


def commit(bench: Bench, offset: int) -> None:
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=offset)]))


# --- Problems beside the progress ----------------------------------------------------------------------------------


def test_a_group_that_is_well_has_no_problem() -> None:
    assert judged(orders()) == ("ok", None, [])


def test_members_that_disagree() -> None:
    bench = orders()
    join(bench, "B", topics={"orders": "TagA"}, version=2)
    assert judged(bench) == ("ok", "error", ["subscriptions_disagree"])


def test_a_subscribed_topic_that_does_not_exist() -> None:
    bench = orders(topics={"orders": "*", "oders": "*"})
    assert judged(bench) == ("ok", "warning", ["topic_missing"])
    assert listed(bench, alone=False).problems == [], "another broker may have it"


def test_a_group_that_may_not_consume() -> None:
    bench = orders()
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "consumeEnable": False}))
    state, severity, problems = judged(bench)
    assert (state, severity) == ("ok", "error") and "may_not_consume" in problems


def test_a_member_that_stopped_pulling_or_is_frozen() -> None:
    bench = orders()
    bench.tick(16_000)
    bench.tick(14_000)
    beats(bench, "A")
    assert judged(bench) == ("ok", "warning", ["not_pulling"])
    assert listed(bench, alone=False).problems == [], "its queues may be at another broker"
    bench.tick(46_000)
    assert judged(bench) == ("ok", "warning", ["heartbeat_late"])
    bench.send("orders", b"4")
    assert judged(bench) == ("stalled", "error", ["heartbeat_late"])


def test_a_client_that_pulls_from_the_queue_of_another() -> None:
    bench = Bench(default_topic_queue_nums=2)
    bench.send("orders", b"1")
    join(bench, "A")
    join(bench, "B")
    bench.tick(30_000)
    beats(bench, "A")
    beats(bench, "B")
    pull(bench, 1, "B", commit_offset=1, suspend_timeout_ms=30_000)
    pull(bench, 0, "B", queue_id=1, suspend_timeout_ms=30_000)
    assert "pulled_by_another" in judged(bench)[2]


def test_a_queue_that_another_member_has_locked() -> None:
    bench = orders()
    join(bench, "B")
    queue = c.MessageQueue(topic="orders", broker_name=bench.context.options.broker_name, queue_id=0)
    bench.call(c.LockBatchMq(group="g", client_id="B", queues=[queue]), "B")
    bench.tick(16_000)
    bench.tick(14_000)
    beats(bench, "A")
    bench.call(c.LockBatchMq(group="g", client_id="B", queues=[queue]), "B")
    assert "locked_by_another" in judged(bench)[2]


def test_an_offset_that_does_not_exist() -> None:
    bench = orders()
    commit(bench, 9)
    assert "offset_beyond_end" in judged(bench)[2]


def test_a_filter_that_nothing_passed() -> None:
    bench = Bench(default_topic_queue_nums=1)
    join(bench, "A", topics={"orders": "TagA"})
    bench.send("orders", b"1", b"2", b"3", tag="TagB")
    beats(bench, "A", topics={"orders": "TagA"})
    pull(bench, 0)
    pull(bench, 3, commit_offset=3, suspend_timeout_ms=30_000)
    assert judged(bench) == ("ok", "warning", ["filter_rejects_all"])
    assert listed(bench, alone=False).problems == [], "messages of another broker may have passed"


def test_messages_are_read_only_where_the_group_received_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = orders(topics={"orders": "TagB"})
    pull(bench, 0)
    monkeypatch.setattr(bench.context.store, "recent_properties", None)
    assert listed(bench).problems == []


def test_a_topic_that_is_not_subscribed_any_more() -> None:
    bench = orders()
    bench.send("others", b"1")
    beats(bench, "A", topics={"others": "*"}, version=2)
    bench.tick(16_000)
    bench.tick(14_000)
    bench.send("orders", b"4")
    assert "topic_not_subscribed" in judged(bench)[2]


def test_what_the_broker_causes_is_not_repeated_at_each_group() -> None:
    bench = orders()
    bench.context.draining = True
    facts = bench.call(c.GetGroupFacts(group="g"), "asker")
    assert isinstance(facts, c.GroupFacts) and judge([facts]).verdicts[0].id == "broker_draining"
    assert listed(bench).problems == []


@pytest.mark.parametrize("most", [0, 1])
def test_of_very_many_queues_or_members_only_what_they_have_in_common_is_judged(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    bench = orders()
    commit(bench, 9)
    join(bench, "B", topics={"orders": "TagA"}, version=2)
    bench.tick(46_000)
    assert {"offset_beyond_end", "heartbeat_late"} < set(listed(bench).problems)
    monkeypatch.setattr(judged_groups, "MAX_JUDGED", most)
    view = listed(bench)
    assert (view.state, view.severity, view.problems) == ("ok", "error", ["subscriptions_disagree"])
    assert view.members == 2


@pytest.mark.parametrize("most", [500, 0])
def test_messages_that_the_group_has_in_hand_prove_nothing(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    bench = orders()
    sent = bench.send("orders", b"4", b"5").messages  # the pull that is held receives them
    for message in sent:
        back = c.ConsumerSendMsgBack(group="g", physical_offset=message.physical_offset, delay_level=3)
        assert bench.call(back, "A") == c.Done()
    monkeypatch.setattr(judged_groups, "MAX_JUDGED", most)
    assert judged(bench)[2] == ["some_messages_fail"]
    commit(bench, 5)
    assert judged(bench)[2] == ["every_message_fails"]


def test_messages_that_come_back_to_a_group_with_very_many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = orders()
    first = bench.send("orders", b"4", b"5").messages[0].physical_offset
    pull(bench, 3)
    commit(bench, 5)
    assert bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=first, delay_level=3), "A") == c.Done()
    assert judged(bench)[2] == ["some_messages_fail"]
    monkeypatch.setattr(judged_groups, "MAX_JUDGED", 0)
    assert judged(bench)[2] == ["some_messages_fail"]


# --- Pages and figures ---------------------------------------------------------------------------------------------


def test_groups_are_those_with_members_offsets_or_pulls() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 1, consumer_group="waiting")
    bench.pull("orders", 0, consumer_group="me")
    bench.call(c.UpdateConsumerOffset(group="behind", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=0)]))
    join(bench, "A", "there", topics={"more": "*"})
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups)
    assert [(g.group, g.lag, g.holds, g.topics, g.members, g.message_model) for g in reply.groups] == [
        ("behind", 1, 0, ["orders"], 0, ""),
        ("me", None, 0, ["orders"], 0, ""),
        ("there", None, 0, ["more"], 1, "CLUSTERING"),
        ("waiting", None, 1, ["orders"], 0, ""),
    ]


def test_the_list_of_groups_has_no_lag_where_none_is_known() -> None:
    bench = Bench(default_topic_queue_nums=1)
    bench.send("orders", b"1", b"2", b"3")
    join(bench, "A")
    assert listed(bench).lag is None, "no offset is committed"
    commit(bench, 3)
    assert listed(bench).lag == 0
    commit(bench, 1)
    assert listed(bench).lag == 2
    entry = c.QueueOffset(topic="never-created", queue_id=0, offset=7)
    bench.context.offsets.commit("h", entry.topic, entry.queue_id, entry.offset)
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups)
    assert [(view.group, view.lag) for view in reply.groups] == [("g", 2), ("h", None)], "the topic does not exist"


def test_groups_come_in_pages() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for group in "dbeca":
        bench.pull("orders", 1, consumer_group=group)
    pages, after = [], ""
    while True:
        page = bench.call(c.GetConsumerGroups(after=after, limit=2))
        assert isinstance(page, c.ConsumerGroups)
        pages.append([view.group for view in page.groups])
        if page.next is None:
            break
        after = page.next
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


def test_groups_of_the_broker_and_of_tools_are_left_out_and_end_no_page() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for group in ("TOOLS_CONSUMER", "a", "b"):
        bench.pull("orders", 0, consumer_group=group)
    for group in NOT_LISTED:
        bench.context.offsets.commit(group, "orders", 0, 0)
    pages = [bench.call(c.GetConsumerGroups(after=after, limit=1)) for after in ("", "a")]
    assert [([view.group for view in page.groups], page.next) for page in pages] == [(["a"], "a"), (["b"], None)]


def test_the_list_has_the_oldest_message_the_rate_retries_and_dead_letters() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.tick(4000)
    first = bench.send("orders", b"2", b"3").messages[0].physical_offset
    commit = c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=1)])
    assert bench.call(commit) == c.Done()
    bench.pull("orders", 0)
    for delay_level in (3, -1):
        assert bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=first, delay_level=delay_level)) == c.Done()
    bench.tick(3000)
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups)
    (group,) = reply.groups
    assert (group.lag, group.oldest_ms, group.retrying, group.dead_letters) == (2, 3000, 1, 1)
    later = c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=3)])
    assert bench.call(later) == c.Done()
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups) and reply.groups[0].oldest_ms is None
    for _ in range(4):
        bench.tick(10_000)
        bench.pull("orders", 0)
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups) and reply.groups[0].consume_tps > 0


def test_a_page_of_groups_looks_at_its_own_groups_only(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(default_topic_queue_nums=2)
    bench.send("orders", b"1", b"2", b"3")
    for number in range(20):
        bench.pull("orders", 1, consumer_group=f"group-{number:02}")  # answered
    bench.pull("orders", 3, consumer_group="group-11")  # held
    looked_at = set()
    rows = bench.context.pulls.topics

    def note(group: str) -> Any:
        looked_at.add(group)
        return rows(group)

    monkeypatch.setattr(bench.context.pulls, "topics", note)
    with monkeypatch.context() as patch:
        patch.setattr(bench.context.holds, "ids_after", None)  # none of this page's groups has a hold
        page = bench.call(c.GetConsumerGroups(after="group-03", limit=2))
    assert isinstance(page, c.ConsumerGroups) and page.next == "group-05"
    assert looked_at == {"group-04", "group-05"} == {view.group for view in page.groups}
    page = bench.call(c.GetConsumerGroups(after="group-10", limit=1))
    assert isinstance(page, c.ConsumerGroups)
    assert [(view.group, view.holds, view.topics) for view in page.groups] == [("group-11", 1, ["orders"])]


def test_the_lag_of_many_queues_is_added_up_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=40, write_queues=40))
    for queue_id in range(40):
        bench.send("orders", b"1", queue_id=queue_id)
        offset = c.QueueOffset(topic="orders", queue_id=queue_id, offset=0)
        bench.call(c.UpdateConsumerOffset(group="g", offsets=[offset]))
    monkeypatch.setattr(walk, "PIECE", 10)
    steps = group_list._known_lag(bench.context, "g", bench.clock.now())
    pieces = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert end.value == (40, 0)
            break
        pieces += 1
    assert pieces == 4

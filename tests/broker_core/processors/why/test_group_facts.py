"""What the engine knows about a group, and the verdicts that follow."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.formats.message_properties import encode
from broker_core.verdicts.judge import judge
from broker_core.verdicts.verdict import Verdicts
from tests.fakes.engine import Bench, send
from tests.fakes.facts import ids
from tests.fakes.members import beat, beats, connect, failure, join
from tests.fakes.pops import pop
from tests.fakes.timers import small_wheel

__all__ = ["small_wheel"]

WEB: dict[str, Any] = {"protocol": "websocket", "language": "HTTP"}


def facts_of(bench: Bench, group: str = "g") -> c.GroupFacts:
    reply = bench.call(c.GetGroupFacts(group=group), "asker")
    assert isinstance(reply, c.GroupFacts), reply
    return reply


def why(bench: Bench, group: str = "g", **more: Any) -> Verdicts:
    return judge([facts_of(bench, group)], **more)


def orders(count: int = 3, tag: str = "") -> Bench:
    bench = Bench(default_topic_queue_nums=1)
    if count:
        bench.send("orders", *(b"x" for _ in range(count)), tag=tag)
    return bench


def pull(bench: Bench, client: str, offset: int, **fields: Any) -> int:
    return bench.pull("orders", offset, client, **({"subscription": None, "check_group": True} | fields))


def commit(bench: Bench, offset: int, client: str = "A", queue_id: int = 0) -> None:
    entry = c.QueueOffset(topic="orders", queue_id=queue_id, offset=offset)
    assert bench.call(c.UpdateConsumerOffset(group="g", offsets=[entry]), client) == c.Done()


def report(bench: Bench, client: str, permits: int, unacknowledged: int = 0) -> None:
    own = c.ConsumerWindow(topic="orders", permits=permits, unacknowledged=unacknowledged)
    assert bench.call(c.ReportWindows(group="g", windows=[own]), client) == c.Done()


def beats_for(bench: Bench, ms: int, *clients: str, **more: Any) -> None:
    """Let time pass, with heartbeats every 30 s."""
    while ms > 0:
        bench.tick(min(ms, 30_000))
        ms -= 30_000
        for client in clients:
            beats(bench, client, **more)


# --- Progress ------------------------------------------------------------------------------------------------------


def test_a_listener_that_never_returns() -> None:
    bench = orders(5)
    join(bench, "A")
    pull(bench, "A", 0)
    pull(bench, "A", 5)
    bench.tick(9_000)
    assert (why(bench).state, ids(why(bench))) == ("unknown", ["lag_unknown"]), "it has had them for 9 s only"
    beats_for(bench, 60_000, "A")
    answer = why(bench)
    assert (answer.state, ids(answer)[0]) == ("stalled", "listener_blocked")
    assert answer.verdicts[0].evidence["messages"] == 5 and answer.verdicts[0].evidence["stands_still_ms"] == 69_000


def test_a_listener_that_commits_keeps_up() -> None:
    bench = orders(5)
    join(bench, "A")
    pull(bench, "A", 0)
    bench.tick(9_000)
    pull(bench, "A", 5, commit_offset=4)
    answer = why(bench)
    assert (answer.state, ids(answer)) == ("ok", ["ok"])
    bench.tick(3_000)
    commit(bench, 5)
    assert ids(why(bench)) == ["ok"] and facts_of(bench).detail.queues[0].handed == 0
    beats_for(bench, 60_000, "A")
    pull(bench, "A", 5)
    answer = why(bench)
    assert (answer.state, ids(answer)) == ("ok", ["idle"])


def test_a_message_after_a_long_pause_has_waited_since_its_arrival() -> None:
    bench = orders(5)
    join(bench, "A")
    pull(bench, "A", 0)
    commit(bench, 5)
    beats_for(bench, 600_000, "A")
    pull(bench, "A", 5)
    bench.send("orders", b"6")
    assert ids(why(bench))[0] == "consuming"
    beats_for(bench, 31_000, "A")
    assert why(bench).verdicts[0].evidence["stands_still_ms"] == 31_000


def test_an_offset_that_an_operator_sets_is_no_progress() -> None:
    bench = orders(5)
    join(bench, "A")
    pull(bench, "A", 0)
    beats_for(bench, 60_000, "A")
    bench.call(c.ResetConsumerOffset(group="g", topic="orders", to="min"))
    view = facts_of(bench).detail.queues[0]
    assert (view.moved_ms_ago, view.handed, view.reset_to) == (None, 0, 0)
    assert "reset_pending" in ids(why(bench)) and "ok" not in ids(why(bench))


def test_a_first_commit_at_the_beginning_is_no_progress() -> None:
    bench = orders(5)
    join(bench, "A")
    commit(bench, 0)
    pull(bench, "A", 0)
    assert facts_of(bench).detail.queues[0].moved_ms_ago is None
    answer = why(bench)
    assert (answer.state, ids(answer)) == ("catching up", ["consuming"])
    commit(bench, 1)
    assert ids(why(bench)) == ["ok"]


def test_a_group_with_a_backlog_catches_up_or_falls_behind() -> None:
    bench = orders(100)
    join(bench, "A")
    beats_for(bench, 60_000, "A")
    for offset in range(10, 60, 10):
        pull(bench, "A", offset, commit_offset=offset)
        bench.tick(9_000)
        beats(bench, "A")
    answer = why(bench)
    assert (answer.state, ids(answer)) == ("catching up", ["catching_up"])
    bench.send("orders", b"1")
    bench.tick(9_000)
    pull(bench, "A", 51, commit_offset=51)
    assert why(bench).state == "catching up", "one message more is noise"
    bench.send("orders", *(b"x" for _ in range(200)))
    bench.tick(9_000)
    beats(bench, "A")
    pull(bench, "A", 52, commit_offset=52)
    assert why(bench).state == "catching up", "the last note of the lag is 9 s old"
    bench.tick(2_000)
    pull(bench, "A", 53, commit_offset=53)
    answer = why(bench)
    assert (answer.state, ids(answer)[0]) == ("falling behind", "falling_behind")


def test_a_client_that_takes_over_is_not_blamed_for_the_former_one() -> None:
    bench = orders(5)
    join(bench, "A")
    pull(bench, "A", 0)
    commit(bench, 1)
    beats_for(bench, 60_000, "A")
    assert ids(why(bench))[0] == "listener_blocked"
    bench.call(c.CloseConnection(), "A")
    join(bench, "B")
    pull(bench, "B", 0)
    bench.tick(21_000)
    pull(bench, "B", 5)
    answer = why(bench)
    assert (answer.state, ids(answer)[0]) == ("stalled", "stands_still")
    assert "B took orders@0 over 21 s ago" in answer.verdicts[0].sentence
    beats_for(bench, 20_000, "B")
    answer = why(bench)
    assert ids(answer)[0] == "listener_blocked" and answer.verdicts[0].evidence["stands_still_ms"] == 41_000


def test_a_group_that_never_committed_is_unknown_and_not_0() -> None:
    bench = orders(3)
    join(bench, "A")
    answer = why(bench)
    assert answer.state == "unknown" and "lag_unknown" in ids(answer)
    assert {"ok", "idle"}.isdisjoint(ids(answer))


# --- Clients -------------------------------------------------------------------------------------------------------


def test_a_suspended_consumer() -> None:
    bench = orders(3)
    join(bench, "A")
    pull(bench, "A", 0)
    commit(bench, 3)
    bench.send("orders", b"4")
    beats_for(bench, 60_000, "A")
    answer = why(bench)
    assert (answer.state, ids(answer)) == ("stalled", ["not_pulling"])
    assert "has not asked for 1 min 0 s" in answer.verdicts[0].sentence


def test_a_consumer_that_commits_and_has_enough_messages_need_not_ask() -> None:
    """RocketMQ's clients do not pull while they have pullThresholdForQueue messages."""
    bench = orders(10)
    bench.tick(20_000)
    join(bench, "A")
    pull(bench, "A", 0, max_msg_nums=4)
    for offset in (1, 2, 3):
        beats_for(bench, 29_000, "A")
        commit(bench, offset)
        beats_for(bench, 1000, "A")
        answer = why(bench)
        assert (answer.state, ids(answer)) == ("catching up", ["catching_up"])
        (line,) = bench.call(c.GetConsumerGroups(alone=True), "asker").groups
        assert (line.state, line.problems) == ("catching up", [])
    (queue,) = (one for one in facts_of(bench).detail.queues if one.topic == "orders")
    assert (queue.state, queue.why) == ("busy", "A pulled 90 s ago; it may be busy with the messages that it has")
    beats_for(bench, 30_000, "A")
    answer = why(bench)
    assert (answer.state, ids(answer)) == ("stalled", ["listener_blocked"]), "it consumes no more"
    commit(bench, 4)
    answer = why(bench)
    assert (answer.state, ids(answer)) == ("stalled", ["not_pulling"]), "it has no more messages, and does not ask"


def test_a_client_that_is_stopped_and_continues() -> None:
    """As by SIGSTOP and SIGCONT. No sentence says more than the broker knows."""
    bench = orders(3)
    join(bench, "A")
    pull(bench, "A", 0, max_msg_nums=2)
    commit(bench, 1)
    bench.tick(31_000)
    said = why(bench).verdicts[0]
    assert said.id == "listener_blocked" and "blocked, or its process or its network stood still" in said.sentence
    bench.tick(20_000)
    assert ids(why(bench))[0] == "heartbeat_late"
    for _ in range(8):
        bench.tick(10_000)
    said = why(bench).verdicts[0]
    assert (said.id, said.evidence["expired"]) == ("no_member", "A")
    assert "A was removed at 2023-11-14T22:15:21Z, because it sent no heartbeat for 2 min." in said.sentence
    beats(bench, "A")
    bench.tick(15_000)
    said = why(bench).verdicts[0]
    assert said.id == "listener_blocked" and "stood still" in said.sentence, "it is back since 15 s"
    bench.call(c.CloseConnection(), "A")
    assert why(bench).verdicts[0].evidence["expired"] is None, "it left, and did not expire"


def web_member(bench: Bench) -> None:
    connect(bench, "A", "websocket")
    beats(bench, "A", **WEB)


def test_a_consumer_without_permits_and_one_that_acknowledges_nothing() -> None:
    bench = orders(3)
    web_member(bench)
    beats_for(bench, 60_000, "A", **WEB)
    report(bench, "A", 0)
    answer = why(bench)
    assert (answer.state, ids(answer)[0]) == ("stalled", "no_permits")
    pull(bench, "A", 0, max_msg_nums=2)
    report(bench, "A", 0, 2)
    beats_for(bench, 60_000, "A", **WEB)
    answer = why(bench)
    assert ids(answer)[0] == "not_acknowledged"
    assert answer.verdicts[0].evidence["unacknowledged"] == 2 and answer.verdicts[0].evidence["messages"] == 2


def test_windows_are_those_of_members_and_go_with_them() -> None:
    bench = orders(3)
    web_member(bench)
    report(bench, "A", 3)
    report(bench, "stranger", 4)
    assert [(one.client_id, one.window.permits) for one in facts_of(bench).windows] == [("A", 3)]
    many = [c.ConsumerWindow(topic="orders", permits=1, unacknowledged=0)] * 101
    assert failure(bench, c.ReportWindows(group="g", windows=many), "A").pointer == "/windows"
    join(bench, "B")
    bench.call(c.CloseConnection(), "A")
    assert facts_of(bench).windows == []


def test_pulls_that_are_refused() -> None:
    bench = orders(3)
    join(bench, "A", topics={"more": "*"})
    for _ in range(4):
        pull(bench, "A", 0)
        bench.tick(3_000)
    answer = why(bench)
    assert (answer.state, ids(answer)[0]) == ("stalled", "pulls_refused")
    assert answer.verdicts[0].evidence["count"] == 4 and answer.verdicts[0].evidence["code"] == 24
    assert "4 times, last at 2023-11-14T22:13:29Z: group g does not subscribe" in answer.verdicts[0].sentence


def test_a_refusal_before_the_first_heartbeat_ends_with_the_next_pull() -> None:
    """As after a restart of the broker, and as a pull over HTTP without a client_id that is repeated."""
    for refused in ("", "10.0.0.9:53211"):
        bench = orders(3)
        pull(bench, "c", 0, client_id=refused)
        assert ids(why(bench))[0] == "pulls_refused"
        bench.tick(1000)
        join(bench, "A")
        pull(bench, "A", 0)
        assert "pulls_refused" not in ids(why(bench))


def test_another_member_does_not_end_the_refusals_of_a_named_client() -> None:
    bench = orders(3)
    pull(bench, "c", 0, client_id="B")
    bench.tick(1000)
    join(bench, "A")
    pull(bench, "A", 0)
    assert "The pulls of B from orders are refused" in why(bench).verdicts[0].sentence
    bench.tick(60_000)
    assert "pulls_refused" not in ids(why(bench))


def test_a_group_that_is_only_known_by_its_refused_pulls() -> None:
    bench = Bench(auto_create_subscription_group=False)
    bench.send("orders", b"1")
    assert failure(bench, c.GetGroupFacts(group="g")).code == 26
    pull(bench, "A", 0)
    answer = why(bench)
    assert ids(answer) == ["pulls_refused", "no_member"] and answer.verdicts[0].evidence["code"] == 26


def test_a_group_that_may_not_consume() -> None:
    bench = orders(3)
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "consumeEnable": False}))
    join(bench, "A")
    pull(bench, "A", 0)
    assert ids(why(bench))[:2] == ["pulls_refused", "may_not_consume"]


def test_members_come_and_go() -> None:
    bench = orders(3)
    join(bench, "A")
    commit(bench, 1)
    assert "rebalancing" in ids(why(bench))
    beats_for(bench, 30_000, "A")
    assert "rebalancing" not in ids(why(bench))
    join(bench, "B")
    bench.call(c.CloseConnection(), "B")
    assert facts_of(bench).changed_ms == bench.clock.now().wall_ms
    bench.call(c.CloseConnection(), "A")
    answer = why(bench)
    assert (answer.state, ids(answer)) == ("stopped", ["no_member"])
    assert answer.verdicts[0].evidence["waiting"] == 2


def test_a_frozen_client() -> None:
    bench = orders(3)
    join(bench, "A")
    commit(bench, 1)
    bench.tick(46_000)
    assert ids(why(bench)) == ["heartbeat_late"]


def test_a_lock_of_another_client() -> None:
    bench = orders(3)
    join(bench, "A")
    commit(bench, 1)
    beats_for(bench, 30_000, "A")
    place = c.MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)
    bench.call(c.LockBatchMq(group="g", client_id="gone", queues=[place]))
    assert ids(why(bench)) == ["locked_by_another"]


# --- Messages ------------------------------------------------------------------------------------------------------


def test_a_filter_that_rejects_everything() -> None:
    bench = orders(0)
    bench.send("orders", b"before", tag="TagC")
    bench.tick(60_000)
    join(bench, "A", topics={"orders": "TagX"})
    pull(bench, "A", 1, commit_offset=1)
    first = bench.clock.now().wall_ms
    for tag in ("TagA", "TagB") * 10:
        bench.send("orders", b"x", tag=tag)
    bench.tick(5_000)
    pull(bench, "A", 21, commit_offset=21)
    answer = why(bench)
    assert (answer.state, ids(answer)[0]) == ("ok", "filter_rejects_all")
    assert answer.verdicts[0].evidence == {
        "topic": "orders",
        "expression": "TagX",
        "messages": 20,
        "since_ms": first,
        "tags": {"TagA": 10, "TagB": 10},
    }
    bench.send("orders", b"x", tag="TagX")
    assert "filter_rejects_all" not in ids(why(bench))


def test_an_sql92_filter_that_rejects_everything() -> None:
    bench = orders(1)
    bench.tick(60_000)
    connect(bench, "A")
    subscription = c.SubscriptionData(topic="orders", sub_string="size > 3", expression_type="SQL92", sub_version=1)
    group = c.ConsumerData(group="g", subscriptions=[subscription])
    bench.call(c.HeartBeat(client_id="A", protocol="remoting", consumers=[group]), "A")
    pull(bench, "A", 1, commit_offset=1)
    for size in ("1", "x", "", "2"):
        bench.send("orders", b"x", properties=encode({"size": size}))
    bench.tick(5_000)
    pull(bench, "A", 5, commit_offset=5)
    (recent,) = facts_of(bench).recent
    assert (recent.messages, recent.passed, recent.unknown, recent.failed) == (4, 0, 1, 1)
    answer = why(bench).verdicts[0]
    assert answer.id == "filter_rejects_all" and "such as: 'x' is no integer of 32 bits." in answer.sentence
    bench.send("orders", b"x", properties=encode({"size": "4"}))
    assert "filter_rejects_all" not in ids(why(bench))


def two_members(bench: Bench, **more: Any) -> None:
    for client, tag, version in (("A", "TagA", 1), ("B", "TagB", 2)):
        connect(bench, client, "websocket" if more else "remoting")
        beats(bench, client, topics={"orders": tag}, version=version, **more)


def test_members_that_subscribe_differently() -> None:
    bench = Bench(default_topic_queue_nums=2)
    for tag in ("TagA", "TagB"):
        for queue_id in (0, 1):
            bench.send("orders", *(b"x" for _ in range(5)), tag=tag, queue_id=queue_id)
    two_members(bench, **WEB)
    for client, queue_id, tag in (("A", 0, "TagA"), ("B", 1, "TagB")):
        pull(bench, client, 0, queue_id=queue_id, subscription=tag)
    answer = why(bench)
    found = next(verdict for verdict in answer.verdicts if verdict.id == "subscriptions_disagree")
    assert "A takes TagA and B takes TagB" in found.sentence and "(10 reached nobody)" in found.sentence
    beats(bench, "A", topics={"orders": "TagB"}, version=3, **WEB)
    beats(bench, "B", topics={"orders": "TagB"}, version=2, **WEB)
    assert "subscriptions_disagree" not in ids(why(bench)), "they agree now"


def test_stock_clients_that_disagree_lose_more() -> None:
    """Their pulls have no filter of their own: the broker uses the newest one, and the client drops what is left."""
    bench = Bench(default_topic_queue_nums=2)
    for tag in ("TagA", "TagB"):
        bench.send("orders", *(b"x" for _ in range(5)), tag=tag)
    two_members(bench)
    pull(bench, "A", 0)
    assert facts_of(bench).recent[0].unreached == 10


def test_topics_that_only_some_members_subscribe_to() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.send("more", b"1")
    join(bench, "A", topics={"orders": "*"})
    join(bench, "B", topics={"more": "*"}, version=2)
    found = {(entry.client_id, entry.topic): entry.expression for entry in facts_of(bench).disagreements}
    assert found == {("A", "more"): "", ("B", "more"): "*", ("A", "orders"): "*", ("B", "orders"): ""}
    bench.call(c.UnregisterClient(client_id="A", consumer_group="g"), "A")
    assert facts_of(bench).disagreements == []


def test_a_new_version_of_a_single_member_is_no_disagreement() -> None:
    bench = orders(1)
    join(bench, "A", topics={"orders": "TagA"})
    beats(bench, "A", topics={"orders": "TagB"}, version=2)
    assert facts_of(bench).disagreements == []
    bench.call(beat("A", topics={}, version=2, without_sub=True), "A")
    assert facts_of(bench).disagreements == []


def send_back(bench: Bench, offset: int, level: int = 3) -> None:
    physical = bench.context.store.reader.queue_units("orders", 0, offset, 1)[0][0]
    command = c.ConsumerSendMsgBack(
        group="g", physical_offset=physical, delay_level=level, origin_topic="orders", max_reconsume_times=16
    )
    assert bench.call(command, "A") == c.Done()


def test_a_listener_that_fails_on_every_message() -> None:
    bench = orders(3)
    join(bench, "A")
    pull(bench, "A", 0)
    for offset in range(3):
        send_back(bench, offset)
    commit(bench, 3)
    answer = why(bench)
    assert (answer.state, ids(answer)[0]) == ("stalled", "every_message_fails")
    assert "3 of 3 came back" in answer.verdicts[0].sentence and ", try 1, next in 10 s" in answer.verdicts[0].sentence
    assert "retries_pending" in ids(answer)
    bench.send("orders", b"good")
    pull(bench, "A", 3)
    commit(bench, 4)
    assert ids(why(bench))[0] == "some_messages_fail"
    beats_for(bench, 24 * 3600_000 + 7200_000, "A")
    assert "some_messages_fail" not in ids(why(bench)), "it was more than a day ago"


def test_messages_come_back_in_no_longer_time_than_the_engine_runs() -> None:
    bench = orders(1)
    join(bench, "A")
    pull(bench, "A", 0)
    send_back(bench, 0)
    bench.clock.advance(8_000)
    uptime_ns = bench.clock.now().mono_ns - bench.context.started.mono_ns
    assert facts_of(bench).returned.window_ms == uptime_ns // 1_000_000


def test_a_topic_that_does_not_exist() -> None:
    bench = orders(3)
    join(bench, "A", topics={"oders": "*"})
    assert "topic_missing" in ids(why(bench))


def test_the_condition_of_the_broker() -> None:
    bench = orders(3)
    join(bench, "A")
    pull(bench, "A", 3)
    known = facts_of(bench).broker
    assert (known.broker, known.draining, known.problem, known.holds, known.undispatched_bytes) == (
        "broker-a",
        False,
        "",
        1,
        0,
    )
    bench.context.draining = True
    assert ids(why(bench))[0] == "broker_draining"


def test_under_sync_master_senders_wait_for_slaves() -> None:
    bench = Bench(broker_role="SYNC_MASTER", in_sync_replicas=2)
    join(bench, "A")
    bench.submit(c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"x", queue_id=0)]))
    assert "slaves_behind" not in ids(why(bench))
    bench.tick(3000)
    assert "slaves_behind" in ids(why(bench))
    bench.clock.advance(31_000)
    assert "slaves_behind" not in ids(why(bench))


def test_under_sync_flush_messages_wait_for_the_disk() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    join(bench, "A")
    bench.submit(c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"x", queue_id=0)]))
    assert "flush_behind" in ids(why(bench))
    while bench.flush():
        pass
    assert "flush_behind" not in ids(why(bench))


# --- Delayed messages ----------------------------------------------------------------------------------------------


def test_messages_that_producers_delayed() -> None:
    bench = orders(0)
    bench.send("orders", b"later", properties="DELAY\x013\x02")
    bench.send("orders", b"sooner", properties="DELAY\x012\x02")
    bench.send("others", b"x", properties="DELAY\x013\x02")
    join(bench, "A")
    pull(bench, "A", 0)
    (delayed,) = facts_of(bench).delayed
    assert (delayed.topic, delayed.messages, delayed.counted) == ("orders", 2, True)
    assert delayed.next_due_ms == bench.clock.now().wall_ms + 5_000
    answer = why(bench)
    assert answer.state == "ok" and "delayed_pending" in ids(answer)
    bench.tick(10_001)
    assert "delayed_pending" not in ids(why(bench)), "they were delivered"


@pytest.mark.usefixtures("small_wheel")
def test_messages_that_producers_delayed_to_an_exact_time() -> None:
    bench = orders(0)
    bench.send("orders", b"timed", properties="TIMER_DELAY_MS\x0160000\x02")
    bench.send("others", b"timed", properties="TIMER_DELAY_MS\x0160000\x02")
    bench.tick()
    join(bench, "A")
    pull(bench, "A", 0)
    (delayed,) = facts_of(bench).delayed
    due_ms = bench.clock.now().wall_ms + 60_000
    assert (delayed.topic, delayed.messages, delayed.next_due_ms, delayed.counted) == ("orders", 1, due_ms, True)
    (verdict,) = [verdict for verdict in why(bench).verdicts if verdict.id == "delayed_pending"]
    assert verdict.sentence.startswith("1 delayed message of orders is not due yet, the next at 20")
    assert verdict.evidence["next_due_ms"] == due_ms
    bench.tick(60_001)
    assert "delayed_pending" not in ids(why(bench)), "it was delivered"


# --- The broker ----------------------------------------------------------------------------------------------------


def consuming(bench: Bench) -> None:
    """A member that has consumed everything and waits."""
    join(bench, "A")
    commit(bench, 3)
    pull(bench, "A", 3)
    assert ids(why(bench)) == ["ok"]


def test_a_broker_that_is_shutting_down() -> None:
    bench = orders()
    consuming(bench)
    bench.take(bench.engine.drain(bench.clock.now()))
    assert ids(why(bench))[0] == "broker_draining"


def test_a_broker_with_a_full_disk() -> None:
    bench = orders()
    consuming(bench)
    bench.files.used_percent = 97
    beats_for(bench, 60_000, "A")
    bench.file_work()
    answer = why(bench)
    assert ids(answer)[0] == "broker_refuses_messages" and "97 % full" in answer.verdicts[0].sentence


def test_messages_that_wait_for_a_slow_disk() -> None:
    bench = Bench(default_topic_queue_nums=1, flush_disk_type="SYNC_FLUSH")
    bench.submit(send("orders", b"1", queue_id=0))
    bench.flush()
    join(bench, "A")
    commit(bench, 1)
    pull(bench, "A", 1)
    bench.submit(send("orders", b"2", queue_id=0))
    answer = why(bench)
    assert ids(answer)[0] == "flush_behind" and answer.verdicts[0].evidence["undispatched_bytes"] > 91
    bench.flush()
    assert "flush_behind" not in ids(why(bench))


def test_an_engine_that_is_late() -> None:
    bench = orders()
    consuming(bench)
    bench.engine.was_late(150_000_000, 0, bench.clock.now())
    bench.tick(5_000)
    bench.engine.was_late(120_000_000, 7, bench.clock.now())
    bench.tick(5_000)
    answer = why(bench)
    assert ids(answer)[0] == "engine_busy"
    assert answer.verdicts[0].evidence == {"broker": "broker-a", "late_ms": 150, "refused": 7}
    bench.tick(5_001)
    assert "engine_busy" not in ids(why(bench)), "it is over"
    bench.engine.was_late(1_000_000_000, 0, bench.clock.now())
    assert facts_of(bench).broker.late_ms == 1000, "clients notice a single wait that is so long"


def test_a_short_wait_or_two_do_not_make_an_engine_busy() -> None:
    bench = orders()
    consuming(bench)
    for _ in range(20):
        bench.engine.was_late(108_000_000, 0, bench.clock.now())
    bench.tick(1000)
    bench.engine.was_late(999_000_000, 0, bench.clock.now())
    assert [one.severity for one in why(bench).verdicts] == ["ok"]
    bench.tick(1000)
    bench.engine.was_late(108_000_000, 0, bench.clock.now())
    assert ids(why(bench)) == ["engine_busy"], "in three seconds"
    bench.tick(8_001)
    assert [one.severity for one in why(bench).verdicts] == ["ok"]


def test_a_member_that_waits_to_pop_is_not_stopped() -> None:
    bench = orders(3)
    join(bench, "A", topics={"orders": "*"})
    pop(bench, "A", client_id="A")
    pop(bench, "A", client_id="A", poll_ms=15_000)
    found = why(bench)
    assert found.state == "ok" and ids(found) == ["ok"], found
    (queue,) = [queue for queue in facts_of(bench).detail.queues if queue.queue_id == 0 and queue.topic == "orders"]
    assert (queue.state, queue.polled_by, queue.assigned_to) == ("held", "A", None)
    assert queue.why == "A waits to pop from any queue; 3 popped messages are not acknowledged"


def test_pops_read_the_retry_topic_unless_they_are_in_order() -> None:
    bench = orders(1)
    pop(bench, invisible_ms=1_000)
    bench.tick(2_000)  # nobody acknowledged, so a copy is in the retry topic
    pop(bench, poll_ms=15_000)
    pop(bench, poll_ms=15_000)

    def seen() -> tuple[str, str, str]:
        detail = facts_of(bench).detail
        view = bench.call(c.GetConsumerGroup(group="g"), "asker")
        assert isinstance(view, c.ConsumerGroupDetail)
        (state,) = [queue.state for queue in detail.queues if queue.topic == "%RETRY%g_orders"]
        (queue,) = [queue for queue in view.queues if queue.topic == "%RETRY%g_orders"]
        return state, queue.state, queue.why

    assert seen() == ("held", "held", "a client waits to pop from any queue; 1 popped message is not acknowledged")
    bench.tick(15_000)
    assert seen()[:2] == ("polling", "polling")
    pop(bench, order=True)
    assert seen() == ("unassigned", "unassigned", "the group has no member")


def test_a_member_that_stops_popping_stands_still() -> None:
    bench = orders(3)
    join(bench, "A", topics={"orders": "*"})
    pop(bench, "A", client_id="A")
    bench.send("orders", b"x")
    beats_for(bench, 60_000, "A")
    (queue,) = [queue for queue in facts_of(bench).detail.queues if queue.queue_id == 0 and queue.topic == "orders"]
    assert queue.why.startswith("A popped 60 s ago") and queue.state == "not_polling"
    assert why(bench).state == "stalled"


def test_refused_pops_are_explained_until_one_succeeds() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    pop(bench, client_id="web-1", expression="a=1 AND b=2")
    held = pop(bench, client_id="web-1", queue_id=1, poll_ms=15_000)
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "consumeEnable": False}))
    bench.send("orders", b"y", queue_id=1)
    assert isinstance(bench.final(held), c.Failed)
    refused = bench.call(c.GetGroupFacts(group="g"))
    assert isinstance(refused, c.GroupFacts)
    assert [(one.client_id, one.topic, one.code) for one in refused.refused] == [("web-1", "orders", 16)]
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "consumeEnable": True}))
    pop(bench, client_id="web-1")
    answered = bench.call(c.GetGroupFacts(group="g"))
    assert isinstance(answered, c.GroupFacts) and answered.refused == []

"""The state of a group in the list of groups is that of its verdicts."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.consumers import waiting_retries
from broker_core.longpolling.pull_request_hold import PullRequestHold
from broker_core.verdicts.judge import judge
from tests.fakes.engine import Bench
from tests.fakes.members import beats, join
from tests.fakes.pops import ack, pop, take


def listed(bench: Bench, group: str = "g") -> c.ConsumerGroupView:
    reply = bench.call(c.GetConsumerGroups(), "asker")
    assert isinstance(reply, c.ConsumerGroups)
    return next(view for view in reply.groups if view.group == group)


def states(bench: Bench) -> tuple[str, str]:
    """(state in the list, state of the verdicts)."""
    facts = bench.call(c.GetGroupFacts(group="g"), "asker")
    assert isinstance(facts, c.GroupFacts)
    return listed(bench).state, judge([facts]).state


def orders(**more: Any) -> Bench:
    bench = Bench(default_topic_queue_nums=1)
    bench.send("orders", b"1", b"2", b"3")
    join(bench, "A", **more)
    return bench


def pull(bench: Bench, offset: int, **fields: Any) -> None:
    bench.pull("orders", offset, "A", **({"subscription": None, "check_group": True} | fields))


def wait(bench: Bench, ms: int) -> None:
    bench.tick(ms)
    beats(bench, "A")


def test_unknown_until_something_is_committed() -> None:
    bench = orders()
    assert states(bench) == ("unknown", "unknown") and listed(bench).unknown_queues == 1
    assert listed(bench).lag is None
    pull(bench, 0)
    assert states(bench) == ("unknown", "unknown")


def test_ok_and_stalled() -> None:
    bench = orders()
    pull(bench, 0, commit_offset=1)
    assert states(bench) == ("ok", "ok") and listed(bench).unknown_queues == 0
    wait(bench, 31_000)
    assert states(bench) == ("stalled", "stalled")
    pull(bench, 3, commit_offset=3)
    assert states(bench) == ("ok", "ok")


def test_retries_that_are_not_counted_yet_are_not_green(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = orders()
    pull(bench, 3, commit_offset=3)
    assert states(bench) == ("ok", "ok")
    monkeypatch.setattr(waiting_retries, "MESSAGES_A_REQUEST", 0)
    delayed = c.OutgoingMessage(body=b"4", queue_id=0, properties="DELAY\x013\x02")
    assert isinstance(bench.call(c.SendMessage(topic="orders", messages=[delayed])), c.Sent)
    assert states(bench) == ("unknown", "unknown")


def test_a_member_without_a_queue_is_not_green() -> None:
    bench = Bench()
    join(bench, "A", topics={"oders": "*"})
    assert states(bench) == ("unknown", "unknown")


def test_a_held_pull_is_found_without_a_look_at_the_holds_of_other_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = orders()
    pull(bench, 3, commit_offset=3, suspend_timeout_ms=30_000)
    for number in range(5):
        bench.pull("orders", 3, f"c{number}", consumer_group=f"g{number}", suspend_timeout_ms=30_000)
    monkeypatch.delattr(PullRequestHold, "requests_of_queue")
    assert listed(bench).state == "ok" and listed(bench, "g4").state == "ok"


def test_stopped() -> None:
    bench = orders()
    pull(bench, 3, commit_offset=3, protocol="remoting")
    bench.call(c.CloseConnection(), "A")
    assert states(bench) == ("stopped", "stopped")


def test_refused() -> None:
    bench = orders(topics={"more": "*"})
    pull(bench, 0)
    assert states(bench) == ("stalled", "stalled")


def test_every_message_comes_back() -> None:
    bench = orders()
    pull(bench, 0)
    units = bench.context.store.reader.queue_units("orders", 0, 0, 3)
    for physical_offset, _, _ in units:
        back = c.ConsumerSendMsgBack(
            group="g", physical_offset=physical_offset, delay_level=3, origin_topic="orders", max_reconsume_times=16
        )
        assert bench.call(back, "A") == c.Done()
    pull(bench, 3, commit_offset=3)
    assert states(bench) == ("stalled", "stalled")


def test_one_returned_message_does_not_stall_a_busy_group() -> None:
    """It has been handed far more messages since it last reached the end than are not committed."""
    bench = Bench(default_topic_queue_nums=1)
    for _ in range(20):
        bench.send("orders", b"x")
    join(bench, "A")
    for offset in range(10):
        pull(bench, offset, max_msg_nums=1, commit_offset=max(0, offset - 1))
    ((physical_offset, _, _),) = bench.context.store.reader.queue_units("orders", 0, 0, 1)
    back = c.ConsumerSendMsgBack(
        group="g", physical_offset=physical_offset, delay_level=3, origin_topic="orders", max_reconsume_times=16
    )
    assert bench.call(back, "A") == c.Done()
    row = bench.context.pulls.topics("g")["orders"][0]
    assert (row.handed, row.pull_offset) == (10, 10)
    assert states(bench) == ("ok", "ok")


def test_messages_that_are_pulled_again_and_again_and_never_committed() -> None:
    bench = orders()
    pull(bench, 0, commit_offset=1)
    for _ in range(10):
        pull(bench, 1)
        wait(bench, 5000)
    assert states(bench) == ("stalled", "stalled")


def test_broadcasting_is_unknown() -> None:
    bench = orders(model="BROADCASTING")
    pull(bench, 0, commit_offset=2)
    assert states(bench) == ("unknown", "unknown")


def test_pulls_without_members_count() -> None:
    bench = Bench(default_topic_queue_nums=1)
    bench.send("orders", b"1")
    bench.pull("orders", 1)
    assert states(bench) == ("ok", "ok"), "it waits at the end, and received nothing before"
    bench.tick(15_000)
    bench.tick(3_000)
    assert states(bench) == ("unknown", "unknown"), "it has committed nothing"
    assert (listed(bench).severity, listed(bench).unknown_queues) == (None, 1)
    bench.pull("orders", 1, commit_offset=1)
    bench.tick(15_000)
    bench.tick(3_000)
    assert states(bench) == ("stopped", "stopped")


def test_a_group_that_acknowledges_nothing_of_what_it_receives_is_stalled() -> None:
    bench = Bench(default_topic_queue_nums=1)
    bench.send("orders", b"1", b"2", b"3")
    reply = take(bench, client_id="web-1", max_msg_nums=2, invisible_ms=600_000)
    bench.tick(25_000)
    take(bench, client_id="web-1", invisible_ms=600_000)
    assert "stalled" not in states(bench)
    bench.tick(6_000)
    pop(bench, client_id="web-1", poll_ms=30_000)
    assert states(bench) == ("stalled", "stalled")
    facts = bench.call(c.GetGroupFacts(group="g"), "asker")
    assert isinstance(facts, c.GroupFacts)
    assert facts.unacknowledged == [
        c.UnacknowledgedPops(topic="orders", client_id="web-1", messages=3, still_ms=31_000)
    ]
    ack(bench, reply, 0)
    assert states(bench) == ("ok", "ok")
    bench.tick(31_000)
    pop(bench, client_id="web-1", poll_ms=30_000)
    assert states(bench) == ("stalled", "stalled"), "one is acknowledged, and two are not"
    ack(bench, reply, 1)
    assert states(bench) == ("ok", "ok")

"""The log of another broker in the engine: its messages can be read, and holds wake."""

from broker_core import commands as c
from broker_core.events import MessagesStored
from broker_core.processors.message_stored import FOLLOWED_A_TURN
from tests.fakes.engine import Bench, bodies
from tests.fakes.followed import append, blocks_of, follower, log_of, master

QUEUE_OFFSET = 20
"""Where a record has its queue offset."""


def test_messages_of_the_followed_log_are_in_their_queues() -> None:
    leader, bench = master(60), follower()
    (reply, *_) = append(bench, blocks_of(log_of(leader)))
    assert isinstance(reply, c.AppendedToCommitLog)
    for topic in ("orders", "payments"):
        for queue_id in range(3):
            pulls = [one.pulled(one.pull(topic, 0, queue_id=queue_id)) for one in (leader, bench)]
            assert bodies(pulls[0]) == bodies(pulls[1]) != []
    assert bench.engine.counters.messages_stored == 60
    stored = [event for event in bench.engine.events.after(0) if isinstance(event, MessagesStored)]
    assert sum(event.to_offset - event.from_offset for event in stored) == 60


def test_topics_with_messages_in_light_message_queues_are_named_also_after_a_restart() -> None:
    leader, bench = master(20), follower()
    append(bench, blocks_of(log_of(leader)))
    assert attached(bench).problem == ""
    begin = len(log_of(leader))
    # What RocketMQ stores of a message with INNER_MULTI_DISPATCH when enableLmq and enableMultiDispatch are set.
    light = "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x010,4\x02"
    leader.send("payments", b"in both", queue_id=1, properties=light)
    leader.send("orders", b"asks only", queue_id=1, properties="INNER_MULTI_DISPATCH\x01%LMQ%a\x02")
    append(bench, blocks_of(log_of(leader), begin))
    sentence = "the copy lacks the light message queues (LMQ) that have messages of payments"
    assert attached(bench).problem == sentence
    bench.engine.close(bench.clock.now())
    bench = follower(files=bench.files)
    bench.call(c.ReportFollowing(state="waiting", source="10.0.0.1:10911", problem="no slave can be followed"))
    assert attached(bench).problem == f"no slave can be followed; {sentence}"
    bench.call(c.ReplicateTables(begin_topics=True, end_topics=True))
    bench.call(c.ReplicateTables(begin_topics=True, end_topics=True))
    assert attached(bench).problem == "no slave can be followed"


def attached(bench: Bench) -> c.Attached:
    view = bench.call(c.GetAttached())
    assert isinstance(view, c.Attached)
    return view


def test_a_turn_dispatches_a_bounded_number_of_messages() -> None:
    bench = follower()
    small = master(2 * FOLLOWED_A_TURN, size=10)
    log = log_of(small)
    bench.submit(c.AppendToCommitLog(offset=0, data=log[:60_000], store_timestamp=1))
    assert bench.engine.counters.messages_stored == FOLLOWED_A_TURN
    assert bench.engine.next_deadline() == 0


def test_an_arrival_in_the_followed_log_wakes_a_held_pull() -> None:
    leader, bench = master(10), follower()
    append(bench, blocks_of(log_of(leader)))
    end = bench.context.store.max_offset("orders", 1)
    request = bench.pull("orders", end, queue_id=1)
    assert bench.final(request) is None
    before = len(log_of(leader))
    leader.send("orders", b"new", queue_id=1)
    log = log_of(leader)
    bench.call(c.AppendToCommitLog(offset=before, data=log[before:], store_timestamp=1))
    assert bodies(bench.pulled(request)) == [b"new"]


def test_delayed_messages_are_not_delivered_by_a_copy() -> None:
    leader = Bench(mapped_file_size_commit_log=65_536)
    leader.send("orders", b"later", properties="DELAY\x011\x02")
    log, bench = log_of(leader), follower()
    append(bench, blocks_of(log))
    bench.tick(3_600_000)
    assert log_of(bench) == log


def test_the_end_of_the_copy_comes_with_its_last_messages() -> None:
    bench = follower()
    assert bench.call(c.GetLogEnd()) == c.LogEnd(end=None, segment_size=65_536, records=[])
    log = log_of(master(20))
    append(bench, blocks_of(log))
    end = bench.call(c.GetLogEnd())
    assert isinstance(end, c.LogEnd) and end.end == len(log)
    assert len(end.records) == 3 and all(log[at : at + len(record)] == record for at, record in end.records)
    assert end.records[0][0] + len(end.records[0][1]) == len(log)

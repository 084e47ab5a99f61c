"""The engine as its clients see it, on a clock that stands still: no sleep, no socket."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core import engine
from broker_core.codes import ResponseCode
from broker_core.consumers import consumer_offset
from broker_core.engine import WORK_A_TURN
from broker_core.errors import StoreCorruptError
from broker_core.events import Event, PullHeld, PullPassedOver, PullReleased, PullWoken, RecoveryStep
from broker_core.formats import rocketmq_json
from broker_core.processors import table_writes
from tests.fakes.engine import ROOT, Bench, bodies, send
from tests.fakes.simulated_files import SimulatedFiles


@pytest.fixture
def bench() -> Bench:
    return Bench()


def events(bench: Bench, kind: type[Event]) -> list[Any]:
    return [event for event in bench.engine.events.after(0) if isinstance(event, kind)]


def test_a_message_is_stored_and_read_back(bench: Bench) -> None:
    sent = bench.send("orders", b"one", b"two")
    assert [m.queue_offset for m in sent.messages] == [0, 1] and sent.code == 0
    pulled = bench.pulled(bench.pull("orders", 0))
    assert bodies(pulled) == [b"one", b"two"]
    assert (pulled.status, pulled.next_begin_offset, pulled.min_offset, pulled.max_offset) == ("FOUND", 2, 0, 2)
    assert pulled.hold is None


def test_a_pull_that_finds_nothing_is_held_until_an_arrival(bench: Bench) -> None:
    bench.send("orders", b"one")
    request = bench.pull("orders", 1, report_hold=True)
    held = bench.replies["c", request][0]
    assert isinstance(held, c.Held) and bench.final(request) is None
    bench.clock.advance(250)
    bench.send("orders", b"two")
    pulled = bench.pulled(request)
    assert bodies(pulled) == [b"two"]
    assert pulled.hold is not None
    assert (pulled.hold.wake_cause, pulled.hold.held_us, pulled.hold.hold_id) == ("arrival", 250_000, held.hold_id)
    assert len(bench.context.holds) == 0


def test_a_send_and_a_pull_of_one_batch_keep_their_order(bench: Bench) -> None:
    bench.send("orders", b"one")
    _, pull, _ = bench.submit(
        send("orders", b"two"), c.PullMessage(topic="orders", queue_id=0, queue_offset=1), send("orders", b"three")
    )
    assert bodies(bench.pulled(pull)) == [b"two"]


def test_sends_of_one_batch_go_to_the_log_as_one_block(bench: Bench) -> None:
    bench.send("orders", b"warm")
    before = bench.engine.events.seq
    bench.submit(*(send("orders", bytes([n])) for n in range(64)))
    stored = [e for e in bench.engine.events.after(before) if type(e).__name__ == "MessagesStored"]
    assert len(stored) == 1 and (stored[0].from_offset, stored[0].to_offset) == (1, 65)


@pytest.mark.covers("hold-deadline")
def test_a_time_out_is_exact_and_says_so(bench: Bench) -> None:
    bench.send("orders", b"one")
    request = bench.pull("orders", 1, suspend_timeout_ms=15_000)
    bench.tick(14_999)
    assert bench.final(request) is None
    bench.tick(5)
    pulled = bench.pulled(request)
    assert (pulled.code, pulled.status, pulled.next_begin_offset) == (19, "OFFSET_OVERFLOW_ONE", 1)
    assert pulled.hold is not None and pulled.hold.wake_cause == "timeout"


def test_the_timer_names_the_deadline() -> None:
    bench = Bench(hold_check_interval_mills=0)
    bench.send("orders", b"one")
    begin = bench.clock.mono_ns()
    bench.pull("orders", 1, suspend_timeout_ms=3000)
    bench.tick()
    due = bench.engine.next_deadline()
    assert due is not None and 0 <= due - (begin + 3_000_000_000) < 4_000_000


@pytest.mark.parametrize(
    ("offset", "status", "code", "following"),
    [(0, "FOUND", 0, 2), (3, "OFFSET_OVERFLOW_BADLY", 21, 2), (-1, "OFFSET_TOO_SMALL", 21, 0)],
)
def test_pulls_that_are_answered_at_once(bench: Bench, offset: int, status: str, code: int, following: int) -> None:
    bench.send("orders", b"one", b"two")
    pulled = bench.pulled(bench.pull("orders", offset))
    assert (pulled.status, pulled.code, pulled.next_begin_offset) == (status, code, following)


def test_an_empty_queue_holds_who_begins_at_0_and_corrects_the_others(bench: Bench) -> None:
    bench.call(c.UpdateAndCreateTopic(topic="empty"))
    assert bench.final(bench.pull("empty", 0)) is None
    assert bench.pulled(bench.pull("empty", 5)).code == ResponseCode.PULL_OFFSET_MOVED


def test_a_filter_wakes_for_its_tag_only(bench: Bench) -> None:
    bench.send("orders", b"first", tag="TagA")
    request = bench.pull("orders", 1, subscription="TagB")
    bench.send("orders", b"no", tag="TagA")
    assert bench.final(request) is None and len(events(bench, PullPassedOver)) == 1
    bench.send("orders", b"yes", tag="TagB")
    assert bodies(bench.pulled(request)) == [b"yes"]


def test_the_check_moves_a_filtered_hold_on_and_counts_no_defect(bench: Bench) -> None:
    bench.send("orders", b"first", tag="TagA")
    request = bench.pull("orders", 1, subscription="TagB")
    bench.send("orders", b"no", tag="TagA")
    bench.tick(5_001)
    pulled = bench.pulled(request)
    assert (pulled.code, pulled.status, pulled.next_begin_offset) == (20, "NO_MATCHED_MESSAGE", 2)
    assert pulled.hold is not None and pulled.hold.wake_cause == "filter_advanced"
    assert bench.engine.counters.woken["missed_arrival"] == 0


def test_the_check_would_find_and_count_a_missed_arrival(bench: Bench) -> None:
    bench.send("orders", b"first")
    request = bench.pull("orders", 1)
    held = next(iter(bench.context.holds))
    held.pull_from_offset = 0  # as if the arrival of offset 0 had passed it by
    bench.tick(5_001)
    pulled = bench.pulled(request)
    assert pulled.hold is not None and pulled.hold.wake_cause == "missed_arrival"
    assert bench.engine.counters.woken["missed_arrival"] == 1


def test_short_polling_holds_for_its_time_and_no_arrival_wakes(bench: Bench) -> None:
    bench.send("orders", b"one")
    bench.call(c.UpdateBrokerConfig(changes={"longPollingEnable": False, "shortPollingTimeMills": 300}))
    request = bench.pull("orders", 1)
    bench.tick(100)
    bench.send("orders", b"two")
    assert bench.final(request) is None
    bench.tick(204)
    pulled = bench.pulled(request)
    assert bodies(pulled) == [b"two"] and pulled.suspend_timeout_ms == 300
    assert pulled.hold is not None and pulled.hold.wake_cause == "short_poll"


def test_switching_long_polling_on_answers_who_missed_arrivals_meanwhile(bench: Bench) -> None:
    bench.send("orders", b"one")
    request = bench.pull("orders", 1)
    bench.call(c.UpdateBrokerConfig(changes={"longPollingEnable": False}))
    bench.send("orders", b"two")
    assert bench.final(request) is None
    bench.call(c.UpdateBrokerConfig(changes={"longPollingEnable": True}))
    bench.tick()
    assert bodies(bench.pulled(request)) == [b"two"]


@pytest.mark.covers("client-gone")
def test_a_client_that_goes_releases_its_holds_at_once(bench: Bench) -> None:
    bench.send("orders", b"one")
    request = bench.pull("orders", 1, connection="gone")
    bench.submit(c.CloseConnection(), connection="gone")
    assert len(bench.context.holds) == 0
    assert [e.cause for e in events(bench, PullReleased)] == ["channel_gone"]
    bench.send("orders", b"two")
    assert bench.final(request, "gone") is None


def hold_pulls(bench: Bench, connection: str, count: int) -> list[int]:
    """Held pulls of one connection, from an empty queue; returns their request ids."""
    bench.send("orders", b"one")
    return [bench.pull("orders", 0, connection=connection, queue_id=1) for _ in range(count)]


def released(bench: Bench) -> int:
    """How many holds were released since the last call."""
    seq = getattr(bench, "seen", 0)
    bench.seen = bench.engine.events.seq  # type: ignore[attr-defined]
    return sum(isinstance(event, PullReleased) for event in bench.engine.events.after(seq))


def test_the_holds_of_a_closed_connection_are_released_a_few_each_turn(bench: Bench) -> None:
    hold_pulls(bench, "gone", 2 * engine.WORK_A_TURN + 1)
    hold_pulls(bench, "also gone", 2)
    released(bench)
    bench.submit(c.CloseConnection(), connection="gone")
    assert released(bench) == engine.WORK_A_TURN
    bench.submit(c.CloseConnection(), connection="also gone")
    assert released(bench) == engine.WORK_A_TURN
    assert bench.engine.next_deadline() == 0
    bench.take(bench.engine.tick(bench.clock.now()))
    assert released(bench) == 3 and bench.engine.hold_count == 0
    assert bench.engine.next_deadline() != 0


def test_the_holds_of_a_deleted_topic_are_answered_a_few_each_turn(bench: Bench) -> None:
    requests = hold_pulls(bench, "c", engine.WORK_A_TURN + 1)
    bench.call(c.DeleteTopic(topic="orders"))
    bench.send("orders", b"anew")  # a new topic with the same name: its messages are not for these holds
    kept = bench.pull("orders", 1)
    bench.tick()
    answers = [bench.final(request) for request in requests]
    assert all(isinstance(answer, c.Failed) and answer.code == ResponseCode.TOPIC_NOT_EXIST for answer in answers)
    bench.send("orders", b"next")
    assert bodies(bench.pulled(kept)) == [b"next"]


def test_consumer_offsets_are_copied_a_few_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million offsets take 30 ms to copy, and other requests would wait for that."""
    for module in (engine, table_writes):
        monkeypatch.setattr(module, "OFFSETS_A_TURN", 2 * (3 + consumer_offset.STEP))
    bench = Bench(flush_consumer_offset_interval=1000)
    for topic in ("a", "b", "c", "d", "e"):
        bench.send(topic, b"one")
        offsets = [c.QueueOffset(topic=topic, queue_id=queue_id, offset=1) for queue_id in range(3)]
        bench.call(c.UpdateConsumerOffset(group="g", offsets=offsets))
    bench.file_work()
    path = ROOT / "config" / "consumerOffset.json"
    assert not bench.files.exists(path) and bench.engine.next_deadline() == 0
    turns = 0
    while bench.engine.next_deadline() == 0:
        bench.take(bench.engine.tick(bench.clock.now()))
        turns += 1
    assert turns == 2  # and two of the five topics at the beginning
    bench.file_work()
    table = rocketmq_json.decode(bench.files.read(path) or b"")
    assert table["offsetTable"] == {f"{topic}@g": {0: 1, 1: 1, 2: 1} for topic in "abcde"}


def test_an_offset_that_is_committed_during_the_copy_is_written_with_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "OFFSETS_A_TURN", 1)
    bench = Bench(flush_consumer_offset_interval=1000)
    path = ROOT / "config" / "consumerOffset.json"

    def commit(topic: str, offset: int) -> None:
        one = c.QueueOffset(topic=topic, queue_id=0, offset=offset)
        bench.call(c.UpdateConsumerOffset(group="g", offsets=[one]))

    for topic in ("a", "b"):
        bench.send(topic, b"one", b"two")
        commit(topic, 1)
    bench.file_work()
    commit("a", 2)  # its copy has the previous offset
    for ms in (0, 1000):
        bench.tick(ms)
        bench.file_work()
        bench.tick()
        bench.file_work()
    table = rocketmq_json.decode(bench.files.read(path) or b"")
    assert table["offsetTable"] == {"a@g": {0: 2}, "b@g": {0: 1}}


def test_postponed_recovery_takes_one_step_each_ten_milliseconds() -> None:
    files, count = SimulatedFiles(), 40
    bench = Bench(files=files)
    places = [bench.send("orders", b"x" * 50).messages[0].physical_offset for _ in range(2 * count)]
    files.kill()
    log = files._names[ROOT / "commitlog" / f"{0:020d}"].volatile
    for place in places[::2]:  # records with whole ones between them
        log[place + 88 : place + 90] = b"\xff\xff"
    files.full = True
    bench = Bench(files=files, clock=bench.clock)
    assert "recovery waits for space" in bench.engine.problem
    files.full = False
    bench.tick(1000)
    assert "recovery is being finished" in bench.engine.problem
    steps = 1
    while bench.engine.problem:
        assert bench.engine.next_deadline() == bench.clock.mono_ns() + 10_000_000
        bench.tick(10)
        steps += 1
    assert count <= steps <= count + 3
    assert len(files.names(ROOT / "quarantine")) == count


def test_the_periodic_check_passes_over_the_holds_of_a_deleted_topic(bench: Bench) -> None:
    requests = hold_pulls(bench, "c", 5 * engine.WORK_A_TURN)
    bench.clock.advance(5_001)
    bench.submit(c.DeleteTopic(topic="orders"))
    bench.send("orders", b"anew", queue_id=1)
    bench.tick()
    assert bench.context.counters.woken["missed_arrival"] == 0
    answers = [bench.final(request) for request in requests]
    assert all(isinstance(answer, c.Failed) for answer in answers)


def test_deleting_a_topic_removes_no_file_in_the_turn(bench: Bench) -> None:
    for queue_id in range(4):
        bench.send("orders", b"one", queue_id=queue_id)
    bench.send("kept", b"one")
    bench.file_work()
    removals = bench.files.count("remove")
    bench.submit(c.DeleteTopic(topic="orders"))
    assert bench.files.count("remove") == removals
    assert bench.files.names(ROOT / "consumequeue") == ["kept"]
    assert bench.flush()
    bench.file_work()
    assert bench.files.names(ROOT / "deleted") == []


def test_a_cancelled_pull_is_answered_as_cancelled(bench: Bench) -> None:
    bench.send("orders", b"one")
    request = bench.pull("orders", 1)
    assert bench.call(c.CancelPull(request_id=request)) == c.Done()
    reply = bench.final(request)
    assert isinstance(reply, c.Failed) and reply.code == ResponseCode.ILLEGAL_OPERATION
    assert bench.call(c.CancelPull(request_id=request)) == c.Done()


def test_shutdown_answers_every_hold_and_takes_nothing_more(bench: Bench) -> None:
    bench.send("orders", b"one")
    requests = [bench.pull("orders", 1) for _ in range(500)]
    now = bench.clock.now()
    turns, pulled = 1, set(bench.replies)
    bench.take(bench.engine.drain(now))
    while not bench.engine.drained:
        assert len(bench.replies.keys() - pulled) <= WORK_A_TURN * turns and bench.engine.hold_count
        turns += 1
        bench.take(bench.engine.tick(now))
    for request in requests:
        hold = bench.pulled(request).hold
        assert hold is not None and hold.wake_cause == "shutdown"
    for command in (send("orders", b"x"), c.PullMessage(topic="orders", queue_id=0, queue_offset=0)):
        reply = bench.call(command)
        assert isinstance(reply, c.Failed) and reply.code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_turns_are_bounded_and_the_rest_goes_on(bench: Bench) -> None:
    bench.send("orders", b"one")
    requests = [bench.pull("orders", 1) for _ in range(1000)]
    bench.send("orders", b"two")
    answered = sum(bench.final(request) is not None for request in requests)
    assert 0 < answered < 1000 and bench.engine.next_deadline() == 0
    bench.tick()
    assert all(bodies(bench.pulled(request)) == [b"two"] for request in requests)


def test_figures_are_counted_when_nobody_waits_and_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(message_index_enable=False)  # which would ask for a turn of its own
    monkeypatch.setattr(engine, "UNSETTLED", 4)
    context, requests = bench.context, 0
    while context.stats.unsettled + context.counters.unsettled <= 4:
        due = bench.engine.next_deadline()
        assert due is None or due > bench.clock.now().mono_ns
        bench.pull("orders", requests)
        bench.send("orders", b"x")
        requests += 1
    assert bench.engine.next_deadline() == 0
    bench.tick()
    assert context.stats.unsettled + context.counters.unsettled == 0
    assert sum(bench.context.counters.held_ms.view().counts) == requests - 1  # the first pull made no topic


def test_limits_on_holds_are_answers(bench: Bench) -> None:
    bench = Bench(max_holds=3, max_holds_per_connection=2)
    bench.send("orders", b"one")
    bench.pull("orders", 1), bench.pull("orders", 1)
    for connection, word in (("c", "connection"), ("d", "")):
        request = bench.pull("orders", 1, connection=connection)
        reply = bench.final(request, connection)
        if word:
            assert isinstance(reply, c.Failed) and reply.code == ResponseCode.FLOW_CONTROL and word in reply.remark
        else:
            assert reply is None
    reply = bench.final(bench.pull("orders", 1, connection="e"), "e")
    assert isinstance(reply, c.Failed) and reply.kind == "unavailable" and reply.retry_after_ms > 0
    assert bench.engine.counters.requests_refused == 2


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (c.PullMessage(topic="nowhere", queue_id=0, queue_offset=0), ResponseCode.TOPIC_NOT_EXIST),
        (c.PullMessage(topic="../x", queue_id=0, queue_offset=0), ResponseCode.INVALID_PARAMETER),
        (c.PullMessage(topic="orders", queue_id=99, queue_offset=0), ResponseCode.INVALID_PARAMETER),
        (
            c.PullMessage(topic="orders", queue_id=0, queue_offset=0, subscription="a ||"),
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ),
        (send("../x", b"x"), ResponseCode.INVALID_PARAMETER),
        (send("SCHEDULE_TOPIC_XXXX", b"x"), ResponseCode.NO_PERMISSION),
        (send("orders"), ResponseCode.MESSAGE_ILLEGAL),
        (send("orders", b"x" * (4 * 1024 * 1024 + 1)), ResponseCode.MESSAGE_ILLEGAL),
        (send("orders", b"x", queue_id=4), ResponseCode.INVALID_PARAMETER),
        (send("orders", b"x", properties="K\x01" + "v" * 40_000 + "\x02"), ResponseCode.MESSAGE_ILLEGAL),
        (c.GetTopic(topic="nowhere"), ResponseCode.TOPIC_NOT_EXIST),
        (c.ViewMessage(message_id="0" * 32), ResponseCode.QUERY_NOT_FOUND),
        (c.GetHold(hold_id=1), ResponseCode.QUERY_NOT_FOUND),
        (c.UpdateBrokerConfig(changes={"listenPort": 1}), ResponseCode.INVALID_PARAMETER),
        (
            c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=-1)]),
            ResponseCode.INVALID_PARAMETER,
        ),
        (c.ResetConsumerOffset(group="g", topic="orders", to="yesterday"), ResponseCode.INVALID_PARAMETER),
        (c.QueryConsumerOffset(group="nobody"), ResponseCode.QUERY_NOT_FOUND),
    ],
)
def test_bad_requests_get_their_code_and_change_nothing(bench: Bench, command: c.Command, code: ResponseCode) -> None:
    bench.send("orders", b"one")
    before = bench.context.store.appended_offset
    reply = bench.call(command)
    assert isinstance(reply, c.Failed) and reply.code == code and len(reply.remark) > 10
    assert bench.context.store.appended_offset == before
    bench.send("orders", b"still works")


def test_deleting_a_topic_answers_its_holds(bench: Bench) -> None:
    bench.send("orders", b"one")
    request = bench.pull("orders", 1)
    assert bench.call(c.DeleteTopic(topic="orders")) == c.Done()
    reply = bench.final(request)
    assert isinstance(reply, c.Failed) and reply.code == ResponseCode.TOPIC_NOT_EXIST
    sent = bench.send("orders", b"anew")
    assert sent.messages[0].queue_offset == 0


def test_a_snapshot_agrees_with_its_sequence_number(bench: Bench) -> None:
    bench.send("orders", b"one")
    bench.pull("orders", 1, client_id="me", subscription="TagA")
    snapshot = bench.engine.snapshot(bench.clock.now())
    assert snapshot.seq == bench.engine.events.seq and snapshot.holds_total == 1
    (hold,) = snapshot.holds
    assert (hold.topic, hold.queue_id, hold.pull_from_offset, hold.queue_max_offset, hold.filter, hold.client_id) == (
        "orders",
        0,
        1,
        1,
        "TagA",
        "me",
    )
    assert hold.deadline_ms - hold.suspended_at_ms == 15_000
    queue = next(q for q in snapshot.queues if (q.topic, q.queue_id) == ("orders", 0))
    assert (queue.min_offset, queue.max_offset, queue.holds) == (0, 1, 1)
    assert queue.last_store_time_ms == bench.clock.now().wall_ms
    assert next(q for q in snapshot.queues if q.queue_id == 1 and q.topic == "orders").last_store_time_ms is None


def test_hold_and_wake_up_are_events_in_order(bench: Bench) -> None:
    bench.send("orders", b"one")
    bench.pull("orders", 1)
    bench.send("orders", b"two")
    names = [type(event).__name__ for event in bench.engine.events.after(0)]
    tail = names[names.index("PullHeld") :]
    assert tail == [
        "PullHeld",
        "MessagesStored",
        "MessagesDispatched",
        "PullWoken",
        "PullAnswered",
        "MessagesDelivered",
    ]
    held, woken = events(bench, PullHeld)[0], events(bench, PullWoken)[0]
    assert held.hold_id == woken.hold_id and woken.messages == 1


def test_the_tables_survive_a_restart() -> None:
    first = Bench()
    first.send("orders", b"one")
    first.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=1)]))
    first.take(first.engine.close(first.clock.now()))
    again = Bench(files=first.files, clock=first.clock)
    offsets = again.call(c.QueryConsumerOffset(group="g"))
    assert isinstance(offsets, c.ConsumerOffsets) and offsets.offsets[0].offset == 1
    assert bodies(again.pulled(again.pull("orders", 0))) == [b"one"]


def test_a_topic_that_only_the_log_knows_is_served_after_a_crash() -> None:
    first = Bench()
    first.send("orders", b"one")
    while first.flush():
        pass
    first.clock.advance(11_000)
    first.flush()
    first.files.crash()
    again = Bench(files=first.files, clock=first.clock)
    assert bodies(again.pulled(again.pull("orders", 0))) == [b"one"]


@pytest.mark.parametrize("failing", [("get_message", "get_arrived"), ("by_key",)])
def test_a_defect_in_one_command_harms_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    bench.send("orders", b"one")
    held = bench.pull("orders", 1)
    store = bench.context.store
    for name in failing:
        monkeypatch.setattr(store.query if name == "by_key" else store, name, lambda *args: {}["defect"])
    ids = bench.submit(
        c.PullMessage(topic="orders", queue_id=0, queue_offset=0),
        c.QueryMessage(topic="orders", key="k"),
        send("orders", b"two"),
    )
    failures = [reply for reply in map(bench.final, [*ids, held]) if isinstance(reply, c.Failed)]
    assert len(failures) == len(failing)
    assert {failure.code for failure in failures} == {ResponseCode.SYSTEM_ERROR}
    assert isinstance(bench.final(ids[2]), c.Sent) and bench.final(held) is not None


def test_an_arrival_while_long_polling_was_off_is_no_missed_arrival(bench: Bench) -> None:
    bench.send("orders", b"one")
    request = bench.pull("orders", 1)
    bench.call(c.UpdateBrokerConfig(changes={"longPollingEnable": False}))
    bench.tick()
    bench.send("orders", b"two")
    bench.call(c.UpdateBrokerConfig(changes={"longPollingEnable": True}))
    bench.tick()
    assert bodies(bench.pulled(request)) == [b"two"]
    assert bench.engine.counters.woken["missed_arrival"] == 0 and bench.engine.counters.woken["short_poll"] == 1


@pytest.mark.parametrize("interval", [0, 5000])
def test_long_holds_are_polled_as_soon_as_long_polling_is_off(interval: int) -> None:
    bench = Bench(hold_check_interval_mills=interval)
    bench.send("orders", b"one")
    request = bench.pull("orders", 1)
    bench.call(c.UpdateBrokerConfig(changes={"longPollingEnable": False}))
    bench.tick()
    bench.send("orders", b"two")
    bench.tick(1001)
    assert bodies(bench.pulled(request)) == [b"two"]


@pytest.mark.parametrize("call", ["flush", "write"])
def test_closing_on_a_failing_disk_answers_everybody(call: str) -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    (request,) = bench.submit(send("orders", b"one"))
    bench.files.fail(call, 1, 5)
    bench.take(bench.engine.close(bench.clock.now()))
    reply = bench.final(request)
    assert isinstance(reply, c.Sent)
    assert (reply.code == ResponseCode.SUCCESS) == (call == "write")
    bench.files.mend()
    again = Bench(files=bench.files, clock=bench.clock)
    assert bodies(again.pulled(again.pull("orders", 0))) == [b"one"]


def test_one_turn_wakes_no_more_than_memory_should_hold(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BYTES_A_TURN", 2000)
    bench.send("orders", b"warm")
    requests = [bench.pull("orders", 1) for _ in range(5)]
    bench.send("orders", b"x" * 1500)
    assert sum(bench.final(request) is not None for request in requests) == 2
    bench.tick()
    assert all(bodies(bench.pulled(request)) == [b"x" * 1500] for request in requests)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("topics", b'{"topicConfigTable":{"T":{"topicName":7}}}'),
        ("topics", b'{"topicConfigTable":[1]}'),
        ("consumerOffset", b'{"offsetTable":{"T@g":5}}'),
        ("consumerOffset", b'{"offsetTable":{"T@g":{"a":"b"}}}'),
        ("subscriptionGroup", b'{"subscriptionGroupTable":{"g":{"retryMaxTimes":"many"}}}'),
        ("subscriptionGroup", b'{"forbiddenTable":[1]}'),
    ],
)
def test_a_table_without_rocketmqs_form_is_named_and_left_alone(name: str, text: bytes) -> None:
    first = Bench()
    first.take(first.engine.close(first.clock.now()))
    path = ROOT / "config" / f"{name}.json"
    first.files.write(path, text)
    with pytest.raises(StoreCorruptError, match=rf"{name}\.json in "):
        Bench(files=first.files, clock=first.clock)
    assert first.files.read(path) == text


def test_damage_of_the_log_is_logged_counted_and_listed(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    for body in (b"one", b"two", b"three"):
        bench.send("orders", body)
    bench.files.kill()
    log = bench.files._names[ROOT / "commitlog" / ("0" * 20)].volatile
    log[log.index(b"two")] ^= 1
    again = Bench(files=bench.files, clock=bench.clock)
    assert bodies(again.pulled(again.pull("orders", 0))) == [b"one"]
    assert bodies(again.pulled(again.pull("orders", 1))) == [b"three"]
    assert again.engine.counters.damaged_ranges_now == 1
    assert again.engine.counters.damaged_bytes_now > 91
    assert "in the middle of the log are damaged" in caplog.text
    view = again.call(c.GetBroker())
    assert isinstance(view, c.BrokerView)
    assert any("in the middle of the log are damaged" in sentence for sentence in view.recovery)


def test_a_start_says_which_topics_of_the_store_need_what_glassmq_does_not_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The mapping as RocketMQ 5.4.0 writes it; GlassMQ leaves the file as it is."""
    config = ROOT / "config"
    mapping = (
        b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1700000000000},"topicQueueMappingInfoMap":{"static":'
        b'{"bname":"broker-a","currIdMap":{0:0},"dirty":false,"epoch":1,"hostedQueues":{0:[{"bname":"broker-a",'
        b'"endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}]},'
        b'"scope":"__global__","topic":"static","totalQueues":2}}}'
    )
    bench = Bench()
    assert not [event for event in events(bench, RecoveryStep) if event.step == "unsupported"]
    bench.call(c.UpdateAndCreateTopic(topic="compacted"))
    bench.engine.close(bench.clock.now())
    topics = rocketmq_json.decode(bench.files.read(config / "topics.json") or b"")
    topics["topicConfigTable"]["compacted"]["attributes"] = {"cleanup.policy": "COMPACTION"}
    bench.files.write(config / "topics.json", rocketmq_json.encode(topics).encode())
    bench.files.write(config / "topicQueueMapping.json", mapping)
    again = Bench(files=bench.files, clock=bench.clock)
    details = [event.detail for event in events(again, RecoveryStep) if event.step == "unsupported"]
    assert details == [
        "GlassMQ ignores the attribute cleanup.policy=COMPACTION of 1 topic (compacted): GlassMQ has no compaction; "
        "messages are deleted when fileReservedTime is over",
        "GlassMQ ignores topicQueueMapping.json, which makes 1 topic (static) static: their queues have this broker's "
        "own numbers and offsets",
    ]
    assert set(details) <= set(again.context.store.recovery)
    assert all(detail in caplog.text for detail in details)
    assert bench.files.read(config / "topicQueueMapping.json") == mapping

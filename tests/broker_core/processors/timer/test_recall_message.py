"""Messages that their producers take back before their time."""

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.events import MessageRecalled
from broker_core.formats import recall_handle
from broker_core.formats.recall_handle import RecallHandle
from broker_core.processors import schedule_message
from tests.fakes.engine import Bench
from tests.fakes.timers import events, read, sent, small_wheel, timed

__all__ = ["small_wheel"]


def recall(bench: Bench, handle: str, topic: str = "orders") -> c.Reply:
    return bench.call(c.RecallMessage(topic=topic, recall_handle=handle, producer_group="p"))


@pytest.mark.covers("recall")
def test_a_recalled_message_is_never_delivered() -> None:
    bench = Bench()
    first, _ = (sent(bench, timed(body, TIMER_DELAY_MS=5000)) for body in (b"1", b"2"))
    assert recall(bench, first.recall_handle) == c.Recalled(message_id=first.message_id)
    bench.tick()
    assert bench.engine.counters.timer_messages_now == 1
    bench.tick(5000)
    assert read(bench) == [b"2"]
    (event,) = events(bench, MessageRecalled)
    assert (event.topic, event.message_id, event.queue_offset) == ("orders", first.message_id, 0)
    assert bench.engine.counters.messages_recalled == 1 and bench.engine.counters.timer_messages_now == 0
    bench.tick(60_000)
    assert read(bench) == [b"2"] and bench.context.store.timers.used_slots == 0


def test_recalls_are_refused_where_they_are_switched_off() -> None:
    bench = Bench()
    message = sent(bench, timed(TIMER_DELAY_MS=5000))
    bench.call(c.UpdateBrokerConfig(changes={"recallMessageEnable": False}))
    refused = recall(bench, message.recall_handle)
    assert isinstance(refused, c.Failed) and refused.code == ResponseCode.NO_PERMISSION
    assert "recallMessageEnable" in refused.remark
    bench.tick(5000)
    assert read(bench) == [b"x"]


def test_the_handle_is_rocketmqs() -> None:
    bench = Bench()
    now = bench.clock.now().wall_ms
    message = sent(bench, timed(TIMER_DELIVER_MS=now + 5500))
    slot_ms = (now + 5499) // 1000 * 1000
    assert recall_handle.decode(message.recall_handle) == RecallHandle(
        "orders", "broker-a", slot_ms + 1, message.message_id
    )
    assert sent(bench, timed()).recall_handle == "" == sent(bench, timed(DELAY=3)).recall_handle


def test_a_recall_of_an_unknown_message_changes_nothing() -> None:
    bench = Bench()
    message = sent(bench, timed(TIMER_DELAY_MS=5000))
    handle = recall_handle.decode(message.recall_handle)
    assert handle is not None
    assert isinstance(recall(bench, recall_handle.encode(handle._replace(message_id="other"))), c.Recalled)
    bench.tick(5000)
    assert read(bench) == [b"x"]
    assert bench.engine.counters.timer_messages_now == 0


def test_a_delete_message_of_a_client_recalls_also_in_its_second() -> None:
    """As RocketMQ's clients before RECALL_MESSAGE did it."""
    bench = Bench()
    due_ms = bench.clock.now().wall_ms + 1500
    message = sent(bench, timed(TIMER_DELIVER_MS=due_ms))
    bench.tick(1200)
    sent(bench, timed(b"-", TIMER_DELIVER_MS=due_ms, TIMER_DEL_UNIQKEY=message.message_id))
    bench.tick(300)
    bench.tick(2000)
    assert read(bench) == []
    assert bench.engine.counters.timer_messages_now == 0


def test_a_key_with_its_topic_recalls() -> None:
    """As RocketMQ writes it with appendTopicForTimerDeleteKey."""
    bench = Bench()
    due_ms = bench.clock.now().wall_ms + 5000
    message = sent(bench, timed(TIMER_DELIVER_MS=due_ms))
    sent(bench, timed(b"-", TIMER_DELIVER_MS=due_ms, TIMER_DEL_UNIQKEY=f"orders+{message.message_id}"))
    bench.tick(5000)
    assert read(bench) == []


def test_a_message_is_recalled_after_it_rolled() -> None:
    bench = Bench(timer_roll_window_slot=10)
    message = sent(bench, timed(TIMER_DELAY_MS=35_500))
    for _ in range(15):
        bench.tick(1000)
    assert isinstance(recall(bench, message.recall_handle), c.Recalled)
    for _ in range(25):
        bench.tick(1000)
    assert read(bench) == [] and bench.engine.counters.messages_recalled == 1


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"topic": "others"}, "recall failed, topic not match"),
        ({"broker_name": "broker-z"}, "recall failed, broker service not available"),
        ({"timestamp": 1}, "recall failed, timestamp invalid"),
        ({"timestamp": -1}, "recall failed, timestamp invalid"),
        ({"timestamp": 1 << 55}, "recall failed, timestamp invalid"),
    ],
)
def test_a_handle_that_does_not_fit_is_refused(change: dict[str, object], remark: str) -> None:
    bench = Bench()
    handle = recall_handle.decode(sent(bench, timed(TIMER_DELAY_MS=5000)).recall_handle)
    assert handle is not None
    answer = recall(bench, recall_handle.encode(handle._replace(**change)))  # type: ignore[arg-type]
    assert isinstance(answer, c.Failed)
    assert (answer.code, answer.remark) == (ResponseCode.ILLEGAL_OPERATION, remark)


@pytest.mark.parametrize("handle", ["", "x", "!!!", "djEgVA==", "x" * 5000, "\u00e9"])
def test_what_is_no_handle_is_refused(handle: str) -> None:
    bench = Bench()
    bench.send("orders", b"x")
    answer = recall(bench, handle)
    assert isinstance(answer, c.Failed)
    assert (answer.code, answer.remark) == (ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid")


def test_an_unknown_topic_is_refused() -> None:
    answer = recall(Bench(), "x", topic="nobody")
    assert isinstance(answer, c.Failed)
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "recall failed, the topic[nobody] not exist")


def test_a_recall_at_the_last_moment_is_refused() -> None:
    bench = Bench()
    message = sent(bench, timed(TIMER_DELAY_MS=1500))
    bench.tick(1001)
    answer = recall(bench, message.recall_handle)
    assert isinstance(answer, c.Failed) and answer.remark == "recall failed, timestamp invalid"


def test_the_recalls_of_a_second_are_limited_also_after_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_message, "RECALLS_OF_A_SLOT", 2)
    bench = Bench()
    due_ms = bench.clock.now().wall_ms + 5500
    messages = [sent(bench, timed(TIMER_DELIVER_MS=due_ms)) for _ in range(4)]
    later = sent(bench, timed(TIMER_DELIVER_MS=due_ms + 1000))
    for message in messages[:2]:
        assert isinstance(recall(bench, message.recall_handle), c.Recalled)
        bench.tick()
    bench.file_work()
    bench.files.kill()
    bench = Bench(files=bench.files, clock=bench.clock, seed=2)
    refusal = recall(bench, messages[2].recall_handle)
    assert isinstance(refusal, c.Failed) and "2 messages of its slot" in refusal.remark
    assert isinstance(recall(bench, later.recall_handle), c.Recalled)
    bench.tick(10_000)
    assert len(read(bench)) == 2


def test_timer_metrics_name_the_topics() -> None:
    bench = Bench()
    for topic, count in (("few", 1), ("many", 3)):
        for _ in range(count):
            sent(bench, timed(topic=topic, TIMER_DELAY_MS=5000))
    bench.tick()
    now = bench.clock.now().wall_ms
    metrics = bench.call(c.GetTimerMetrics())
    assert isinstance(metrics, c.TimerMetrics)
    assert (metrics.time_ms, metrics.messages) == (now, 4)
    assert list(metrics.by_topic.items()) == [("many", 3), ("few", 1)]
    assert (metrics.read_time_ms, metrics.queue_offset) == (now // 1000 * 1000, 4)


@pytest.mark.covers("recall-clock")
@pytest.mark.parametrize("set_back_ms", [1, 3_600_000])
def test_a_recall_after_the_delivery_is_refused_although_the_clock_was_set_back(set_back_ms: int) -> None:
    bench = Bench()
    message = sent(bench, timed(TIMER_DELAY_MS=3001))
    bench.tick(3001)
    bench.clock.step_wall(-1 - set_back_ms)
    answer = recall(bench, message.recall_handle)
    assert isinstance(answer, c.Failed) and answer.code == ResponseCode.ILLEGAL_OPERATION
    assert "the clock was set back" in answer.remark
    bench.file_work()
    bench.files.kill()
    bench = Bench(files=bench.files, clock=bench.clock, seed=2)
    answer = recall(bench, message.recall_handle)
    assert isinstance(answer, c.Failed) and "the clock was set back" in answer.remark
    due_ms = bench.clock.now().wall_ms + set_back_ms
    late = timed(b"-", TIMER_DELIVER_MS=due_ms, TIMER_DEL_UNIQKEY=message.message_id)
    refused = bench.call(late)
    assert isinstance(refused, c.Failed) and refused.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_recall_behind_many_messages_is_in_time() -> None:
    bench = Bench()
    message = sent(bench, timed(TIMER_DELAY_MS=3001))
    bench.tick(2999)
    bench.submit(*(timed(TIMER_DELAY_MS=60_000) for _ in range(100)))
    assert isinstance(recall(bench, message.recall_handle), c.Recalled)
    bench.tick(2)
    assert read(bench) == []


def test_a_recall_that_waits_for_the_disk_is_in_time() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    (first,) = bench.submit(timed(TIMER_DELAY_MS=3001))
    bench.flush()
    message = bench.final(first)
    assert isinstance(message, c.Sent)
    bench.tick(2999)
    (request,) = bench.submit(c.RecallMessage(topic="orders", recall_handle=message.messages[0].recall_handle))
    bench.tick(2)
    assert read(bench) == []
    bench.flush()
    bench.tick(0)
    assert isinstance(bench.final(request), c.Recalled) and read(bench) == []
    assert bench.engine.counters.messages_recalled == 1


def test_recalls_beyond_the_roll_window_are_limited_too_also_after_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_message, "RECALLS_OF_A_SLOT", 2)
    bench = Bench(timer_roll_window_slot=10)
    due_ms = bench.clock.now().wall_ms + 50_500
    messages = [sent(bench, timed(TIMER_DELIVER_MS=due_ms)) for _ in range(4)]

    def refused() -> bool:
        return isinstance(recall(bench, messages[2].recall_handle), c.Failed)

    for message in messages[:2]:
        bench.tick(3000)
        assert isinstance(recall(bench, message.recall_handle), c.Recalled)
    assert refused(), "while they are on their way into the wheel"
    for _ in range(30):
        bench.tick(1000)
        bench.flush()
        assert refused()
    bench.file_work()
    bench.files.kill()
    bench = Bench(files=bench.files, clock=bench.clock, seed=2, timer_roll_window_slot=10)
    bench.tick(1)
    for _ in range(12):
        assert refused()
        bench.tick(1000)
    bench.tick(10_000)
    assert len(read(bench)) == 2 and bench.context.store.timers.counts.rolled_recalls == {}


def test_a_recall_that_is_put_back_wins_over_its_message_when_a_stop_moved_both_to_their_second() -> None:
    """A stop moves what is left of a second to the next one, here what is to be put back from there."""
    bench = Bench(timer_roll_window_slot=2)
    due_ms = bench.clock.now().wall_ms // 1000 * 1000 + 3001
    messages = [sent(bench, timed(b"%d" % number, TIMER_DELIVER_MS=due_ms)) for number in range(30)]
    assert isinstance(recall(bench, messages[0].recall_handle), c.Recalled)
    bench.tick(1)
    bench.tick(due_ms - bench.clock.now().wall_ms - 500)
    bench.engine.close(bench.clock.now())
    bench = Bench(files=bench.files, clock=bench.clock, seed=2, timer_roll_window_slot=2)
    bench.tick(5000)
    assert read(bench) == [b"%d" % number for number in range(1, 30)]


def test_timer_metrics_are_refused_while_they_are_not_known() -> None:
    bench = Bench()
    sent(bench, timed(TIMER_DELAY_MS=5000))
    bench.tick()
    timers = bench.context.store.timers
    timers.loaded = False
    answer = bench.call(c.GetTimerMetrics())
    assert isinstance(answer, c.Failed) and (answer.code, "not loaded" in answer.remark) == (1, True)
    timers.loaded = True
    timers.counts.begin(0, 1)
    answer = bench.call(c.GetTimerMetrics())
    assert isinstance(answer, c.Failed) and "being counted" in answer.remark

"""From the dispatcher to the holds: each queue's own, by range."""

from broker_core.events import MessagesDelayed, MessagesDispatched, MessagesStored
from broker_core.formats.message_properties import encode
from tests.fakes.engine import Bench, send


def test_one_event_per_queue_with_its_range() -> None:
    bench = Bench()
    bench.submit(
        send("orders", b"1", b"2", queue_id=0), send("orders", b"3", queue_id=1), send("others", b"4", queue_id=0)
    )
    moved = [e for e in bench.engine.events.after(0) if isinstance(e, MessagesDispatched)]
    assert sorted((e.topic, e.queue_id, e.from_offset, e.to_offset) for e in moved) == [
        ("orders", 0, 0, 2),
        ("orders", 1, 0, 1),
        ("others", 0, 0, 1),
    ]


def test_only_holds_of_the_queue_that_moved_are_woken() -> None:
    bench = Bench()
    bench.send("orders", b"0", queue_id=1)
    bench.send("orders", b"0", queue_id=0)
    waiting, woken = bench.pull("orders", 1), bench.pull("orders", 1, queue_id=1)
    bench.send("orders", b"1", queue_id=1)
    assert bench.final(waiting) is None and bench.final(woken) is not None


def test_delayed_messages_are_reported_with_their_levels_first_time() -> None:
    bench = Bench()
    bench.submit(*(send("orders", b"x", properties=encode({"DELAY": "2"})) for _ in range(3)), send("orders", b"y"))
    stored = [e for e in bench.engine.events.after(0) if isinstance(e, MessagesStored)]
    assert [(e.topic, e.queue_id, e.to_offset - e.from_offset) for e in stored] == [
        ("SCHEDULE_TOPIC_XXXX", 1, 3),
        ("orders", 0, 1),
    ]
    (delayed,) = [e for e in bench.engine.events.after(0) if isinstance(e, MessagesDelayed)]
    assert (delayed.level, delayed.from_offset, delayed.to_offset) == (2, 0, 3)
    assert delayed.deliver_ms == bench.clock.now().wall_ms + 5000
    counters = bench.engine.counters
    assert (counters.messages_stored, counters.messages_delayed) == (4, 3)

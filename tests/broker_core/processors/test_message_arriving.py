"""From the dispatcher to the holds: each queue's own, by range."""

from broker_core.events import MessagesDispatched
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

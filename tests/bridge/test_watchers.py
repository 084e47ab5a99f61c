from bridge.port import EventBatch
from bridge.watchers import Watchers
from bridge.wire import Replies
from tests.fakes.fake_engine import NotingWatcher, delta


def message(*deltas: object, epoch: int = 1, events: tuple[EventBatch, ...] = ()) -> Replies:
    return Replies("broker-a", epoch, 1, False, [], list(deltas), list(events))  # type: ignore[arg-type]


class Bench:
    def __init__(self) -> None:
        self.changes: list[tuple[bool, bool]] = []
        self.watchers = Watchers(lambda: self.changes.append((self.watchers.deltas, self.watchers.events)))


async def test_one_subscription_serves_many_watchers() -> None:
    bench, first, second = Bench(), NotingWatcher(), NotingWatcher()
    end_first = bench.watchers.add(first, deltas=True, events=False)
    end_second = bench.watchers.add(second, deltas=True, events=True)
    bench.watchers.on_message(message(delta(1, 2)))
    assert first.deltas == second.deltas == [delta(1, 2)]
    end_second()
    end_second()
    bench.watchers.on_message(message(delta(3, 4)))
    assert (len(first.deltas), len(second.deltas)) == (2, 1)
    end_first()
    assert bench.changes == [(True, False), (True, True), (True, False), (False, False)]


async def test_a_gap_is_reported_and_the_stream_continues() -> None:
    bench, watcher = Bench(), NotingWatcher()
    bench.watchers.add(watcher, deltas=True, events=False)
    bench.watchers.on_message(message(delta(1, 5)))
    bench.watchers.on_message(message(delta(6, 5)))  # a heartbeat
    bench.watchers.on_message(message(delta(6, 7)))
    assert watcher.lost == []
    bench.watchers.on_message(message(delta(9, 10)))
    assert watcher.lost == ["events 8 to 8 did not arrive"]
    bench.watchers.on_message(message(delta(11, 12)))
    assert len(watcher.lost) == 1
    assert len(watcher.deltas) == 5


async def test_any_message_of_a_restarted_engine_is_reported_as_a_loss() -> None:
    bench, watcher = Bench(), NotingWatcher()
    bench.watchers.add(watcher, deltas=False, events=True)
    bench.watchers.on_message(message())
    bench.watchers.on_message(message(epoch=2))
    assert len(watcher.lost) == 1


async def test_deltas_without_a_watcher_are_not_a_gap() -> None:
    bench, watcher = Bench(), NotingWatcher()
    end = bench.watchers.add(watcher, deltas=True, events=False)
    bench.watchers.on_message(message(delta(1, 5)))
    end()
    bench.watchers.add(watcher, deltas=True, events=False)
    bench.watchers.on_message(message(delta(20, 21)))
    assert watcher.lost == []


async def test_a_failing_watcher_does_not_affect_others() -> None:
    class Failing(NotingWatcher):
        def on_events(self, batch: EventBatch) -> None:
            raise ValueError("broken page")

    bench, watcher = Bench(), NotingWatcher()
    bench.watchers.add(Failing(), deltas=False, events=True)
    bench.watchers.add(watcher, deltas=False, events=True)
    batch = EventBatch(broker="broker-a", epoch=1, events=[(1, "pull_held", b"{}")], dropped=0)
    bench.watchers.on_message(message(events=(batch,)))
    assert watcher.events == [batch]

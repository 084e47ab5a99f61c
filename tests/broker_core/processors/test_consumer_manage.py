"""Groups' offsets: commit, lag in messages and in time, reset with a preview."""

from broker_core import commands as c
from tests.fakes.engine import Bench


def test_lag_in_messages_and_in_time() -> None:
    bench = Bench()
    bench.send("orders", b"1", b"2", b"3")
    bench.clock.advance(4000)
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=1)]))
    reply = bench.call(c.QueryConsumerOffset(group="g", topic="orders"))
    assert isinstance(reply, c.ConsumerOffsets)
    (position,) = reply.offsets
    assert (position.offset, position.max_offset, position.lag, position.lag_ms) == (1, 3, 2, 4000)
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=3)]))
    reply = bench.call(c.QueryConsumerOffset(group="g"))
    assert isinstance(reply, c.ConsumerOffsets) and reply.offsets[0].lag_ms == 0


def test_all_offsets_of_a_commit_or_none() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = bench.call(c.UpdateConsumerOffset(group="g", offsets=[
        c.QueueOffset(topic="orders", queue_id=0, offset=1), c.QueueOffset(topic="orders", queue_id=9, offset=1)]))
    assert isinstance(reply, c.Failed) and reply.pointer == "/offsets/1/queue_id"
    assert bench.engine.context.offsets.query("g", "orders", 0) is None


def test_a_reset_is_previewed_then_done() -> None:
    bench = Bench()
    bench.send("orders", b"1", b"2")
    bench.clock.advance(1000)
    later = bench.clock.now().wall_ms
    bench.send("orders", b"3")
    for to, offset in (("max", 3), ("min", 0), (str(later), 2)):
        preview = bench.call(c.ResetConsumerOffset(group="g", topic="orders", to=to, dry_run=True))
        before = bench.engine.context.offsets.query("g", "orders", 0)
        done = bench.call(c.ResetConsumerOffset(group="g", topic="orders", to=to))
        assert isinstance(preview, c.OffsetsReset) and isinstance(done, c.OffsetsReset)
        assert preview.changes == done.changes and preview.changes[0].before == before
        assert bench.engine.context.offsets.query("g", "orders", 0) == offset


def test_groups_are_those_with_offsets_or_holds() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 1, consumer_group="waiting")
    bench.call(c.UpdateConsumerOffset(group="behind", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=0)]))
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups)
    assert [(g.group, g.lag, g.holds, g.topics) for g in reply.groups] == [
        ("behind", 1, 0, ["orders"]), ("waiting", 0, 1, ["orders"])]

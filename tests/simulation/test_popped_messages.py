"""Every message is given, invisible, given again or acknowledged, whatever happens: none is lost, none comes twice."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from broker_core import commands as c
from tests.fakes.engine import Bench
from tests.fakes.pops import bodies, restart, take

Handle = tuple[bytes, str, int, int, int, int]
"""Body, topic, queue id, start offset, pop time and offset of a message that was popped."""


class PoppedMessages(RuleBasedStateMachine):
    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "retryMaxTimes": 1000}))
        self.bench.call(c.UpdateAndCreateTopic(topic="orders"))
        self.bench.file_work()  # a kill before would leave the queues that have messages, and refuse the other sends
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.visible_at: dict[bytes, float] = {}

    @rule(count=st.integers(1, 5), queue_id=st.integers(0, 3))
    def send(self, count: int, queue_id: int) -> None:
        messages = [b"%d" % (len(self.sent) + number) for number in range(count)]
        self.bench.send("orders", *messages, queue_id=queue_id)
        self.sent.update(messages)

    @rule(target=handles, count=st.integers(1, 4), seconds=st.integers(1, 90))
    def pop(self, count: int, seconds: int) -> Handle | None:
        if not self.sent:
            return None
        reply = take(self.bench, max_msg_nums=count, invisible_ms=seconds * 1000)
        now_ms = self.bench.clock.now().mono_ns / 1e6
        found = bodies(reply)
        places = [(queue, offset) for queue in reply.queues for offset in queue.offsets]
        assert len(found) == len(places) == len(set(found)) <= count
        for body in found:
            assert body not in self.acknowledged, "given again after its acknowledgement"
            assert self.visible_at.get(body, 0) <= now_ms, "given while it was invisible"
            self.visible_at[body] = now_ms + seconds * 1000
        if not found:
            return None
        queue, offset = places[0]
        return found[0], queue.topic, queue.queue_id, queue.start_offset, reply.pop_time_ms, offset

    @rule(handle=consumes(handles))
    def acknowledge(self, handle: Handle | None) -> None:
        if handle is None:
            return
        body, topic, queue_id, start, pop_time, offset = handle
        reply = self.bench.call(
            c.AckMessage(
                consumer_group="g",
                topic=topic,
                queue_id=queue_id,
                start_offset=start,
                pop_time_ms=pop_time,
                offsets=[offset],
            )
        )
        assert isinstance(reply, c.Acknowledged)
        if reply.messages:
            self.acknowledged.add(body)

    @rule(target=handles, handle=consumes(handles), seconds=st.integers(0, 90))
    def change(self, handle: Handle | None, seconds: int) -> Handle | None:
        if handle is None:
            return None
        body, topic, queue_id, start, pop_time, offset = handle
        reply = self.bench.call(
            c.ChangeInvisibleTime(
                consumer_group="g",
                topic=topic,
                queue_id=queue_id,
                start_offset=start,
                pop_time_ms=pop_time,
                offset=offset,
                invisible_ms=seconds * 1000,
            )
        )
        if not isinstance(reply, c.InvisibleTimeChanged):
            return None
        self.visible_at[body] = self.bench.clock.now().mono_ns / 1e6 + seconds * 1000
        return body, topic, queue_id, offset, reply.pop_time_ms, offset

    @rule(seconds=st.integers(0, 60))
    def wait(self, seconds: int) -> None:
        self.bench.tick(seconds * 1000)

    @rule()
    def write_tables(self) -> None:
        self.bench.flush()
        self.bench.file_work()

    @rule()
    def kill(self) -> None:
        self.bench = restart(self.bench)

    @rule()
    def stop(self) -> None:
        self.bench.take(self.bench.engine.close(self.bench.clock.now()))
        self.bench = Bench(files=self.bench.files, clock=self.bench.clock)

    @invariant()
    def the_count_is_right(self) -> None:
        points = self.bench.context.check_points
        assert points.messages == sum(
            len(point.waiting) for groups in points._table.values() for of in groups.values() for point in of.values()
        )

    def teardown(self) -> None:
        """All that was not acknowledged comes (back)."""
        self.bench.tick(91_000)
        missing = self.sent - self.acknowledged
        for _ in range(len(self.sent) + 2):
            if self.sent:
                got = bodies(take(self.bench))
                assert not self.acknowledged.intersection(got)
                missing -= set(got)
        assert not missing, f"lost: {missing}"


TestPoppedMessages = PoppedMessages.TestCase
TestPoppedMessages.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

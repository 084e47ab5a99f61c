"""A group that pops from an engine in memory."""

from typing import Any

from broker_core import commands as c
from broker_core.formats.commit_log_record import decode_all
from tests.fakes.engine import Bench

RETRY = "%RETRY%g_orders"


def pop(bench: Bench, connection: Any = "c", **more: Any) -> int:
    """Pop from orders for group g, without waiting; returns the request id."""
    fields: dict[str, Any] = {"topic": "orders", "consumer_group": "g"}
    (request_id,) = bench.submit(c.PopMessage(**(fields | more)), connection=connection)
    return request_id


def popped(bench: Bench, request_id: int, connection: Any = "c") -> c.Popped:
    reply = bench.final(request_id, connection)
    assert isinstance(reply, c.Popped), reply
    return reply


def take(bench: Bench, **more: Any) -> c.Popped:
    """Pop, and return the answer, which comes at once."""
    return popped(bench, pop(bench, **more))


def bodies(reply: c.Popped) -> list[bytes]:
    return [record.body for record in decode_all(reply.records)]


def ack_of(reply: c.Popped, *offsets: int) -> c.AckMessage:
    """Acknowledges messages of the first queue of an answer; all of them unless offsets are given."""
    queue = reply.queues[0]
    return c.AckMessage(
        consumer_group="g",
        topic=queue.topic,
        queue_id=queue.queue_id,
        start_offset=queue.start_offset,
        pop_time_ms=reply.pop_time_ms,
        offsets=list(offsets) or queue.offsets,
    )


def ack(bench: Bench, reply: c.Popped, *offsets: int) -> c.Acknowledged:
    answer = bench.call(ack_of(reply, *offsets))
    assert isinstance(answer, c.Acknowledged), answer
    return answer


def change_of(reply: c.Popped, offset: int, invisible_ms: int, *, unseen: bool = False) -> c.ChangeInvisibleTime:
    queue = reply.queues[0]
    return c.ChangeInvisibleTime(
        consumer_group="g",
        topic=queue.topic,
        queue_id=queue.queue_id,
        start_offset=queue.start_offset,
        pop_time_ms=reply.pop_time_ms,
        offset=offset,
        invisible_ms=invisible_ms,
        unseen=unseen,
    )


def change(bench: Bench, reply: c.Popped, offset: int, invisible_ms: int, *, unseen: bool = False) -> c.Reply:
    return bench.call(change_of(reply, offset, invisible_ms, unseen=unseen))


def restart(bench: Bench, **options: Any) -> Bench:
    """The broker is killed and started again."""
    bench.files.kill()
    return Bench(files=bench.files, clock=bench.clock, **options)

"""Wake-up in the engine alone, in one process: from submitting a send to the held pull's answer.

    python benchmarks/engine_wakeup.py

Also measured: the time that the poll journal adds, the cost of an arrival with 10 and with 100,000 holds on other
queues, the memory of a hold, and the rate of storing messages. Goals: p50 at most 30 us, and 1 us more with the
journal; at most 400 bytes a hold; the same cost with 10 and 100,000 holds.
"""

import gc
import time
import tracemalloc
from typing import Any

from common import engine, median_of, percentile, spread, title

from broker_core.clock import SystemClock
from broker_core.commands import OutgoingMessage, PullMessage, SendMessage, UpdateAndCreateTopic
from broker_core.engine import Engine
from broker_core.server.poll_journal import PollJournal
from broker_core.store.files import RealFiles

CLOCK = SystemClock()
CONNECTIONS = [f"connection-{n}" for n in range(16)]
BODY = b"x" * 128
PROPERTIES = "TAGS\x01TagA\x02KEYS\x01key-1\x02"


def send(topic: str, queue_id: int = 0, count: int = 1) -> SendMessage:
    return SendMessage(
        topic=topic, messages=[OutgoingMessage(body=BODY, properties=PROPERTIES, queue_id=queue_id)] * count
    )


def pull(topic: str, offset: int, queue_id: int = 0) -> PullMessage:
    return PullMessage(
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        suspend_timeout_ms=30_000,
        consumer_group="bench",
        client_id="bench@1",
        protocol="remoting",
    )


def hold_elsewhere(broker: Engine, count: int, topics: int = 50, queues: int = 20) -> None:
    """Hold ``count`` pulls of 16 connections on ``topics * queues`` queues that get no message."""
    now = CLOCK.now()
    for topic in range(topics):
        broker.handle_batch(
            [
                (
                    "p",
                    0,
                    SendMessage(
                        topic=f"quiet-{topic}",
                        default_topic_queue_nums=8,
                        messages=[OutgoingMessage(body=b"x", queue_id=0)],
                    ),
                )
            ],
            now,
        )
    broker.handle_batch([("p", 0, c) for c in resize(topics, queues)], now)
    add_holds(broker, range(count), topics, queues)


def add_holds(broker: Engine, numbers: range, topics: int = 50, queues: int = 20) -> None:
    now = CLOCK.now()
    for start in range(numbers.start, numbers.stop, 500):
        broker.handle_batch(
            [
                (
                    CONNECTIONS[n % 16],
                    n,
                    pull(f"quiet-{n % topics}", 1 if (n // topics) % queues == 0 else 0, (n // topics) % queues),
                )
                for n in range(start, min(start + 500, numbers.stop))
            ],
            now,
        )


def resize(topics: int, queues: int) -> list[UpdateAndCreateTopic]:
    return [UpdateAndCreateTopic(topic=f"quiet-{t}", read_queues=queues, write_queues=queues) for t in range(topics)]


def note_appends(broker: Engine) -> list[int]:
    """A list with one item: the time, ns, at which the last append began."""
    began = [0]
    append = broker._context.store.append

    def noted(messages: Any, now: Any) -> Any:
        began[0] = time.perf_counter_ns()
        return append(messages, now)

    broker._context.store.append = noted  # type: ignore[method-assign]
    return began


def wakeups(broker: Engine, rounds: int = 5000, since: list[int] | None = None) -> list[float]:
    """Microseconds from submitting the send, or from ``since``, its append, to the held pull's answer, each time."""
    broker.handle_batch([("p", 0, send("busy"))], CLOCK.now())
    offset = broker.queue_view("busy", 0).max_offset
    taken = []
    for n in range(rounds):
        broker.handle_batch([("c", n, pull("busy", offset))], CLOCK.now())
        command = [("p", n, send("busy"))]
        began = time.perf_counter_ns()
        out = broker.handle_batch(command, CLOCK.now())
        ended = time.perf_counter_ns()
        taken.append((ended - (since[0] if since else began)) / 1000)
        broker.tick(CLOCK.now())
        assert len(out.replies) == 2, out.replies
        offset += 1
    return taken


def bytes_a_hold(count: int = 100_000) -> float:
    """Bytes of memory a hold adds, measured with ``count`` holds after the ring of recent events is full."""
    with engine(max_holds=200_000, max_holds_per_connection=200_000, hold_check_interval_mills=0) as broker:
        already = 10_000
        hold_elsewhere(broker, already)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        add_holds(broker, range(already, already + count))
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert broker.hold_count == already + count
    return (after - before) / count


def throughput(broker: Engine, batch: int, total: int = 60_000) -> float:
    """Messages a second of single-message sends, submitted ``batch`` at a time."""
    commands = [("p", n, send("fast", n % 4)) for n in range(batch)]
    broker.handle_batch(commands, CLOCK.now())
    began = time.perf_counter()
    for _ in range(total // batch):
        broker.handle_batch(commands, CLOCK.now())
        flush = broker.next_flush(CLOCK.now())
        if flush is not None:
            flush.run()
            broker.flushed(flush, 0, CLOCK.now())
    return total / (time.perf_counter() - began)


def journal_costs() -> None:
    """Wake-ups with and without the poll journal, alternating."""
    without: list[float] = []
    with_journal: list[float] = []
    for _ in range(5):
        for into in (without, with_journal):
            with engine(hold_check_interval_mills=0) as broker:
                journal = PollJournal(RealFiles(), CLOCK)
                if into is with_journal:
                    journal.start(broker)
                wakeups(broker, 2500)  # the ring of recent events is full
                into.append(percentile(wakeups(broker, 3000), 0.5))
                journal.stop()
                assert broker.counters.journal_lost == 0
    a = median_of("p50 without the poll journal", without, "us", 1)
    b = median_of("p50 with the poll journal   ", with_journal, "us", 1)
    print(f"  the poll journal adds {b - a:.1f} us")


def main() -> None:
    title("Engine alone: append to answer of a held pull")
    with engine(max_holds=200_000, max_holds_per_connection=200_000, hold_check_interval_mills=0) as broker:
        wakeups(broker, 2000)
        spread("from submitting the send", wakeups(broker), "us")
        spread("from its append         ", wakeups(broker, since=note_appends(broker)), "us")
    journal_costs()
    few, many = [], []
    for _ in range(3):
        for count, into in ((10, few), (100_000, many)):
            with engine(max_holds=200_000, max_holds_per_connection=200_000, hold_check_interval_mills=0) as broker:
                hold_elsewhere(broker, count)
                wakeups(broker, 1000)
                into.append(percentile(wakeups(broker), 0.5))
    a = median_of("p50 beside 10 holds     ", few, "us", 1)
    b = median_of("p50 beside 100,000 holds", many, "us", 1)
    print(f"  ratio {b / a:.2f}")
    print(f"  memory of a hold, 100,000 of them: {bytes_a_hold():.0f} bytes")
    with engine() as broker:
        median_of("messages stored a second, 64 sends a batch", [throughput(broker, 64) for _ in range(3)], "msg/s")
        median_of(
            "messages stored a second, one by one      ", [throughput(broker, 1, 20_000) for _ in range(3)], "msg/s"
        )


if __name__ == "__main__":
    main()

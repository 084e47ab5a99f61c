"""Many clients in one thread, on a clock that the seed moves, with the periodic check off.

However their steps are interleaved, after every step no hold may be in the table while its queue has a message that
matches it. At the end every consumer has received exactly the messages of its tags, in order, each once.
"""

import random

import pytest

from broker_core import commands as c
from tests.fakes.engine import Bench, records, send

TOPIC, QUEUES, TAGS = "orders", 3, ("TagA", "TagB", "TagC")
SUBSCRIPTIONS = ("*", "TagA", "TagA || TagB")


class Consumer:
    """Always has one pull open on one queue, like a push client."""

    def __init__(self, name: str, queue_id: int, subscription: str) -> None:
        self.name, self.queue_id, self.subscription = name, queue_id, subscription
        self.offset = 0
        self.request: int | None = None
        self.got: list[bytes] = []

    def step(self, bench: Bench, wait_ms: int) -> None:
        if self.request is None:
            self.request = bench.pull(
                TOPIC,
                self.offset,
                connection=self.name,
                queue_id=self.queue_id,
                subscription=self.subscription,
                suspend_timeout_ms=wait_ms,
                max_msg_nums=4,
                consumer_group=self.name,
            )
        elif bench.final(self.request, self.name) is not None:
            pulled = bench.pulled(self.request, self.name)
            self.got += [record.body for record in records(pulled)]
            self.offset = pulled.next_begin_offset
            self.request = None

    def drop(self, bench: Bench) -> None:
        """Break the connection; the client reconnects and continues from its offset."""
        if self.request is not None and bench.final(self.request, self.name) is None:
            bench.submit(c.CloseConnection(), connection=self.name)
            self.request = None


def nobody_waits_for_what_is_there(bench: Bench) -> None:
    store = bench.context.store
    for held in bench.context.holds:
        many = held.many
        found = store.get_message(many.topic, many.queue_id, held.pull_from_offset, 32, 1 << 20, held.message_filter)
        assert found.message_count == 0, (
            f"hold {held.hold_id} waits at {held.pull_from_offset} for a message that is in the queue"
        )


def run_schedule(seed: int, flush_disk_type: str) -> int:
    """One interleaving; returns how many holds an arrival woke. AssertionError if one was late or not answered once."""
    chance = random.Random(seed)
    bench = Bench(seed=seed, hold_check_interval_mills=0, flush_disk_type=flush_disk_type)
    bench.call(c.UpdateAndCreateTopic(topic=TOPIC, read_queues=QUEUES, write_queues=QUEUES))
    consumers = [
        Consumer(f"{n}", n % QUEUES, SUBSCRIPTIONS[n % len(SUBSCRIPTIONS)])
        for n in (chance.randrange(100) for _ in range(9))
    ]
    for n, consumer in enumerate(consumers):
        consumer.name = f"client-{n}"
    sent: dict[int, list[tuple[str, bytes]]] = {queue_id: [] for queue_id in range(QUEUES)}

    def produce(count: int) -> None:
        batch = []
        for _ in range(count):
            queue_id, tag = chance.randrange(QUEUES), chance.choice(TAGS)
            body = f"{queue_id}-{len(sent[queue_id])}".encode()
            sent[queue_id].append((tag, body))
            batch.append(send(TOPIC, body, queue_id=queue_id, tag=tag))
        bench.submit(*batch, connection="producer")

    for _ in range(400):
        action = chance.random()
        if action < 0.12:
            produce(chance.randint(1, 3))
        elif action < 0.8:
            chance.choice(consumers).step(bench, chance.choice((5, 50, 15_000)))
        elif action < 0.85:
            chance.choice(consumers).drop(bench)
        elif action < 0.95:
            bench.flush()
        bench.tick(chance.choice((0, 0, 0.1, 3, 40)))
        nobody_waits_for_what_is_there(bench)

    bench.clock.advance(20_000)
    while bench.flush():
        bench.tick()
    for _ in range(600):
        for consumer in consumers:
            consumer.step(bench, 0)
        if all(consumer.offset == bench.context.store.max_offset(TOPIC, consumer.queue_id) for consumer in consumers):
            break
    for consumer in consumers:
        wanted = None if consumer.subscription == "*" else {t.strip() for t in consumer.subscription.split("||")}
        expected = [body for tag, body in sent[consumer.queue_id] if wanted is None or tag in wanted]
        assert consumer.got == expected, consumer.name
    assert bench.engine.counters.woken["missed_arrival"] == 0
    assert bench.engine.counters.woken["arrival"] > 0
    return bench.engine.counters.woken["arrival"]


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.seeds(12)
@pytest.mark.covers("hold-race")
def test_every_interleaving_wakes(seed: int, flush_disk_type: str) -> None:
    run_schedule(seed, flush_disk_type)

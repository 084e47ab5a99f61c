"""Makes a store of any size for the reports by sending messages to the engine.

    python benchmarks/make_store.py PATH [--gib 1] [--body 128 | --body 128-1024] [--topics 8] [--queues 4] [--seed 1]

The same arguments make the same log, byte for byte, because time, ids and bodies depend on the seed only. Topics and
queues are chosen by Zipf's law. Every message has UNIQ_KEY, the broker's properties and a tag; two of three have a key.
"""

import argparse
import itertools
import random
import time
from pathlib import Path

from common import title

from broker_core.clock import Now
from broker_core.commands import OutgoingMessage, SendMessage, UpdateAndCreateTopic
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.store.files import RealFiles

BEGIN_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC: the store time of the first message."""
A_SEND = 64
A_TURN = 16
"""Messages in a send, and sends in a turn: about as many as a busy broker gathers during a flush."""
TAGS = ("created", "paid", "packed", "sent", "returned")
WORDS = ("order", "customer", "street", "invoice", "parcel", "amount", "currency", "warehouse", "confirmed", "express")


class SeededClock:
    """A clock that advances by the time that a turn's messages take at a steady rate."""

    def __init__(self, begin_ms: int, a_second: int) -> None:
        self._begin_ms = begin_ms
        self._a_second = a_second
        self._passed_ns = 0

    def pass_messages(self, count: int) -> None:
        self._passed_ns += count * 1_000_000_000 // self._a_second

    def now(self) -> Now:
        return Now(self._begin_ms + self._passed_ns // 1_000_000, self._passed_ns)

    def mono_ns(self) -> int:
        return self._passed_ns


class Producer:
    """Sends like those of an application, from a seed."""

    def __init__(self, seed: int, topics: int, queues: int, body: tuple[int, int]) -> None:
        self._random = chance = random.Random(seed)
        self.topics = [f"shop-{number:02d}" for number in range(topics)]
        self._queues = queues
        self._topic_weights = list(itertools.accumulate(1 / place for place in range(1, topics + 1)))
        self._queue_weights = list(itertools.accumulate(1 / place for place in range(1, queues + 1)))
        self._body = body
        text = " ".join(chance.choice(WORDS) + str(chance.randrange(10_000)) for _ in range(20_000))
        self._text = text.encode()
        self._number = 0

    def sends(self, now: Now) -> list[SendMessage]:
        """The sends of one turn."""
        chance = self._random
        chosen = chance.choices(self.topics, cum_weights=self._topic_weights, k=A_TURN)
        return [
            SendMessage(
                topic=topic,
                producer_group="shop",
                born_host=f"10.0.0.{1 + chance.randrange(8)}",
                born_port=40_000,
                messages=self._messages(now),
            )
            for topic in chosen
        ]

    def _messages(self, now: Now) -> list[OutgoingMessage]:
        chance, text = self._random, self._text
        low, high = self._body
        queues = chance.choices(range(self._queues), cum_weights=self._queue_weights, k=A_SEND)
        tags = chance.choices(TAGS, k=A_SEND)
        born = now.wall_ms - int(chance.expovariate(0.2))
        messages = []
        for queue_id, tag in zip(queues, tags, strict=True):
            self._number = number = self._number + 1
            size = low if low == high else low + int(chance.random() * (high - low + 1))
            start = int(chance.random() * (len(text) - size))
            properties = f"TAGS\x01{tag}\x02" + (f"KEYS\x01order-{number}\x02" if number % 3 else "")
            messages.append(OutgoingMessage(text[start : start + size], properties, queue_id, born_timestamp=born))
        return messages


def make_store(
    path: Path,
    size: int,
    *,
    body: tuple[int, int] = (128, 128),
    topics: int = 8,
    queues: int = 4,
    seed: int = 1,
    a_second: int = 1000,
    begin_ms: int = BEGIN_MS,
    options: Options | None = None,
    messages: int = 0,
) -> int:
    """Add messages to the store in ``path`` until at least ``size`` bytes, or so many ``messages`` if that is not 0,
    were added; returns how many messages were added.

    ``begin_ms`` is the store time of the first added message.
    """
    clock = SeededClock(begin_ms, a_second)
    keys = UniqKeyGenerator("10.0.0.1", 4711, random.Random(seed))
    engine = Engine.open(path, options or Options(message_index_enable=False), RealFiles(), clock, keys.next)
    count = 0
    try:
        producer = Producer(seed, topics, queues, body)
        engine.handle_batch(
            [
                ("maker", 0, UpdateAndCreateTopic(topic=topic, read_queues=queues, write_queues=queues))
                for topic in producer.topics
            ],
            clock.now(),
        )
        while engine.counters.bytes_stored < size and (not messages or count < messages):
            now = clock.now()
            engine.handle_batch([("maker", number, send) for number, send in enumerate(producer.sends(now))], now)
            engine.tick(now)
            count += A_TURN * A_SEND
            clock.pass_messages(A_TURN * A_SEND)
    finally:
        engine.close(clock.now())
    return count


def body_sizes(text: str) -> tuple[int, int]:
    """``128`` or ``128-1024``."""
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a store by driving the engine.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--gib", type=float, default=1.0, help="size of the log")
    parser.add_argument("--body", type=body_sizes, default=(128, 128), help="bytes of a body, or a range")
    parser.add_argument("--topics", type=int, default=8)
    parser.add_argument("--queues", type=int, default=4, help="queues of each topic")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-second", type=int, default=1000, help="messages a second of store time")
    chosen = parser.parse_args()
    title(f"Making a store of {chosen.gib:g} GiB")
    began = time.perf_counter()
    count = make_store(
        chosen.path,
        int(chosen.gib * (1 << 30)),
        body=chosen.body,
        topics=chosen.topics,
        queues=chosen.queues,
        seed=chosen.seed,
        a_second=chosen.per_second,
    )
    seconds = time.perf_counter() - began
    print(f"  {count:,} messages in {seconds:.1f} s, {count / seconds:,.0f} a second: {chosen.path}")


if __name__ == "__main__":
    main()

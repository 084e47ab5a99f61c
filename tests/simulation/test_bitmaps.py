"""Random sends, subscriptions, restarts and losses: with bitmaps, groups get what they would get without them."""

import random
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.formats.message_properties import encode
from tests.broker_core.store.test_commit_log_dispatcher_calc_bit_map import EXT, pull, reopen, subscribe
from tests.fakes.engine import Bench, bodies

EXPRESSIONS = {
    "size > 500": lambda size: size > 500,
    "size < 30": lambda size: size < 30,
    "size BETWEEN 300 AND 320 OR size = 7": lambda size: 300 <= size <= 320 or size == 7,
}
GROUPS = ["g", "h", "i"]
SMALL = {"mapped_file_size_consume_queue": 20 * 29, "mapped_file_size_consume_queue_ext": 500}


def tag_of(size: int) -> str:
    return "abc"[size % 3]


class World:
    """A broker, what it stored, and what its groups subscribe to. ``seed`` decides everything."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.options: dict[str, Any] = SMALL | {"expect_consumer_num_use_filter": self.random.choice((2, 32))}
        self.bench = Bench(seed=seed, **self.options)
        self.stored: list[int] = []  # the sizes of the messages
        self.subscribed: dict[str, str] = {}
        self.create()
        self.version = 0

    def create(self) -> None:
        self.bench.send("orders", b"0", tag="a", properties=encode({"size": "0"}))
        self.stored = [0]
        self.bench.file_work()  # a power cut does not take the topic back

    def send(self) -> None:
        sizes = [self.random.randrange(600) for _ in range(self.random.choice((1, 1, 2, 40)))]
        messages = [
            c.OutgoingMessage(
                body=str(size).encode(),
                properties=encode({"size": str(size), "TAGS": tag_of(size)}),
                queue_id=0,
            )
            for size in sizes
        ]
        wanted = self.random.choice(list(self.subscribed.values()) or ["size > 500"])
        held = self.bench.pull(
            "orders",
            self.bench.context.store.max_offset("orders", 0),
            "p",
            consumer_group=self.random.choice(GROUPS),
            subscription=wanted,
            expression_type="SQL92",
        )
        self.bench.call(c.SendMessage(topic="orders", messages=messages))
        self.stored += sizes
        expected = [size for size in sizes if EXPRESSIONS[wanted](size)]
        reply = self.bench.final(held, "p")
        assert (reply is not None) == bool(expected), (wanted, sizes)
        if reply is None:
            self.bench.call(c.CancelPull(request_id=held), "p")
        else:
            found = bodies(self.bench.pulled(held, "p"))  # as far as the queue's file
            assert found == [b"%d" % size for size in expected[: len(found)]]

    def subscribe(self) -> None:
        self.version += 1
        group, expression = self.random.choice(GROUPS), self.random.choice(list(EXPRESSIONS))
        subscribe(self.bench, expression, self.version, group)
        self.subscribed[group] = expression

    def leave(self) -> None:
        group = self.random.choice(GROUPS)
        if self.subscribed.pop(group, None):
            self.bench.call(c.UnregisterClient(client_id=group, consumer_group=group), group)

    def flush(self) -> None:
        self.bench.clock.advance(self.random.choice((500, 2000)))
        while self.bench.flush():
            pass

    def restart(self) -> None:
        how = self.random.choice(("closed", "killed", "power cut"))
        self.bench.clock.step_wall(self.random.choice((0, -3_600_000, 3_600_000)))
        if how == "power cut":
            self.bench.files.crash()
            self.bench = Bench(files=self.bench.files, clock=self.bench.clock, **self.options)
            self.stored = pull(self.bench, group="all", subscription="*")
        else:
            self.bench = reopen(self.bench, killed=how == "killed", **self.options)
        self.subscribed.clear()

    def lose_a_file_of_the_extension(self) -> None:
        names = self.bench.files.names(EXT / "orders" / "0")
        if names:
            self.bench = reopen(self.bench, **self.options)
            self.bench.files.remove(EXT / "orders" / "0" / self.random.choice(names))
            self.restart()

    def create_the_topic_again(self) -> None:
        self.bench.call(c.DeleteTopic(topic="orders"))
        self.create()

    def check(self) -> None:
        for group, expression in self.subscribed.items():
            expected = [size for size in self.stored if EXPRESSIONS[expression](size)]
            assert pull(self.bench, group=group) == expected, (group, expression)
        for tag in ("a", "b"):
            found = pull(self.bench, group="tags", subscription=tag)
            assert found == [size for size in self.stored if tag_of(size) == tag], tag


@pytest.mark.parametrize("seed", range(18, 26))
def test_groups_get_what_they_would_get_without_bitmaps(seed: int) -> None:
    world = World(seed)
    steps = [world.send] * 6 + [world.subscribe] * 4 + [world.leave] * 2 + [world.flush] * 2 + [world.restart]
    steps += [world.lose_a_file_of_the_extension, world.create_the_topic_again]
    for _ in range(30):
        step = world.random.choice(steps)
        step()
        if step != world.send:
            world.check()
    world.check()

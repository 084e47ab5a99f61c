"""A repeated Idempotency-Key: the first answer again, also after a restart, also when half of it was lost."""

import pytest

from broker_core import commands as c
from tests.fakes.engine import Bench, send


def stored(bench: Bench, topic: str = "orders") -> int:
    return bench.engine.context.store.max_offset(topic, 0)


def reopened(bench: Bench) -> Bench:
    bench.take(bench.engine.close(bench.clock.now()))
    return Bench(files=bench.files, clock=bench.clock)


def test_a_repeat_is_answered_and_not_stored() -> None:
    bench = Bench()
    first = bench.send("orders", b"a", b"b", idempotency_key="k1")
    assert bench.send("orders", b"a", b"b", idempotency_key="k1") == first
    assert stored(bench) == 2


def test_two_of_one_batch_are_one() -> None:
    bench = Bench()
    one, two = bench.submit(*(send("orders", b"a", idempotency_key="k1") for _ in range(2)))
    assert bench.final(one) == bench.final(two) and stored(bench) == 1


def test_keys_are_per_topic_and_forgotten_after_the_window() -> None:
    bench = Bench(idempotency_window_mills=1000)
    bench.send("orders", b"a", idempotency_key="k1")
    bench.send("others", b"a", idempotency_key="k1")
    assert stored(bench, "others") == 1
    bench.tick(2000)
    bench.send("orders", b"a", idempotency_key="k1")
    assert stored(bench) == 2


def test_a_repeat_is_known_after_a_restart() -> None:
    bench = Bench()
    first = bench.send("orders", b"a", b"b", idempotency_key="k1")
    again = reopened(bench)
    assert again.send("orders", b"a", b"b", idempotency_key="k1") == first
    assert stored(again) == 2


def test_a_key_of_another_length_is_a_conflict() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", idempotency_key="k1")
    for target in (bench, reopened(bench)):
        reply = target.call(send("orders", b"a", idempotency_key="k1"))
        assert isinstance(reply, c.Failed) and reply.kind == "conflict"


@pytest.mark.parametrize("lost", [1, 2])
def test_what_a_crash_took_of_a_send_is_stored_by_its_repeat(lost: int) -> None:
    """The first messages of a send of three survived: the repeat stores the others, and answers for all three."""
    whole = Bench(seed=3)
    texts = [f"IDEMPOTENCY_KEY\x01k1\x02IDEMPOTENCY_PLACE\x01{n}/3\x02" for n in range(3 - lost)]
    whole.submit(*(send("orders", b"abc"[n:n + 1], properties=text) for n, text in enumerate(texts)))
    again = reopened(whole)
    sent = again.send("orders", b"a", b"b", b"c", idempotency_key="k1")
    assert [message.queue_offset for message in sent.messages] == [0, 1, 2] and stored(again) == 3

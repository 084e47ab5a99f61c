"""A repeated Idempotency-Key: the first answer again, also after a restart, also when half of it was lost."""

import pytest

from broker_core import commands as c
from broker_core.processors import idempotency
from broker_core.remoting.codes import ResponseCode
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
    whole.submit(*(send("orders", b"abc"[n : n + 1], properties=text) for n, text in enumerate(texts)))
    again = reopened(whole)
    sent = again.send("orders", b"a", b"b", b"c", idempotency_key="k1")
    assert [message.queue_offset for message in sent.messages] == [0, 1, 2] and stored(again) == 3


@pytest.mark.parametrize("refused", [False, True])
def test_a_repeat_is_not_called_safe_before_the_disk_has_the_first(refused: bool) -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    (first,) = bench.submit(send("orders", b"a", idempotency_key="k1"))
    (second,) = bench.submit(send("orders", b"a", idempotency_key="k1"))
    assert bench.final(first) is None and bench.final(second) is None
    if refused:
        bench.take(bench.engine.flush_failed(OSError(5, "Input/output error"), bench.clock.now()))
        (third,) = bench.submit(send("orders", b"a", idempotency_key="k1"))
        bench.tick(5001)
        answer = bench.final(third)
        assert isinstance(answer, c.Sent) and answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    else:
        assert bench.flush()
        assert bench.final(first) == bench.final(second) and bench.final(second) is not None


@pytest.mark.parametrize("place", ["", "IDEMPOTENCY_PLACE\x01x/y\x02"])
def test_a_property_that_only_looks_like_a_key_is_passed_over(place: str) -> None:
    bench = Bench()
    bench.send("orders", b"a", properties=f"IDEMPOTENCY_KEY\x01k1\x02{place}")
    assert bench.send("orders", b"b", idempotency_key="k1").messages[0].queue_offset == 1


def test_a_key_cannot_bring_properties_of_its_own() -> None:
    reply = Bench().call(send("orders", b"a", idempotency_key="k\x02WAIT\x01false"))
    assert isinstance(reply, c.Failed) and reply.pointer == "/Idempotency-Key"


def test_what_memory_had_to_forget_is_found_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_KEPT", 3)
    bench = Bench(idempotency_window_mills=10_000)
    bench.tick(60_000)
    first = bench.send("orders", b"a", b"b", idempotency_key="k1")
    bench.send("orders", b"c", b"d", idempotency_key="k2")
    bench.send("orders", b"e", idempotency_key="k3")
    assert bench.send("orders", b"a", b"b", idempotency_key="k1") == first
    assert stored(bench) == 5

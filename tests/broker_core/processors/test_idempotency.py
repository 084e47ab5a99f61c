"""A repeated Idempotency-Key: the first answer again, also after a restart, also when half of it was lost."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core import gathered_commands
from broker_core.codes import ResponseCode
from broker_core.formats.message_properties import encode
from broker_core.processors import idempotency
from broker_core.processors.idempotency import content_digest
from tests.fakes.engine import Bench, send


def message(body: bytes = b"a", queue_id: int = -1, **properties: str) -> c.OutgoingMessage:
    return c.OutgoingMessage(body=body, properties=encode(properties), queue_id=queue_id)


def keyed(*messages: c.OutgoingMessage, key: str = "k1") -> c.SendMessage:
    return c.SendMessage(topic="orders", messages=list(messages), idempotency_key=key)


def stored(bench: Bench, topic: str = "orders") -> int:
    return bench.context.store.max_offset(topic, 0)


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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([message(b"a"), message(b"b")], [message(b"a")]),
        ([message(b"a")], [message(b"b")]),
        ([message(b"a"), message(b"b")], [message(b"b"), message(b"a")]),
        ([message(b"ab"), message(b"c")], [message(b"a"), message(b"bc")]),
        ([message(b"a")], [message(b"a", TAGS="T")]),
        ([message(b"a", KEYS="1")], [message(b"a", KEYS="2")]),
        ([message(b"a", colour="red")], [message(b"a", colour="blue")]),
        ([message(b"a")], [message(b"a", queue_id=0)]),
        ([message(b"a")], [message(b"a", DELAY="2")]),
        ([message(b"a", DELAY="2")], [message(b"a")]),
        ([message(b"a", DELAY="2")], [message(b"b", DELAY="2")]),
    ],
    ids=["count", "body", "order", "boundary", "tag", "keys", "property", "queue", "delay", "no-delay", "delayed-body"],
)
def test_a_key_used_again_for_other_content_is_a_conflict(
    first: list[c.OutgoingMessage], second: list[c.OutgoingMessage]
) -> None:
    bench = Bench()
    assert isinstance(bench.call(keyed(*first)), c.Sent)
    end = bench.context.store.appended_offset
    for target in (bench, again := reopened(bench)):
        reply = target.call(keyed(*second))
        assert isinstance(reply, c.Failed) and reply.kind == "conflict" and reply.pointer == "/Idempotency-Key"
    assert again.context.store.appended_offset == end


def test_the_conflict_names_the_first_send_and_the_difference() -> None:
    bench = Bench()
    first = bench.send("orders", b"a", idempotency_key="k1").messages[0]
    for target in (bench, reopened(bench)):
        reply = target.call(send("orders", b"b", idempotency_key="k1"))
        assert isinstance(reply, c.Failed)
        assert reply.remark == (
            "Idempotency-Key k1 was used at 2023-11-14T22:13:20.000+00:00 to send 1 message to topic orders "
            f"(message {first.message_id}, queue 0, offset 0), and this send differs in a body, tag, key, property, "
            "queue or in the order of its messages; nothing was stored: repeat the first send unchanged, or use a "
            "new key for a new send"
        )
        counted = target.call(send("orders", b"a", b"b", idempotency_key="k1"))
        assert isinstance(counted, c.Failed) and "and this send has 2 messages; nothing" in counted.remark


def test_the_order_of_a_messages_properties_does_not_count() -> None:
    bench = Bench()
    first = bench.call(keyed(message(colour="red", size="L")))
    for target in (bench, reopened(bench)):
        assert target.call(keyed(message(size="L", colour="red"))) == first


def test_a_delayed_message_that_was_delivered_still_guards_its_key() -> None:
    bench = Bench()
    first = bench.call(keyed(message(DELAY="1")))
    bench.tick(60_000)
    again = reopened(bench)
    assert again.call(keyed(message(DELAY="1"))) == first
    reply = again.call(keyed(message(b"b", DELAY="1")))
    assert isinstance(reply, c.Failed) and reply.kind == "conflict"


def partly_stored(survivors: int, digest: str) -> Bench:
    """A reopened broker that has the first messages of a send of a, b and c with the key k1."""
    bench = Bench(seed=3)
    for n in range(survivors):
        text = f"IDEMPOTENCY_KEY\x01k1\x02IDEMPOTENCY_PLACE\x01{n}/3\x02"
        text += f"IDEMPOTENCY_DIGEST\x01{digest}\x02" if digest else ""
        bench.submit(send("orders", b"abc"[n : n + 1], properties=text))
    return reopened(bench)


WHOLE = send("orders", b"a", b"b", b"c", idempotency_key="k1")


@pytest.mark.parametrize("digest", [content_digest(WHOLE.messages), ""], ids=["digest", "older version"])
@pytest.mark.parametrize("survivors", [1, 2])
def test_a_repeat_stores_the_messages_of_a_send_that_a_crash_lost(survivors: int, digest: str) -> None:
    """The first messages of a send of three survived: the repeat stores the others, and answers for all three."""
    bench = partly_stored(survivors, digest)
    sent = bench.call(WHOLE)
    assert isinstance(sent, c.Sent)
    assert [message.queue_offset for message in sent.messages] == [0, 1, 2] and stored(bench) == 3


def test_the_rest_of_a_send_cannot_be_stored_with_other_content() -> None:
    bench = partly_stored(2, content_digest(WHOLE.messages))
    reply = bench.call(send("orders", b"a", b"b", b"x", idempotency_key="k1"))
    assert isinstance(reply, c.Failed) and reply.kind == "conflict" and stored(bench) == 2


def test_messages_that_an_older_version_stored_are_compared_by_their_number_alone() -> None:
    bench = partly_stored(3, "")
    sent = bench.call(send("orders", b"x", b"y", b"z", idempotency_key="k1"))
    assert isinstance(sent, c.Sent) and stored(bench) == 3
    reply = reopened(bench).call(send("orders", b"a", b"b", idempotency_key="k1"))
    assert isinstance(reply, c.Failed) and reply.kind == "conflict"


@pytest.mark.parametrize(
    "changed", [{"flag": 1}, {"sys_flag": 1}, {"queue_id": 3}, {"body": b"b"}, {"properties": "x\x01y"}]
)
def test_the_digest_covers_what_the_client_gave(changed: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"body": b"a", "properties": ""}
    assert content_digest([c.OutgoingMessage(**fields)]) != content_digest([c.OutgoingMessage(**fields | changed)])


def test_the_digest_leaves_out_what_is_new_in_each_attempt() -> None:
    first, second = (c.OutgoingMessage(body=b"a", born_timestamp=when) for when in (1, 2))
    assert content_digest([first]) == content_digest([second]) and len(content_digest([first])) == 16


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


def test_keys_dropped_from_memory_are_found_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "MAX_ANSWERS", 3)
    bench = Bench(idempotency_window_mills=10_000)
    bench.tick(60_000)
    first = bench.send("orders", b"a", b"b", idempotency_key="k1")
    bench.send("orders", b"c", b"d", idempotency_key="k2")
    bench.send("orders", b"e", idempotency_key="k3")
    assert bench.send("orders", b"a", b"b", idempotency_key="k1") == first
    assert stored(bench) == 5


MANY = send("orders", *(b"%d" % number for number in range(200)), idempotency_key="k1")


def test_a_long_look_up_takes_several_turns_and_stores_nothing_twice() -> None:
    bench = Bench()
    first = bench.call(MANY)
    again = reopened(bench)
    one, two, other = again.submit(MANY, MANY, send("orders", b"x"))
    assert again.final(one) is None and again.final(two) is None, "the look-up goes on in the next turns"
    assert isinstance(again.final(other), c.Sent), "which other sends do not wait for"
    again.tick()
    assert again.final(one) == again.final(two) == first and stored(again) == 201


def test_a_send_behind_a_look_up_of_its_key_finds_what_was_stored_meanwhile() -> None:
    """The first send stores the lost rest of 200 messages, and then the second one stores nothing."""
    bench = Bench()
    digest = content_digest(MANY.messages)
    for n in range(100):
        text = f"IDEMPOTENCY_KEY\x01k1\x02IDEMPOTENCY_PLACE\x01{n}/200\x02IDEMPOTENCY_DIGEST\x01{digest}\x02"
        bench.submit(send("orders", b"%d" % n, properties=text))
    again = reopened(bench)
    one, two = again.submit(MANY, MANY)
    again.tick()
    assert again.final(one) == again.final(two) is not None and stored(again) == 200


def test_a_look_up_that_ends_in_a_conflict_is_answered_and_the_next_one_begins() -> None:
    bench = Bench()
    first = bench.call(MANY)
    again = reopened(bench)
    wrong = send("orders", b"x", idempotency_key="k1")
    one, two = again.submit(wrong, MANY)
    again.tick()
    reply = again.final(one)
    assert isinstance(reply, c.Failed) and reply.kind == "conflict" and again.final(two) == first


@pytest.mark.parametrize("limit", ["MAX_LOOK_UPS", "MAX_BYTES"])
def test_the_sends_that_wait_for_a_look_up_are_limited(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(gathered_commands, limit, 1)
    bench = Bench()
    first = bench.call(MANY)
    again = reopened(bench)
    one, two = again.submit(MANY, MANY)
    refused = again.final(two)
    assert isinstance(refused, c.Failed) and refused.kind == "unavailable"
    again.tick()
    assert again.final(one) == first and again.call(MANY) == first, "the limits are free again"


def test_a_broker_that_stops_answers_the_sends_that_wait_for_a_look_up() -> None:
    bench = Bench()
    bench.call(MANY)
    again = reopened(bench)
    (one,) = again.submit(MANY)
    again.take(again.engine.drain(again.clock.now()))
    assert not again.engine.drained
    again.tick()
    assert again.engine.drained and isinstance(again.final(one), c.Failed)


@pytest.mark.parametrize("body", [b"a", b"x"], ids=["repeats", "conflicts"])
def test_a_turn_looks_up_a_limited_number_of_keys(body: bytes) -> None:
    """After a restart, each send with a key reads the index until the window of the keys is over."""
    count = 2 * gathered_commands.LOOK_UPS_A_TURN + 1
    bench = Bench()
    first = [bench.call(keyed(message(), key=f"k{n}")) for n in range(count)]
    again = reopened(bench)
    requests = again.submit(*(keyed(message(body), key=f"k{n}") for n in range(count)))

    def answered() -> int:
        return sum(again.final(request) is not None for request in requests)

    assert answered() == gathered_commands.LOOK_UPS_A_TURN
    again.take(again.engine.tick(again.clock.now()))
    assert answered() == 2 * gathered_commands.LOOK_UPS_A_TURN
    again.tick()
    replies = [again.final(request) for request in requests]
    assert replies == first if body == b"a" else all(isinstance(reply, c.Failed) for reply in replies)


@pytest.mark.parametrize("looked_up", [True, False])
def test_sends_with_several_keys_are_one_block(monkeypatch: pytest.MonkeyPatch, looked_up: bool) -> None:
    bench = Bench()
    if not looked_up:
        bench.tick(bench.context.options.idempotency_window_mills + 1)
    append, blocks = bench.context.store.append, []

    def counted(messages: Any, now: Any) -> Any:
        blocks.append(len(messages))
        return append(messages, now)

    monkeypatch.setattr(bench.context.store, "append", counted)
    requests = bench.submit(*(keyed(message(), key=key) for key in ("k1", "k2", "k1", "k3")))
    assert blocks == [2, 1], "the repeat is recognized once the first send of its key is stored"
    replies = [bench.final(request) for request in requests]
    assert replies[0] == replies[2] and all(isinstance(reply, c.Sent) for reply in replies)

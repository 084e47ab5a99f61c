"""The frames as JSON."""

from typing import get_args

import msgspec
import pytest

from api.frames import (
    SUPPORTED,
    ConsumerAnswer,
    ConsumerRequest,
    EventsAnswer,
    EventsRequest,
    HeldFrame,
    Limits,
    Pong,
    ProblemFrame,
    Pull,
    Welcome,
)

FROM_CLIENT = {"hello", "pull", "cancel", "subscribe", "permit", "ack", "commit", "unsubscribe", "publish", "ping"}
FROM_SERVER = {"welcome", "held", "woken", "pulled", "published", "problem", "pong", "bye", "cancelled", "committed"}


@pytest.mark.parametrize(("side", "tags"), [
    (ConsumerRequest, FROM_CLIENT), (ConsumerAnswer, FROM_SERVER), (EventsRequest, {"snapshot", "subscribe", "ping"}),
    (EventsAnswer, {"snapshot", "delta", "lost", "problem", "pong", "bye"})])
def test_the_types_of_each_side(side: object, tags: set[str]) -> None:
    assert {frame.__struct_config__.tag for frame in get_args(side)} == tags


def test_what_is_supported_is_a_type() -> None:
    assert set(SUPPORTED) < FROM_CLIENT


def test_ids_are_texts_or_numbers_and_kept() -> None:
    decoder = msgspec.json.Decoder(ConsumerRequest)
    for frame_id in ("a", 7):
        text = msgspec.json.encode({"type": "pull", "id": frame_id, "topic": "T", "queue_id": 0, "offset": 1})
        pull = decoder.decode(text)
        assert isinstance(pull, Pull)
        assert msgspec.json.decode(msgspec.json.encode(HeldFrame(id=pull.id, hold_id=1, deadline_ms=2))) == {
            "type": "held", "id": frame_id, "hold_id": 1, "deadline_ms": 2}


def test_an_id_that_was_not_given_is_not_answered() -> None:
    assert msgspec.json.encode(Pong()) == b'{"type":"pong"}'
    problem = ProblemFrame(title="Bad Request", status=400, detail="x", code="INVALID_PARAMETER")
    assert b'"id"' not in msgspec.json.encode(problem)


def test_the_welcome_says_all_limits() -> None:
    welcome = msgspec.to_builtins(Welcome(broker="b", client_id="c", supported=SUPPORTED, limits=Limits()))
    assert welcome["type"] == "welcome"
    assert welcome["limits"]["max_pulls"] == 1000
    assert all(value > 0 for value in welcome["limits"].values())

"""The frames as JSON."""

from typing import get_args

import msgspec
import pytest

from api.http.schemas import MessageView
from api.resources.broker import SnapshotView
from api.resources.pulls import PullResult
from api.websockets.frames import (
    SUPPORTED,
    Ack,
    ConsumerAnswer,
    ConsumerRequest,
    EventsAnswer,
    EventsRequest,
    HeldFrame,
    Limits,
    MessageFrame,
    OpenMessage,
    Pong,
    ProblemFrame,
    Pull,
    PulledFrame,
    SnapshotFrame,
    Subscribe,
    Welcome,
)

FROM_CLIENT = {
    "hello",
    "pull",
    "cancel",
    "subscribe",
    "permit",
    "ack",
    "nack",
    "commit",
    "unsubscribe",
    "publish",
    "ping",
    "receive",
    "acknowledge",
    "lease",
}
FROM_SERVER = {
    "welcome",
    "held",
    "woken",
    "pulled",
    "published",
    "problem",
    "pong",
    "bye",
    "cancelled",
    "committed",
    "assigned",
    "message",
    "unsubscribed",
    "received",
    "acknowledged",
    "leased",
}


@pytest.mark.parametrize(
    ("side", "tags"),
    [
        (ConsumerRequest, FROM_CLIENT),
        (ConsumerAnswer, FROM_SERVER),
        (EventsRequest, {"snapshot", "subscribe", "ping"}),
        (EventsAnswer, {"snapshot", "delta", "lost", "problem", "pong", "bye"}),
    ],
)
def test_the_types_of_each_side(side: object, tags: set[str]) -> None:
    assert {frame.__struct_config__.tag for frame in get_args(side)} == tags


def test_every_client_frame_is_supported() -> None:
    assert set(SUPPORTED) == FROM_CLIENT


@pytest.mark.parametrize(
    ("frame", "shape", "added"),
    [
        (MessageFrame, MessageView, {"id", "seq"}),
        (PulledFrame, PullResult, {"id"}),
        (SnapshotFrame, SnapshotView, set()),
    ],
)
def test_frames_add_to_the_shapes_of_http(
    frame: type[msgspec.Struct], shape: type[msgspec.Struct], added: set[str]
) -> None:
    assert set(frame.__struct_fields__) == {*shape.__struct_fields__, *added}
    assert frame.__struct_config__.tag_field == "type"


@pytest.mark.parametrize("entry", [3, {"offset": 3}, {"topic": "T", "broker": "b", "queue_id": 1, "offset": 3}])
def test_an_ack_names_messages_in_several_ways(entry: object) -> None:
    text = msgspec.json.encode({"type": "ack", "id": 1, "offsets": [entry]})
    ack = msgspec.json.decode(text, type=ConsumerRequest)
    assert isinstance(ack, Ack)
    assert ack.offsets == [3 if entry == 3 else msgspec.convert(entry, OpenMessage)]


def test_the_start_of_a_subscription_is_named_from() -> None:
    for start in ("first", "last", 1_700_000_000_000):
        text = msgspec.json.encode({"type": "subscribe", "id": 1, "topic": "T", "group": "G", "from": start})
        subscribe = msgspec.json.decode(text, type=ConsumerRequest)
        assert isinstance(subscribe, Subscribe)
        assert subscribe.start == start


def test_ids_are_texts_or_numbers_and_returned_as_sent() -> None:
    decoder = msgspec.json.Decoder(ConsumerRequest)
    for frame_id in ("a", 7):
        text = msgspec.json.encode({"type": "pull", "id": frame_id, "topic": "T", "queue_id": 0, "offset": 1})
        pull = decoder.decode(text)
        assert isinstance(pull, Pull)
        assert msgspec.json.decode(msgspec.json.encode(HeldFrame(id=pull.id, hold_id=1, deadline_ms=2))) == {
            "type": "held",
            "id": frame_id,
            "hold_id": 1,
            "deadline_ms": 2,
        }


def test_a_missing_id_is_left_out_of_the_answer() -> None:
    assert msgspec.json.encode(Pong()) == b'{"type":"pong"}'
    problem = ProblemFrame(title="Bad Request", status=400, detail="x", code="INVALID_PARAMETER")
    assert b'"id"' not in msgspec.json.encode(problem)


def test_the_welcome_has_all_limits() -> None:
    welcome = msgspec.to_builtins(Welcome(broker="b", client_id="c", supported=SUPPORTED, limits=Limits()))
    assert welcome["type"] == "welcome"
    assert welcome["limits"]["max_pulls"] == 1000
    assert all(value > 0 for value in welcome["limits"].values())

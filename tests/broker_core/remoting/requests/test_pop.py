"""Requests of consumers that pop, as a 5.4.0 client sends and reads them."""

import json

import pytest

from broker_core import commands as c
from broker_core.codes import RequestCode as Q
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from tests.fakes.remoting import EXAMPLES, IDENTITY, PEER, command_of, java


def decoded(code: int, body: bytes | None = None, **fields: str) -> object:
    example, example_body = EXAMPLES[code]
    return decode(command_of(java(code, example | fields, body=example_body if body is None else body)), PEER)


def answer(code: int, reply: c.Reply | list[c.Reply]) -> RemotingCommand:
    response = encode(reply, RemotingCommand.request(code, EXAMPLES[code][0], opaque=9), IDENTITY)
    if isinstance(response, bytes):
        response = command_of(response)
    assert isinstance(response, RemotingCommand)
    return response


def test_a_pop() -> None:
    assert decoded(Q.POP_MESSAGE) == c.PopMessage(
        topic="T",
        consumer_group="g",
        queue_id=-1,
        max_msg_nums=32,
        invisible_ms=60_000,
        poll_ms=15_000,
        from_max=True,
        expression="*",
        attempt_id="a",
        client_id=PEER.client_id,
        protocol="remoting",
    )
    ordered = decoded(Q.POP_MESSAGE, order="true", attemptId="b")
    assert isinstance(ordered, c.PopMessage) and (ordered.order, ordered.attempt_id) == (True, "b")


def test_the_answer_to_a_pop_in_order() -> None:
    """As RocketMQ 5.4.0 answers it."""
    queues = [
        c.PoppedQueue(topic="T", queue_id=0, start_offset=4, offsets=[4, 5, 6], counts={4: 1, 5: 1}),
        c.PoppedQueue(topic="T", queue_id=1, start_offset=1, offsets=[1, 2], counts={1: 2, 2: 1}),
    ]
    reply = c.Popped(code=0, pop_time_ms=17, invisible_ms=60_000, revive_queue_id=999, rest=1, queues=queues)
    fields = answer(Q.POP_MESSAGE, reply).ext_fields
    assert fields["orderCountInfo"] == "0 qo0%4 1;0 qo0%5 1;0 0 0;0 qo1%1 2;0 qo1%2 1;0 1 1"
    assert fields["reviveQid"] == "999"
    nothing = c.Popped(code=210, pop_time_ms=17, invisible_ms=60_000, revive_queue_id=999, rest=0, queues=[])
    assert answer(Q.POP_MESSAGE, nothing).ext_fields["orderCountInfo"] == ""


def test_the_answer_to_a_pop() -> None:
    queues = [
        c.PoppedQueue(topic="T", queue_id=2, start_offset=100, offsets=[100, 103]),
        c.PoppedQueue(topic="%RETRY%g_T", queue_id=0, start_offset=5, offsets=[5]),
    ]
    reply = c.Popped(
        code=0, pop_time_ms=17, invisible_ms=60_000, revive_queue_id=0, rest=4, queues=queues, records=b"records"
    )
    response = answer(Q.POP_MESSAGE, reply)
    assert (response.code, response.body) == (0, b"records")
    assert response.ext_fields == {
        "popTime": "17",
        "invisibleTime": "60000",
        "reviveQid": "0",
        "restNum": "4",
        "startOffsetInfo": "0 2 100;1 0 5",
        "msgOffsetInfo": "0 2 100,103;1 0 5",
    }
    nothing = c.Popped(code=210, pop_time_ms=17, invisible_ms=60_000, revive_queue_id=0, rest=0, queues=[])
    response = answer(Q.POP_MESSAGE, nothing)
    assert (response.code, response.ext_fields["startOffsetInfo"]) == (210, "")


def test_an_acknowledgement() -> None:
    expected = c.AckMessage(
        consumer_group="g", topic="T", queue_id=0, start_offset=7, pop_time_ms=1_700_000_000_000, offsets=[8]
    )
    assert decoded(Q.ACK_MESSAGE) == expected
    assert answer(Q.ACK_MESSAGE, c.Acknowledged(messages=0, late=[1])).code == 0


@pytest.mark.parametrize(
    "info",
    [
        "",
        "1",
        "a b c d",
        "7 1700000000000 60000",
        "7  60000 0",
        "x" * 5000,
        "7 1700000000000 60000 0",
        "7 1700000000000 60000 0 0 broker-a",
        "7 1700000000000 60000 0 0 broker-a 0 x",
        "7 1700000000000 60000 0 3 broker-a 0 8",
        "-1 1700000000000 60000 0 0 broker-a 0 8",
        "7 9223372036854775808 60000 0 0 broker-a 0 8",
        "7 1700000000000 60000 0 0 broker-a 0 " + "9" * 5000,
    ],
)
@pytest.mark.parametrize("code", [Q.ACK_MESSAGE, Q.CHANGE_MESSAGE_INVISIBLETIME])
def test_extra_info_that_no_pop_was_answered_with(code: int, info: str) -> None:
    reply = decoded(code, extraInfo=info)
    assert isinstance(reply, c.Failed) and reply.code == 29 and "is not one that a pop returns" in reply.remark
    assert len(reply.remark) < 300


@pytest.mark.covers("pop-extra-info")
@pytest.mark.parametrize(
    "info",
    [
        "7 1700000000000 60000 0 0 broker-a 0 9",
        "7 1700000000000 60000 0 0 broker-a 1 8",
        "7 1700000000000 60000 0 0 broker-a 1",
        "7 1700000000000 60000 0 1 broker-a 0 8",
        "7 1700000000000 60000 0 2 broker-a 0 8",
    ],
)
@pytest.mark.parametrize("code", [Q.ACK_MESSAGE, Q.CHANGE_MESSAGE_INVISIBLETIME])
def test_extra_info_of_another_message_than_the_request_names(code: int, info: str) -> None:
    reply = decoded(code, extraInfo=info)
    assert (
        isinstance(reply, c.Failed)
        and reply.code == 29
        and "belongs to another message than the request names: offset 8" in reply.remark
    )


@pytest.mark.parametrize(
    ("info", "topic"),
    [
        ("7 1700000000000 60000 0 0 broker-a 0", "T"),
        ("7 1700000000000 60000 0 0 broker-b 0 8", "T"),
        ("7 1700000000000 60000 0 0 broker-a 0 8 4711", "T"),  # RocketMQ's proxy adds a ninth word
        ("7 1700000000000 60000 0 1 broker-a 0 8", "%RETRY%g_T"),
        ("7 1700000000000 60000 0 2 broker-a 0 8", "%RETRY%g+T"),
    ],
)
def test_extra_info_in_its_other_forms(info: str, topic: str) -> None:
    command = decoded(Q.ACK_MESSAGE, extraInfo=info, topic=topic)
    assert isinstance(command, c.AckMessage) and (command.topic, command.start_offset) == (topic, 7)


def test_an_acknowledgement_of_what_was_popped_in_order() -> None:
    info = "7 1700000000000 60000 999 0 broker-a 0 8"
    command = decoded(Q.ACK_MESSAGE, extraInfo=info)
    assert isinstance(command, c.AckMessage) and command.order
    changed = decoded(Q.CHANGE_MESSAGE_INVISIBLETIME, extraInfo=info)
    assert isinstance(changed, c.ChangeInvisibleTime) and changed.order
    body = EXAMPLES[Q.BATCH_ACK_MESSAGE][1].replace(b'"rq":0', b'"rq":999')
    (command,) = decoded(Q.BATCH_ACK_MESSAGE, body=body)  # type: ignore[misc]
    assert command.order


def test_a_batch_of_acknowledgements() -> None:
    expected = c.AckMessage(
        consumer_group="g",
        topic="%RETRY%g_T",
        queue_id=0,
        start_offset=7,
        pop_time_ms=1_700_000_000_000,
        offsets=[7, 9],
    )
    assert decoded(Q.BATCH_ACK_MESSAGE) == [expected]
    normal = EXAMPLES[Q.BATCH_ACK_MESSAGE][1].replace(b'"r":"1"', b'"r":"0"')
    (command,) = decoded(Q.BATCH_ACK_MESSAGE, body=normal)  # type: ignore[misc]
    assert command.topic == "T"
    assert answer(Q.BATCH_ACK_MESSAGE, [c.Acknowledged(messages=1)]).code == 0


def test_a_batch_acknowledges_up_to_32_messages_that_are_up_to_4096_apart() -> None:
    for bits, offsets in ((b"/////w==", list(range(7, 39))), (b"A" * 680 + b"AIA=", [7 + 4095])):
        body = EXAMPLES[Q.BATCH_ACK_MESSAGE][1].replace(b"BQ==", bits)
        (command,) = decoded(Q.BATCH_ACK_MESSAGE, body=body)  # type: ignore[misc]
        assert command.offsets == offsets


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b'"b":"BQ=="', b'"b":"?"', 29),
        (b'"b":"BQ=="', b'"b":"%b"' % (b"A" * 1028), 29),
        (b'"b":"BQ=="', b'"b":"/////w8="', 29),
        (b'"r":"1"', b'"r":"3"', 29),
        (b'"so":7', b'"so":"x"', 1),
    ],
)
def test_a_batch_that_is_refused(old: bytes, new: bytes, code: int) -> None:
    reply = decoded(Q.BATCH_ACK_MESSAGE, body=EXAMPLES[Q.BATCH_ACK_MESSAGE][1].replace(old, new))
    assert isinstance(reply, c.Failed) and reply.code == code


def test_a_batch_has_a_limit() -> None:
    body = json.loads(EXAMPLES[Q.BATCH_ACK_MESSAGE][1])
    for acks in ([], body["acks"] * 1001):
        reply = decoded(Q.BATCH_ACK_MESSAGE, body=json.dumps(body | {"acks": acks}).encode())
        assert isinstance(reply, c.Failed) and reply.code == 208


def test_a_change_of_the_invisible_time() -> None:
    expected = c.ChangeInvisibleTime(
        consumer_group="g",
        topic="T",
        queue_id=0,
        start_offset=7,
        pop_time_ms=1_700_000_000_000,
        offset=8,
        invisible_ms=10_000,
    )
    assert decoded(Q.CHANGE_MESSAGE_INVISIBLETIME) == expected
    reply = c.InvisibleTimeChanged(pop_time_ms=18, invisible_ms=10_000, revive_queue_id=0)
    fields = answer(Q.CHANGE_MESSAGE_INVISIBLETIME, reply).ext_fields
    assert fields == {"popTime": "18", "invisibleTime": "10000", "reviveQid": "0"}


def test_a_notification() -> None:
    expected = c.Notification(topic="T", consumer_group="g", poll_ms=15_000, attempt_id="a", client_id=PEER.client_id)
    assert decoded(Q.NOTIFICATION) == expected
    fields = answer(Q.NOTIFICATION, c.Notified(has_message=False, polling_full=True)).ext_fields
    assert fields == {"hasMsg": "false", "pollingFull": "true"}


def test_a_peek() -> None:
    assert decoded(Q.PEEK_MESSAGE) == c.PeekMessage(topic="T", consumer_group="g")
    reply = c.Popped(code=19, pop_time_ms=0, invisible_ms=0, revive_queue_id=0, rest=0, queues=[])
    response = answer(Q.PEEK_MESSAGE, reply)
    assert (response.code, response.ext_fields["restNum"]) == (19, "0")


def test_polling_info() -> None:
    assert decoded(Q.POLLING_INFO) == c.PollingInfo(topic="T", consumer_group="g")
    assert answer(Q.POLLING_INFO, c.PollingNumber(number=3)).ext_fields == {"pollingNum": "3"}


def test_message_request_modes() -> None:
    body = b'{"consumerGroup":"g","mode":"POP","popShareQueueNum":2,"topic":"T"}'
    expected = c.SetMessageRequestMode(topic="T", consumer_group="g", mode="POP", share_queues=2)
    assert decoded(Q.SET_MESSAGE_REQUEST_MODE, body=body) == expected
    refused = decoded(Q.SET_MESSAGE_REQUEST_MODE, body=body.replace(b"POP", b"PUSH", 1))
    assert isinstance(refused, c.Failed) and refused.code == 1
    assert decoded(Q.GET_ALL_MESSAGE_REQUEST_MODE) == c.GetMessageRequestModes()
    response = answer(Q.GET_ALL_MESSAGE_REQUEST_MODE, c.MessageRequestModes(table={"messageRequestModeMap": {}}))
    assert response.body == b'{"messageRequestModeMap":{}}'

"""Replies to request messages: stored, and pushed to the producer that waits."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import MessageReplied
from broker_core.formats.message_properties import decode, encode
from tests.fakes.engine import Bench, bodies

TOPIC = "DefaultCluster_REPLY_TOPIC"
REQUESTER = "10.0.0.2@1"


def bench_with_requester(**options: Any) -> Bench:
    bench = Bench(**options)
    bench.submit(c.OpenConnection(client_id="", protocol="remoting"), connection="requester")
    beat = c.HeartBeat(client_id=REQUESTER, protocol="remoting", producer_groups=["pg"])
    assert isinstance(bench.call(beat, connection="requester"), c.HeartBeatDone)
    return bench


def reply(client_id: str = REQUESTER, *, topic: str = TOPIC, count: int = 1, **more: Any) -> c.SendReplyMessage:
    properties = {"MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "UNIQ_KEY": "K1"}
    if client_id:
        properties["REPLY_TO_CLIENT"] = client_id
    message = c.OutgoingMessage(body=b"answer", properties=encode(properties), queue_id=0)
    return c.SendReplyMessage(
        send=c.SendMessage(topic=topic, messages=[message] * count, born_host="10.0.0.9", born_port=5555, **more)
    )


def replied(bench: Bench) -> list[tuple[str, str, bool]]:
    return [(e.client_id, e.correlation_id, e.pushed) for e in bench.engine.events.after(0, MessageReplied)]


def test_a_reply_is_stored_and_returned_for_the_requester() -> None:
    bench = bench_with_requester()
    push = bench.call(reply())
    assert isinstance(push, c.ReplyMessage)
    assert (push.client_id, push.body, push.born_host) == (REQUESTER, b"answer", "10.0.0.9:5555")
    assert decode(push.properties) == {
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "c-1",
        "UNIQ_KEY": "K1",
        "REPLY_TO_CLIENT": REQUESTER,
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "PUSH_REPLY_TIME": str(bench.clock.now().wall_ms),
    }
    assert bodies(bench.pulled(bench.pull(TOPIC, 0))) == [b"answer"]
    assert replied(bench) == [(REQUESTER, "c-1", True)]
    counters = bench.engine.counters
    assert (counters.replies_pushed, counters.replies_without_client) == (1, 0)


def test_a_reply_to_a_requester_that_is_gone_is_stored_and_refused_as_in_rocketmq() -> None:
    bench = bench_with_requester()
    bench.submit(c.CloseConnection(), connection="requester")
    failed = bench.call(reply())
    assert isinstance(failed, c.Failed) and failed.code == 1 and REQUESTER in failed.remark
    assert bodies(bench.pulled(bench.pull(TOPIC, 0))) == [b"answer"]
    assert replied(bench) == [(REQUESTER, "c-1", False)]
    assert bench.engine.counters.replies_without_client == 1


def test_a_requester_is_found_while_it_is_in_any_group() -> None:
    bench = bench_with_requester()
    both = c.HeartBeat(client_id=REQUESTER, protocol="remoting", producer_groups=["pg", "other"])
    bench.call(both, connection="requester")
    bench.call(c.UnregisterClient(client_id=REQUESTER, producer_group="pg"), connection="requester")
    assert isinstance(bench.call(reply()), c.ReplyMessage)
    bench.call(c.UnregisterClient(client_id=REQUESTER, producer_group="other"), connection="requester")
    assert isinstance(bench.call(reply()), c.Failed)


def test_a_requester_that_reconnects_is_found_by_its_new_connection() -> None:
    bench = bench_with_requester()
    bench.submit(c.OpenConnection(client_id="", protocol="remoting"), connection="again")
    bench.call(c.HeartBeat(client_id=REQUESTER, protocol="remoting", producer_groups=["pg"]), connection="again")
    bench.submit(c.CloseConnection(), connection="requester")
    assert isinstance(bench.call(reply()), c.ReplyMessage)


def test_a_client_of_another_protocol_is_not_pushed_to() -> None:
    bench = Bench()
    bench.submit(c.OpenConnection(client_id=REQUESTER, protocol="websocket"), connection="w")
    bench.call(c.HeartBeat(client_id=REQUESTER, protocol="websocket", producer_groups=["pg"]), connection="w")
    assert isinstance(bench.call(reply()), c.Failed)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (reply(""), 1),
        (reply(count=2), 13),
        (reply(count=0), 13),
        (reply(topic="a b"), 29),
        (reply(topic="SCHEDULE_TOPIC_XXXX"), 16),
        (reply(topic="new", default_topic="none"), 17),
    ],
)
def test_replies_that_are_refused(command: c.SendReplyMessage, code: int) -> None:
    bench = bench_with_requester()
    failed = bench.call(command)
    assert isinstance(failed, c.Failed) and failed.code == code
    assert replied(bench) == [] and bench.context.store.appended_offset == 0


def test_a_reply_need_not_be_stored() -> None:
    bench = bench_with_requester(store_reply_message_enable=False)
    push = bench.call(reply())
    assert isinstance(push, c.ReplyMessage) and push.offset_message_id == "0"
    assert bench.context.store.appended_offset == 0


def test_a_reply_that_the_store_refuses_is_pushed_nevertheless() -> None:
    bench = bench_with_requester()
    bench.engine.flush_failed(OSError("the disk is broken"), bench.clock.now())
    push = bench.call(reply())
    assert isinstance(push, c.ReplyMessage) and push.offset_message_id == "0"


def test_no_reply_is_passed_on_while_the_broker_stops() -> None:
    bench = bench_with_requester()
    bench.take(bench.engine.drain(bench.clock.now()))
    failed = bench.call(reply())
    assert isinstance(failed, c.Failed) and failed.code == 14

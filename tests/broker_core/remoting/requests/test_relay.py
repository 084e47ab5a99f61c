"""Questions that a client answers: who is asked, what, and what becomes of the answer."""

import pytest

from broker_core import commands as c
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import Relay, decode, encode
from tests.fakes.remoting import EXAMPLES, IDENTITY, PEER, client_view, command_of, java

QUEUE = b'{"brokerName":"broker-a","queueId":0,"topic":"T"}'


def clients(*views: c.ClientView) -> c.Clients:
    return c.Clients(seq=1, total=len(views), clients=list(views))


def encoded_reply(code: int, *replies: c.Reply, **fields: str) -> RemotingCommand | Relay:
    request = RemotingCommand.request(code, EXAMPLES[code][0] | fields, opaque=9)
    encoded = encode(list(replies) if len(replies) > 1 else replies[0], request, IDENTITY)
    assert not isinstance(encoded, bytes)
    return encoded


def relayed(encoded: RemotingCommand | Relay) -> Relay:
    assert isinstance(encoded, Relay)
    return encoded


def client_answer(code: int = 0, body: bytes = b"", **more: str) -> RemotingCommand:
    return RemotingCommand(code, {"a": "b"}, body, flag=1, opaque=1234, **more)


def test_the_commands_of_relayed_requests() -> None:
    assert decode(command_of(java(307, EXAMPLES[307][0])), PEER) == c.GetClients(group="g", limit=1000)
    assert decode(command_of(java(309, EXAMPLES[309][0])), PEER) == [
        c.GetClients(group="g", limit=1000),
        c.ViewMessage(message_id="0A", topic="T"),
    ]
    assert decode(command_of(java(223, EXAMPLES[223][0])), PEER) == c.GetClients(group="g", limit=1000)


def test_running_info_is_the_clients_answer() -> None:
    relay = relayed(encoded_reply(307, clients(client_view("c0"), client_view("c1"))))
    assert (relay.client_ids, relay.code, relay.ext_fields, relay.body, relay.timeout_s) == (
        ["c1"],
        307,
        EXAMPLES[307][0],
        b"",
        10.0,
    )
    answer = relay.answer([client_answer(3, b"info", remark="so so")])
    assert (answer.code, answer.remark, answer.ext_fields, answer.body, answer.opaque, answer.flag) == (
        3,
        "so so",
        {"a": "b"},
        b"info",
        9,
        1,
    )


def test_a_message_to_consume_goes_along() -> None:
    relay = relayed(encoded_reply(309, clients(client_view("c1")), c.Records(records=b"record")))
    assert relay.ext_fields == EXAMPLES[309][0] | {"brokerName": "broker-a"} and relay.body == b"record"


def test_a_message_that_is_not_there() -> None:
    failed = c.Failed(code=22, remark="no message has the id", kind="not_found")
    answer = encoded_reply(309, clients(client_view("c1")), failed)
    assert isinstance(answer, RemotingCommand) and (answer.code, answer.remark) == (22, "no message has the id")


@pytest.mark.parametrize("views", [(), (client_view("c2"),), (client_view("c1", version=61),)])
def test_a_request_to_an_unreachable_client_is_refused(views: tuple[c.ClientView, ...]) -> None:
    answer = encoded_reply(307, clients(*views))
    assert isinstance(answer, RemotingCommand) and answer.code == 1 and "c1" in answer.remark


def test_a_websocket_is_not_called_a_client_that_is_too_old() -> None:
    answer = encoded_reply(307, clients(client_view("c1", version=0, protocol="websocket")))
    assert isinstance(answer, RemotingCommand)
    assert answer.remark == "client c1 is connected by websocket; only RocketMQ's clients can be asked"


def test_a_client_that_does_not_answer() -> None:
    relay = relayed(encoded_reply(307, clients(client_view("c1"))))
    answer = relay.answer([c.Failed(code=207, remark="too late", kind="unavailable")])
    assert (answer.code, answer.remark, answer.opaque) == (207, "too late", 9)


def test_the_offsets_of_all_clients_of_a_group() -> None:
    relay = relayed(
        encoded_reply(
            223, clients(client_view("c1"), client_view("c2"), client_view("c3"), client_view("c1")), clientAddr=""
        )
    )
    assert (relay.client_ids, relay.code, relay.timeout_s) == (["c1", "c2", "c3"], 221, 5.0)
    answer = relay.answer(
        [
            client_answer(0, b'{"messageQueueTable":{%b:7}}' % QUEUE),
            c.Failed(code=207, remark="too late", kind="unavailable"),
            client_answer(1, b"what?"),
        ]
    )
    assert answer.code == 0
    assert answer.body == b'{"consumerTable":{"c1":{%b:7}},"messageQueueTable":{}}' % QUEUE


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"what?",
        b"{}",
        b'{"messageQueueTable":7}',
        b'{"messageQueueTable":{"x":"y"}}',
        b'{"messageQueueTable":{%b:"\\ud800"}}' % QUEUE,
        b"\xff",
    ],
)
def test_a_senseless_client_status_is_no_offset(body: bytes) -> None:
    answer = relayed(encoded_reply(223, clients(client_view("c1")))).answer([client_answer(0, body)])
    assert answer.body == b'{"consumerTable":{"c1":{}},"messageQueueTable":{}}'


@pytest.mark.parametrize(
    ("views", "address", "remark"),
    [
        ((), "", "no client is in group g"),
        ((client_view("c2"),), "c1", "client c1 is not in group g"),
        ((client_view("c1", version=27),), "", "version 27"),
        ((client_view("c1", version=0, protocol="websocket"),), "", "only RocketMQ's clients can be asked"),
    ],
)
def test_a_request_to_a_group_without_reachable_clients_is_refused(
    views: tuple[c.ClientView, ...], address: str, remark: str
) -> None:
    answer = encoded_reply(223, clients(*views), clientAddr=address)
    assert isinstance(answer, RemotingCommand) and answer.code == 1 and remark in answer.remark

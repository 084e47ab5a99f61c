"""The parts of a line of the table."""

from broker_core import commands as c
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.request_type import Identity, Peer, encode_done


def test_a_peer_is_nameless_at_first() -> None:
    assert Peer("10.0.0.2", 5).client_id == ""


def test_done() -> None:
    response = encode_done(c.Done(), RemotingCommand.request(15, {"x": "y"}, opaque=3), Identity("b"))
    assert (response.code, response.ext_fields, response.opaque, response.flag) == (0, {}, 3, 1)

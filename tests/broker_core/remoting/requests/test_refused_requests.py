"""Every request that a RocketMQ 5.4.0 broker answers is answered here, or refused with the reason."""

import pytest

from broker_core.commands import Failed
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import REFUSED_REQUESTS, REQUESTS, decode
from tests.fakes.remoting import PEER

ROCKETMQ = {
    *(10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45, 46, 60, 61),
    *(200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 225),
    *(300, 303, 305, 306, 307, 308, 309, 310, 314, 315, 316, 317, 320, 321, 323, 324, 325, 328, 329),
    *(343, 345, 351, 352, 353, 354, 355, 361, 370),
    *(400, 401, 402, 513, 905, 906, 907, 908, 1007, 1008, 2001, 2002, 2003, 2004),
    *(3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010, 5001),
    *(200050, 200051, 200052, 200053, 200054, 200055, 200056, 200151),
}
"""The codes for which RocketMQ 5.4.0's BrokerController registers a processor, and those in the switch of
AdminBrokerProcessor, which gets all others."""


def test_every_request_of_rocketmqs_broker_is_answered_or_refused_with_a_reason() -> None:
    assert len(ROCKETMQ) == 100
    assert {*REQUESTS, *REFUSED_REQUESTS} == ROCKETMQ
    assert not REQUESTS.keys() & REFUSED_REQUESTS.keys(), "what is answered is not refused: remove it from the table"


@pytest.mark.parametrize("code", sorted(REFUSED_REQUESTS))
def test_a_refusal_says_why(code: int) -> None:
    refused = decode(RemotingCommand.request(code, {}, b"", opaque=1), PEER)
    assert isinstance(refused, Failed)
    assert (refused.code, refused.remark) == (3, f" request type {code} not supported: {REFUSED_REQUESTS[code]}")
    assert "|" not in refused.remark, "the page is a table"


@pytest.mark.parametrize("code", [0, 13, 27, 105, 9999])
def test_an_unknown_request_gets_rocketmqs_words(code: int) -> None:
    refused = decode(RemotingCommand.request(code, {}, b"", opaque=1), PEER)
    assert isinstance(refused, Failed)
    assert (refused.code, refused.remark) == (3, f" request type {code} not supported")

"""Pulls as the stock clients write them, and the four fields that they need of every answer."""

from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.remoting.remoting_command import MAX_FRAME, RemotingCommand
from broker_core.remoting.requests import Identity, decode, encode
from broker_core.remoting.requests.pull import MAX_RECORDS
from tests.fakes.remoting import PEER, PULL, command_of, go, java

EXPECTED = c.PullMessage(
    topic="T",
    queue_id=1,
    queue_offset=7,
    max_msg_nums=32,
    max_msg_bytes=262_144,
    suspend_timeout_ms=15_000,
    consumer_group="g",
    client_id="10.0.0.2@1",
    protocol="remoting",
    subscription=None,
    expression_type="TAG",
    commit_offset=6,
    sub_version=1_700_000_000_000,
    check_group=True,
    lite=False,
)


def pull(code: int = 11, **fields: str) -> c.PullMessage:
    command = decode(RemotingCommand.request(code, PULL | fields, opaque=1), PEER)
    assert isinstance(command, c.PullMessage)
    return command


def replaced(**changes: Any) -> c.PullMessage:
    return msgspec.structs.replace(EXPECTED, **changes)


def test_javas_push_consumer() -> None:
    assert decode(command_of(java(11, PULL)), PEER) == EXPECTED


def test_gos_push_consumer() -> None:
    """It says an empty subscription without the bit for it, version 0, and no maxMsgBytes."""
    fields = {name: PULL[name] for name in PULL if name not in ("maxMsgBytes", "bname")} | {
        "sysFlag": "2",
        "subscription": "",
        "subVersion": "0",
        "suspendTimeoutMillis": "20000",
        "commitOffset": "-1",
    }
    assert decode(command_of(go(11, fields)), PEER) == replaced(
        sub_version=0, suspend_timeout_ms=20_000, commit_offset=-1, max_msg_bytes=MAX_RECORDS
    )


def test_javas_lite_pull_consumer() -> None:
    command = pull(
        361,
        sysFlag="22",
        subscription="TagA || TagB",
        commitOffset="0",
        maxMsgNums="10",
        maxMsgBytes="2147483647",
        suspendTimeoutMillis="20000",
    )
    assert command == replaced(
        subscription="TagA || TagB",
        commit_offset=-1,
        max_msg_nums=10,
        suspend_timeout_ms=20_000,
        max_msg_bytes=MAX_RECORDS,
        lite=True,
    )


@pytest.mark.parametrize(
    ("sys_flag", "suspends", "commits", "subscribes"),
    [
        (0, False, False, False),
        (1, False, True, False),
        (2, True, False, False),
        (4, False, False, True),
        (3, True, True, False),
        (8, False, False, False),
        (-1, True, True, True),
    ],
)
def test_the_bits_of_the_sys_flag(sys_flag: int, suspends: bool, commits: bool, subscribes: bool) -> None:
    command = pull(sysFlag=str(sys_flag), subscription="TagA")
    assert command == replaced(
        suspend_timeout_ms=15_000 if suspends else 0,
        commit_offset=6 if commits else -1,
        subscription="TagA" if subscribes else None,
    )


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({"sysFlag": "4", "subscription": ""}, {"subscription": "*", "suspend_timeout_ms": 0, "commit_offset": -1}),
        ({"expressionType": "SQL92"}, {"expression_type": "SQL92"}),
        ({"expressionType": ""}, {}),
        ({"suspendTimeoutMillis": "-5"}, {"suspend_timeout_ms": 0}),
        ({"commitOffset": "-7"}, {"commit_offset": -1}),
        ({"maxMsgNums": "0"}, {"max_msg_nums": 1}),
        ({"maxMsgNums": "-1"}, {"max_msg_nums": 1}),
        ({"maxMsgBytes": "-1"}, {"max_msg_bytes": -1}),
        ({"queueOffset": "-1"}, {"queue_offset": -1}),
    ],
)
def test_values_out_of_the_ordinary(fields: dict[str, str], changes: dict[str, Any]) -> None:
    assert pull(**fields) == replaced(**changes)


def pulled(code: int = 0, status: str = "FOUND", records: bytes = b"") -> c.Pulled:
    return c.Pulled(
        code=code,
        status=status,
        next_begin_offset=12,
        min_offset=3,
        max_offset=40,
        suspend_timeout_ms=0,
        read_us=1,
        records=records,
    )


def answer(reply: c.Pulled, kind: Any = "JSON") -> RemotingCommand:
    encoded = encode(reply, RemotingCommand.request(11, PULL, opaque=9, serialize_type=kind), Identity("b", 2))
    data = encoded.encode() if isinstance(encoded, RemotingCommand) else encoded
    assert isinstance(data, bytes)
    return command_of(data)


@pytest.mark.parametrize("kind", ["JSON", "ROCKETMQ"])
@pytest.mark.parametrize(
    ("code", "status"),
    [(0, "FOUND"), (19, "OFFSET_OVERFLOW_ONE"), (20, "NO_MATCHED_MESSAGE"), (21, "OFFSET_TOO_SMALL")],
)
def test_the_answer(code: int, status: str, kind: Any) -> None:
    response = answer(pulled(code, status, b"records"), kind)
    assert (response.code, response.remark, response.opaque, response.body) == (code, status, 9, b"records")
    assert response.ext_fields == {
        "suggestWhichBrokerId": "2",
        "nextBeginOffset": "12",
        "minOffset": "3",
        "maxOffset": "40",
    }


def test_the_largest_answer_is_a_frame_that_clients_take() -> None:
    encoded = encode(pulled(records=bytes(MAX_RECORDS)), RemotingCommand.request(11, PULL, opaque=9), Identity("b"))
    assert isinstance(encoded, bytes) and len(encoded) <= MAX_FRAME


def test_one_message_that_is_too_large_for_a_frame_is_left_to_the_encoder() -> None:
    encoded = encode(pulled(records=bytes(MAX_FRAME)), RemotingCommand.request(11, PULL, opaque=9), Identity("b"))
    assert isinstance(encoded, RemotingCommand)
    with pytest.raises(ValueError, match="longer"):
        encoded.encode()

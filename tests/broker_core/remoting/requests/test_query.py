"""Looking for single messages."""

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from tests.fakes.remoting import EXAMPLES, IDENTITY, PEER, command_of, java


def answer(code: int, reply: c.Reply) -> RemotingCommand:
    response = encode(reply, RemotingCommand.request(code, EXAMPLES[code][0], opaque=9), IDENTITY)
    assert isinstance(response, RemotingCommand)
    return response


def test_by_offset() -> None:
    assert decode(command_of(java(33, {"offset": "120"})), PEER) == c.ViewMessage(physical_offset=120)
    assert answer(33, c.Records(records=b"record")).body == b"record"


@pytest.mark.parametrize(
    ("extra", "max_num"), [({}, 10), ({"_UNIQUE_KEY_QUERY": "true"}, 32), ({"_UNIQUE_KEY_QUERY": "false"}, 10)]
)
def test_by_key(extra: dict[str, str], max_num: int) -> None:
    assert decode(command_of(java(12, EXAMPLES[12][0] | extra)), PEER) == c.QueryMessage(
        topic="T", key="k", max_num=max_num, begin_ms=0, end_ms=(1 << 63) - 1
    )


@pytest.mark.parametrize(
    ("extra", "key"),
    [
        ({"indexType": "T"}, "T#k"),
        ({"indexType": "K"}, "k"),
        ({"indexType": "U"}, "k"),
        ({"indexType": ""}, "k"),
        ({"indexType": "T", "_UNIQUE_KEY_QUERY": "true"}, "k"),
    ],
)
def test_the_type_of_the_index(extra: dict[str, str], key: str) -> None:
    command = decode(command_of(java(12, EXAMPLES[12][0] | extra)), PEER)
    assert isinstance(command, c.QueryMessage) and command.key == key


def test_an_unknown_type_of_the_index_is_refused() -> None:
    failed = decode(command_of(java(12, EXAMPLES[12][0] | {"indexType": "X" * 1000})), PEER)
    assert isinstance(failed, c.Failed) and failed.code == ResponseCode.INVALID_PARAMETER
    assert "indexType is K (a key), U (a unique key) or T (a tag), not 'X" in failed.remark
    assert len(failed.remark) < 200


@pytest.mark.parametrize(("records", "code"), [(b"records", 0), (b"", 22)])
def test_the_answer_says_how_far_the_index_is(records: bytes, code: int) -> None:
    response = answer(
        12, c.Records(records=records, index_last_update_timestamp=5, index_last_update_physical_offset=7)
    )
    assert (response.code, response.body, bool(response.remark)) == (code, records, code == 22)
    assert response.ext_fields == {"indexLastUpdateTimestamp": "5", "indexLastUpdatePhyoffset": "7"}

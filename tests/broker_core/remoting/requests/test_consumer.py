"""Offsets, members of a group, send back."""

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import decode, encode
from tests.fakes.remoting import EXAMPLES, IDENTITY, PEER, QUEUE, command_of, go, java


def decoded(code: int, **fields: str) -> object:
    return decode(RemotingCommand.request(code, EXAMPLES[code][0] | fields, opaque=1), PEER)


def answer(code: int, reply: c.Reply) -> RemotingCommand:
    response = encode(reply, RemotingCommand.request(code, EXAMPLES[code][0], opaque=9), IDENTITY)
    assert isinstance(response, RemotingCommand)
    return response


def test_query_consumer_offset() -> None:
    assert decoded(14) == c.QueryOffset(group="g", topic="T", queue_id=1, set_zero_if_not_found=False)
    assert decode(RemotingCommand.request(14, QUEUE | {"consumerGroup": "g"}, opaque=1), PEER) == c.QueryOffset(
        group="g", topic="T", queue_id=1, set_zero_if_not_found=True
    )
    assert answer(14, c.FoundOffset(offset=9)).ext_fields == {"offset": "9"}


def test_update_consumer_offset() -> None:
    fields = QUEUE | {"consumerGroup": "g", "commitOffset": "5", "bname": "b"}
    for data in (java(15, fields, flag=2), go(15, fields)):
        assert decode(command_of(data), PEER) == c.UpdateConsumerOffset(
            group="g", client_id="10.0.0.2@1", offsets=[c.QueueOffset(topic="T", queue_id=1, offset=5)]
        )


@pytest.mark.parametrize("offset", ["-1", "-9223372036854775808"])
def test_a_negative_commit_is_done_without_the_engine(offset: str) -> None:
    assert decoded(15, commitOffset=offset) == c.Done()
    assert decoded(15, commitOffset="0") != c.Done()


def test_offsets_of_a_queue() -> None:
    assert decoded(30) == c.GetMaxOffset(topic="T", queue_id=1)
    assert decoded(31) == c.GetMinOffset(topic="T", queue_id=1)
    assert decoded(32) == c.GetEarliestMsgStoreTime(topic="T", queue_id=1)
    assert answer(30, c.FoundOffset(offset=9)).ext_fields == answer(31, c.FoundOffset(offset=9)).ext_fields
    assert answer(32, c.StoreTime(timestamp_ms=-1)).ext_fields == {"timestamp": "-1"}


@pytest.mark.parametrize(("text", "boundary"), [("UPPER", "upper"), ("Lower", "lower"), (None, "lower")])
def test_search_offset(text: str | None, boundary: str) -> None:
    fields = QUEUE | {"timestamp": "1700000000000"} | ({"boundaryType": text} if text else {})
    assert decode(RemotingCommand.request(29, fields, opaque=1), PEER) == c.SearchOffset(
        topic="T", queue_id=1, timestamp_ms=1_700_000_000_000, boundary=boundary
    )  # type: ignore[arg-type]


def test_an_unknown_boundary_is_refused() -> None:
    failed = decoded(29, boundaryType="MIDDLE" * 100)
    assert isinstance(failed, c.Failed) and failed.code == ResponseCode.SYSTEM_ERROR
    assert "boundaryType" in failed.remark and len(failed.remark) < 200


def test_the_members_of_a_group() -> None:
    assert decoded(38) == c.GetConsumerListByGroup(group="g")
    assert answer(38, c.ConsumerList(client_ids=["10.0.0.2@1", "é"])).body == (
        '{"consumerIdList":["10.0.0.2@1","é"]}'.encode()
    )


@pytest.mark.parametrize(("version", "times"), [(493, 16), (317, 16), (120, None)])
def test_send_back(version: int, times: int | None) -> None:
    request = RemotingCommand(36, EXAMPLES[36][0], version=version)
    assert decode(request, PEER) == c.ConsumerSendMsgBack(
        group="g",
        physical_offset=120,
        delay_level=0,
        origin_message_id="0A",
        origin_topic="T",
        max_reconsume_times=times,
    )


def test_send_back_in_so_many_words() -> None:
    request = RemotingCommand.request(36, {"offset": "120", "group": "g", "delayLevel": "-1"}, opaque=1)
    assert decode(request, PEER) == c.ConsumerSendMsgBack(group="g", physical_offset=120, delay_level=-1)

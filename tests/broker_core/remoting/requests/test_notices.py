"""What clients are told unasked."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.remoting.requests.notices import encode_notice
from tests.fakes.remoting import command_of


@pytest.mark.parametrize("kind", ["JSON", "ROCKETMQ"])
def test_the_members_of_a_group_changed(kind: Any) -> None:
    notice = encode_notice(c.ConsumerIdsChanged(group="g"), 5, kind)
    assert notice is not None
    command = command_of(notice.encode())
    assert (command.code, command.ext_fields, command.opaque, command.flag, command.body, command.serialize_type) == (
        40,
        {"consumerGroup": "g"},
        5,
        2,
        b"",
        kind,
    )


def test_the_offsets_from_which_a_member_begins_anew() -> None:
    offsets = [c.QueueOffset(topic="t", queue_id=number, offset=7 + number) for number in (0, 1)]
    notice = c.ResetConsumerClientOffset(group="g", topic="t", broker_name="b", offsets=offsets)
    encoded = encode_notice(notice, 5, "JSON")
    assert encoded is not None
    command = command_of(encoded.encode())
    assert (command.code, command.flag) == (220, 2)
    assert command.ext_fields == {"topic": "t", "group": "g", "timestamp": "0", "isForce": "true"}
    assert command.body == (
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:7,{"brokerName":"b","queueId":1,"topic":"t"}:8}}'
    )


def test_notices_that_rocketmq_clients_do_not_know() -> None:
    class Whisper(c.Notice, frozen=True):
        pass

    assert encode_notice(Whisper(), 5, "JSON") is None

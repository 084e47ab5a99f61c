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


def test_notices_that_rocketmq_clients_do_not_know() -> None:
    class Whisper(c.Notice, frozen=True):
        pass

    assert encode_notice(Whisper(), 5, "JSON") is None

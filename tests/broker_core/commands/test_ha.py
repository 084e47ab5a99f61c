"""The commands of the HA port are read as they were written."""

import msgspec
import pytest

from broker_core import commands as c


@pytest.mark.parametrize(
    "command",
    [
        c.ReportSlaveMaxOffset(address="10.0.0.7:50000", slave_ack_offset=-(1 << 40), transferred=1 << 40),
        c.RemoveSlave(address="10.0.0.7:50000", reason="it left", refused=False),
    ],
    ids=lambda command: type(command).__name__,
)
def test_commands_are_told_apart(command: c.Command) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(command), type=c.AnyCommand) == command

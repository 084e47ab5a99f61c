"""Calls in the engine's own process."""

import pytest

from broker_core import commands as c
from broker_core.server.attach.engine_calls import EngineRefused
from tests.fakes.following import empty_copy


async def test_a_call_returns_its_reply_or_raises() -> None:
    async with empty_copy() as copy:
        assert isinstance(await copy.calls.call(c.GetLogEnd()), c.LogEnd)
        with pytest.raises(EngineRefused, match="from slave broker") as refused:
            await copy.calls.call(c.DeleteTopic(topic="t"))
        assert refused.value.failed.kind == "unavailable"


async def test_each_client_has_its_connection() -> None:
    async with empty_copy() as copy:
        one = copy.calls.client("one")
        assert copy.calls.client("one") is one is not copy.calls.client("two")
        copy.calls.forget_client("one")
        assert copy.calls.client("one") is not one

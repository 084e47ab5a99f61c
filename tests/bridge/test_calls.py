"""The limits of open and waiting calls, and which calls fail when the engine is lost."""

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec import Raw

from bridge.calls import HEAD_BYTES, Call, Calls
from bridge.limits import Limits
from bridge.port import PortTimeout, PortUnavailable
from broker_core.errors import RequestError

if TYPE_CHECKING:
    from broker_core.commands import Reply


def call(request_id: int, size: int = 10, *, is_pull: bool = False) -> Call:
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    return Call(1, request_id, Raw(b"x" * size), 0, is_pull, future, None)


async def test_a_batch_ends_with_the_call_that_reaches_a_limit() -> None:
    calls = Calls(Limits(batch_count=3, batch_bytes=25))
    for request_id, size in enumerate((10, 10, 10, 30, 10, 10, 1, 1, 1), 1):
        calls.add(call(request_id, size))
    batches = []
    while calls.is_waiting:
        batches.append([entry.request_id for entry in calls.take_batch()])
    assert batches == [[1, 2, 3], [4], [5, 6, 7], [8, 9]]
    assert len(calls) == 9, "sent calls stay open until they end"


async def test_cancelled_calls_make_room_and_are_not_sent() -> None:
    calls = Calls(Limits(waiting_count=2))
    first, second = call(1), call(2)
    calls.add(first)
    calls.add(second)
    with pytest.raises(PortUnavailable, match="wait to be sent"):
        calls.add(call(3))
    assert not calls.add_unanswered(call(0))
    first.future.cancel()  # type: ignore[union-attr]
    calls.add(call(3))
    assert [entry.request_id for entry in calls.take_batch()] == [2, 3]


async def test_open_calls_are_limited_by_number_and_bytes_until_they_end() -> None:
    calls = Calls(Limits(calls=2, call_bytes=100))
    first = call(1, 60)
    calls.add(first)
    with pytest.raises(PortUnavailable, match="1 calls of this web process"):
        calls.add(call(2, 50))
    calls.add(call(2, 40))
    with pytest.raises(PortUnavailable, match="2 calls of this web process"):
        calls.add(call(3, 0))
    assert not calls.end(first), "it was not answered"
    third = call(3, 60)
    calls.add(third)
    calls.answer(third)
    assert calls.end(third)
    assert len(calls) == 1


async def test_a_command_that_no_message_can_contain_and_a_used_request_id_are_refused() -> None:
    calls = Calls(Limits(message_bytes=HEAD_BYTES + 10))
    with pytest.raises(RequestError, match="11 bytes"):
        calls.add(call(1, 11))
    calls.add(call(1))
    with pytest.raises(RequestError, match="request id 1 is in use"):
        calls.add(call(1))


async def test_the_error_of_a_sent_call_says_whether_it_may_have_run() -> None:
    calls = Calls(Limits())
    old, old_pull, new, unsent = call(1), call(2, is_pull=True), call(3), call(4)
    for entry, batch in ((old, 1), (old_pull, 1), (new, 2), (unsent, 0)):
        calls.add(entry)
        entry.batch = batch
    calls.fail_sent("restarted", before_batch=2)
    assert [entry.is_wanted for entry in (old, old_pull, new, unsent)] == [False, False, True, True]
    with pytest.raises(PortTimeout, match="restarted; the command may or may not"):
        await old.future  # type: ignore[misc]
    with pytest.raises(PortUnavailable, match=r"^restarted$"):
        await old_pull.future  # type: ignore[misc]
    calls.fail_sent("lost")
    assert not new.is_wanted and unsent.is_wanted
    calls.fail_all(lambda: PortUnavailable("stopping"))
    for entry in (new, unsent):
        with pytest.raises((PortTimeout, PortUnavailable)):
            await entry.future  # type: ignore[misc]

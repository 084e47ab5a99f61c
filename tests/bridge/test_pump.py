import asyncio

import pytest

from bridge.pump import Pump


class Lines:
    """Sends what waits, all at once; a send takes until ``gate`` is set."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.sent: list[list[str]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def step(self) -> bool:
        if not self.waiting:
            return False
        batch, self.waiting = self.waiting, []
        self.sent.append(batch)
        if self.error is not None:
            raise self.error
        await self.gate.wait()
        return True


async def test_lines_of_one_turn_are_sent_together_and_later_ones_gather() -> None:
    lines = Lines()
    pump = Pump(lines.step)
    for line in ("a", "b"):
        lines.waiting.append(line)
        pump.wake()
    await asyncio.sleep(0)
    assert lines.sent == [["a", "b"]]
    for line in ("c", "d"):
        lines.waiting.append(line)
        pump.wake()
    await asyncio.sleep(0)
    assert lines.sent == [["a", "b"]]
    lines.gate.set()
    await pump.finish(5000)
    assert lines.sent == [["a", "b"], ["c", "d"]]


async def test_a_pump_can_be_woken_after_it_was_idle_and_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    lines = Lines()
    lines.gate.set()
    pump = Pump(lines.step)
    lines.error = ValueError("broken")
    lines.waiting.append("a")
    pump.wake()
    await pump.finish(5000)
    lines.error = None
    lines.waiting.append("b")
    pump.wake()
    await pump.finish(5000)
    assert lines.sent == [["a"], ["b"]]
    assert "unexpected" in caplog.text


async def test_rest_is_limited_by_its_timeout() -> None:
    lines = Lines()
    pump = Pump(lines.step)
    lines.waiting.append("a")
    pump.wake()
    await pump.finish(1)
    assert len(asyncio.all_tasks()) == 1
    await pump.finish(1)  # nothing runs any more

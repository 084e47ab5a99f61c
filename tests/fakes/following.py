"""A running engine with an empty copy, for the tasks that fill it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from broker_core import commands as c
from broker_core.clock import SystemClock
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.options import Options
from broker_core.processors.context import Context
from broker_core.server.attach.engine_calls import EngineCalls
from broker_core.server.engine_runner import EngineRunner
from tests.fakes.engine import ROOT, SMALL, context_of
from tests.fakes.followed import SEGMENT
from tests.fakes.simulated_files import SimulatedFiles


class Copy:
    """The engine, a connection to it, and its state."""

    def __init__(self, runner: EngineRunner) -> None:
        self.runner = runner
        self.calls = EngineCalls(runner)

    @property
    def context(self) -> Context:
        return context_of(self.runner.engine)

    @property
    def end(self) -> int:
        return self.context.store.appended_offset

    async def attached(self) -> c.Attached:
        reply = await self.calls.call(c.GetAttached())
        assert isinstance(reply, c.Attached)
        return reply

    async def until(self, condition: Callable[[c.Attached], Any]) -> c.Attached:
        """Wait until the view of the copy is as wanted."""
        async with asyncio.timeout(60):
            while not condition(view := await self.attached()):
                await asyncio.sleep(0.005)
        return view


@asynccontextmanager
async def empty_copy(files: SimulatedFiles | None = None) -> AsyncIterator[Copy]:
    """Run the engine until the end of the block."""
    clock, files = SystemClock(), files or SimulatedFiles()
    options = Options(**(SMALL | {"mapped_file_size_commit_log": SEGMENT}))
    keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
    runner = EngineRunner(lambda: Engine.open(ROOT, options, files, clock, keys.next, follows=True), clock)
    await runner.start()
    try:
        yield Copy(runner)
    finally:
        await runner.stop()

"""Asks one broker's engine for a sample every 10 s and records it."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from bridge.history.boards import ASK
from bridge.history.history import History
from bridge.history.rollup import SAMPLE_S
from bridge.port import EnginePort, set_histories
from broker_core.clock import Clock
from broker_core.commands import GetHistorySample, HistorySample, Snapshot
from broker_core.errors import BrokerError
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)
ANSWER_MS = 4000
"""A later answer would be taken for one of the next 10 s."""


class Recorder:
    """Records one broker's samples into ``history`` until ``stop``. A sample that fails is a gap."""

    def __init__(self, port: EnginePort, history: History, clock: Clock) -> None:
        self._port = port
        self._history = history
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = start_task(self._run(), "record the history")

    async def stop(self) -> None:
        """Stop recording and close the file, which waits for a sample that is being written."""
        await end_task(self._task)
        await asyncio.to_thread(self._history.close)

    async def take_sample(self) -> None:
        """Record one sample and the board, if the engine answers."""
        for command in (GetHistorySample(), ASK):
            try:
                reply = await self._port.call(command, timeout_ms=ANSWER_MS)
            except BrokerError:
                continue
            if isinstance(reply, HistorySample):
                await asyncio.to_thread(self._history.record, reply, self._clock.now())
            elif isinstance(reply, Snapshot):
                await asyncio.to_thread(self._history.boards.add, reply)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S - self._clock.now().wall_ms / 1000 % SAMPLE_S)
            try:
                await self.take_sample()
            except Exception:
                log.exception("a sample for the history could not be recorded")


class Recorders:
    """The recorders of this process's brokers."""

    def __init__(self, ports: Mapping[str, EnginePort], folder: Path, clock: Clock) -> None:
        """``folder`` has one file for each broker. It is created when they start."""
        self._folder = folder
        self._clock = clock
        self._histories: dict[str, History] = {}
        self._recorders = [self._make(name, port) for name, port in ports.items()]

    def _make(self, name: str, port: EnginePort) -> Recorder:
        history = self._histories[name] = History(self._folder / f"{quote(name, safe='')}.sqlite3")
        return Recorder(port, history, self._clock)

    def add(self, name: str, port: EnginePort) -> None:
        """Record one more broker, when the others have started."""
        recorder = self._make(name, port)
        self._recorders.append(recorder)
        set_histories(self._histories)
        recorder.start()

    def start(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            log.warning("no history can be kept in %s: %s", self._folder, error)
        set_histories(self._histories)
        for recorder in self._recorders:
            recorder.start()

    async def stop(self) -> None:
        await asyncio.gather(*(recorder.stop() for recorder in self._recorders))
        set_histories({})

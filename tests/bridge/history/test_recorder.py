"""Samples of an engine, on their way into a file."""

import asyncio
import logging
from pathlib import Path

import pytest

from bridge.history import recorder as module
from bridge.history.recorder import Recorder, Recorders
from bridge.history.rollup import BROKER, TIERS
from bridge.port import PortTimeout, commands, get_history
from tests.bridge.history.test_boards import snapshot
from tests.bridge.history.test_history import History, sample
from tests.fakes.clock import VirtualClock
from tests.fakes.fake_port import FakePort


async def test_a_sample_is_recorded_and_a_failure_is_a_gap(tmp_path: Path) -> None:
    port, clock = FakePort(), VirtualClock()
    port.replies[commands.GetSnapshot] = lambda _: snapshot(clock.now().wall_ms)
    history = History(tmp_path / "broker-a.sqlite3")
    recorder = Recorder(port, history, clock)
    begin = TIERS[0].start(clock.now().wall_ms // 1000)
    for reply in (sample(3), PortTimeout("away"), sample(5)):
        clock.advance(10_000)
        port.replies[commands.GetHistorySample] = reply
        await recorder.take_sample()
    await recorder.stop()
    assert len(history.boards.all()) == 3
    assert history.read(BROKER, ["broker-a"], 0, begin, begin + 30)["broker-a"].columns[3] == [2, None, 2]


async def test_the_recorder_goes_on_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "SAMPLE_S", 0.01)
    port = FakePort()
    asked: list[object] = []

    done = asyncio.Event()

    def answer(command: commands.Command) -> commands.Reply:
        asked.append(command)
        if len(asked) == 3:
            done.set()
        raise ValueError("a defect")

    port.replies[commands.GetHistorySample] = answer
    recorder = Recorder(port, History(tmp_path / "broker-a.sqlite3"), VirtualClock())
    with caplog.at_level(logging.ERROR):
        recorder.start()
        await done.wait()
        await recorder.stop()
    assert "could not be recorded" in caplog.text


async def test_each_broker_has_a_file(tmp_path: Path) -> None:
    ports = {"broker-a": FakePort(), "b/../x": FakePort()}
    recorders = Recorders(ports, tmp_path / "history", VirtualClock())
    recorders.start()
    paths = [history.path.name for name in ports if (history := get_history(name)) is not None]
    assert paths == ["broker-a.sqlite3", "b%2F..%2Fx.sqlite3"]
    await recorders.stop()
    assert get_history("broker-a") is None and (tmp_path / "history").stat().st_mode & 0o077 == 0


async def test_a_folder_that_cannot_be_made_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recorders = Recorders({"broker-a": FakePort()}, tmp_path / "file" / "history", VirtualClock())
    recorders.start()
    await recorders.stop()


async def test_a_broker_that_joins_is_recorded_too(tmp_path: Path) -> None:
    recorders = Recorders({"broker-a": FakePort()}, tmp_path / "history", VirtualClock())
    recorders.start()
    recorders.add("broker-b", FakePort())
    assert get_history("broker-a") is not None and get_history("broker-b") is not None
    await recorders.stop()
    assert get_history("broker-b") is None

"""What a signal does to the process, and a full disk to its start. tests/test_commands.py runs the command itself."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import OperationalError

from bridge.cluster import BrokerPlace
from bridge.history.recorder import Recorders
from bridge.management.commands import broker as module
from bridge.management.commands.broker import BrokerProcess, Command, banner
from bridge.port import get_history, get_ports, set_ports
from tests.fakes.clock import VirtualClock
from tests.fakes.fake_port import FakePort


class ClosedTerminal:
    """A stderr that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_signal_stops_the_broker_though_nobody_reads_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    process, stops = BrokerProcess.__new__(BrokerProcess), []
    process._stopping = None
    monkeypatch.setattr(process, "_stop_once", lambda: stops.append("stop"))
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    process._on_signal()
    assert stops == ["stop"]


@pytest.fixture
def failing_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr("bridge.management.commands.broker.call_command", fail)


@pytest.mark.usefixtures("failing_migration")
def test_a_full_disk_does_not_keep_the_broker_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.management.commands.broker.has_no_space", lambda folder: True)
    errors = io.StringIO()
    Command(stderr=errors)._migrate()
    assert "is full, so the database cannot be brought up to date" in errors.getvalue()


@pytest.mark.usefixtures("failing_migration")
def test_a_database_that_cannot_be_migrated_is_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.management.commands.broker.has_no_space", lambda folder: False)
    with pytest.raises(CommandError, match="The database cannot be brought up to date: database or disk is full"):
        Command()._migrate()


def test_an_installed_broker_does_not_advise_make(settings: Any, tmp_path: Path) -> None:
    assert "make demo" in banner([], "")
    settings.BASE_DIR = tmp_path
    assert "make demo" not in banner([], "")


class NotedChild:
    """A child process that notes its start; one named ``bad`` cannot be started."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.started = False

    async def start(self) -> None:
        if self.name == "bad":
            raise OSError("no room for a process")
        self.started = True


async def test_brokers_that_join_are_served_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joining = iter([["b"], [], ["bad", "c"], None])

    async def look() -> list[BrokerPlace] | None:
        names = next(joining)
        return None if names is None else [BrokerPlace(name, tmp_path / name, {}, attached=True) for name in names]

    process, ports = BrokerProcess.__new__(BrokerProcess), {name: FakePort() for name in ("a", "b", "bad", "c")}
    process._joined_places, process._children, process._ports = look, [], {"a": ports["a"]}
    process._recorders = Recorders(process._ports, tmp_path, VirtualClock())
    monkeypatch.setattr(module, "JOINING_S", 0)
    monkeypatch.setattr(module, "make_ports", lambda settings, places: {places[0].name: ports[places[0].name]})
    monkeypatch.setattr(module, "children", lambda places, **more: [NotedChild(places[0].name)])
    try:
        await process._keep_adding()
        assert list(get_ports()) == ["a", "b", "c"] and get_history("c") is not None
        assert [child.name for child in process._children if child.started] == ["b", "c"]
    finally:
        await process._recorders.stop()
        set_ports({})

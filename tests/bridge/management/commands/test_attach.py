"""What the command prints and refuses before it starts anything. tests/compat starts it beside a real cluster."""

import asyncio
import io
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from bridge.cluster import BrokerPlace
from bridge.management.commands import attach, broker
from bridge.management.commands.broker import banner, children
from tests.fakes.fake_master import fake_master
from tests.fakes.followed import master


@pytest.fixture
def name_server() -> Iterator[str]:
    """The address of a cluster that is served by another thread."""
    address, serving, end = [""], threading.Event(), threading.Event()

    async def serve() -> None:
        async with fake_master(master(20)) as leader:
            address[0] = leader.address
            serving.set()
            await asyncio.to_thread(end.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    serving.wait(60)
    yield address[0]
    end.set()
    thread.join(60)


def test_a_dry_run_prints_the_plan_and_writes_nothing(name_server: str, settings: Any, tmp_path: Path) -> None:
    settings.GLASSMQ_DATA_DIR = tmp_path
    out = io.StringIO()
    call_command("attach", name_server, "--dry-run", stdout=out)
    assert "broker-a  the master at" in out.getvalue() and "Nothing is registered" in out.getvalue()
    assert list(tmp_path.iterdir()) == []


def test_the_places_are_those_of_the_brokers(
    name_server: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GLASSMQ_DATA_DIR, settings.GLASSMQ_SOCKET = tmp_path, tmp_path / "engine.sock"
    settings.GLASSMQ_ATTACH = ""
    started: list[BrokerPlace] = []
    monkeypatch.setattr(attach.Command, "serve", lambda self, places, options: started.extend(places))
    call_command("attach", name_server, "--from", "min", stdout=io.StringIO())
    (place,) = started
    assert place.name == "broker-a" and place.attached
    assert name_server == settings.GLASSMQ_ATTACH  # for the pages
    assert (place.environment["GLASSMQ_ATTACH"], place.environment["GLASSMQ_ATTACH_BEGIN"]) == (name_server, "min")


def test_the_variable_alone_attaches(
    name_server: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GLASSMQ_DATA_DIR, settings.GLASSMQ_SOCKET = tmp_path, tmp_path / "engine.sock"
    settings.GLASSMQ_ATTACH = name_server
    started: list[list[BrokerPlace]] = []
    monkeypatch.setattr(attach.Command, "serve", lambda self, places, options: started.append(places))
    call_command("broker", stdout=io.StringIO())
    assert [place.attached for place in started[0]] == [True]


def test_the_data_folder_of_another_broker_that_runs_is_refused(
    name_server: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GLASSMQ_ATTACH, settings.GLASSMQ_ENGINE, settings.GLASSMQ_WEB_PORT = "", "child", 0
    monkeypatch.setattr(broker, "ORPHAN_PATIENCE_S", broker.PROBE_PAUSE_S)
    monkeypatch.setattr(broker, "BrokerProcess", lambda *args, **options: pytest.fail("it was started"))
    with TemporaryDirectory(prefix="glassmq-") as folder, socket.socket(socket.AF_UNIX) as engine:
        settings.GLASSMQ_DATA_DIR, settings.GLASSMQ_SOCKET = Path(folder), Path(folder) / "engine.sock"
        engine.bind(str(settings.GLASSMQ_SOCKET))
        engine.listen()
        with pytest.raises(CommandError, match=f"Another broker runs in the data folder {folder}"):
            call_command("attach", name_server, "--no-migrate", stdout=io.StringIO())


def test_name_servers_are_needed_and_must_answer() -> None:
    with pytest.raises(CommandError, match="Name the cluster's name servers"):
        call_command("attach", stdout=io.StringIO())
    with pytest.raises(CommandError, match=r"cannot be read: no name server answers"):
        call_command("attach", "127.0.0.1:1", stdout=io.StringIO())


def test_an_attached_broker_has_no_name_server_and_no_port_for_clients(settings: Any, tmp_path: Path) -> None:
    settings.GLASSMQ_ENGINE, settings.GLASSMQ_NAMESRV_PORT, settings.GLASSMQ_BROKER_PORT = "child", 9876, 10911
    places = [BrokerPlace(name, tmp_path / f"{name}.sock", {}, attached=True) for name in ("a", "b")]
    started = children(places, schedules=False, on_refusal=lambda problem: None)
    assert [child.name for child in started] == ["The engine of a", "The engine of b"]
    text = banner(places, "")
    assert "RocketMQ " not in text and "name server" not in text and "make demo" not in text

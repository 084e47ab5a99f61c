"""The command's choices; the engine itself runs in tests/bridge/test_engine_process.py."""

from typing import Any

import pytest
from channels.management.commands import runworker as of_channels
from django.core.management import CommandError, call_command, get_commands

from bridge.management.commands import runworker


def test_runworker_replaces_the_command_of_channels() -> None:
    assert get_commands()["runworker"] == "bridge"


def test_other_channels_are_served_as_channels_does(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr(of_channels.Command, "handle", lambda self, **options: served.append(options["channels"]))
    call_command("runworker", "mail", "thumbnails")
    assert served == [["mail", "thumbnails"]]


@pytest.mark.parametrize("channels", [["broker-engine", "mail"], ["broker-engine.somebody-else"]])
def test_the_engine_is_served_alone_and_under_its_own_name(channels: list[str]) -> None:
    with pytest.raises(CommandError, match="This engine is broker-a"):
        call_command("runworker", *channels)


def test_a_layer_in_memory_reaches_nobody() -> None:
    with pytest.raises(CommandError, match="--socket"):
        call_command("runworker", "broker-engine")


@pytest.mark.parametrize("channel", ["broker-engine", "broker-engine.broker-a"])
def test_a_failed_start_ends_the_command_with_a_sentence(monkeypatch: pytest.MonkeyPatch, channel: str) -> None:
    async def fails(*args: Any) -> None:
        raise runworker.CannotStart("The store is in use.")

    monkeypatch.setattr(runworker, "serve_socket", fails)
    with pytest.raises(CommandError, match=r"The store is in use\."):
        call_command("runworker", channel, "--socket", "/tmp/unused.sock")


def test_warnings_about_the_configuration_are_shown(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.GLASSMQ_WARNINGS = ["aclEnable is not an option of this broker."]
    with pytest.raises(CommandError, match="--socket"):
        call_command("runworker", "broker-engine")
    assert "Warning: aclEnable is not an option of this broker.\n" in capsys.readouterr().err


def test_the_child_of_a_broker_leaves_the_warnings_to_it(
    monkeypatch: pytest.MonkeyPatch, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    async def serves(*args: Any) -> None:
        pass

    monkeypatch.setattr(runworker, "serve_socket", serves)
    settings.GLASSMQ_WARNINGS = ["aclEnable is not an option of this broker."]
    call_command("runworker", "broker-engine", "--socket", "/tmp/unused.sock")
    assert "Warning" not in capsys.readouterr().err

"""``manage.py demo`` from the command line."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from dashboard.management.commands import demo as command
from tests.conftest import Manage


@pytest.mark.parametrize("rate", ["0", "-1", "10001", "nan"])
def test_a_rate_out_of_bounds_is_refused(rate: str) -> None:
    with pytest.raises(CommandError, match="--rate must be above 0 and at most 10000"):
        call_command("demo", "--rate", rate)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"absent\.jsonl cannot be read"):
        call_command("demo", "--file", str(tmp_path / "absent.jsonl"))


def test_arguments_reach_the_clients(
    monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Any] = []

    class Noting:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            made.append((arguments, options))

        async def run(self, entries: list[dict[str, Any]]) -> None:
            made.append(entries)
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "Demo", Noting)
    settings.GLASSMQ_API_TOKEN = "only-for-this-test-0123456789"
    file = tmp_path / "lines.jsonl"
    file.write_text('{"a": 1}\n')
    call_command(
        "demo", "--url", "http://127.0.0.1:1", "--rate", "7", "--count", "3", "--topic", "t", "--file", str(file)
    )
    (arguments, options), entries = made
    assert arguments == ("http://127.0.0.1:1", "t")
    assert (options["rate"], options["count"], options["token"]) == (7.0, 3, "only-for-this-test-0123456789")
    assert entries == [{"a": 1}]
    written = capsys.readouterr().out
    assert "publishing to t at http://127.0.0.1:1, 7 a second. The broker stores up to 42 a second" in written
    assert written.endswith("stopped\n")


def test_against_a_broker(manage: Manage) -> None:
    manage.start("broker", "--no-schedules")
    code, output = manage.run("demo", "--count", "5", "--rate", "100")
    assert code == 0, output
    assert "publishing to debian-packages" in output

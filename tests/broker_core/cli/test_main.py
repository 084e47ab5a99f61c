"""The command as a whole: help, completion, errors, and the start of a broker."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker_core.cli import main
from tests.broker_core.cli.conftest import Glassmq
from tests.conftest import PROJECT


def test_help_lists_every_command_and_the_exit_codes(run_command: Glassmq) -> None:
    out = run_command("--help").out
    assert "130 interrupted" in " ".join(out.split())
    listed = [line.split()[0] for line in out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()]
    assert listed == list(main.glassmq.commands)
    for name in listed:
        assert run_command(name, "--help").code == 0


def test_completion_of_each_shell(run_command: Glassmq) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_GLASSMQ_COMPLETE" in run_command("completion", shell).out
    assert run_command("completion", "sh").code == 2


def test_a_wrong_command(run_command: Glassmq) -> None:
    done = run_command("prodcue")
    assert done.code == 2 and "No such command 'prodcue'" in done.err


def test_ctrl_c(run_command: Glassmq, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("broker_core.cli.cluster.Target.run_admin", interrupt)
    assert run_command("topics").code == 130


def test_up_becomes_the_broker(run_command: Glassmq, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr("broker_core.cli.main.os.execve", lambda path, arguments, environment: calls.append(arguments))
    assert run_command("up", "--cluster", "--no-schedules").code == 0
    assert calls == [[sys.executable, str(PROJECT / "manage.py"), "broker", "--cluster", "--no-schedules"]]


def test_up_without_the_broker_says_what_to_install(
    run_command: Glassmq, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(main, "APPLICATION_FOLDERS", (tmp_path,))
    done = run_command("up")
    assert done.code == 1 and "pip install 'glassmq[broker]'" in done.err


def test_folders_of_an_installation_begin_where_the_user_is() -> None:
    given = {"GLASSMQ_STORE_DIR": "store", "GLASSMQ_LAKE_DIR": "s3://bucket/lake", "GLASSMQ_BROKER_CONF": "/etc/b.conf"}
    assert main.folders_of_user(given, Path("/here")) == {
        "GLASSMQ_DATA_DIR": "/here/glassmq-data",
        "GLASSMQ_STORE_DIR": "/here/store",
        "GLASSMQ_BROKER_CONF": "/etc/b.conf",
    }


def test_the_command_loads_neither_django_nor_the_broker() -> None:
    code = (
        "import sys, broker_core.cli.main; "
        "print([name for name in ('django', 'uvloop', 'twisted', 'broker_core.engine') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_command_starts_with_the_oldest_click_that_the_wheel_allows() -> None:
    code = "import click; click.ParamType.__class_getitem__ = None; import broker_core.cli.main"  # as in click 8.1
    subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)

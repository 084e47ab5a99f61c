"""The commands of pages of docs/, in one shell at an empty broker, in the page's order."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.compat.glassmq_broker import glassmq
from tests.conftest import PROJECT

SECONDS = 120
END = "--- end of an example ---"


def examples(name: str) -> list[tuple[str, list[str]]]:
    """(command, lines that it prints) of all lines that begin with ``$``; ``…`` stands for anything."""
    page = (PROJECT / "docs" / name).read_text(encoding="utf-8")
    found: list[tuple[str, list[str]]] = []
    for line in re.findall(r"^ {4}(.*)$", page, flags=re.MULTILINE):
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and not line.startswith(("eval ", "glassmq completion")):
            found[-1][1].append(line)
    return found


def pattern(lines: list[str]) -> str:
    """A line ``…`` alone is any number of lines; columns may be wider than on the page."""
    parts = []
    for line in lines:
        words = r"\s+".join(re.escape(word).replace("…", ".*") for word in line.split())
        parts.append(
            r"(?:.*\n)*?" if line == "…" else rf"\s*{words}.*\n" if line.endswith("…") else rf"\s*{words}\s*\n"
        )
    return "".join(parts)


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder with the command, for the PATH."""
    command = tmp_path / "glassmq"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{PROJECT}" exec "{PROJECT}/.venv/bin/python" -c '
        "'from broker_core.cli.main import main; main()' \"$@\"\n"
    )
    command.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(("name", "number"), [("command-line.md", 16), ("pull-loop.md", 11)])
def test_examples_print_what_the_page_says(commands: Path, name: str, number: int) -> None:
    found = examples(name)
    assert len(found) == number
    script = "".join(f"{command}\nstatus=$?; echo '{END}'; (exit $status)\n" for command, _ in found)
    with glassmq() as broker:
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{script}"],
            cwd=commands,
            env={
                "PATH": f"{commands}:{os.environ['PATH']}",
                "NAMESRV_ADDR": broker.address.namesrv,
                "GLASSMQ_URL": broker.address.web,
                "PYTHONUTF8": "1",
            },
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    printed = done.stdout.split(f"{END}\n")
    assert len(printed) == len(found) + 1, done.stdout + done.stderr
    for (command, expected), text in zip(found, printed, strict=False):
        assert re.fullmatch(pattern(expected), text), f"$ {command}\n{text}\nis not\n" + "\n".join(expected)

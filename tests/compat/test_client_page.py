"""The examples of docs/client.md, each a program of its own, in the page's order."""

import re
import subprocess
import sys
import textwrap

from tests.compat.glassmq_broker import Address
from tests.conftest import PROJECT

SECONDS = 90


def examples() -> list[str]:
    """The programs of the page: its indented blocks that import something."""
    page = (PROJECT / "docs" / "client.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", page, flags=re.MULTILINE)
    return [textwrap.dedent(block).strip() for block in blocks if "import " in block]


def test_examples_print_what_they_say(glassmq: Address) -> None:
    programs = examples()
    assert len(programs) == 15
    for program in programs:
        expected = re.findall(r"# -> (.*)$", program, flags=re.MULTILINE)
        done = subprocess.run(
            [sys.executable, "-c", program.replace("127.0.0.1:9876", glassmq.namesrv)],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        printed = done.stdout.splitlines()
        assert (done.returncode, printed[: len(expected)]) == (0, expected), f"{program}\n{done.stdout}{done.stderr}"

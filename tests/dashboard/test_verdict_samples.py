"""The samples of verdicts are those of the server's code."""

import json
import subprocess
import sys

from tests.conftest import PROJECT


def test_the_samples_are_what_the_tests_of_the_verdicts_reach() -> None:
    command = [sys.executable, "-m", "tests.dashboard.verdict_samples"]
    printed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    stored = (PROJECT / "tests/dashboard/verdict_samples.json").read_text(encoding="utf-8")
    assert json.loads(printed) == json.loads(stored), f"write them anew: {' '.join(command[1:])} > verdict_samples.json"

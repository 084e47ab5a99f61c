"""Runs the tests of the pages' pure modules with Node's test runner."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = HERE.parents[1] / "static" / "js"


@pytest.mark.parametrize("name", sorted(path.name for path in HERE.glob("*.test.mjs")))
def test_modules_pass_under_node(name: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.fail("There is no `node` on the PATH: install Node 20 or newer to test the pages' scripts.")
    result = subprocess.run([node, "--test", str(HERE / name)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", sorted(SCRIPTS.rglob("*.js")), ids=lambda path: path.name)
def test_modules_never_set_markup(path: Path) -> None:
    source = path.read_text()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in source, f"{path.name} uses {way}: text from a broker would become markup or code"

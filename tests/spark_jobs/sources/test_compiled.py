"""Functions that Numba compiles, and where what it made of them is kept."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import numpy as np
import pytest

from spark_jobs.sources.compiled import compiled, inlined
from tests.conftest import PROJECT

LOOPS = """
from spark_jobs.sources.compiled import compiled

@compiled
def doubled(number):
    return number * 2
"""
CALL = "import loops; print(loops.doubled(21), sum(loops.doubled.stats.cache_hits.values()))"


def run(code: str, folder: Path, **environment: str) -> str:
    """What Python prints that imports from this folder before the project; it has a home of its own there."""
    return run_to_end(code, folder, **environment).stdout.strip()


def run_to_end(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same with what it says in its log."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        text=True,
        check=True,
        capture_output=True,
        env={**inherited, "HOME": str(home), "PYTHONPATH": f"{folder}:{PROJECT}", **environment},
    )


def kept(folder: Path) -> list[Path]:
    """Folders below this one where machine code was kept."""
    return sorted({path.parent.relative_to(folder) for path in folder.rglob("*.nbi")})


@pytest.fixture
def loops(tmp_path: Path) -> Path:
    """A folder with a module that has a compiled function."""
    (tmp_path / "loops.py").write_text(LOOPS)
    return tmp_path


def test_what_was_compiled_once_is_not_compiled_again(loops: Path) -> None:
    assert run_to_end(CALL, loops).stderr == ""
    assert run(CALL, loops) == "42 1"


def test_what_changes_is_compiled_anew(loops: Path) -> None:
    assert run(CALL, loops) == "42 0"
    (loops / "loops.py").write_text(LOOPS.replace("* 2", "* 3 "))
    assert run(CALL, loops) == "63 0"


def test_machine_code_is_kept_in_the_folder_that_is_named_for_it(loops: Path) -> None:
    folder = loops / "named"
    for found in ("42 0", "42 1"):
        assert run(CALL, loops, NUMBA_CACHE_DIR=str(folder)) == found
    assert kept(folder)
    assert kept(loops) == [Path("named") / path for path in kept(folder)]


def test_where_nothing_can_be_written_beside_the_source_it_is_kept_in_the_users_cache(loops: Path) -> None:
    (loops / "__pycache__").write_text("no folder")
    for found in ("42 0", "42 1"):
        assert run(CALL, loops) == found
    assert [path.parts[0] for path in kept(loops)] == ["home"]


def test_where_nothing_can_be_kept_it_is_compiled_each_time_and_that_is_said_once(loops: Path) -> None:
    (loops / "loops.py").write_text(LOOPS + LOOPS.replace("doubled", "doubled_too"))
    for name in ("__pycache__", "no folder"):
        (loops / name).write_text("")
    nowhere = str(loops / "no folder")
    for _ in range(2):
        ended = run_to_end(CALL, loops, HOME=nowhere, XDG_CACHE_HOME=nowhere, NUMBA_CACHE_DIR=nowhere)
        assert ended.stdout.strip() == "42 0"
        [said] = ended.stderr.strip().splitlines()
        assert "NUMBA_CACHE_DIR" in said
    assert kept(loops) == []


def test_sources_in_a_zip_file_are_compiled_and_cached_too(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "sources.zip", "w") as archive:
        archive.writestr(ZipInfo("loops.py", (2026, 1, 1, 0, 0, 0)), LOOPS)
    path = f"{tmp_path / 'sources.zip'}:{PROJECT}"
    assert [run(CALL, tmp_path, PYTHONPATH=path) for _ in range(2)] == ["42 0", "42 1"]


@inlined
def larger(number: int) -> int:
    return number + 1


@compiled
def sum_of_larger(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    total = 0
    for number in numbers:
        total += larger(number)
    return total


def test_a_function_that_is_a_part_of_others_can_be_called_alone_too() -> None:
    assert sum_of_larger(np.arange(10)) == 55
    assert larger(1) == 2

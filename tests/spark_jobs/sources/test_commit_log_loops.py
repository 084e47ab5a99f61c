"""Compiled loops: their numbers, the smallest ones among them, and that none goes beyond an array.

What the larger ones find is held against the formats where they are called.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record
from spark_jobs.sources import commit_log_loops
from spark_jobs.sources.commit_log_headers import Headers, longs_of
from spark_jobs.sources.commit_log_loops import big_endian, copy, eight_bytes, fetch, lowest
from tests.conftest import PROJECT
from tests.spark_jobs.segments import segment_of, texts_of

OF_BYTES = ("headers", "walk", "slices", "properties", "columns", "hosts")


def imported_by(path: Path) -> set[str]:
    """The modules that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_all_that_is_compiled_is_made_of_one_file_since_only_that_is_looked_at_for_changes() -> None:
    imports = {path.name: imported_by(path) for path in (PROJECT / "spark_jobs").rglob("*.py")}
    assert [name for name, modules in imports.items() if "spark_jobs.sources.compiled" in modules] == [
        "commit_log_loops.py"
    ]
    assert [name for name, modules in imports.items() if "numba" in modules] == ["compiled.py"]
    assert imports["commit_log_loops.py"] == {"numpy", "numpy.typing", "spark_jobs.sources.compiled", "typing"}


@pytest.mark.parametrize(
    "name", ["MAGIC_V1", "MAGIC_V2", "MAGIC_BLANK", "BORN_HOST_V6", "STORE_HOST_V6", "RECORD_SIZE_MIN"]
)
def test_its_numbers_are_those_of_the_format(name: str) -> None:
    assert getattr(commit_log_loops, name) == getattr(commit_log_record, name)


def test_its_columns_are_those_of_headers() -> None:
    columns = Headers._fields[:-1]
    assert [getattr(commit_log_loops, name.upper()) for name in columns] == list(range(len(columns)))
    assert Headers.room(5).shape == (len(columns), 5)


@given(data=st.binary(min_size=8, max_size=30), at=st.integers(0, 30))
def test_eight_bytes_from_anywhere(data: bytes, at: int) -> None:
    longs = longs_of(data)
    at = min(at, len(data))
    rest = min(8, len(data) - at)
    found = int(eight_bytes(longs, at))
    assert (found & (1 << 8 * rest) - 1).to_bytes(8, "little")[:rest] == data[at : at + rest]
    if rest == 8:
        assert found == int.from_bytes(data[at : at + 8], "little", signed=True)
        assert big_endian(longs, at) == int.from_bytes(data[at : at + 8], "big", signed=True)


@given(
    data=st.binary(min_size=8, max_size=60),
    at=st.integers(0, 60),
    size=st.integers(0, 60),
    before=st.integers(0, 9),
    behind=st.integers(8, 30),
)
def test_a_copy_writes_what_it_is_to_and_at_most_eight_bytes_behind(
    data: bytes, at: int, size: int, before: int, behind: int
) -> None:
    at = min(at, len(data))
    size = min(size, len(data) - at)
    to = texts_of(b"\xee" * (before + size + behind))
    copy(longs_of(data), at, size, to.longs, before)
    written = to.octets.tobytes()
    assert written[:before] == b"\xee" * before
    assert written[before : before + size] == data[at : at + size]
    assert written[before + size + 8 :] == b"\xee" * (behind - 8)


def test_what_is_fetched_is_within_what_there_is() -> None:
    octets = segment_of(bytes(range(200))).octets
    assert fetch(octets, 3, 200) == 3 ^ 67 ^ 131 ^ 195
    assert fetch(octets, 200, 200) == 0


@given(place=st.integers(0, 63), above=st.integers(0, (1 << 64) - 1))
def test_the_lowest_bit_is_found(place: int, above: int) -> None:
    bits = (above << place | 1 << place) & (1 << 64) - 1
    assert lowest(np.uint64(bits).astype(np.int64)) == place


@pytest.mark.slow
def test_no_loop_reads_or_writes_beyond_an_array(tmp_path: Path) -> None:
    checked = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    beyond = (
        "from numpy import arange; from spark_jobs.sources.commit_log_loops import big_endian; big_endian(arange(2), 2)"
    )
    found = subprocess.run(
        [sys.executable, "-c", beyond], cwd=PROJECT, env=checked, text=True, capture_output=True, check=False
    )
    assert "IndexError" in found.stderr, "or nothing is checked below"
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--hypothesis-profile=few",
            *(f"tests/spark_jobs/sources/test_commit_log_{name}.py" for name in OF_BYTES),
        ],
        cwd=PROJECT,
        env=checked,
        text=True,
        capture_output=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout

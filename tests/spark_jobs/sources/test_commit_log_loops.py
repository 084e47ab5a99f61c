"""Compiled loops: their numbers, the smallest ones among them, and that none goes beyond an array.

What the larger ones find is held against the formats where they are called.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy import arange

from broker_core.formats import commit_log_record
from spark_jobs.sources import commit_log_loops
from spark_jobs.sources.commit_log_loops import big_endian
from spark_jobs.sources.commit_log_records import Headers, longs_of
from tests.conftest import PROJECT


def test_without_a_folder_for_the_cache_they_are_compiled_each_time_and_the_log_says_so_once(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no folder")
    for name in ("__pycache__", "no folder"):
        (tmp_path / name).write_text("")
    (tmp_path / "loops.py").write_bytes(Path(commit_log_loops.__file__).read_bytes())
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    environment |= {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "PYTHONPATH": str(tmp_path)}
    code = "from numpy import zeros; from loops import big_endian; print(big_endian(zeros(1, '<i8'), 0))"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, text=True, check=True, capture_output=True
    )
    assert ended.stdout.strip() == "0"
    (warning,) = ended.stderr.strip().splitlines()
    assert "NUMBA_CACHE_DIR" in warning


@pytest.mark.parametrize(
    "name", ["MAGIC_V1", "MAGIC_V2", "MAGIC_BLANK", "BORN_HOST_V6", "STORE_HOST_V6", "RECORD_SIZE_MIN"]
)
def test_the_loops_have_the_numbers_of_the_format(name: str) -> None:
    assert getattr(commit_log_loops, name) == getattr(commit_log_record, name)


def test_the_loops_have_the_columns_of_headers() -> None:
    columns = Headers._fields[:-1]
    assert [getattr(commit_log_loops, name.upper()) for name in columns] == list(range(len(columns)))
    assert Headers.room(5).shape == (len(columns), 5)


@given(data=st.binary(min_size=8, max_size=30), at=st.integers(0, 22))
def test_eight_bytes_from_anywhere(data: bytes, at: int) -> None:
    at = min(at, len(data) - 8)
    assert big_endian(longs_of(data), at) == int.from_bytes(data[at : at + 8], "big", signed=True)


def test_no_loop_reads_or_writes_beyond_an_array() -> None:
    """As plain Python, the loops are refused a wrong index. Compiled, they would read what lies behind the array."""
    with pytest.raises(IndexError):
        big_endian.py_func(arange(2), 2)
    files = [f"tests/spark_jobs/sources/test_commit_log_{name}.py" for name in ("records", "columns")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=few", *files],
        cwd=PROJECT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

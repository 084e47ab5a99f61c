"""Tasks that outlive their round: what they have written goes, and they do not say that all is well."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake.lake import round_open
from spark_jobs.lake.round import CarryOut, carry_out_while_open, decoded
from spark_jobs.lake.tasks import Done, Draft, JournalDone, LogDone


def test_what_is_said_while_the_round_is_open_is_heard(tmp_path: Path) -> None:
    with round_open(tmp_path) as mark:
        said = [found for batch in carry_out_while_open(mark, writing(tmp_path), [], []) for found in decoded(batch)]
    assert [done.start for done in said] == [0, 5]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "log", "sums"]


def test_what_is_written_behind_the_end_of_the_round_is_removed(tmp_path: Path) -> None:
    (tmp_path / "another").touch()
    with round_open(tmp_path) as mark:
        done = carry_out_while_open(mark, writing(tmp_path), [], [])
        assert decoded(next(done))[0].start == 0
    with pytest.raises(LakeError, match="over before this task"):
        next(done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another", "log", "sums"], "whoever ended it saw these"


def writing(folder: Path) -> CarryOut:
    """Writes a range of the log and then a file of the journal, and says so."""

    def draft(name: str) -> Draft:
        (folder / name).touch()
        return Draft(str(folder / name), name, 1, 1, 1, 1)

    def batch(done: Done) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array([msgspec.json.encode(done).decode()])], names=["done"])

    def carry_out(works: Sequence[bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield batch(LogDone(0, 9, [draft("log")], sums=[draft("sums")]))
        yield batch(JournalDone(1, 2, 5, 9, [draft("journal")]))

    return carry_out

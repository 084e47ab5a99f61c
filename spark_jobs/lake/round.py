"""The tasks of a round, and what becomes of those that outlive it.

Spark does not wait for the Python of a task that it cancels, and that does not know: it may come to its end when the
round is long over and its files were swept away. So a round has a mark, a file that is there as long as it is open.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from spark_jobs.errors import LakeError
from spark_jobs.lake.tasks import Done

CarryOut = Callable[[Sequence[bytes], Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""``lake_tasks.carry_out_in_spark``."""


def carry_out_while_open(
    mark: Path, carry_out: CarryOut, works: Sequence[bytes], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What ``carry_out`` yields. LakeError, and what it has written is removed, once the mark is not there any more.

    Whoever ends a round removes the mark first, then the drafts that it sees: the others are seen here.
    """
    for batch in carry_out(works, batches):
        drafts = [draft for done in decoded(batch) for draft in done.files]
        if drafts and not mark.exists():
            for draft in drafts:
                Path(draft.draft).unlink(missing_ok=True)
            raise LakeError("The round of filling the lake was over before this task of it.")
        yield batch


def decoded(found: pa.RecordBatch | pa.Table) -> list[Done]:
    """What tasks have said."""
    return [msgspec.json.decode(done, type=Done) for done in found.column("done").to_pylist()]

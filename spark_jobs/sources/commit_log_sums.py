"""Sums of records of a commit log: a row for all records of a batch that agree in the keys.

Spark takes several times longer to take over and to group records than Python takes to read them. Sums are few.
"""

import numpy as np
import pyarrow as pa

from spark_jobs.sources.source_options import SourceTable

READS = (
    "physical_offset",
    "segment",
    "topic",
    "queue_id",
    "queue_offset",
    "total_size",
    "body_length",
    "store_ts",
    "born_host",
    "producer_group",
)
"""The columns of the records that are summed."""
KEYS = ("segment", "topic", "queue_id", "born_host", "producer_group", "minute_ts", "size_class")
"""``size_class``: the next power of two, bytes: bodies have at most as many, and more than half of it."""
SUMS = {
    "messages": ("one", "sum"),
    "bytes": ("total_size", "sum"),
    "body_bytes": ("body_length", "sum"),
    "min_size": ("total_size", "min"),
    "max_size": ("total_size", "max"),
    "first_store_ts": ("store_ts", "min"),
    "last_store_ts": ("store_ts", "max"),
    "min_queue_offset": ("queue_offset", "min"),
    "max_queue_offset": ("queue_offset", "max"),
    "end": ("record_end", "max"),
}
"""Each further column as an aggregate of a column of the records."""
_TEXTS, _INTS = ("topic", "born_host", "producer_group"), ("queue_id", "min_size", "max_size")
SUMS_TABLE = SourceTable(
    "table of a commit log's sums",
    {name: "string" if name in _TEXTS else "int" if name in _INTS else "long" for name in (*KEYS, *SUMS)},
)
MINUTE_MS = 60_000


def sum_up(records: pa.RecordBatch, schema: pa.Schema) -> list[pa.RecordBatch]:
    """The sums of records with the columns READS, as batches of the schema's columns."""
    numbers = {name: records.column(name).to_numpy() for name in ("physical_offset", "total_size", "store_ts")}
    lengths = records.column("body_length").to_numpy()
    table = pa.table(
        dict(zip(records.schema.names, records.columns, strict=True))
        | {
            "minute_ts": numbers["store_ts"] - numbers["store_ts"] % MINUTE_MS,
            "size_class": 1 << np.frexp(np.maximum(lengths - 1, 0))[1].astype(np.int64),
            "one": np.ones(len(lengths), np.int64),
            "record_end": numbers["physical_offset"] + numbers["total_size"],
        }
    )
    found = table.group_by([*KEYS], use_threads=False).aggregate([*dict.fromkeys(SUMS.values())])
    columns = {name: found[name] for name in KEYS} | {name: found["_".join(of)] for name, of in SUMS.items()}
    batches: list[pa.RecordBatch] = pa.table(columns).select(schema.names).cast(schema).combine_chunks().to_batches()
    return batches

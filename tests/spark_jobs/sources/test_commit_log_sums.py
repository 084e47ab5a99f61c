"""Sums of records against the same records added up one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.sources.commit_log_columns import TABLE
from spark_jobs.sources.commit_log_sums import KEYS, MINUTE_MS, READS, SUMS, SUMS_TABLE, sum_up

SCHEMA = SUMS_TABLE.arrow(SUMS_TABLE.types)
FEW = st.integers(0, 1)
RECORDS = st.fixed_dictionaries(
    {
        "physical_offset": st.integers(0, 1 << 50),
        "segment": FEW,
        "topic": st.sampled_from(["a", "größe"]),
        "queue_id": FEW,
        "queue_offset": st.integers(0, 1 << 50),
        "total_size": st.integers(92, (1 << 31) - 1),
        "body_length": st.integers(0, 9) | st.integers(0, (1 << 31) - 1),
        "store_ts": st.integers(-2 * MINUTE_MS, 2 * MINUTE_MS),
        "born_host": st.sampled_from(["10.0.0.1", "::1"]),
        "producer_group": st.sampled_from(["g", None]),
    }
)


def sums(records: list[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(records, TABLE.arrow(READS))
    return [row for part in sum_up(batch, SUMS_TABLE.arrow(columns or SCHEMA.names)) for row in part.to_pylist()]


@given(st.lists(RECORDS, max_size=20))
def test_records_that_agree_in_all_keys_are_one_row(records: list[dict[str, Any]]) -> None:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        of_record = record | {
            "minute_ts": record["store_ts"] // MINUTE_MS * MINUTE_MS,
            "size_class": next(1 << power for power in range(32) if record["body_length"] <= 1 << power),
            "one": 1,
            "record_end": record["physical_offset"] + record["total_size"],
        }
        found.setdefault(tuple(of_record[key] for key in KEYS), []).append(of_record)
    aggregates = {"sum": sum, "min": min, "max": max}
    expected = [
        dict(zip(KEYS, key, strict=True))
        | {name: aggregates[kind](row[column] for row in rows) for name, (column, kind) in SUMS.items()}
        for key, rows in found.items()
    ]
    assert sorted(sums(records), key=repr) == sorted(expected, key=repr)


def test_the_columns_are_those_asked_for() -> None:
    record = dict.fromkeys(READS, 1) | {"topic": "t", "born_host": "h", "producer_group": None}
    assert sums([record, record], "messages", "topic") == [{"messages": 2, "topic": "t"}]
    with pytest.raises(ValueError, match="no column colour"):
        SUMS_TABLE.ddl("messages", "colour")

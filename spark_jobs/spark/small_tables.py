"""Tables of a few rows that the driver knows."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def small_table(session: "SparkSession", rows: Iterable[Sequence[Any]], schema: str) -> "DataFrame":
    """The rows as a table of one partition. ``schema`` is DDL.

    Spark knows these rows when it plans a query, and sends none of them to another task. Rows that are given to it
    without Arrow are spread over all cores, and each join and each sum then begins with a shuffle.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    struct = cast("StructType", StructType.fromDDL(schema))
    arrow = to_arrow_schema(struct)
    table = pa.Table.from_pylist([dict(zip(arrow.names, row, strict=True)) for row in rows], schema=arrow)
    return session.createDataFrame(table, struct).coalesce(1)

"""The columns of the data sources, and their options: Spark hands options over as text."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ARROW = {"long": pa.int64(), "int": pa.int32(), "string": pa.string(), "binary": pa.binary()}


class SourceTable(NamedTuple):
    """A table that a data source reads: what it is called, and each column's type in Spark's DDL."""

    name: str
    types: Mapping[str, str]

    def ddl(self, *columns: str) -> str:
        """The schema of these columns as Spark's DDL. ValueError for a column that the table does not have."""
        unknown = [name for name in columns if name not in self.types]
        if unknown:
            raise ValueError(f"a {self.name} has no column {', '.join(unknown)}, but {', '.join(self.types)}")
        return ", ".join(f"`{name}` {self.types[name]}" for name in columns)

    def arrow(self, columns: Iterable[str]) -> pa.Schema:
        """The schema of batches with these columns."""
        return pa.schema([pa.field(name, _ARROW[self.types[name]]) for name in columns])

    def require(self, schema: "StructType") -> None:
        """ValueError where a field is not a column of the table, or has another type."""
        for field in schema.fields:
            wanted, given = self.types.get(field.name, ""), field.dataType.simpleString()
            if {"long": "bigint"}.get(wanted, wanted) != given:
                raise ValueError(
                    f"a {self.name} has no column {field.name} of type {given}; it has {self.ddl(*self.types)}"
                )


def whole_number(options: Mapping[str, str], name: str, default: int | None) -> int | None:
    """An option that is a whole number; ValueError for one that is not."""
    text = options.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is a whole number, not {text!r}") from None

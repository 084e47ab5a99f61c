"""Schemas and options of the data sources: columns are asked for by name, and Spark hands options over as text."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def ddl_of(table: str, types: Mapping[str, str], columns: Iterable[str]) -> str:
    """The schema of these columns as Spark's DDL. ValueError for a column that the table does not have."""
    names = list(columns)
    unknown = [name for name in names if name not in types]
    if unknown:
        raise ValueError(f"a {table} has no column {', '.join(unknown)}, but {', '.join(types)}")
    return ", ".join(f"`{name}` {types[name]}" for name in names)


def require_schema(table: str, types: Mapping[str, str], schema: "StructType") -> None:
    """ValueError where a field is not a column of the table, or has another type."""
    for field in schema.fields:
        wanted, given = types.get(field.name, ""), field.dataType.simpleString()
        if {"long": "bigint"}.get(wanted, wanted) != given:
            raise ValueError(
                f"a {table} has no column {field.name} of type {given}; it has {ddl_of(table, types, types)}"
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

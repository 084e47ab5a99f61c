"""The part of a run's tables that goes into its page. It is limited to what a browser can show.

A table may have a million rows. The page has the first rows of each table, and the largest lines, bars and choices of
each chart. A stacked chart adds up the others. Other charts say how many are left out.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.reports.shape import ALL_BROKERS, Chart

SHOWN_ROWS = 500
MOST_SERIES = 8
MOST_BARS = 30
MOST_CHOICES = 12
OTHERS = "all others"
_LABEL = "label"
_NUMBER = pa.int64()


def kind_of(name: str, kind: pa.DataType = _NUMBER) -> str:
    """How to format a column's values: time, day, us, ms, share, bytes, number, flag or text."""
    if pa.types.is_string(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "flag"
    if name == "day_ts":
        return "day"
    for suffix, shown in (("_ts", "time"), ("_us", "us"), ("_ms", "ms"), ("_share", "share")):
        if name.endswith(suffix):
            return shown
    return "bytes" if name.endswith(("bytes", "size", "size_class")) else "number"


def shown_table(table: pa.Table) -> dict[str, Any]:
    """The first rows by column, the formats of the columns, and the number of all rows."""
    return {
        "kinds": {name: kind_of(name, table.schema.field(name).type) for name in table.column_names},
        "rows": table.num_rows,
        "columns": table.slice(0, SHOWN_ROWS).to_pydict(),
    }


def drawn(chart: Chart, table: pa.Table) -> dict[str, Any]:
    """The data of a chart: its rows, and how many lines, bars or choices are left out.

    The chart shows all brokers together. If the table has no rows for all brokers, the labels name the broker.
    """
    rows, left_out = across_brokers(table), 0
    if chart.split and pc.count_distinct(rows["broker"]).as_py() > 1:
        chart = chart._replace(split=("broker", *chart.split))
    kinds = {name: kind_of(name, table.schema.field(name).type) for name in table.column_names}
    choices: list[Any] = []
    if chart.choose:
        choices, more = largest(rows, chart.choose, chart.y[0], MOST_CHOICES)
        rows, left_out = rows.filter(pc.is_in(rows[chart.choose], pa.array(choices, rows[chart.choose].type))), more
    if chart.split:
        rows = rows.append_column(_LABEL, labels(rows, chart.split))
        rows, more = largest_labels(chart, rows)
        left_out += more
    rows = merged(chart, rows)
    return {
        "kind": chart.kind,
        "title": chart.title,
        "y": list(chart.y),
        "choose": chart.choose,
        "choices": choices,
        "choice_kind": kinds.get(chart.choose, "text"),
        "per_second": chart.per_second,
        "split": " ".join(chart.split),
        "label_kind": kinds[chart.split[0]] if len(chart.split) == 1 else "text",
        "left_out": left_out,
        "y_kinds": {name: kinds[name] for name in chart.y},
        "place": places(chart, rows),
        "columns": rows.to_pydict(),
    }


def across_brokers(table: pa.Table) -> pa.Table:
    """The rows for all brokers together if the table has such rows; otherwise all rows."""
    rows = table.filter(pc.equal(table["broker"], ALL_BROKERS))
    return rows if rows.num_rows else table


def places(chart: Chart, rows: pa.Table) -> list[str]:
    """The columns with a row's position on the axis."""
    if chart.kind == "bars":
        return []
    if chart.kind == "histogram":
        return [name for name in rows.column_names if name.startswith(("from_", "to_"))]
    return ["minute_ts"]


def largest(rows: pa.Table, name: str, y: str, most: int) -> tuple[list[Any], int]:
    """The values of a column with the largest sums of ``y``, the largest first, and the number of the others."""
    sums = rows.group_by(name).aggregate([(y, "sum")])
    order = pc.sort_indices(sums, [(f"{y}_sum", "descending"), (name, "ascending")])
    values = sums[name].take(order).to_pylist()
    return values[:most], max(0, len(values) - most)


def labels(rows: pa.Table, split: tuple[str, ...]) -> pa.Array:
    """The labels of lines and bars as text. A single column of numbers stays as it is."""
    if len(split) == 1:
        column = rows[split[0]]
        return pc.fill_null(column, "none") if pa.types.is_string(column.type) else column
    return pc.binary_join_element_wise(*(pc.fill_null(rows[name].cast(pa.string()), "none") for name in split), " ")


def largest_labels(chart: Chart, rows: pa.Table) -> tuple[pa.Table, int]:
    """The rows of the largest labels, and the number of the others. In a ``stack`` these have one label together."""
    kept, more = largest(rows, _LABEL, chart.y[0], MOST_BARS if chart.kind == "bars" else MOST_SERIES)
    is_kept = pc.is_in(rows[_LABEL], pa.array(kept, rows[_LABEL].type))
    if not more or chart.kind != "stack":
        return rows.filter(is_kept), more
    others = pc.if_else(is_kept, rows[_LABEL].cast(pa.string()), OTHERS)
    return rows.set_column(rows.schema.get_field_index(_LABEL), _LABEL, others), 0


def merged(chart: Chart, rows: pa.Table) -> pa.Table:
    """One row for each place, choice and label, sorted by them."""
    keys = [*places(chart, rows), *([chart.choose] if chart.choose else []), *([_LABEL] if chart.split else [])]
    sums = rows.group_by(keys).aggregate([(name, chart.merge) for name in chart.y])
    return sums.rename_columns([*keys, *chart.y]).sort_by([(name, "ascending") for name in keys])

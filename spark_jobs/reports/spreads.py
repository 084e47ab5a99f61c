"""Tables and figures that reports share: sums in SQL, and percentiles of samples (``histograms``): how long it took.

One table may have samples of several kinds. A column (``stage``, ``measure``, ``method``) says which kind a sample is.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.histograms import bars, spread, spread_columns
from spark_jobs.reports.shape import FiguresOf, Table


def sums(facts: DataFrame, *keys: str, **sql: str) -> DataFrame:
    """A row for each value of the keys. ``sql``: each further column as an aggregate in SQL."""
    return facts.groupBy(*keys).agg(*(F.expr(f"{aggregate} AS `{name}`") for name, aggregate in sql.items()))


def totals(**sql: str) -> FiguresOf:
    """The figures that ``sums`` computes."""
    return lambda facts, *keys: sums(facts, *keys, **sql)


def grouped(of: str, *keys: str, only: str = "true", worst: str = "", **sql: str) -> Table:
    """The ``sums`` by broker and keys of the facts for which a condition is true."""
    return Table(of, lambda facts: sums(facts.where(only), "broker", *keys, **sql), worst)


def share(part: str, whole: str) -> str:
    """SQL that divides one expression by another, rounded to four digits; null if the second is 0."""
    return f"round(try_divide({part}, {whole}), 4)"


def spread_table(of: str, *keys: str, unit: str, only: str = "true") -> Table:
    """The percentiles by broker and keys of the samples for which a condition is true; the largest p99 first."""
    columns = ("broker", *keys)

    def spread_by(samples: DataFrame) -> DataFrame:
        return spread(samples.where(only), *columns, unit=unit).select(*columns, "samples", *spread_columns(unit))

    return Table(of, spread_by, worst=f"p99_{unit}")


def bars_table(of: str, *keys: str, unit: str, only: str = "true") -> Table:
    """The histogram by broker and keys of the samples for which a condition is true."""
    return Table(of, lambda samples: bars(samples.where(only), "broker", *keys, unit=unit))


def chosen(kind: str, unit: str, **wanted: tuple[str, str]) -> FiguresOf:
    """Figures that are percentiles. ``chosen("stage", "us", wake_p99_us=("woken", "p99_us"))`` is the p99 of ``woken``.

    Counts of samples are 0, not null, without any.
    """
    columns = {name: f"max({column}) FILTER (WHERE {kind} = '{value}')" for name, (value, column) in wanted.items()} | {
        name: f"coalesce(max(samples) FILTER (WHERE {kind} = '{value}'), 0)"
        for name, (value, column) in wanted.items()
        if column == "samples"
    }
    return lambda samples, *keys: sums(spread(samples, *keys, kind, unit=unit), *keys, **columns)

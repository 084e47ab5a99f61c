"""Tables and figures that reports share, most of them of samples (``histograms``): how long something took.

One table may have samples of several kinds. A column (``stage``, ``measure``, ``method``) says which kind a sample is.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.reports.histograms import bars, spread, spread_columns
from spark_jobs.reports.shape import Table


def spread_table(of: str, *keys: str, unit: str, only: str = "true") -> Table:
    """The percentiles by broker and keys of the samples for which a condition is true; the largest p99 first."""
    columns = ("broker", *keys)

    def spread_by(samples: DataFrame) -> DataFrame:
        return spread(samples.where(only), *columns, unit=unit).select(*columns, "samples", *spread_columns(unit))

    return Table(of, spread_by, worst=f"p99_{unit}")


def sums_table(of: str, *keys: str, sums: Mapping[str, str], only: str = "true") -> Table:
    """Sums by broker and keys of the facts for which a condition is true. ``sums``: column of the facts to column."""
    columns = ("broker", *keys)
    return Table(
        of,
        lambda facts: (
            facts.where(only).groupBy(*columns).agg(*(F.sum(part).alias(name) for part, name in sums.items()))
        ),
    )


def bars_table(of: str, *keys: str, unit: str, only: str = "true") -> Table:
    """The histogram by broker and keys of the samples for which a condition is true."""
    return Table(of, lambda samples: bars(samples.where(only), "broker", *keys, unit=unit))


def chosen(samples: DataFrame, *keys: str, kind: str, unit: str, wanted: Mapping[str, tuple[str, str]]) -> DataFrame:
    """Some percentiles as one row for the keys. ``{"wake_p99_us": ("woken", "p99_us")}`` takes the p99 of ``woken``."""
    columns = {name: F.max(F.when(F.col(kind) == value, F.col(column))) for name, (value, column) in wanted.items()}
    return (
        spread(samples, *keys, kind, unit=unit)
        .groupBy(*keys)
        .agg(
            *(
                (F.coalesce(found, F.lit(0)) if wanted[name][1] == "samples" else found).alias(name)
                for name, found in columns.items()
            )
        )
    )

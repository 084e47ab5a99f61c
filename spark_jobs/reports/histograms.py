"""Percentiles that can be added up: histograms whose buckets grow with the value.

Percentiles of parts cannot be merged into that of the whole; counts by bucket can. Values below 64 have a bucket each;
from there on every power of two is cut into 32 buckets:

    values     0   1   2 ...  63 | 64-65  66-67 ... 126-127 | 128-131 ...
    bucket     0   1   2 ...  63 |    64     65 ...      95 |      96 ...

So the middle of a bucket is at most 1/64 (1.6 %) away from any of its values. Sums, smallest and largest values are
exact. A table of samples has the columns SAMPLES beside its keys. Unknown values have the bucket null, and negative
values, which no duration has, the bucket -1. Neither is counted as a sample in tables and figures.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

BITS = 5
"""2 ** 5 buckets for each power of two."""
BAR_BITS = 2
ERROR = 1 / (1 << BITS + 1)
"""The largest error of a percentile, as a part of the exact value."""
SAMPLES = ("bucket", "samples", "total", "least", "most")
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def bucket_of(value: Column, bits: int = BITS) -> Column:
    """The bucket of a whole number; -1 for a negative one."""
    shift = F.greatest(F.length(F.bin(value)) - (bits + 1), F.lit(0))
    return F.when(value < 0, -1).otherwise(_up(shift, F.lit(bits)) + _down(value, shift)).cast("int")


def lowest(bucket: Column, bits: int = BITS) -> Column:
    """The smallest value of a bucket."""
    shift = _shift(bucket, bits)
    return _up((bucket - _up(shift, F.lit(bits))).cast("long"), shift)


def width(bucket: Column, bits: int = BITS) -> Column:
    """How many values a bucket has."""
    return _up(F.lit(1).cast("long"), _shift(bucket, bits))


def _shift(bucket: Column, bits: int) -> Column:
    return F.greatest(_down(bucket, F.lit(bits)) - 1, F.lit(0))


def _up(value: Column, by: Column) -> Column:
    return F.call_function("shiftleft", value, by)


def _down(value: Column, by: Column) -> Column:
    return F.call_function("shiftright", value, by)


def sampled(values: DataFrame, *keys: str, value: str, **sql: str) -> DataFrame:
    """The values of a column by keys and bucket. ``sql``: each further column as an aggregate in SQL."""
    return (
        values.groupBy(*keys, bucket_of(F.col(value)).alias("bucket"))
        .agg(
            F.count("*").alias("samples"),
            F.sum(value).cast("long").alias("total"),
            F.min(value).cast("long").alias("least"),
            F.max(value).cast("long").alias("most"),
            *(F.expr(aggregate).alias(name) for name, aggregate in sql.items()),
        )
        .select(*keys, *SAMPLES, *sql)
    )


def merged(samples: DataFrame, *keys: str) -> DataFrame:
    """Samples by fewer keys, of known values only."""
    return (
        samples.where("bucket >= 0")
        .groupBy(*keys, "bucket")
        .agg(
            F.sum("samples").alias("samples"),
            F.sum("total").alias("total"),
            F.min("least").alias("least"),
            F.max("most").alias("most"),
        )
        .select(*keys, *SAMPLES)
    )


def spread(samples: DataFrame, *keys: str, unit: str) -> DataFrame:
    """The distribution by keys: ``samples``, and ``spread_columns`` in this unit. Percentiles are nearest ranks."""
    whole = Window.partitionBy(*keys)
    ranked = merged(samples, *keys).select(
        "*", F.sum("samples").over(whole.orderBy("bucket")).alias("rank"), F.sum("samples").over(whole).alias("of")
    )
    middle = lowest(F.col("bucket")) + _down(width(F.col("bucket")) - 1, F.lit(1))
    percentiles = [
        F.greatest(
            F.least(F.min(F.when(F.col("rank") >= F.ceil(F.col("of") * share), middle)), F.max("most")), F.min("least")
        )
        .cast("long")
        .alias(f"{name}_{unit}")
        for name, share in QUANTILES.items()
    ]
    return ranked.groupBy(*keys).agg(
        F.coalesce(F.sum("samples"), F.lit(0)).cast("long").alias("samples"),
        F.round(F.sum("total") / F.sum("samples"), 1).alias(f"mean_{unit}"),
        F.min("least").alias(f"min_{unit}"),
        *percentiles,
        F.max("most").alias(f"max_{unit}"),
    )


def spread_columns(unit: str) -> tuple[str, ...]:
    """The columns of ``spread`` behind ``samples``, in their order."""
    return f"mean_{unit}", f"min_{unit}", *(f"{name}_{unit}" for name in QUANTILES), f"max_{unit}"


def bars(samples: DataFrame, *keys: str, unit: str) -> DataFrame:
    """The histogram for a chart, with four bars for each power of two: the number of values in [``from``, ``to``)."""
    bar = F.col("bar")
    coarse = bucket_of(lowest(F.col("bucket")), BAR_BITS).alias("bar")
    counted = samples.where("bucket >= 0").groupBy(*keys, coarse).agg(F.sum("samples").alias("samples"))
    return counted.select(
        *keys,
        lowest(bar, BAR_BITS).alias(f"from_{unit}"),
        (lowest(bar, BAR_BITS) + width(bar, BAR_BITS)).alias(f"to_{unit}"),
        "samples",
    )

"""Mergeable percentiles beside exact ones."""

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from spark_jobs.reports import histograms
from spark_jobs.reports.histograms import ERROR, QUANTILES, bars, bucket_of, lowest, merged, sampled, spread, width
from spark_jobs.spark.small_tables import small_table
from tests.spark_jobs.frames import one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EDGES = sorted({0, 1, 2, *(value for power in range(1, 62) for value in (2**power - 1, 2**power, 2**power + 1))})


def bucket(value: int, bits: int) -> int:
    """The same numbering in plain Python."""
    shift = max(value.bit_length() - bits - 1, 0)
    return (shift << bits) + (value >> shift)


def exact(values: list[int], share: float) -> int:
    """The nearest rank."""
    return sorted(values)[max(-(-len(values) * int(share * 1000) // 1000), 1) - 1]


@pytest.mark.parametrize("bits", [histograms.BITS, histograms.BAR_BITS])
def test_every_value_lies_in_its_bucket_and_buckets_have_no_gap(spark: "SparkSession", bits: int) -> None:
    values = small_table(spark, [(value,) for value in EDGES], "value long")
    found = (
        values.select("value", bucket_of(F.col("value"), bits).alias("bucket"))
        .select("*", lowest(F.col("bucket"), bits).alias("low"), width(F.col("bucket"), bits).alias("width"))
        .collect()
    )
    assert [row["bucket"] for row in found] == [bucket(value, bits) for value in EDGES]
    for row in found:
        assert row["low"] <= row["value"] < row["low"] + row["width"]
        assert row["width"] == 1 or row["width"] / row["low"] <= 2**-bits
        assert bucket(row["low"] + row["width"], bits) == row["bucket"] + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda chance: int(chance.lognormvariate(8, 2)),
        lambda chance: chance.randrange(100),
        lambda chance: 15_000_000 + chance.randrange(3000),
        lambda chance: chance.choice((0, 1 << 40)),
    ],
    ids=["long tail", "small", "almost the same", "two values"],
)
def test_percentiles_of_merged_parts_are_within_the_bound(spark: "SparkSession", make: Any) -> None:
    chance = random.Random(7)
    values = [make(chance) for _ in range(4000)]
    table = small_table(spark, [(index % 5, value) for index, value in enumerate(values)], "part int, value long")
    parts = sampled(table, "part", value="value")
    found = one(spread(parts, unit="us"))
    assert (found["samples"], found["min_us"], found["max_us"]) == (len(values), min(values), max(values))
    assert found["mean_us"] == round(sum(values) / len(values), 1)
    for name, share in QUANTILES.items():
        true = exact(values, share)
        assert abs(found[f"{name}_us"] - true) <= true * ERROR, name


def test_parts_add_up_to_the_whole(spark: "SparkSession") -> None:
    table = small_table(spark, [("ab"[n % 2], n % 7, n * n) for n in range(300)], "topic string, part int, value long")
    whole = sampled(table, "topic", value="value")
    assert sorted(merged(sampled(table, "topic", "part", value="value"), "topic").collect()) == sorted(whole.collect())


def test_unknown_and_negative_values_are_left_out(spark: "SparkSession") -> None:
    table = small_table(spark, [(None,), (-1,), (5,)], "value long")
    assert one(spread(sampled(table, value="value"), unit="ms"))["samples"] == 1
    nothing = one(spread(sampled(table.where("value < 0"), value="value"), unit="ms"))
    assert nothing.pop("samples") == 0
    assert set(nothing.values()) == {None}


def test_bars_hold_every_sample_once(spark: "SparkSession") -> None:
    table = small_table(spark, [(value,) for value in (0, 1, 7, 8, 9, 10, 100, 5000)], "value long")
    histogram = sorted(tuple(row) for row in bars(sampled(table, value="value"), unit="ms").collect())
    assert histogram == [(0, 1, 1), (1, 2, 1), (7, 8, 1), (8, 10, 2), (10, 12, 1), (96, 112, 1), (4096, 5120, 1)]

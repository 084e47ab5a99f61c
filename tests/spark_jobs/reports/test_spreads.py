"""Tables and figures of samples."""

from typing import TYPE_CHECKING

from spark_jobs.reports.histograms import sampled
from spark_jobs.reports.spreads import bars_table, chosen, grouped, share, spread_table, totals
from spark_jobs.spark.small_tables import small_table
from tests.spark_jobs.frames import one, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def samples(spark: "SparkSession") -> "DataFrame":
    values = [("one", *sample) for sample in (("a", "x", 1), ("a", "x", 3), ("a", "y", 40), ("b", "x", 2))]
    table = small_table(spark, values, "broker string, topic string, stage string, value long")
    return sampled(table, "broker", "topic", "stage", value="value")


def test_tables_by_keys(spark: "SparkSession") -> None:
    table = spread_table("stages", "topic", "stage", unit="us")
    assert table.of == "stages"
    assert sorted(rows(table.make(samples(spark)), "broker", "topic", "stage", "samples", "mean_us", "max_us")) == [
        ("one", "a", "x", 2, 2.0, 3),
        ("one", "a", "y", 1, 40.0, 40),
        ("one", "b", "x", 1, 2.0, 2),
    ]
    only_x = spread_table("stages", "topic", unit="us", only="stage = 'x'")
    assert sorted(rows(only_x.make(samples(spark)), "topic", "samples")) == [("a", 2), ("b", 1)]
    bars = bars_table("stages", "topic", unit="us", only="stage = 'x'")
    assert sorted(rows(bars.make(samples(spark)))) == [("a", 1, 2, 1), ("a", 3, 4, 1), ("b", 2, 3, 1)]


def test_some_figures_in_one_row(spark: "SparkSession") -> None:
    wanted = {"many": ("x", "samples"), "most": ("y", "max_us"), "none": ("z", "max_us"), "nobody": ("z", "samples")}
    assert one(chosen("stage", "us", **wanted)(samples(spark))) == {
        "many": 3,
        "most": 40,
        "none": None,
        "nobody": 0,
    }
    by_topic = chosen("stage", "us", most=("y", "max_us"))(samples(spark), "topic")
    assert sorted(rows(by_topic)) == [("a", 40), ("b", None)]


def test_sums_in_sql(spark: "SparkSession") -> None:
    """A share of nothing is not known."""
    table = grouped("stages", "topic", only="stage = 'x'", worst="n", n="sum(samples)", none=share("sum(samples)", "0"))
    assert (table.of, table.worst) == ("stages", "n")
    assert sorted(rows(table.make(samples(spark)))) == [("a", 2, None), ("b", 1, None)]
    shares = totals(part=share("count_if(stage = 'x')", "count(*)"))
    assert rows(shares(samples(spark))) == [(0.75,)]

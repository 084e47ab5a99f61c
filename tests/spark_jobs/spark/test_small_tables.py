"""Tables of a few rows that the driver knows."""

from typing import TYPE_CHECKING

import pytest

from spark_jobs.spark.small_tables import small_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "topic string, `group` string, lag long, is_slow boolean"
ROWS = [("orders", "g", 1 << 40, True), ("Größe", None, None, None), ("orders", "g", -1, False)]


@pytest.mark.parametrize("count", [3, 0])
def test_the_rows_come_back_and_no_sum_of_them_needs_a_shuffle(spark: "SparkSession", count: int) -> None:
    table = small_table(spark, ROWS[:count], SCHEMA)
    assert [tuple(row) for row in table.collect()] == ROWS[:count]
    assert table.schema.simpleString() == "struct<topic:string,group:string,lag:bigint,is_slow:boolean>"
    plan = table.join(table.select("topic"), "topic").groupBy("topic").count()._jdf.queryExecution().executedPlan()
    assert "Exchange hash" not in plan.toString()

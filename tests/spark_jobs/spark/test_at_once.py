"""Queries that run at the same time."""

from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from spark_jobs.spark.at_once import AT_ONCE, run_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_queries_run_together_and_their_answers_are_in_order(spark: "SparkSession") -> None:
    together = Barrier(AT_ONCE, timeout=120)

    def count(rows: int) -> int:
        together.wait()  # broken unless AT_ONCE queries are under way
        return spark.range(rows).count()

    queries = [lambda rows=rows: count(rows) for rows in range(2 * AT_ONCE)]
    assert run_at_once(spark, queries) == list(range(2 * AT_ONCE))


def test_the_error_of_a_query_is_raised(spark: "SparkSession") -> None:
    with pytest.raises(ZeroDivisionError):
        run_at_once(spark, [lambda: 1, lambda: 1 // 0])


def test_after_an_error_no_further_query_is_started(spark: "SparkSession") -> None:
    started: list[int] = []
    with pytest.raises(ZeroDivisionError):
        run_at_once(spark, [lambda: 1 // 0, lambda: started.append(1)], most=1)
    assert started == []

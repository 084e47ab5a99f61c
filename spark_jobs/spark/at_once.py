"""Queries that run at the same time. Spark accepts queries of several threads; a small one uses one core at most."""

from collections.abc import Callable, Sequence
from multiprocessing.pool import ThreadPool
from typing import TYPE_CHECKING, TypeVar

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 3
"""Queries that run at the same time, so that Spark plans one while it runs another."""
_Answer = TypeVar("_Answer")


def at_once(session: "SparkSession", queries: Sequence[Callable[[], _Answer]], most: int = AT_ONCE) -> list[_Answer]:
    """Call functions that query Spark, up to ``most`` at a time; returns their answers, or raises the first error."""
    in_session = inheritable_thread_target(session)
    with ThreadPool(min(most, len(queries))) as threads:
        return threads.map(lambda query: in_session(query)(), queries, chunksize=1)

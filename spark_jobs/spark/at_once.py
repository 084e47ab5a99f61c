"""Queries that run at the same time. Spark accepts queries of several threads; a small one uses one core at most."""

from collections.abc import Callable, Sequence
from multiprocessing.pool import ThreadPool
from threading import Event
from typing import TYPE_CHECKING, TypeVar, cast

from pyspark import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 3
"""Queries that run at the same time, so that Spark plans one while it runs another."""
_Answer = TypeVar("_Answer")


def run_at_once(
    session: "SparkSession", queries: Sequence[Callable[[], _Answer]], most: int = AT_ONCE
) -> list[_Answer]:
    """Call functions that query Spark, up to ``most`` at a time; returns their answers.

    After an error no further function is called. The error is raised when those under way have returned.
    """
    in_session = inheritable_thread_target(session)
    has_failed = Event()

    def call(query: Callable[[], _Answer]) -> _Answer | None:
        if has_failed.is_set():
            return None
        try:
            answer: _Answer = in_session(query)()
        except BaseException:
            has_failed.set()
            raise
        return answer

    with ThreadPool(min(most, len(queries))) as threads:
        return cast("list[_Answer]", threads.map(call, queries, chunksize=1))

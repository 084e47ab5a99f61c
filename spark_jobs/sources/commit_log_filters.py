"""Conditions of a query that the source can hold its records against before it makes any column of them.

``where("topic = 'a' and store_ts >= 5")`` reaches a source as a list of such conditions, all of which must hold.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from spark_jobs.sources.commit_log_columns import NUMBERS, Columns, Source
from spark_jobs.sources.commit_log_headers import Headers

TOPIC = "topic"
_ORDERED = {"=": np.equal, ">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal}
_SIGNS = {EqualTo: "=", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<="}
_LONGEST = 1 << 63


class Condition(NamedTuple):
    """A column, how it is compared (``=``, ``>``, ``>=``, ``<``, ``<=``, ``in``), and with what."""

    column: str
    sign: str
    value: Any


def condition(pushed: Filter) -> Condition | None:
    """A filter of Spark's as the source can apply it, None for one that it cannot."""
    name = ".".join(pushed.attribute) if hasattr(pushed, "attribute") else ""
    if isinstance(pushed, IsNotNull) and (name in NUMBERS or name == TOPIC):
        return Condition(name, "in", None)  # those are in every record
    wanted = int if name in NUMBERS else str if name == TOPIC else None
    if wanted is None:
        return None
    value = getattr(pushed, "value", None)
    if isinstance(pushed, In):
        values = tuple(one for one in pushed.value if one is not None)
        return Condition(name, "in", values) if all(type(one) is wanted for one in values) else None
    sign = _SIGNS.get(type(pushed), "")
    if not sign or type(value) is not wanted or (name == TOPIC and sign != "="):
        return None
    return Condition(name, sign, value)


def offsets_within(conditions: Iterable[Condition]) -> tuple[int, int]:
    """[low, high): outside of it no physical offset fulfils the conditions."""
    low, high = 0, _LONGEST
    for column, sign, value in conditions:
        if column != "physical_offset" or value is None:
            continue
        values = value if sign == "in" else (value,)
        if sign in (">", ">=", "=", "in"):
            low = max(low, min(values, default=_LONGEST) + (sign == ">"))
        if sign in ("<", "<=", "=", "in"):
            high = min(high, max(values, default=-1) + (sign != "<"))
    return low, high


def fulfilling(source: Source, headers: Headers, conditions: Iterable[Condition]) -> Headers:
    """Those of the records that fulfil all conditions."""
    for one in conditions:
        if one.value is None or not len(headers.at):
            continue
        keep = _kept(source, headers, one)
        if not keep.all():
            headers = headers.part(keep)
    return headers


def _kept(source: Source, headers: Headers, one: Condition) -> NDArray[np.bool_]:
    columns = Columns(source, headers, ())
    if one.column == TOPIC:
        topics = columns.column(TOPIC)
        wanted = pa.array(one.value if one.sign == "in" else [one.value], pa.string())
        of_names = pc.is_in(topics.dictionary, value_set=wanted).to_numpy(zero_copy_only=False)
        kept: NDArray[np.bool_] = of_names[topics.indices.to_numpy()]
        return kept
    numbers = columns.number(one.column)
    if one.sign == "in":
        return np.isin(numbers, np.array(one.value, np.int64))
    compared: NDArray[np.bool_] = _ORDERED[one.sign](numbers, one.value)
    return compared

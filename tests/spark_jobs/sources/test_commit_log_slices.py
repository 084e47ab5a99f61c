"""Parts of a buffer as columns."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.sources.commit_log_columns import as_text, slices
from spark_jobs.sources.commit_log_loops import NONE, Octets


def octets_of(data: bytes) -> Octets:
    return np.frombuffer(data, np.uint8)


PLACES = st.lists(st.tuples(st.integers(0, 80), st.integers(NONE, 20)), max_size=30)


def within(data: bytes, drawn: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The places, none of which goes beyond the buffer; many of them end with it."""
    at = [min(begin, len(data)) for begin, _ in drawn]
    return at, [min(length, len(data) - begin) for begin, (_, length) in zip(at, drawn, strict=True)]


@given(
    data=st.binary(min_size=8, max_size=80),
    drawn=PLACES,
    kind=st.sampled_from([np.int64, np.int32]),
)
def test_a_column_has_the_bytes_of_each_place(
    data: bytes, drawn: list[tuple[int, int]], kind: type[np.int64 | np.int32]
) -> None:
    at, length = within(data, drawn)
    found = slices(octets_of(data), np.array(at, kind), np.array(length, kind))
    assert found.type == pa.binary()
    assert found.to_pylist() == [
        None if size == NONE else data[begin : begin + size] for begin, size in zip(at, length, strict=True)
    ]
    assert found.null_count == length.count(NONE)
    found.validate(full=True)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 65])
def test_what_is_not_there_is_null_in_columns_of_any_length(count: int) -> None:
    source, at = octets_of(b"12345678"), np.zeros(count, np.int64)
    assert slices(source, at, np.full(count, NONE)).to_pylist() == [None] * count
    length = np.where(np.arange(count) % 3 == 1, NONE, np.arange(count) % 9)
    assert slices(source, at, length).to_pylist() == [
        None if size == NONE else b"12345678"[:size] for size in length.tolist()
    ]
    assert slices(source, at, np.zeros(count, np.int64)).to_pylist() == [b""] * count


def test_no_slices_are_an_empty_column() -> None:
    nothing = np.empty(0, np.int64)
    for source in (octets_of(b""), octets_of(b"12345678")):
        assert slices(source, nothing, nothing).equals(pa.array([], pa.binary()))


def test_bytes_that_are_no_text_are_replaced() -> None:
    binary = slices(octets_of(b"ok\xffend\xc3at"), np.array([0, 2, 0, 3, 3]), np.array([2, 1, NONE, 3, 4]))
    assert as_text(binary).to_pylist() == ["ok", "\ufffd", None, "end", "end\ufffd"]


def test_bytes_that_are_text_are_taken_as_they_are() -> None:
    text = "größe€𝄞"
    data = text.encode()
    binary = slices(octets_of(data), np.array([0, 0, len(data)]), np.array([len(data), NONE, 0]))
    assert as_text(binary).to_pylist() == [text, None, ""]

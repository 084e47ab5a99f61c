"""Groups of the same numbers and texts against a dictionary of them."""

from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.sources.commit_log_groups import Groups, same_numbers, same_texts
from tests.spark_jobs.segments import segment_of, texts_of

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
NUMBERS = (
    st.integers(-3, 3)
    | st.sampled_from([LOWEST, LOWEST + 1, HIGHEST - 1, HIGHEST, 1 << 32, -1 << 32])
    | (st.integers(LOWEST, HIGHEST))
)
TEXTS = (
    st.binary(max_size=40)
    | st.integers(0, 40).map(lambda size: b"x" * size)
    | (
        st.tuples(st.integers(0, 32), st.sampled_from([b"\0", b"\1", b"\0\0\0\0\0\0\0\0"])).map(
            lambda drawn: b"y" * drawn[0] + drawn[1]
        )
    )
)


def expected(keys: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    """The group of each key, by when it was first seen, and where that was."""
    first: dict[Hashable, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    number = {key: group for group, key in enumerate(first)}
    return [number[key] for key in keys], list(first.values())


def lists(groups: Groups) -> tuple[list[int], list[int]]:
    return groups.of.tolist(), groups.first.tolist()


@given(
    st.integers(0, 12).flatmap(
        lambda columns: st.lists(st.lists(NUMBERS, min_size=columns, max_size=columns), max_size=40)
    )
)
def test_records_with_the_same_numbers_are_a_group(rows: list[list[int]]) -> None:
    columns = len(rows[0]) if rows else 1
    found = same_numbers(np.array(rows, np.int64).reshape(len(rows), columns).T)
    assert lists(found) == expected([tuple(row) for row in rows])
    assert lists(same_numbers(np.ascontiguousarray(np.array(rows, np.int64).reshape(len(rows), columns).T))) == (
        lists(found)
    )


@pytest.mark.parametrize("step", [1, -1, 3, 60_000, 1 << 16, 1 << 32, 1 << 47, 1 << 50])
def test_many_different_numbers_are_all_told_apart(step: int) -> None:
    numbers = np.concatenate([np.arange(5000), np.arange(5000)[::-1]]) * step
    found = same_numbers(numbers[np.newaxis])
    assert lists(found) == expected(numbers.tolist())
    with_another = same_numbers(np.stack([np.zeros(10_000, np.int64), numbers, np.arange(10_000) % 2]))
    assert lists(with_another) == expected(list(zip(numbers.tolist(), [0, 1] * 5000, strict=True)))


@given(
    parts=st.lists(st.tuples(st.integers(0, 9), TEXTS), max_size=30),
    again=st.lists(st.integers(0, 29), max_size=30),
    behind=st.integers(0, 9),
    of_segment=st.booleans(),
)
def test_records_with_the_same_text_are_a_group_wherever_it_lies(
    parts: list[tuple[int, bytes]], again: list[int], behind: int, of_segment: bool
) -> None:
    data, at, length = b"12345678", [], []
    for gap, text in parts:
        data += b"\xa5" * gap
        at.append(len(data))
        length.append(len(text))
        data += text
    at += [at[row % len(parts)] for row in again if parts]
    length += [length[row % len(parts)] for row in again if parts]
    data += bytes(behind)
    source = segment_of(data) if of_segment else texts_of(data)
    found = same_texts(source, np.array(at, np.int64), np.array(length, np.int64))
    assert lists(found) == expected([data[begin : begin + size] for begin, size in zip(at, length, strict=True)])


@given(
    data=st.binary(min_size=8, max_size=60) | st.integers(8, 60).map(lambda size: b"z" * size),
    drawn=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 40)), max_size=40),
)
def test_texts_may_overlap_and_end_with_the_buffer(data: bytes, drawn: list[tuple[int, int]]) -> None:
    at = [min(begin, len(data)) for begin, _ in drawn]
    length = [min(size, len(data) - begin) for begin, (_, size) in zip(at, drawn, strict=True)]
    found = same_texts(segment_of(data), np.array(at, np.int64), np.array(length, np.int64))
    assert lists(found) == expected([data[begin : begin + size] for begin, size in zip(at, length, strict=True)])


@pytest.mark.parametrize("name", ["{}", "topic-{:02}", "t{:07}", "orders-of-{:06}", "{:05}-of-the-orders"])
def test_many_different_names_are_all_told_apart(name: str) -> None:
    names = [name.format(number % 3000).encode() for number in range(7000)]
    length = np.array([len(one) for one in names], np.int64)
    found = same_texts(segment_of(b"".join(names)), np.cumsum(length) - length, length)
    assert lists(found) == expected(names)


def test_no_records_are_no_groups() -> None:
    nothing = np.empty(0, np.int64)
    assert lists(same_numbers(np.empty((3, 0), np.int64))) == ([], [])
    assert lists(same_texts(segment_of(b""), nothing, nothing)) == ([], [])
    assert lists(same_texts(texts_of(b"12345678"), nothing, nothing)) == ([], [])

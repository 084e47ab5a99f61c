"""Which of many records have the same number, or text: each is looked up in a table of those seen before."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from spark_jobs.commit_log_headers import Longs, Segment, Texts, eight_bytes
from spark_jobs.compiled import compiled, inlined

_WORD = 8
_MIXES = 0x9E3779B97F4A7C15
"""Two to the 64th by the golden ratio: numbers multiplied by it differ in their highest bits."""


class Groups(NamedTuple):
    """The group of each record, numbered by when they were first seen, and the first record of each."""

    of: Longs
    first: Longs


def same_numbers(columns: Longs) -> Groups:
    """Groups of the records that have the same number in each of the columns, of shape (columns, records)."""
    return _grouped(columns.shape[1], partial(put_number_groups, columns))


def same_texts(source: Segment | Texts, at: Longs, length: Longs) -> Groups:
    """Groups of the records of which [at, at + length) is the same."""
    return _grouped(len(at), partial(put_text_groups, source.longs, at, length))


def _grouped(count: int, put_groups: Callable[[Longs, int, Longs, Longs], int]) -> Groups:
    bits = (2 * count + 1).bit_length()
    groups = Groups(np.empty(count, np.int64), np.empty(count, np.int64))
    different = put_groups(np.full(1 << bits, -1, np.int64), 64 - bits, *groups)
    return Groups(groups.of, groups.first[:different])


@inlined
def mixed(value: np.uint64, word: np.int64) -> np.uint64:
    """The hash of what was before and a word more; its highest bits are the best."""
    value = (value ^ np.uint64(word)) * np.uint64(_MIXES)
    return value ^ value >> np.uint64(32)


@compiled
def put_number_groups(columns: Longs, table: Longs, shift: int, group_of: Longs, first: Longs) -> int:
    """How many groups there are. ``table``: empty, at least twice as large as there are records, two to the
    (64 - ``shift``)."""
    different = 0
    for row in range(columns.shape[1]):
        value = np.uint64(0)
        for column in range(len(columns)):
            value = mixed(value, columns[column, row])
        place = np.int64(mixed(value, np.int64(0)) >> np.uint64(shift))
        while True:
            group = table[place]
            if group < 0:
                table[place] = group = different
                first[group] = row
                different += 1
                break
            is_same = True
            for column in range(len(columns)):
                is_same &= columns[column, row] == columns[column, first[group]]
            if is_same:
                break
            place = place + 1 & len(table) - 1
        group_of[row] = group
    return different


@compiled
def put_text_groups(longs: Longs, at: Longs, length: Longs, table: Longs, shift: int, group_of: Longs,
                    first: Longs) -> int:
    """The same for texts."""
    different = 0
    for row in range(len(at)):
        begin, size = at[row], length[row]
        value = np.uint64(size)
        for word in range(size + _WORD - 1 >> 3):
            value = mixed(value, word_of(longs, begin, size, word << 3))
        place = np.int64(mixed(value, np.int64(0)) >> np.uint64(shift))
        while True:
            group = table[place]
            if group < 0:
                table[place] = group = different
                first[group] = row
                different += 1
                break
            other = at[first[group]]
            is_same = length[first[group]] == size
            if is_same:
                for word in range(size + _WORD - 1 >> 3):
                    is_same &= word_of(longs, begin, size, word << 3) == word_of(longs, other, size, word << 3)
            if is_same:
                break
            place = place + 1 & len(table) - 1
        group_of[row] = group
    return different


@inlined
def word_of(longs: Longs, at: int, size: int, word: int) -> np.int64:
    """The eight bytes from ``word`` on of the text of that size, fewer at its end."""
    found = eight_bytes(longs, at + word)
    return found if size - word >= _WORD else found & (np.int64(1) << 8 * (size - word)) - np.int64(1)

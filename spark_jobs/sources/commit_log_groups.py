"""Which of many records have the same number, or text: each is looked up in a table of those seen before."""

import secrets
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from spark_jobs.sources.commit_log_headers import Segment, Texts
from spark_jobs.sources.commit_log_loops import Longs, put_number_groups, put_text_groups

_SEED = np.uint64(secrets.randbits(64))


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


def _grouped(count: int, put_groups: Callable[[Longs, int, np.uint64, Longs, Longs], int]) -> Groups:
    bits = (2 * count + 1).bit_length()
    groups = Groups(np.empty(count, np.int64), np.empty(count, np.int64))
    different = put_groups(np.full(1 << bits, -1, np.int64), 64 - bits, _SEED, *groups)
    return Groups(groups.of, groups.first[:different])

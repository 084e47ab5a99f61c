"""Parts of a buffer as columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.commit_log_slices import as_text, slices


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=9)), max_size=30))
def test_a_column_has_the_bytes_of_each_place(parts: list[tuple[int, bytes]]) -> None:
    data, at = b"head", []
    for gap, text in parts:
        data += bytes(gap)
        at.append(len(data))
        data += text
    found = slices(np.frombuffer(data, np.uint8), np.array(at, np.int64),
        np.array([len(text) for _, text in parts], np.int64))
    assert found.to_pylist() == [text for _, text in parts]
    found.validate(full=True)


def test_bytes_that_are_no_text_are_replaced() -> None:
    binary = slices(np.frombuffer(b"ok\xffend", np.uint8), np.array([0, 2, 3]), np.array([2, 1, 3]))
    assert as_text(binary).to_pylist() == ["ok", "\ufffd", "end"]

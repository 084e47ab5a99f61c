"""Properties of many records against the format's own reading of each."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import message_properties
from spark_jobs.sources.commit_log_columns import Properties
from tests.spark_jobs.segments import headers_of, raw_record, segment_of

NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "REAL_TOPIC", "A_NAME_OF_MORE_THAN_SIXTEEN_LETTERS", "KEY")


def properties(texts: Sequence[str], topics: Sequence[int] = (1,), names: Sequence[str] = NAMES) -> Properties:
    """Of records with these texts, in turn with topics of so many bytes; behind the last text there is nothing."""
    data = b""
    for row, text in enumerate(texts):
        data += raw_record(
            len(data),
            b"t" * topics[row % len(topics)],
            text.encode("utf-8", "surrogateescape"),
            b"\x02TAGS\x01no\x02",
            v2=True,
        )
    headers = headers_of(segment_of(data))
    assert len(headers.at) == len(texts)
    return Properties(headers, names)


def expected(text: str, name: str) -> str | None:
    """What the format reads; what is no text is replaced."""
    value = message_properties.decode(text).get(name)
    return None if value is None else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


TEXTS = [
    "TAGS\x01a\x02",
    "TAGS\x01a",
    "X\x01y\x02TAGS\x01a\x02",
    "TAGS\x01b\x02TAGS\x01a\x02",
    "MYTAGS\x01a\x02",
    "",
    "TAGS\x01\x02",
    "X\x01TAGS\x01a\x02",
    "TAGS\x01a\nb\x02",
    "TAGS\x01a\x01b\x02",
    "TAGS",
    "X\x01\x02TAGS\x01a\x02",
    "TAGS\x01a\x02TAGS\x01\x02",
    "\x02\x02TAGS\x01größe\x02",
    "\x01x\x02",
    "UNIQ_KEY\x01u\x02",
    "UNIQ_KEYS\x01u\x02",
    "TAGS\x01",
    "KEYS\x01\x01\x02",
    "KEY\x01k\x02KEYS\x01s\x02",
    "KEYS\x01s\x02KEY\x01k",
    "T",
    "TAGS\x01\udcff\x02",
    "\x02" * 200 + "TAGS\x01a",
    "KEYS\x01" + "k" * 30_000,
    "TAGS\x01a\x02" + "X\x01y\x02" * 90,
    "tags\x01a\x02",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_property_is_found_as_the_format_finds_it(text: str) -> None:
    for name in NAMES:
        assert properties([text]).value(name).to_pylist() == [expected(text, name)]


VALUES = st.text("ab\x01ü", max_size=10) | st.integers(50, 140).map(lambda size: "v" * size) | st.just("\udcff")
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([*NAMES, "", "TAG", "KEYSX"]),
        st.sampled_from(["\x01", ""]),
        VALUES,
        st.sampled_from(["\x02", "\x02\x02"]),
    ),
    max_size=5,
)


@given(
    st.lists(st.tuples(ENTRIES, st.booleans()), max_size=12).filter(len),
    st.lists(st.integers(0, 140), min_size=1, max_size=12),
    st.lists(st.sampled_from(NAMES), max_size=6, unique=True),
)
def test_of_many_records_each_has_its_own(
    drawn: list[tuple[list[tuple[str, ...]], bool]], topics: list[int], names: list[str]
) -> None:
    texts = []
    for entries, is_cut in drawn:
        text = "".join("".join(entry) for entry in entries)
        texts.append(text.rstrip("\x02") if is_cut else text)
    found = properties(texts, topics, names)
    for name in names:
        assert found.value(name).to_pylist() == [expected(text, name) for text in texts]


@pytest.mark.parametrize("end", ["\x02", ""])
def test_entries_may_begin_and_end_anywhere(end: str) -> None:
    texts = [f"X\x01{'x' * size}\x02TAGS\x01{'t' * (size % 70 + 1)}{end}" for size in range(200)]
    for topics in ([1], [3, 64, 65], [60]):
        found = properties(texts, topics)
        assert found.value("TAGS").to_pylist() == ["t" * (size % 70 + 1) for size in range(200)]
        assert found.value("KEYS").to_pylist() == [None] * 200


@pytest.mark.parametrize("size", range(40, 140))
def test_the_last_text_may_end_at_any_place(size: int) -> None:
    for text in ("TAGS\x01a\x02KEYS\x01" + "k" * size, "TAGS\x01" + "t" * size + "\x02", "T" * size + "\x02"):
        found = properties(["", text, "KEYS\x01k", ""], [0])
        for name in ("TAGS", "KEYS"):
            assert found.value(name).to_pylist() == [None, expected(text, name), expected("KEYS\x01k", name), None]


@pytest.mark.parametrize("text", ["TAGS\x01a\x02", ""])
def test_a_property_that_was_not_asked_for_is_not_said_to_be_missing(text: str) -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        properties([text], names=("TAGS",)).value("KEYS")


def test_some_of_the_records_have_theirs() -> None:
    texts = [f"KEYS\x01k{number}\x02TAGS\x01t{number}" for number in range(30)]
    data = b""
    for text in texts:
        data += raw_record(len(data), b"topic", text.encode())
    headers = headers_of(segment_of(data))
    for chosen in (slice(3, 9), slice(29, 30), np.arange(30) % 7 == 2, np.array([0, 13])):
        rows = np.arange(30)[chosen].tolist()
        found = Properties(headers.part(chosen), ("TAGS", "KEYS"))
        assert found.value("TAGS").to_pylist() == [f"t{row}" for row in rows]
        assert found.value("KEYS").to_pylist() == [f"k{row}" for row in rows]
    assert Properties(headers.part(slice(0)), ("TAGS",)).value("TAGS").to_pylist() == []


@pytest.mark.parametrize("length", [1, 2, 255, 256, 257, 258, 259, 511, 512, 513, 514, 767])
def test_the_length_of_a_text_is_no_end_of_an_entry(length: int) -> None:
    text = "KEYS\x01".rjust(length, "x")[:length] if length < 20 else "KEYS\x01" + "k" * (length - 5)
    for topic in range(70):
        assert properties([text, "TAGS\x01t", text], [topic]).value("KEYS").to_pylist() == [
            expected(text, "KEYS"),
            None,
            expected(text, "KEYS"),
        ]


def test_bytes_of_topics_and_of_other_records_are_no_properties() -> None:
    data = raw_record(0, b"TAGS\x01topic\x02", b"X\x01y")
    data += raw_record(len(data), b"\x02TAGS\x01topic\x02", b"TAGS")
    data += raw_record(len(data), b"\x01z\x02", b"\x01v\x02KEYS\x01")
    data += raw_record(len(data), b"k", b"TAGS\x01t")
    found = Properties(headers_of(segment_of(data)), ("TAGS", "KEYS"))
    assert found.value("TAGS").to_pylist() == [None, None, None, "t"]
    assert found.value("KEYS").to_pylist() == [None] * 4

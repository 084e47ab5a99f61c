"""Properties of many records against the format's own reading of each."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record, message_properties
from spark_jobs.commit_log_headers import Segment, read_headers, scan_magic
from spark_jobs.commit_log_properties import Properties

NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "REAL_TOPIC", "A_NAME_OF_MORE_THAN_SIXTEEN_LETTERS")


def properties(*texts: str) -> Properties:
    data = b""
    for text in texts:
        data += commit_log_record.encode(topic="t", queue_id=1, queue_offset=2, physical_offset=len(data),
            body=b"\x02TAGS\x01no\x02", properties=text)
    segment = Segment(memoryview(data), 0, len(data), 0)
    headers = read_headers(segment, scan_magic(segment, 0, len(data)), len(data))
    assert len(headers.at) == len(texts)
    return Properties(segment, headers)


TEXTS = ["TAGS\x01a\x02", "TAGS\x01a", "X\x01y\x02TAGS\x01a\x02", "TAGS\x01b\x02TAGS\x01a\x02", "MYTAGS\x01a\x02", "",
    "TAGS\x01\x02", "X\x01TAGS\x01a\x02", "TAGS\x01a\nb\x02", "TAGS\x01a\x01b\x02", "TAGS", "X\x01\x02TAGS\x01a\x02",
    "TAGS\x01a\x02TAGS\x01\x02", "\x02\x02TAGS\x01größe\x02", "\x01x\x02", "UNIQ_KEY\x01u\x02", "UNIQ_KEYS\x01u\x02"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_property_is_found_as_the_format_finds_it(text: str) -> None:
    for name in NAMES:
        assert properties(text).value(name).to_pylist() == [message_properties.decode(text).get(name)]


ENTRIES = st.lists(st.tuples(st.sampled_from([*NAMES, "", "TAG", "KEYSX"]),
    st.sampled_from(["\x01", ""]), st.text("ab\x01ü", max_size=10), st.sampled_from(["\x02", "\x02\x02"])), max_size=5)


@given(st.lists(st.tuples(ENTRIES, st.booleans()), max_size=12))
def test_of_many_records_each_has_its_own(drawn: list[tuple[list[tuple[str, ...]], bool]]) -> None:
    texts = []
    for entries, is_cut in drawn:
        text = "".join("".join(entry) for entry in entries)
        texts.append(text.rstrip("\x02") if is_cut else text)
    found = properties(*texts)
    for name in NAMES:
        assert found.value(name).to_pylist() == [message_properties.decode(text).get(name) for text in texts]
    assert found.whole().to_pylist() == texts


def test_a_property_that_no_record_has_is_null_everywhere(tmp_path: Path) -> None:
    found = properties("TAGS\x01a\x02", "KEYS\x01k\x02")
    assert found.value("PGROUP").to_pylist() == [None, None]
    assert found.value("KEYS").to_pylist() == [None, "k"]
    assert found.value("PGROUP").to_pylist() == [None, None]
    assert properties().value("TAGS").to_pylist() == []

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats.lake_position import LakePosition, decode, encode


def test_the_file_is_as_documented() -> None:
    assert encode(LakePosition(1 << 30, 1_700_000_000_000, "/data/lake/größe")) == (
        '{"version":1,"physicalOffset":1073741824,"wallMs":1700000000000,"lake":"/data/lake/größe"}\n'.encode()
    )


@given(st.builds(LakePosition, st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.text(st.characters(codec="utf-8"))))
def test_a_position_round_trips(position: LakePosition) -> None:
    data = encode(position)
    assert decode(data) == position
    assert decode(data[:-3]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"version":2,"physicalOffset":1}',
        b'{"version":1}',
        b'{"version":1,"physicalOffset":-1}',
        b'{"version":1,"physicalOffset":"5"}',
        b'{"version":1,"physicalOffset":true}',
        b'{"version":1,"physicalOffset":5,"wallMs":"x"}',
        b'{"version":1,"physicalOffset":5,"lake":7}',
    ],
)
def test_an_invalid_file_reads_as_none(data: bytes) -> None:
    assert decode(data) is None


def test_only_the_offset_is_required() -> None:
    assert decode(b'{"version":1,"physicalOffset":5}') == LakePosition(5, 0, "")

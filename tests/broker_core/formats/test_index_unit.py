import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import index_unit
from broker_core.formats.tags_code import hash_code


@pytest.mark.parametrize(("key", "value"), [("KEY_1", 173_554_031), ("0A0000010001000000000000000000", 1_443_797_995)])
def test_hashes_are_rocketmqs(key: str, value: int) -> None:
    assert index_unit.key_hash("TopicTest", key) == value


@given(st.text(max_size=9), st.text(max_size=9))
def test_a_hash_is_never_negative(topic: str, key: str) -> None:
    value = index_unit.key_hash(topic, key)
    signed = hash_code(f"{topic}#{key}")
    assert value == (0 if signed == -(1 << 31) else abs(signed))


def test_the_hash_without_an_absolute_is_zero() -> None:
    assert index_unit.absolute(1 << 31) == 0
    assert index_unit.absolute((1 << 32) - 1) == 1


def test_a_full_size_file_has_rocketmqs_size() -> None:
    assert index_unit.file_size(5_000_000, 20_000_000) == 420_000_040


def test_a_header_round_trips_and_a_new_one_counts_from_one() -> None:
    header = index_unit.IndexHeader(1, 2, 3, 4, 5, 6)
    assert index_unit.decode_header(index_unit.HEADER.pack(*header)) == header
    assert index_unit.decode_header(bytes(40)).index_count == 1


@pytest.mark.parametrize(("stored", "begin", "seconds"), [(5999, 1000, 4), (0, 1000, 0), (1 << 60, 0, 0x7FFFFFFF)])
def test_times_are_whole_seconds_and_never_negative(stored: int, begin: int, seconds: int) -> None:
    assert index_unit.time_diff(stored, begin) == seconds

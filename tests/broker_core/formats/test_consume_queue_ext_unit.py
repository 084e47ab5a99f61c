from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import consume_queue_ext_unit as ext


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 1 << 50), st.binary(max_size=64), st.integers(0, 9))
def test_units_round_trip(code: int, store_timestamp: int, bitmap: bytes, before: int) -> None:
    data = bytes(before) + ext.encode(code, store_timestamp, bitmap)
    assert ext.decode(data, before) == ext.ConsumeQueueExtUnit(20 + len(bitmap), code, store_timestamp, bitmap)


def test_a_unit_as_rocketmq_wrote_it() -> None:
    unit = ext.decode(bytes.fromhex("0014000000000651874e000001a1fd6870ff0000"), 0)
    assert unit is not None
    assert (unit.tags_code, unit.store_timestamp, unit.bitmap) == (0x651874E, 0x1A1FD6870FF, b"")


def test_the_end_of_a_file_is_not_a_unit() -> None:
    assert ext.decode(b"\xff\xff\xff\xff" + bytes(40), 0) is None
    assert ext.decode(bytes(40), 0) is None
    assert ext.decode(ext.encode(1, 2, b"abc")[:-1], 0) is None
    assert ext.decode(bytes(10), -1) is None


def test_an_address_is_an_offset_from_the_smallest_integer() -> None:
    assert ext.offset_of(-9_223_372_036_854_775_774) == 34

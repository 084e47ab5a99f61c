from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import consume_queue_unit as units

unit = st.tuples(st.integers(0, (1 << 63) - 1), st.integers(1, (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1))


def test_a_unit_contains_offset_size_and_tags_code() -> None:
    assert units.encode_units((1024, 120, -392_709_271)) == bytes.fromhex("000000000000040000000078ffffffffe897bb69")


@given(st.lists(unit, max_size=600))
def test_units_round_trip(wanted: list[tuple[int, int, int]]) -> None:
    flat = [field for fields in wanted for field in fields]
    data = units.encode_units(flat)
    assert len(data) == 20 * len(wanted)
    assert list(units.iter_units(data)) == wanted
    assert list(units.decode_units(data)) == flat


def test_an_unwritten_unit_is_not_valid() -> None:
    assert not units.is_valid(0, 0)
    assert not units.is_valid(-1, 5)
    assert units.is_valid(0, 91)


def test_a_hole_is_distinguished_from_a_unit() -> None:
    offset, size, _ = units.UNIT.unpack(units.HOLE)
    assert units.is_hole(offset, size)
    assert not units.is_hole(0, 91)

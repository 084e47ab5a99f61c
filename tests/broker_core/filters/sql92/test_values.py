"""Numbers in properties, as Java reads them."""

import pytest

from broker_core.filters.sql92.values import EvaluationError, Long, compare, order, parse_double, parse_int, parse_long

NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(b"1", 1.0), (b" 1e3\t", 1000.0), (b"1f", 1.0), (b"1.5D", 1.5), (b".5", 0.5), (b"5.", 5.0), (b"0x1p3", 8.0)],
        *[
            (b"Infinity", float("inf")),
            (b"-Infinity", -float("inf")),
            (b"-0x1p99999", -float("inf")),
            (b"0xa.8p0", 10.5),
        ],
    ],
)
def test_javas_doubles(text: bytes, value: float) -> None:
    assert parse_double(text) == value


@pytest.mark.parametrize(
    "text", [b"", b" ", b"inf", b"nan", b"1_0", b"1e", b"x", b".", b"0x1", b"1 2", b"1l", b"\xa01"]
)
def test_what_java_does_not_read_as_a_number(text: bytes) -> None:
    for parse in (parse_double, parse_int, parse_long):
        with pytest.raises(EvaluationError):
            parse(text)


@pytest.mark.parametrize("text", [b"+", b"-", b"--1", b"5L", b"1.0", b"\xf0\x9d\x9f\x8f", b"2147483648", b"9" * 5000])
def test_what_java_does_not_read_as_an_integer(text: bytes) -> None:
    with pytest.raises(EvaluationError):
        parse_int(text)


def test_javas_integers() -> None:
    assert [parse_int(text) for text in (b"-2147483648", b"+5", b"-0", b"0" * 5000 + b"7")] == [-(1 << 31), 5, 0, 7]
    assert parse_long(b"-9223372036854775808") == -(1 << 63)
    assert parse_int(b"\xd9\xa1") == 1


def test_javas_order_of_numbers() -> None:
    assert [order(*pair) for pair in ((1, 2), (2, 1), (2, 2))] == [-1, 1, 0]
    assert [order(*pair) for pair in ((-0.0, 0.0), (0.0, -0.0), (0.0, 0.0))] == [-1, 1, 0]
    assert [order(*pair) for pair in ((NAN, float("inf")), (1.0, NAN), (NAN, NAN))] == [1, -1, 0]


def test_values_of_different_types() -> None:
    assert compare(Long(1 << 60), 5) == 1 and compare(5, 5.5) == -1 and compare(b"5", 5) == 0
    assert compare((1 << 53) + 1, float(1 << 53)) == 0, "a long becomes a double"
    assert compare(True, 5) is compare(5, True) is None
    with pytest.raises(EvaluationError, match="condition on the left"):
        compare(True, b"true")


def test_an_error_says_what_could_not_be_read() -> None:
    with pytest.raises(EvaluationError) as error:
        parse_int(b"1.5")
    assert str(error.value) == "'1.5' is no integer of 32 bits"

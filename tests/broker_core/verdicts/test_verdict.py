"""The words of the sentences."""

import pytest

from broker_core.verdicts.verdict import clock, joined, plural, shown, span
from tests.fakes.facts import NOW_MS


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (999, "less than 1 s"),
        (59_999, "59 s"),
        (522_000, "8 min 42 s"),
        (7_380_000, "2 h 3 min"),
        (97_200_000, "1 d 3 h"),
    ],
)
def test_a_length_of_time(ms: int, text: str) -> None:
    assert span(ms) == text


def test_a_time_has_its_date_and_its_zone() -> None:
    assert clock(NOW_MS - 600_000) == "2025-11-23T16:54:10Z"
    assert clock(1 << 62) == "an unknown time"


def test_a_long_filter_is_cut_in_a_sentence() -> None:
    assert shown("x" * 100) == "x" * 100 and shown("x" * 4096) == "x" * 99 + "…"


def test_names_are_joined_and_counted() -> None:
    assert [joined(list("abcdefg"[:number])) for number in (0, 1, 2, 3)] == ["", "a", "a and b", "a, b and c"]
    assert joined(list("abcdefg")) == "a, b, c, d and 3 more"
    assert (plural(1, "message"), plural(2000, "message"), plural(0, "is", "are")) == (
        "1 message",
        "2,000 messages",
        "0 are",
    )

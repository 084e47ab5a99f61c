"""Tag expressions: what they match by queue unit and by record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.filters.tags import parse_client_subscription, parse_subscription
from broker_core.formats.message_properties import encode
from broker_core.formats.tags_code import tags_code

TAG = st.text(
    st.characters(exclude_characters="|*\x01\x02 '", exclude_categories=["Cs"], min_codepoint=33),
    min_size=1,
    max_size=12,
).filter(lambda text: text == text.strip())


@pytest.mark.parametrize("expression", ["", "*", "  * "])
def test_expressions_that_match_every_message(expression: str) -> None:
    assert parse_subscription(expression) is None


@given(st.lists(TAG, min_size=1, max_size=4), TAG)
def test_a_filter_matches_its_tags_and_no_other(tags: list[str], other: str) -> None:
    found = parse_subscription(" || ".join(tags))
    assert found is not None
    for tag in tags:
        assert found.matches_tags_code(tags_code(tag))
        assert found.matches_record(encode({"KEYS": "k", "TAGS": tag, "X": "TAGS"}).encode())
        assert found.matches_record(encode({"TAGS": tag}).encode().rstrip(b"\x02"))
    if other not in tags:
        assert not found.matches_record(encode({"TAGS": other}).encode())


def test_hashes_are_compared_as_32_bits() -> None:
    found = parse_subscription("order-created")
    assert found is not None and tags_code("order-created") == -392709271
    assert found.matches_tags_code(-392709271) and found.matches_tags_code(-392709271 & 0xFFFFFFFF)


def test_a_record_without_a_tag_or_with_a_similar_property_does_not_match() -> None:
    found = parse_subscription("TagA")
    assert found is not None
    assert not found.matches_record(b"")
    assert not found.matches_record(b"NOTAGS\x01TagA\x02")
    assert not found.matches_record(b"K\x01TAGS\x02")


@pytest.mark.parametrize(
    "expression", ["TagA ||", "|| TagA", "TagA | TagB", "TagA || *", "a\x00b", "\ud800", "x" * 5000]
)
def test_invalid_expressions_are_refused(expression: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_subscription(expression)
    assert caught.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize(
    "expression",
    ["a=b AND", "a IS NULL", "color = 'red'", "color='red'", "a > 5", "a in (1)", "not (a > 5)", "a BETWEEN 1 AND 5"],
)
def test_sql92_is_refused_as_tags_with_a_hint(expression: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_subscription(expression)
    assert caught.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED and caught.value.pointer == "/filter"
    assert "needs filter_type=sql92" in caught.value.remark


@pytest.mark.parametrize(
    "expression",
    [
        *("IN", "not", "AND || OR", "v=2", "a=b", "new order", "land", "a<b"),
        *("not found", "made in china", "red or blue || x", "in transit", "is like new"),
    ],
)
def test_tags_that_only_remind_of_sql92_are_tags(expression: str) -> None:
    assert parse_subscription(expression) is not None


@pytest.mark.parametrize("expression", ["", "*", " * "])
def test_client_expressions_that_match_every_message(expression: str) -> None:
    assert parse_client_subscription(expression) is None


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TagA", {"TagA"}),
        ("TagA||TagB", {"TagA", "TagB"}),
        (" TagA ||", {"TagA"}),
        ("|| TagA || || TagB", {"TagA", "TagB"}),
        ("a|b", {"a|b"}),
        ("TagA || *", {"TagA", "*"}),
    ],
)
def test_clients_may_use_expressions_that_the_api_refuses(expression: str, tags: set[str]) -> None:
    found = parse_client_subscription(expression)
    assert found is not None and found.tags_set == {tag.encode() for tag in tags}
    assert found.expression == expression


@pytest.mark.parametrize("expression", ["||", " || ", "x" * 5000])
def test_invalid_client_expressions_are_refused(expression: str) -> None:
    with pytest.raises(RequestError) as error:
        parse_client_subscription(expression)
    assert error.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED

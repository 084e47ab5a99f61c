"""The contract between the two stages: the first may accept too much, but must never reject a match."""

from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.filters.message_filter import MessageFilter
from broker_core.filters.tags import TagFilter, parse_subscription
from broker_core.formats import message_properties
from broker_core.formats.tags_code import hash_code

TAGS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="|*"), min_size=1, max_size=8)


def filter_of(expression: str) -> MessageFilter:
    found = parse_subscription(expression)
    assert found is not None
    return found


def properties(tag: str) -> bytes:
    return message_properties.encode({"KEYS": "k", "TAGS": tag}).encode()


def test_a_filter_has_both_stages_with_the_types_that_the_store_uses() -> None:
    for stage in ("matches_tags_code", "matches_record"):
        assert get_type_hints(getattr(TagFilter, stage)) == get_type_hints(getattr(MessageFilter, stage))


@given(TAGS, st.lists(TAGS, min_size=1, max_size=4))
def test_the_queue_stage_accepts_whatever_the_record_stage_accepts(tag: str, wanted: list[str]) -> None:
    asked = filter_of(" || ".join(wanted))
    assert asked.matches_record(properties(tag)) == (tag in wanted)
    assert asked.matches_tags_code(hash_code(tag)) >= asked.matches_record(properties(tag))


@pytest.mark.covers("tag-text")
def test_two_tags_with_the_same_hash_are_distinguished_by_the_record_only() -> None:
    assert hash_code("Aa") == hash_code("BB")
    asked = filter_of("Aa")
    assert asked.matches_tags_code(hash_code("BB"))
    assert not asked.matches_record(properties("BB"))

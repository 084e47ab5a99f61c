"""What topics and groups may be called."""

import re

import msgspec
import pytest

from api.http.names import (
    CLIENT_ID_PATTERN,
    GROUP_PATTERN,
    OPTIONAL_TOPIC_PATTERN,
    RESERVED_PROPERTIES,
    RULES,
    TOPIC_PATTERN,
    TopicName,
)


@pytest.mark.parametrize("name", ["T", "order-events_1", "%RETRY%" + "g" * 120, "a|b", "t" * 127, "%DLQ%" + "g" * 248])
def test_topics_rocketmq_takes(name: str) -> None:
    assert msgspec.convert(name, TopicName) == name


@pytest.mark.parametrize("name", ["", "../x", "a b", "t" * 128, "ümlaut", "T\n", "a/b", "a.b", "%RETRY%" + "g" * 249])
def test_topics_rocketmq_refuses(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(name, TopicName)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (GROUP_PATTERN, "G-1", "g" * 121),
        (GROUP_PATTERN, "%G|", ""),
        (OPTIONAL_TOPIC_PATTERN, "", "\n"),
        (CLIENT_ID_PATTERN, "client 1@host", "tab\there"),
    ],
)
def test_other_names(pattern: str, good: str, bad: str) -> None:
    assert re.search(pattern, good)
    assert not re.search(pattern, bad)


def test_every_rule_is_a_sentence() -> None:
    assert all(" " in rule and not rule.endswith(".") for rule in RULES.values())
    assert TOPIC_PATTERN in RULES


def test_order_keys_belong_to_applications() -> None:
    assert "UNIQ_KEY" in RESERVED_PROPERTIES
    assert not {"__SHARDINGKEY", "SHARDING_KEY"} & RESERVED_PROPERTIES

"""Subscriptions that are right and wrong."""

import pytest

from broker_core.client import MessageSelector, MQClientException
from broker_core.client.consumer.filter_api import build_subscription_data
from broker_core.commands import SubscriptionData


def test_tags_and_sql() -> None:
    assert build_subscription_data("T", "A || B", 7) == SubscriptionData(topic="T", sub_string="A || B", sub_version=7)
    sql = build_subscription_data("T", "a > 5", 7, "SQL92")
    assert (sql.sub_string, sql.expression_type) == ("a > 5", "SQL92")
    assert build_subscription_data("T", MessageSelector.by_sql("a > 5"), 7) == sql
    assert build_subscription_data("T", MessageSelector.by_tag("A"), 7) == build_subscription_data("T", "A", 7)


@pytest.mark.parametrize(
    ("topic", "expression", "kind", "problem"),
    [
        ("a b", "*", "TAG", "topic"),
        ("T", "||", "TAG", "contains no tag"),
        ("T", "a > 5", "SQL", "TAG or SQL92, not 'SQL'"),
        ("T", " ", "SQL92", "1 to 4096 characters"),
        ("T", "x" * 5000, "SQL92", "1 to 4096 characters"),
    ],
)
def test_what_is_wrong_is_named(topic: str, expression: str, kind: str, problem: str) -> None:
    with pytest.raises(MQClientException, match=problem):
        build_subscription_data(topic, expression, 7, kind)

"""Selectors, and texts with a type."""

from broker_core.client import MessageSelector
from broker_core.client.consumer.message_selector import selected


def test_a_selector_has_a_type_of_its_own() -> None:
    assert selected(MessageSelector.by_sql("a = 1"), "TAG") == ("a = 1", "SQL92")
    assert selected(MessageSelector.by_tag("A"), "SQL92") == ("A", "TAG")
    assert selected("A", "TAG") == ("A", "TAG")

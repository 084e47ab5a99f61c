"""Recall handles, as RocketMQ's clients keep them."""

from base64 import urlsafe_b64encode

import pytest

from broker_core.formats import recall_handle
from broker_core.formats.recall_handle import RecallHandle

HANDLE = RecallHandle("orders", "broker-a", 1_700_000_005_001, "7F000001")
TEXT = "djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDUwMDEgN0YwMDAwMDE="


def test_a_handle_is_rocketmqs_text() -> None:
    assert recall_handle.encode(HANDLE) == TEXT
    assert recall_handle.decode(TEXT) == HANDLE == recall_handle.decode(TEXT.rstrip("="))


@pytest.mark.parametrize(
    "text", ["", "x", "\u00e9", "djEgVA==", "dj", TEXT * 100, urlsafe_b64encode(b"v2 a b 1 d").decode()]
)
def test_what_is_no_handle(text: str) -> None:
    assert recall_handle.decode(text) is None


def test_a_time_that_is_no_number() -> None:
    handle = recall_handle.decode(urlsafe_b64encode(b"v1 a b soon d").decode())
    assert handle is not None and handle.timestamp == -1

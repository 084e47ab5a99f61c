"""Replies to request messages."""

import pytest

from broker_core.client import MQClientException, create_reply_message
from tests.fakes.messages import message_ext

REQUEST = {"CLUSTER": "C", "CORRELATION_ID": "id-1", "REPLY_TO_CLIENT": "h@1", "TTL": "3000", "color": "red"}


def test_a_reply_has_the_requests_correlation_id() -> None:
    reply = create_reply_message(message_ext(properties=REQUEST), b"42")
    assert (reply.topic, reply.body) == ("C_REPLY_TOPIC", b"42")
    assert reply.properties == {
        "WAIT": "true",
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "id-1",
        "REPLY_TO_CLIENT": "h@1",
        "TTL": "3000",
    }


def test_the_ttl_may_be_missing() -> None:
    request = message_ext(properties={name: value for name, value in REQUEST.items() if name != "TTL"})
    assert "TTL" not in create_reply_message(request, b"42").properties


@pytest.mark.parametrize("name", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT"])
def test_a_message_whose_sender_waits_for_no_reply(name: str) -> None:
    request = message_ext(properties={key: value for key, value in REQUEST.items() if key != name})
    with pytest.raises(MQClientException, match=f"create reply message fail: message .* has no {name};"):
        create_reply_message(request, b"42")

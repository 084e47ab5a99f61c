"""The table of message request modes."""

import pytest

from broker_core.consumers.message_request_mode_manager import MessageRequestMode, MessageRequestModeManager
from broker_core.errors import RequestError

POP = MessageRequestMode("g", "POP", 0, "orders")
TABLE = {
    "messageRequestModeMap": {
        "orders": {"g": {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0, "topic": "orders"}}
    }
}


def test_the_file_is_rocketmqs() -> None:
    modes = MessageRequestModeManager(None)
    assert modes.get("orders", "g") is None and not modes.dirty
    modes.put(POP)
    assert modes.dirty and modes.as_table() == TABLE
    assert MessageRequestModeManager(TABLE).get("orders", "g") == POP


def test_a_deleted_topic_has_no_modes() -> None:
    modes = MessageRequestModeManager(TABLE)
    modes.remove_topic("other")
    assert not modes.dirty
    modes.remove_topic("orders")
    assert modes.dirty and modes.get("orders", "g") is None


def test_the_number_of_modes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.consumers.message_request_mode_manager.MAX_MODES", 1)
    modes = MessageRequestModeManager(TABLE)
    modes.put(POP)
    with pytest.raises(RequestError, match="the limit"):
        modes.put(MessageRequestMode("h", "POP", 0, "orders"))

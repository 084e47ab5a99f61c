"""Which groups pop from which topics: what the broker answers to consumers with clientRebalance=false."""

from typing import Any, Literal

import msgspec

from broker_core.errors import RequestError

MAX_MODES = 20_000
Mode = Literal["PULL", "POP"]


class MessageRequestMode(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """RocketMQ's SetMessageRequestModeRequestBody. A member gets its own queues and those of the next
    ``pop_share_queue_num`` members; every member gets all if that is 0."""

    consumer_group: str
    mode: Mode
    pop_share_queue_num: int
    topic: str


class MessageRequestModeManager:
    """RocketMQ's MessageRequestModeManager: the table behind ``config/messageRequestMode.json``. ``dirty``: changes are
    not on the disk yet."""

    def __init__(self, loaded: dict[str, Any] | None) -> None:
        self._rest = dict(loaded or {})
        self._table: dict[str, dict[str, MessageRequestMode]] = msgspec.convert(
            self._rest.pop("messageRequestModeMap", None) or {},
            dict[str, dict[str, MessageRequestMode]],
            strict=False,
        )
        self.dirty = False

    def get(self, topic: str, group: str) -> MessageRequestMode | None:
        """None for a group that pulls by default."""
        return self._table.get(topic, {}).get(group)

    def put(self, mode: MessageRequestMode) -> None:
        """RequestError if there are too many."""
        of_topic = self._table.get(mode.topic, {})
        if mode.consumer_group not in of_topic and sum(map(len, self._table.values())) >= MAX_MODES:
            raise RequestError(f"{MAX_MODES} message request modes are set, which is the limit")
        self._table.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self.dirty = True

    def remove_topic(self, topic: str) -> None:
        self.dirty |= self._table.pop(topic, None) is not None

    def as_table(self) -> dict[str, Any]:
        """The content of messageRequestMode.json."""
        return self._rest | {"messageRequestModeMap": msgspec.to_builtins(self._table)}

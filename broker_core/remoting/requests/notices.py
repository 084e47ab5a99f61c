"""One-way requests of a broker to its clients, in one table."""

from collections.abc import Callable
from typing import Any

from broker_core.codes import RequestCode
from broker_core.commands import ConsumerIdsChanged, Notice
from broker_core.remoting.remoting_command import RemotingCommand, SerializeType


def _consumer_ids_changed(notice: ConsumerIdsChanged) -> dict[str, str]:
    return {"consumerGroup": notice.group}


NOTICES: dict[type[Notice], tuple[RequestCode, Callable[[Any], dict[str, str]]]] = {
    ConsumerIdsChanged: (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, _consumer_ids_changed),
}
"""The engine's notice -> RocketMQ's request code for it, and its extFields."""


def encode_notice(notice: Notice, opaque: int, serialize_type: SerializeType) -> RemotingCommand | None:
    """The one-way request for a notice; None for a notice that RocketMQ's clients do not know."""
    known = NOTICES.get(type(notice))
    if known is None:
        return None
    code, ext_fields = known
    return RemotingCommand.request(code, ext_fields(notice), opaque=opaque, oneway=True, serialize_type=serialize_type)

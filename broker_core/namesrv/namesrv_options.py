"""Options of a name server, under RocketMQ's names. UPDATE_NAMESRV_CONFIG changes them at run time."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.namesrv.register_broker import refused
from broker_core.options import rocketmq_name

BLACK_LIST = frozenset(("configBlackList", "configStorePath", "kvConfigPath"))
"""Options that no client may change: the paths of files that a name server writes."""


class NamesrvOptions(msgspec.Struct, frozen=True, kw_only=True, rename=rocketmq_name):
    """RocketMQ's NamesrvConfig, limited to the features of this name server."""

    order_message_enable: Annotated[
        bool,
        Meta(
            description="Add the queues of an ordered topic to its route, from the key-value namespace "
            "ORDER_TOPIC_CONFIG."
        ),
    ] = False
    return_order_topic_config_to_broker: Annotated[
        bool, Meta(description="Include the ordered topics in the answer to a registration.")
    ] = True
    scan_not_active_broker_interval: Annotated[
        int, Meta(ge=100, le=600_000, description="Period of looking for brokers without a recent heartbeat, ms.")
    ] = 5000


NAMES = frozenset(rocketmq_name(field) for field in NamesrvOptions.__struct_fields__)


def change_options(options: NamesrvOptions, changes: Mapping[str, str]) -> NamesrvOptions:
    """A copy with ``changes`` (RocketMQ names). As in RocketMQ, unknown names are ignored.

    Raises RequestError for an invalid value, or with NO_PERMISSION for an option in the black list.
    """
    if not BLACK_LIST.isdisjoint(changes):
        raise RequestError("Can not update config in black list.", code=ResponseCode.NO_PERMISSION)
    known = {name: value for name, value in changes.items() if name in NAMES}
    try:
        return msgspec.convert(msgspec.to_builtins(options) | known, NamesrvOptions, strict=False)
    except msgspec.ValidationError as error:
        raise refused(f"option refused: {error}") from error


def as_properties(values: Mapping[str, object]) -> str:
    """The values as Java properties, in alphabetical order."""
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
    return "".join(f"{name}={texts[name]}\n" for name in sorted(texts))

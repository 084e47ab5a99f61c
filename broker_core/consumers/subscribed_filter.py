"""The filter of a pull that sends none: that of the group's subscription, from its heartbeats."""

from broker_core.codes import ResponseCode
from broker_core.consumers.consumer_manager import ConsumerManager, version_ns
from broker_core.consumers.subscription_group_manager import SubscriptionGroupConfig, SubscriptionGroupManager
from broker_core.errors import RequestError
from broker_core.filters.filter_factory import make_client_filter
from broker_core.filters.message_filter import MessageFilter
from broker_core.filters.sql92.sql_filter import SQL92, parse_sql


def subscribed_filter(
    consumers: ConsumerManager,
    groups: SubscriptionGroupManager,
    config: SubscriptionGroupConfig,
    topic: str,
    sub_version: int,
    *,
    property_filter: bool,
) -> MessageFilter | None:
    """RocketMQ's checks, in its order. RequestError with its code: 16, 24, 25, 27, and those of wrong tags."""
    group = config.group_name
    info = consumers.get(group)
    if info is None:
        raise RequestError(
            f"group {group} has no member on this broker: no client sends heartbeats for it",
            code=ResponseCode.SUBSCRIPTION_NOT_EXIST,
        )
    if not config.consume_broadcast_enable and info.message_model == "BROADCASTING":
        raise RequestError(f"group {group} may not consume by broadcasting", code=ResponseCode.NO_PERMISSION)
    if not groups.may_read(group, topic):
        raise RequestError(f"group {group} is forbidden to read topic {topic}", code=ResponseCode.NO_PERMISSION)
    subscription = info.subscriptions.get(topic)
    if subscription is None:
        raise RequestError(
            f"group {group} does not subscribe to topic {topic}: its members must all subscribe to the same topics",
            code=ResponseCode.SUBSCRIPTION_NOT_EXIST,
        )
    if version_ns(subscription.sub_version) < version_ns(sub_version):
        raise RequestError(
            f"the client's subscription of group {group} to topic {topic} is newer than the broker's: its "
            "heartbeat has not arrived yet",
            code=ResponseCode.SUBSCRIPTION_NOT_LATEST,
        )
    if subscription.expression_type == SQL92:
        _require_filter(group, topic, subscription.sub_string)
    return make_client_filter(
        subscription.sub_string,
        subscription.expression_type,
        property_filter=property_filter,
    )


def _require_filter(group: str, topic: str, expression: str) -> None:
    """RequestError (FILTER_DATA_NOT_EXIST): RocketMQ keeps no filter of a heartbeat whose expression is wrong."""
    try:
        parse_sql(expression)
    except RequestError as error:
        raise RequestError(
            f"there is no filter of group {group} for topic {topic}: {error.remark}",
            code=ResponseCode.FILTER_DATA_NOT_EXIST,
        ) from error

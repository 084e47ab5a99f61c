"""The filter of a subscription, by its type. RocketMQ's FilterFactory."""

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.filters.message_filter import MessageFilter
from broker_core.filters.sql92.sql_filter import SQL92, parse_sql
from broker_core.filters.tags import parse_client_subscription, parse_subscription

TAG = "TAG"


def make_filter(expression: str, expression_type: str, *, property_filter: bool) -> MessageFilter | None:
    """The filter of an expression of the API; None if every message matches. Equal expressions share one filter.

    ``property_filter`` is the option enablePropertyFilter. Raises RequestError (SUBSCRIPTION_PARSE_FAILED).
    """
    if expression_type == TAG:
        return parse_subscription(expression)
    if expression_type == SQL92 and property_filter:
        return parse_sql(expression)
    reason = "enablePropertyFilter is off" if expression_type == SQL92 else "use TAG or SQL92"
    raise RequestError(
        f"filter type {expression_type!r} is not supported by this broker: {reason}",
        code=ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        pointer="/filter_type",
    )


def make_client_filter(expression: str, expression_type: str, *, property_filter: bool) -> MessageFilter | None:
    """The same for an expression as RocketMQ's clients may write it.

    Raises RequestError: SUBSCRIPTION_PARSE_FAILED, or as RocketMQ SYSTEM_ERROR for a type that is not supported.
    """
    if expression_type in ("", TAG):
        return parse_client_subscription(expression)
    if expression_type == SQL92 and property_filter:
        return parse_sql(expression)
    raise RequestError(
        f"The broker does not support consumer to filter message by {expression_type}",
        code=ResponseCode.SYSTEM_ERROR,
        pointer="/expression_type",
    )

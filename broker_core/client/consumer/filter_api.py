"""Subscriptions of a consumer: a topic and which of its messages."""

from broker_core.client.consumer.message_selector import SQL92, TAG, MessageSelector, selected
from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import SubscriptionData
from broker_core.errors import RequestError
from broker_core.filters.tags import MAX_EXPRESSION_LENGTH, parse_client_subscription
from broker_core.topics import validate_topic


def comparable_expression(expression_type: str, sub_expression: str) -> tuple[str, str]:
    """The type and the expression, its tags sorted: two that want the same messages are equal."""
    if expression_type != TAG:
        return expression_type, sub_expression
    return TAG, " || ".join(sorted({tag.strip() for tag in sub_expression.split("||")} - {""})) or "*"


def build_subscription_data(
    topic: str, sub_expression: str | MessageSelector, version: int, expression_type: str = TAG
) -> SubscriptionData:
    """RocketMQ's FilterAPI.build: all messages (``*``), those with a tag of ``TagA || TagB``, or by SQL92.

    ``version`` is the time in ms; brokers keep the newest. A SQL92 expression is read by the brokers alone. Raises
    MQClientException for a wrong topic or expression.
    """
    sub_expression, expression_type = selected(sub_expression, expression_type)
    try:
        validate_topic(topic)
        if expression_type == TAG:
            parse_client_subscription(sub_expression)
    except RequestError as error:
        raise MQClientException(error.remark) from error
    if expression_type not in (TAG, SQL92):
        raise MQClientException(f"the expression type is {TAG} or {SQL92}, not {expression_type!r}")
    if expression_type == SQL92 and not 0 < len(sub_expression.strip()) <= MAX_EXPRESSION_LENGTH:
        raise MQClientException(f"a SQL92 expression has 1 to {MAX_EXPRESSION_LENGTH} characters")
    return SubscriptionData(
        topic=topic, sub_string=sub_expression, expression_type=expression_type, sub_version=version
    )

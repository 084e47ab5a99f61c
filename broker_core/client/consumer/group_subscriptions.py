"""All members of a group must have the same subscriptions, or brokers give each of them the messages of others."""

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from broker_core.client.consumer.filter_api import comparable_expression
from broker_core.client.mq_client_exception import MQClientException

if TYPE_CHECKING:
    from broker_core.client.consumer.pulling_consumer import PullingConsumer

_members: "WeakKeyDictionary[PullingConsumer, asyncio.AbstractEventLoop]" = WeakKeyDictionary()
"""The consumers that were started in this process."""


def check_same_subscriptions(consumer: "PullingConsumer") -> None:
    """Note a consumer that is about to start.

    MQClientException if another one of its group in this process, at the same name servers, subscribes to something
    else.
    """
    own = _expressions(consumer)
    for other, loop in list(_members.items()):
        is_another = other is not consumer and other.group == consumer.group and other.running and not loop.is_closed()
        if not is_another or set(other.instance.name_servers) != set(consumer.instance.name_servers):
            continue
        theirs = _expressions(other)
        for topic in sorted({*own, *theirs}):
            if own.get(topic) != theirs.get(topic):
                raise MQClientException(
                    f"group {consumer.group!r} has another consumer in this process, with other subscriptions: to "
                    f"topic {topic!r} it {_say(theirs.get(topic))}, and this one {_say(own.get(topic))}. "
                    f"Make them the same, or use another group"
                )
    _members[consumer] = asyncio.get_running_loop()


def _expressions(consumer: "PullingConsumer") -> dict[str, tuple[str, str]]:
    return {
        topic: comparable_expression(data.expression_type, data.sub_string)
        for topic, data in consumer.subscriptions.items()
    }


def _say(expression: tuple[str, str] | None) -> str:
    return f"subscribes by {expression[1]!r}" if expression else "does not subscribe"

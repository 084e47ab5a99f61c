"""Telling members to share their queues anew. RocketMQ's DefaultConsumerIdsChangeListener.

Notices go out at the end of the turn in which a group changed, one to each member however often it changed: when a
thousand members come back at once, they are not told a million times.
"""

from broker_core.clock import Now
from broker_core.commands import NOTICE_ID, ConsumerIdsChanged
from broker_core.events import ConsumerIdsNotified, RebalanceCause
from broker_core.processors.context import Context

NOTICES_A_TURN = 1000
"""The group that reaches this number is its turn's last."""

SECOND_NOTICE_NS = 2_000_000_000
"""After the heartbeat; stock clients share queues at most once a second."""


def consumer_ids_changed(context: Context, group: str, cause: RebalanceCause) -> None:
    """The group's members or topics changed: they are to be told."""
    context.changed_groups.setdefault(group, cause)


def retry_topic_created(context: Context, group: str, now: Now) -> None:
    """A heartbeat made the group's retry topic: its members are to be told again, when they have shared their queues.

    Stock clients look for the topic's route before that heartbeat and, finding none, again while they share queues for
    the first time, a second after their start; but then it is too late for this sharing. Without a notice the next one
    is 20 s away, and as long nobody receives what the group sends back.
    """
    context.second_notices.renew(group, now.mono_ns + SECOND_NOTICE_NS)


def notify_again(context: Context, now: Now, limit: int) -> None:
    """Second notices whose time has come, after at most ``limit`` looks."""
    for group in context.second_notices.take_due(now.mono_ns, limit):
        consumer_ids_changed(context, group, "retry_topic")


def notify_consumer_ids_changed(context: Context, now: Now) -> None:
    """Tell the members of changed groups, those who have just come among them; broadcasting ones share nothing."""
    told = 0
    while context.changed_groups and told < NOTICES_A_TURN:
        group = next(iter(context.changed_groups))
        cause = context.changed_groups.pop(group)
        info, config = context.consumers.get(group), context.subscription_groups.get(group)
        if info is None or info.message_model == "BROADCASTING":
            continue
        if config is not None and not config.notify_consumer_ids_changed_enable:
            continue
        members, notice = context.consumers.members(group), ConsumerIdsChanged(group=group)
        for client in members.values():
            context.reply(client.connection, NOTICE_ID, notice)
        told += len(members)
        context.counters.rebalances_notified += 1
        context.events.keep(ConsumerIdsNotified, now, group, cause, len(members))

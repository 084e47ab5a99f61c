"""Notifies members to rebalance. RocketMQ's DefaultConsumerIdsChangeListener.

Notices are sent at the end of the turn in which a group changed, one to each member however often it changed. So a
thousand members that reconnect at once do not get a million notices.
"""

from broker_core.clock import Now
from broker_core.commands import NOTICE_ID, ConsumerIdsChanged
from broker_core.events import ConsumerIdsNotified, RebalanceCause
from broker_core.processors.context import Context

NOTICES_A_TURN = 1000
"""The group that reaches this number is the turn's last."""

SECOND_NOTICE_NS = 2_000_000_000
"""After the heartbeat: stock clients rebalance at most once a second."""


def consumer_ids_changed(context: Context, group: str, cause: RebalanceCause) -> None:
    """The group's members or topics changed: notify its members at the end of the turn."""
    context.changed_groups.setdefault(group, cause)


def retry_topic_created(context: Context, group: str, now: Now) -> None:
    """A heartbeat created the group's retry topic: notify its members once more, after they have rebalanced.

    Stock clients look for the topic's route before that heartbeat and find none. They look again during their first
    rebalance, a second after their start, too late for that rebalance. Without a notice the next one is 20 s later, and
    until then nobody receives the messages that the group sends back.
    """
    context.second_notices.renew(group, now.mono_ns + SECOND_NOTICE_NS)


def notify_again(context: Context, now: Now, limit: int) -> None:
    """Send the second notices that are due; at most ``limit`` are looked at."""
    for group in context.second_notices.take_due(now.mono_ns, limit):
        consumer_ids_changed(context, group, "retry_topic")


def notify_consumer_ids_changed(context: Context, now: Now) -> None:
    """Notify all members of the changed groups, new ones too; broadcasting groups have nothing to rebalance."""
    notified = 0
    while context.changed_groups and notified < NOTICES_A_TURN:
        group = next(iter(context.changed_groups))
        cause = context.changed_groups.pop(group)
        info, config = context.consumers.get(group), context.subscription_groups.get(group)
        if info is not None and cause == "left":
            info.changed_ns = now.mono_ns
        if info is None or info.message_model == "BROADCASTING":
            continue
        if config is not None and not config.notify_consumer_ids_changed_enable:
            continue
        members, notice = context.consumers.members(group), ConsumerIdsChanged(group=group)
        for client in members.values():
            context.reply(client.connection, NOTICE_ID, notice)
        notified += len(members)
        context.counters.rebalances_notified += 1
        context.events.keep(ConsumerIdsNotified, now, group, cause, len(members))

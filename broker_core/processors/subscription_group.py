"""Configuration of consumer groups. Part of RocketMQ's AdminBrokerProcessor."""

from broker_core.clock import Now
from broker_core.commands import (
    DeleteSubscriptionGroup,
    Done,
    GetSubscriptionGroups,
    Reply,
    SubscriptionGroups,
    UpdateSubscriptionGroup,
)
from broker_core.consumers.subscription_group_manager import SubscriptionGroupConfig, not_exist
from broker_core.events import SubscriptionGroupChanged
from broker_core.processors.context import Context, Request


def find_or_create_group(context: Context, group: str, now: Now) -> SubscriptionGroupConfig:
    """How a client's group is configured; NotFoundError where unknown groups are not made.

    On a store that was not adopted the group is made in memory only, so that its messages can be consumed.
    """
    config = context.subscription_groups.get(group)
    if config is None:
        config = context.subscription_groups.create(group, now)
        context.events.keep(SubscriptionGroupChanged, now, group, "created")
    return config


def update_subscription_group(context: Context, request: Request, now: Now) -> Reply:
    command: UpdateSubscriptionGroup = request.command
    context.require_writable()
    groups = context.subscription_groups
    before = groups.data_version
    known = str(command.config.get("groupName")) in groups
    config = groups.update(command.config, now)
    if groups.data_version != before:
        context.events.keep(SubscriptionGroupChanged, now, config.group_name, "updated" if known else "created")
    return _view(context, [config.group_name])


def get_subscription_groups(context: Context, request: Request, now: Now) -> Reply:
    command: GetSubscriptionGroups = request.command
    if not command.group:
        return _view(context, [config.group_name for config in context.subscription_groups])
    if command.group not in context.subscription_groups:
        raise not_exist(command.group)
    return _view(context, [command.group])


def _view(context: Context, names: list[str]) -> SubscriptionGroups:
    groups = context.subscription_groups
    return SubscriptionGroups(data_version=groups.data_version, configs={name: groups.entry(name) for name in names})


def delete_subscription_group(context: Context, request: Request, now: Now) -> Reply:
    """As in RocketMQ it is no error when there is none: a tool asks every broker of the cluster."""
    command: DeleteSubscriptionGroup = request.command
    context.require_writable()
    if context.subscription_groups.delete(command.group, now):
        context.events.keep(SubscriptionGroupChanged, now, command.group, "deleted")
    if command.clean_offset:
        context.offsets.remove_group(command.group)
    return Done()

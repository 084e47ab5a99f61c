"""Configuration of consumer groups. Part of RocketMQ's AdminBrokerProcessor."""

from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.commands import (
    DeleteSubscriptionGroup,
    Done,
    GetSubscriptionGroups,
    GroupForbidden,
    Reply,
    SubscriptionGroups,
    UpdateGroupForbidden,
    UpdateSubscriptionGroup,
    UpdateSubscriptionGroupList,
)
from broker_core.consumers.subscription_group_manager import SubscriptionGroupConfig, not_exist
from broker_core.errors import ConflictError
from broker_core.events import SubscriptionGroupChanged
from broker_core.processors.context import Context, Request
from broker_core.topics import validate_group, validate_topic
from broker_core.walk import Steps, pieces_of


def find_or_create_group(context: Context, group: str, now: Now) -> SubscriptionGroupConfig:
    """The configuration of a client's group. NotFoundError if it is unknown and unknown groups are not created.

    In a store that was not adopted the group is created in memory only, so that its messages can be consumed.
    """
    config = context.subscription_groups.get(group)
    if config is None:
        config = context.subscription_groups.create(group, now)
        context.events.keep(SubscriptionGroupChanged, now, group, "created")
    return config


def update_subscription_group(context: Context, request: Request, now: Now) -> Reply:
    command: UpdateSubscriptionGroup = request.command
    context.require_writable()
    return _view(context, _update(context, command.config, now))


def update_subscription_group_list(context: Context, request: Request, now: Now) -> Reply:
    """All groups are checked before any is changed."""
    command: UpdateSubscriptionGroupList = request.command
    context.require_writable()
    groups = context.subscription_groups
    names = {groups.checked(config)[0].group_name for config in command.configs}
    groups.require_room(sum(name not in groups for name in names))
    for config in command.configs:
        _update(context, config, now)
    return Done()


def _update(context: Context, config: dict[str, Any], now: Now) -> str:
    """Create or change one group and report it. Returns its name."""
    groups = context.subscription_groups
    old_version = groups.data_version
    is_known = str(config.get("groupName")) in groups
    name = groups.update(config, now).group_name
    if groups.data_version != old_version:
        context.events.keep(SubscriptionGroupChanged, now, name, "updated" if is_known else "created")
    return name


def get_subscription_groups(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetSubscriptionGroups = request.command
    groups = context.subscription_groups
    if not command.group:
        version = groups.data_version
        configs: dict[str, dict[str, Any]] = {}
        for piece in pieces_of([config.group_name for config in groups]):
            configs |= {name: groups.entry(name) for name in piece if name in groups}
            yield
        return SubscriptionGroups(data_version=version, configs=configs, forbidden=groups.forbidden)
    if command.group in groups:
        return _view(context, command.group)
    if not command.or_default or not context.options.auto_create_subscription_group:
        raise not_exist(command.group)
    config, _ = groups.checked({"groupName": command.group})
    return SubscriptionGroups(
        data_version=groups.data_version, forbidden={}, configs={command.group: msgspec.to_builtins(config)}
    )


def _view(context: Context, name: str) -> SubscriptionGroups:
    groups = context.subscription_groups
    return SubscriptionGroups(
        data_version=groups.data_version, configs={name: groups.entry(name)}, forbidden=groups.forbidden
    )


def update_group_forbidden(context: Context, request: Request, now: Now) -> Reply:
    command: UpdateGroupForbidden = request.command
    groups = context.subscription_groups
    if command.readable is not None:
        context.require_writable()
        validate_topic(command.topic)
        groups.forbid(validate_group(command.group), command.topic, now, readable=command.readable)
    return GroupForbidden(
        group=command.group, topic=command.topic, readable=groups.may_read(command.group, command.topic)
    )


def delete_subscription_group(context: Context, request: Request, now: Now) -> Reply:
    """With ``missing_ok`` an unknown group is no error, as in RocketMQ: tools ask every broker of the cluster."""
    command: DeleteSubscriptionGroup = request.command
    context.require_writable()
    members = len(context.consumers.members(command.group))
    if members and not command.members_ok:
        raise ConflictError(
            f"group {command.group} has {members} {'member' if members == 1 else 'members'} online; it "
            "can be deleted when they have left",
            pointer="/group",
        )
    if not (
        command.missing_ok
        or command.group in context.subscription_groups
        or context.offsets.topics(command.group)
        or context.pulls.topics(command.group)
    ):
        raise not_exist(command.group)
    if context.subscription_groups.delete(command.group, now):
        context.stats.forget_group(command.group)
        context.counters.wakeups.forget_group(command.group)
        context.events.keep(SubscriptionGroupChanged, now, command.group, "deleted")
    if command.clean_offset:
        context.offsets.remove_group(command.group)
        context.check_points.remove_group(command.group)
        context.order_infos.remove_where(lambda _, group: group == command.group)
        context.pulls.remove_group(command.group)
        context.refused_pulls.remove_group(command.group)
    return Done()

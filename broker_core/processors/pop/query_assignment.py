"""Assigns queues to clients that leave this to the broker (clientRebalance=false).

RocketMQ's QueryAssignmentProcessor, with the clients' own strategies. A client asks one broker for all
queues, so the topic's queues on all brokers are assigned. If this broker does not know the queues of the others, it
refuses, and clients share the queues among themselves, as they do by default. In POP mode the broker gives each
message to one member, so members may have the same queues.
"""

from collections.abc import Callable

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    Assignment,
    Done,
    MessageQueue,
    MessageRequestModes,
    QueryAssignment,
    Reply,
    SetMessageRequestMode,
)
from broker_core.consumers.allocate_message_queue import allocate_averagely, allocate_averagely_by_circle
from broker_core.consumers.message_request_mode_manager import MessageRequestMode
from broker_core.consumers.subscription_group_manager import retry_topic
from broker_core.errors import NotFoundError, RequestError
from broker_core.processors.context import Context, Request
from broker_core.processors.subscription_group import find_or_create_group
from broker_core.topics import validate_group

Allocate = Callable[[list[MessageQueue], list[str], str], list[MessageQueue]]

STRATEGIES = {"AVG": allocate_averagely, "AVG_BY_CIRCLE": allocate_averagely_by_circle}


def query_assignment(context: Context, request: Request, now: Now) -> Reply:
    command: QueryAssignment = request.command
    allocate = STRATEGIES.get(command.strategy)
    if allocate is None:
        raise _left_to_clients(f"this broker has no strategy {command.strategy[:100]!r}")
    context.topics.require(command.topic)
    queues = context.find_queues(command.topic) if context.find_queues is not None else None
    if queues is None:
        raise _left_to_clients("this broker does not know the queues of other brokers")
    if command.message_model == "BROADCASTING":
        return Assignment(queues=queues)
    mode = context.request_modes.get(command.topic, command.group)
    if mode is not None and mode.mode == "POP":
        return _to_pop(context, command, queues, allocate, mode.pop_share_queue_num)
    queues = _in_order(queues)
    return Assignment(queues=allocate(queues, _members(context, command.group), command.client_id))


def _in_order(queues: list[MessageQueue]) -> list[MessageQueue]:
    return sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))


def _members(context: Context, group: str) -> list[str]:
    client_ids = context.consumers.client_ids(group)
    if not client_ids:
        raise NotFoundError(f"no consumer for this group, {group}", code=ResponseCode.SYSTEM_ERROR)
    return client_ids


def _to_pop(
    context: Context, command: QueryAssignment, queues: list[MessageQueue], allocate: Allocate, shared: int
) -> Assignment:
    """RocketMQ's allocate4Pop: all queues, or those of this member and of the ``shared`` members behind it."""
    members = _members(context, command.group)
    queues = _in_order(queues)
    if shared <= 0 or shared >= len(members) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
        whole = [MessageQueue(topic=topic, broker_name=broker, queue_id=-1) for topic, broker in brokers]
        return Assignment(mode="POP", queues=whole)
    if len(members) > len(queues):  # each has one queue, and several members have the same
        place = members.index(command.client_id) if command.client_id in members else None
        return Assignment(mode="POP", queues=[] if place is None else [queues[place % len(queues)]])
    own = allocate(queues, members, command.client_id)
    if command.client_id in members:
        place = members.index(command.client_id)
        for step in range(1, shared + 1):
            own = own + allocate(queues, members, members[(place + step) % len(members)])
    return Assignment(mode="POP", queues=own)


# --- Modes ------------------------------------------------------------------------------------------------------------


def set_message_request_mode(context: Context, request: Request, now: Now) -> Reply:
    """Members learn the mode when they ask for their queues the next time: Java clients within 20 s."""
    command: SetMessageRequestMode = request.command
    context.require_writable()
    if command.topic.startswith(retry_topic("")):
        raise RequestError("retry topic is not allowed to set mode", code=ResponseCode.NO_PERMISSION)
    context.topics.require(command.topic)
    group = find_or_create_group(context, validate_group(command.consumer_group), now).group_name
    mode = MessageRequestMode(
        consumer_group=group,
        mode=command.mode,
        pop_share_queue_num=max(0, command.share_queues),
        topic=command.topic,
    )
    context.request_modes.put(mode)
    return Done()


def get_message_request_modes(context: Context, request: Request, now: Now) -> Reply:
    return MessageRequestModes(table=context.request_modes.as_table())


def _left_to_clients(why: str) -> RequestError:
    return RequestError(f"{why}: let the clients of the group share them", code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

"""Assigns queues to clients that leave this to the broker (clientRebalance=false).

RocketMQ's QueryAssignmentProcessor in PULL mode, with the clients' own strategies. A client asks one broker for all
queues, so the topic's queues on all brokers are assigned. If this broker does not know the queues of the others, it
refuses, and clients share the queues among themselves, as they do by default.
"""

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import Assignment, QueryAssignment, Reply
from broker_core.consumers.allocate_message_queue import allocate_averagely, allocate_averagely_by_circle
from broker_core.errors import NotFoundError, RequestError
from broker_core.processors.context import Context, Request

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
    queues = sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
    client_ids = context.consumers.client_ids(command.group)
    if not client_ids:
        raise NotFoundError(f"no consumer for this group, {command.group}", code=ResponseCode.SYSTEM_ERROR)
    return Assignment(queues=allocate(queues, client_ids, command.client_id))


def _left_to_clients(why: str) -> RequestError:
    return RequestError(f"{why}: let the clients of the group share them", code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

"""Locks of queues that are consumed in order. RocketMQ's LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""

from broker_core.clock import Now
from broker_core.commands import Done, LockBatchMq, LockedQueues, MessageQueue, Reply, UnlockBatchMq
from broker_core.errors import RequestError
from broker_core.events import QueueLocked, QueueUnlocked
from broker_core.processors.context import Context, Request
from broker_core.topics import validate_group

MAX_QUEUES_A_REQUEST = 10_000


def _check(group: str, client_id: str, queues: list[MessageQueue]) -> None:
    validate_group(group)
    if not client_id:
        raise RequestError("the client id is empty", pointer="/client_id")
    if len(queues) > MAX_QUEUES_A_REQUEST:
        raise RequestError(f"{len(queues)} queues at once; the limit is {MAX_QUEUES_A_REQUEST}", pointer="/queues")


def lock_batch_mq(context: Context, request: Request, now: Now) -> Reply:
    """Lock queues of this broker; others are left out. A lock may be taken before the first heartbeat."""
    command: LockBatchMq = request.command
    _check(command.group, command.client_id, command.queues)
    expire_locks(context, now, MAX_QUEUES_A_REQUEST)
    locked = []
    for queue in command.queues:
        topic = context.topics.get(queue.topic)
        if topic is None or not 0 <= queue.queue_id < topic.queue_nums:
            continue
        held, fresh = context.locks.try_lock(command.group, queue.topic, queue.queue_id, command.client_id, now.mono_ns)
        if held:
            locked.append(queue)
        if fresh:
            context.events.keep(QueueLocked, now, command.group, queue.topic, queue.queue_id, command.client_id)
    return LockedQueues(queues=locked)


def unlock_batch_mq(context: Context, request: Request, now: Now) -> Reply:
    """Release locks of the client; locks of other clients stay."""
    command: UnlockBatchMq = request.command
    _check(command.group, command.client_id, command.queues)
    for queue in command.queues:
        if context.locks.unlock(command.group, queue.topic, queue.queue_id, command.client_id):
            context.events.keep(
                QueueUnlocked, now, command.group, queue.topic, queue.queue_id, command.client_id, "unlock"
            )
    return Done()


def expire_locks(context: Context, now: Now, limit: int) -> None:
    """End the locks that were not renewed in time; at most ``limit`` are looked at."""
    for (group, topic, queue_id), client_id in context.locks.take_expired(now.mono_ns, limit):
        context.events.keep(QueueUnlocked, now, group, topic, queue_id, client_id, "expired")

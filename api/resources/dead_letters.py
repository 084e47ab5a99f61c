"""What a group could not consume: messages that wait for another try, and dead letters, which are sent to it again."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.names import GroupName
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Route
from api.http.schemas import Body, MessageView, Model, QueueOffset
from api.http.threads import in_thread
from api.resources.messages import render_messages
from bridge.port import (
    BrokerError,
    ConflictError,
    EnginePort,
    Message,
    NotFoundError,
    commands,
    encode_properties,
    stored_messages,
)

DEAD_LETTERS = "%DLQ%{}"
RETRIES = "%RETRY%{}"
QUEUE = 0
MOST_RESENT = 32
"""Messages that one request sends again."""
OF_THE_COPY = frozenset({"DELAY", "REAL_TOPIC", "REAL_QID", "MAX_RECONSUME_TIMES", "WAIT"})
"""Properties of the way to the dead letter queue, which a new attempt must not have."""


class ResendDeadLetters(Body, frozen=True, kw_only=True, gc=False):
    """Dead letters from `from_offset` up to, not including, `to_offset`; with `dry_run` they are only counted."""

    from_offset: QueueOffset = 0
    to_offset: Annotated[QueueOffset, Meta(description="Without it, the queue's end.")] | UnsetType = UNSET
    dry_run: bool = False


class DeadLettersResent(Model, frozen=True, kw_only=True, gc=False):
    """`messages` were sent, at most 32, or would be sent in all. `left_out` have no readable record.

    `next_offset` is the `from_offset` of the next request; it is `to_offset` when nothing is left. After an error in
    the midst the answer counts those before it, and the next request reports it.
    """

    broker: str
    group: str
    dry_run: bool
    messages: int
    left_out: int
    next_offset: int
    to_offset: int


class WaitingRetry(Model, frozen=True, kw_only=True, gc=False):
    """The group gets the message again at `due_ms`. Its `reconsume_times` is the number of this try."""

    due_ms: int
    message: MessageView


class WaitingRetries(Model, frozen=True, kw_only=True, gc=False):
    """In the order in which they are due. `waiting` counts all; if `counted` is false, there may be more: ask again.

    `next` is the `after` of the next page, if any. A message that is sent back meanwhile and is due earlier is on an
    earlier page.

    `retry_max_times`: the group's maximum of retries, after which a message is dead; null if it is not known.
    """

    broker: str
    group: str
    waiting: int
    counted: bool
    retry_max_times: int | None
    retries: list[WaitingRetry]
    next: str | UnsetType = UNSET


class GroupParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName


class RetriesParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName
    after: Annotated[
        str,
        Meta(
            pattern=r"^([0-9]{1,19}(\.[0-9]{1,19}){2})?$(?!\n)",
            description="Only messages after the page with this `next`.",
        ),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=64, description="Maximum number of messages.")] = 32
    max_body: Annotated[int, Meta(ge=0, le=1 << 30, description="Only so many bytes of each body.")] | None = None


async def get_retries(request: Request[RetriesParams]) -> Answer:
    """The messages that the group sent back, or did not consume in time, until their delay is over, in pages."""
    params = request.params
    broker = await brokers.single_broker(params.broker, RETRIES.format(params.group))
    command = commands.GetWaitingRetries(group=params.group, max_num=params.limit, after=params.after)
    found = await ask(broker.port, command, commands.RetriesWaiting)

    def work() -> list[WaitingRetry]:
        stored = stored_messages(found.records, broker.name)
        shown, _ = render_messages(stored, max_body=params.max_body)
        return [WaitingRetry(due_ms=at, message=message) for at, message in zip(found.due_ms, shown, strict=False)]

    retries = await in_thread(work)
    following = found.next if len(retries) == len(found.places) else found.places[len(retries) - 1]
    return Answer(
        body=WaitingRetries(
            broker=broker.name,
            group=params.group,
            waiting=found.retries.waiting,
            counted=found.retries.counted,
            retry_max_times=await _retry_max_times(broker.port, params.group),
            retries=retries,
            next=UNSET if following is None else following,
        )
    )


async def _retry_max_times(port: EnginePort, group: str) -> int | None:
    try:
        reply = await ask(
            port, commands.GetSubscriptionGroups(group=group, or_default=True), commands.SubscriptionGroups
        )
    except BrokerError:  # the group was deleted meanwhile, or the broker does not tell
        return None
    times = reply.configs.get(group, {}).get("retryMaxTimes")
    return times if isinstance(times, int) else None


async def resend(request: Request[GroupParams]) -> Answer:
    """Stores copies in the group's retry topic, from which only this group receives them, as a first attempt.

    The dead letters stay where they are. Refused while the group consumes in order: it would give the copies up again.
    """
    group, body = request.params.group, request.body
    assert isinstance(body, ResendDeadLetters)
    topic = DEAD_LETTERS.format(group)
    broker = await brokers.single_broker(request.params.broker, topic)
    try:
        queue = (await ask(broker.port, commands.GetQueues(topic=topic), commands.Queues)).queues[QUEUE]
    except NotFoundError as error:
        raise NotFoundError(f"group {group} has no dead letters", code=error.code, pointer="/group") from error
    first = max(body.from_offset, queue.min_offset)
    end = max(first, queue.max_offset if body.to_offset is UNSET else min(body.to_offset, queue.max_offset))
    sent, left_out, following = end - first, 0, end
    if not body.dry_run and first < end:
        await _require_no_order(broker.port, group)
        pull = commands.PullMessage(topic=topic, queue_id=QUEUE, queue_offset=first, max_msg_nums=MOST_RESENT)
        pulled = await ask(broker.port, pull, commands.Pulled)
        following = min(end, max(first + 1, pulled.next_begin_offset))
        sent, left_out, failed_at = await _send_again(broker, group, pulled.records, end)
        following = following if failed_at is None else failed_at
    return Answer(
        body=DeadLettersResent(
            broker=broker.name,
            group=group,
            dry_run=body.dry_run,
            messages=sent,
            left_out=left_out,
            next_offset=following,
            to_offset=end,
        )
    )


async def _send_again(broker: brokers.Broker, group: str, records: bytes, end: int) -> tuple[int, int, int | None]:
    """Send the messages of these records that lie before ``end``, one after the other.

    Returns how many were sent, how many have no readable record, and the offset of one that was refused after others.
    """
    sent = left_out = 0
    for message in stored_messages(records, broker.name):
        if message.problem:
            left_out += 1
        elif message.queue_offset < end:
            try:
                await ask(broker.port, copy_of(group, message), commands.Sent)
            except BrokerError:
                if not sent:
                    raise
                return sent, left_out, message.queue_offset
            sent += 1
    return sent, left_out, None


async def _require_no_order(port: EnginePort, group: str) -> None:
    detail = await ask(port, commands.GetConsumerGroup(group=group), commands.ConsumerGroupDetail)
    if any(queue.locked_by for queue in detail.queues):
        raise ConflictError(
            f"group {group} consumes in order, and a copy in its retry topic would be given up again; publish the "
            "message to its own topic instead",
            pointer="/group",
        )


def copy_of(group: str, message: Message) -> commands.SendMessage:
    """The send that gives a dead letter to its group again. The body stays compressed as it is stored."""
    kept = {name: value for name, value in message.properties.items() if name not in OF_THE_COPY}
    copy = commands.OutgoingMessage(
        body=message.body,
        properties=encode_properties(kept),
        sys_flag=message.compression,
        born_timestamp=message.born_time_ms,
    )
    return commands.SendMessage(topic=RETRIES.format(group), messages=[copy])


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/groups/{group}/dead-letters/resend",
        handler=resend,
        group="Groups",
        summary="Send dead letters to their group again, or preview it",
        params=GroupParams,
        bodies=(ResendDeadLetters,),
        response=DeadLettersResent,
        problems=(403, 404, 409, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/groups/{group}/retries",
        handler=get_retries,
        group="Groups",
        summary="Messages that wait for another try",
        params=RetriesParams,
        response=WaitingRetries,
        problems=(404, 504),
    ),
)

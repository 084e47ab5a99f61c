"""The revive log: check points and acknowledgements are messages, so that a kill loses none of them.

REVIVE_GROUP has the offset of the last record that a start need not read: RocketMQ begins behind it. A pop moves its
group's offset at once, but consumerOffset.json is written later. So a start also takes a group's offsets from the check
points behind those of OFFSETS_GROUP, which were stored after the table was copied. Check points that a timer wheel
delivered say nothing about offsets: RocketMQ moved the offset long before, and it may have been reset since.

A power cut may keep later pages of the log and lose earlier ones. Behind lost records a start takes no pop and no
acknowledgement for granted: the copy that an acknowledgement stands for may be lost, or the check point of an earlier
pop, so that the group's offset would move past its messages. Under SYNC_FLUSH nothing behind them was acknowledged.
So these messages are given again.
"""

import logging
from collections.abc import Sequence

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.consumers.pop_check_points import CheckPoint
from broker_core.errors import BrokerError, UnavailableError
from broker_core.events import TopicChanged
from broker_core.formats import message_properties, pop_check_point
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError, decode_all
from broker_core.formats.message_properties import TAGS, UNIQ_KEY
from broker_core.formats.pop_check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CK_TAG,
    OFFSETS_GROUP,
    ORDER_ACK_TAG,
    REVIVE_GROUP,
    REVIVE_QUEUES,
    UNDONE_TAG,
    AckMsg,
    PopCheckPoint,
    revive_topic,
)
from broker_core.processors.context import Context
from broker_core.processors.message_stored import message_stored
from broker_core.store.commit_log import DispatchRequest, PendingMessage
from broker_core.store.timer.timer_message import TIMER_DEQUEUE_MS
from broker_core.topics import PERM_READ, PERM_WRITE

log = logging.getLogger(__name__)

TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
"""RocketMQ's revive service reads from it when a record of the revive log counts."""
ACK_INTERVAL_MS = 1000
"""RocketMQ's ackTimeInterval: a check point counts a second before its messages become visible."""
READ_AT_ONCE = 1 << 20
STORED_AT_ONCE = 64
NO_OFFSET = -1
NEVER = 1 << 63
"""Larger than any offset of a queue."""
ACK_TAGS = frozenset((ACK_TAG, BATCH_ACK_TAG, ORDER_ACK_TAG, UNDONE_TAG))


def check_point_message(context: Context, point: CheckPoint, now: Now, *, again: bool = False) -> PendingMessage:
    """The record of a check point; ``again`` if its messages were popped before."""
    body = PopCheckPoint(
        broker_name=context.options.broker_name,
        group=point.group,
        diffs=[offset - point.start_offset for offset in point.waiting],
        invisible_ms=point.invisible_ms,
        count=len(point.waiting),
        pop_time=point.pop_time,
        queue_id=point.queue_id,
        put_again="1" if again else None,
        start_offset=point.start_offset,
        topic=point.topic,
    )
    due_ms = point.revive_time - ACK_INTERVAL_MS
    return _message(context, point, pop_check_point.encode(body), CK_TAG, point.start_offset, due_ms, now)


def ack_message(context: Context, point: CheckPoint, offsets: Sequence[int], now: Now, tag: str = "") -> PendingMessage:
    """The record that acknowledges messages of a check point; with ORDER_ACK_TAG, all messages up to ``offsets[0]``."""
    is_one = len(offsets) == 1
    body = AckMsg(
        offset=offsets[0] if is_one else -1,
        offsets=None if is_one else list(offsets),
        broker_name=context.options.broker_name,
        group=point.group,
        pop_time=point.pop_time,
        queue_id=point.queue_id,
        start_offset=point.start_offset,
        topic=point.topic,
    )
    tag = tag or (ACK_TAG if is_one else BATCH_ACK_TAG)
    return _message(context, point, pop_check_point.encode(body), tag, offsets[0], point.revive_time, now)


def _message(
    context: Context, point: CheckPoint, body: bytes, tag: str, offset: int, due_ms: int, now: Now
) -> PendingMessage:
    options = context.options
    parts = (point.topic, point.queue_id, offset, point.group, point.pop_time, options.broker_name, tag)
    properties = {TIMER_DELIVER_MS: str(due_ms), UNIQ_KEY: "@".join(map(str, parts)), TAGS: tag}
    return PendingMessage(
        topic=revive_topic(options.broker_cluster_name),
        queue_id=point.revive_queue,
        body=body,
        properties=message_properties.encode(properties),
        flag=0,
        sys_flag=0,
        born_timestamp=now.wall_ms,
        born_host=options.broker_ip1,
        born_port=options.listen_port,
    )


def append(context: Context, messages: list[PendingMessage], now: Now) -> list[DispatchRequest]:
    """Store records of the revive log, and copies of messages, as one block. Returns where, in their order.

    Raises UnavailableError or StoreError; then none is stored.
    """
    name = revive_topic(context.options.broker_cluster_name)
    if context.topics.get(name) is None:
        topic, _ = context.topics.create_in_send_message_back(name, REVIVE_QUEUES, PERM_READ | PERM_WRITE, now)
        context.events.emit(
            TopicChanged, now, name, "created", topic.read_queue_nums, topic.write_queue_nums, topic.perm
        )
    batch = context.store.append(messages, now)
    for stored in batch.requests:
        if stored.topic == name:
            context.check_points.extend(stored.queue_id, stored.queue_offset + 1)
    context.check_points.log_end = batch.requests[-1].physical_offset + batch.requests[-1].size
    message_stored(context, batch, now)
    return batch.requests


def require_loaded(context: Context) -> None:
    """UnavailableError while the check points are not known, because recovery waits for disk space."""
    if not context.check_points.loaded:
        raise UnavailableError(
            f"pops wait until recovery is finished: {context.store.problem}", code=ResponseCode.SERVICE_NOT_AVAILABLE
        )


def note_progress(context: Context) -> None:
    """Record where the next load begins, before consumerOffset.json is written."""
    name = revive_topic(context.options.broker_cluster_name)
    for queue_id, offset in context.check_points.progress().items():
        if offset:
            context.offsets.commit(REVIVE_GROUP, name, queue_id, offset - 1)
    for queue_id, offset in context.check_points.ends().items():
        context.offsets.commit(OFFSETS_GROUP, name, queue_id, offset)


def load_check_points(context: Context, now: Now) -> list[tuple[str, str]]:
    """Read the revive log once, when recovery is finished. Returns recovery steps.

    The store of another broker is left alone, and so is a copy.
    """
    store, points = context.store, context.check_points
    if points.loaded or store.read_only or store.follows or store.unfinished_recovery is not None:
        return []
    points.loaded = True
    name = revive_topic(context.options.broker_cluster_name)
    for queue_id in range(REVIVE_QUEUES):
        end = store.max_offset(name, queue_id)
        if end:
            _load_queue(context, name, queue_id, end, now)
    context.order_infos.keep_existing(store.max_offset)
    if not points.messages:
        return []
    return [("pop", f"{points.messages} popped messages are not acknowledged")]


def _load_queue(context: Context, name: str, queue_id: int, end: int, now: Now) -> None:
    done = context.offsets.query(REVIVE_GROUP, name, queue_id)
    begin = max(0 if done is None else done + 1, context.store.min_offset(name, queue_id))
    load = _Load(context, context.offsets.query(OFFSETS_GROUP, name, queue_id) or 0, now)
    offset = begin
    while offset < end:
        result = context.store.get_message(name, queue_id, offset, 32, READ_AT_ONCE, None)
        try:
            records = decode_all(result.records)
        except RecordError:  # a body does not have its checksum
            records = []
        for record in records:
            load.take(record)
        if result.next_begin_offset <= offset:
            break
        offset = result.next_begin_offset
    context.check_points.extend(queue_id, end)
    load.store_decisions()


def take_delivered(context: Context, record: CommitLogRecord, stored: DispatchRequest, now: Now) -> None:
    """Apply a check point or an acknowledgement that came from RocketMQ's timer wheel and is in the revive log now.

    ``record`` is that of the timer queue, ``stored`` its copy in the revive log. No group's offset moves.
    """
    context.check_points.extend(stored.queue_id, stored.queue_offset + 1)
    context.check_points.log_end = stored.physical_offset + stored.size
    changes = {"queue_id": stored.queue_id, "queue_offset": stored.queue_offset, "properties": stored.properties}
    _Load(context, NEVER, now).take(msgspec.structs.replace(record, **changes))


class _Load:
    """The records of one revive queue at a start. The offsets of consumerOffset.json contain those before ``known``."""

    def __init__(self, context: Context, known: int, now: Now) -> None:
        self._context = context
        self._points = context.check_points
        self._known = known
        self._now = now
        self._lost_from = context.store.commit_log.lost_from
        self._undone: list[tuple[CheckPoint, int]] = []
        self._kept: dict[int, CheckPoint] = {}

    def take(self, record: CommitLogRecord) -> None:
        """Do what the next record says."""
        is_behind_lost = record.physical_offset > self._lost_from
        tag = message_properties.find(record.properties, TAGS)
        if tag == CK_TAG:
            self._take_check_point(record, is_behind_lost)
            return
        ack = pop_check_point.decode_ack(record.body) if tag in ACK_TAGS else None
        if ack is None:
            return
        point = self._points.find(ack.group, ack.topic, (ack.queue_id, ack.start_offset, ack.pop_time))
        if tag == ORDER_ACK_TAG:
            if self._is_news(record, (ack.topic, ack.queue_id, ack.offset)):
                _move_offset(self._context, (ack.group, ack.topic, ack.queue_id), ack.offset + 1)
        elif tag == UNDONE_TAG:
            self._undo(record, ack, point)
        elif point is not None and is_behind_lost:
            self._kept[id(point)] = point
        elif point is not None:
            for offset in [ack.offset] if ack.offsets is None else ack.offsets:
                self._points.acknowledge(point, offset)

    def _undo(self, record: CommitLogRecord, ack: AckMsg, point: CheckPoint | None) -> None:
        if point is not None:
            self._points.remove(point)
        if self._is_news(record, (ack.topic, ack.queue_id, ack.start_offset)):
            committed = None if ack.offset == NO_OFFSET else ack.offset
            self._context.offsets.restore(ack.group, ack.topic, ack.queue_id, committed)

    def _is_news(self, record: CommitLogRecord, place: tuple[str, int, int]) -> bool:
        return record.queue_offset >= self._known and _is_of_this_topic(self._context, place, record.physical_offset)

    def _take_check_point(self, record: CommitLogRecord, is_behind_lost: bool) -> None:
        stored = pop_check_point.decode_check_point(record.body)
        if stored is None:
            return
        waiting = stored.waiting()
        place = stored.topic, stored.queue_id, waiting[0] if waiting else -1
        if not waiting or not _is_of_this_topic(self._context, place, record.physical_offset):
            return
        point = CheckPoint(
            group=stored.group,
            topic=stored.topic,
            queue_id=stored.queue_id,
            start_offset=stored.start_offset,
            pop_time=stored.pop_time,
            invisible_ms=stored.invisible_ms,
            waiting=waiting,
            revive_queue=record.queue_id,
            revive_offset=record.queue_offset,
            is_timed=bool(message_properties.find(record.properties, TIMER_DEQUEUE_MS)),
        )
        queue, is_again = (stored.group, stored.topic, stored.queue_id), stored.put_again is not None
        if record.queue_offset >= self._known and not point.is_timed:
            committed = self._context.offsets.query(*queue)
            if is_behind_lost and (committed is None or committed < waiting[0] + is_again):
                self._undone.append((point, NO_OFFSET if committed is None else committed))
                return
            if not is_again:
                _move_offset(self._context, queue, waiting[-1] + 1)
        self._points.add(point, self._now)

    def store_decisions(self) -> None:
        """Store which pops are undone, with the group's offset before each, and the check points whose acknowledgements
        do not count: the next start reads the same records and does not know that others were lost."""
        kept = [point for point in self._kept.values() if point.waiting]
        messages = [
            ack_message(self._context, point, [offset], self._now, UNDONE_TAG) for point, offset in self._undone
        ]
        messages += [check_point_message(self._context, point, self._now, again=True) for point in kept]
        try:
            for first in range(0, len(messages), STORED_AT_ONCE):
                stored = append(self._context, messages[first : first + STORED_AT_ONCE], self._now)
                number = first - len(self._undone)
                for point, at in zip(kept[max(0, number) :], stored[max(0, -number) :], strict=False):
                    self._points.stored_again(point, at.queue_offset)
        except BrokerError as error:
            log.warning("the next start may lose messages that were popped directly before a power cut: %s", error)


def _is_of_this_topic(context: Context, place: tuple[str, int, int], physical_offset: int) -> bool:
    """Whether a popped message can be the one that its queue has now. ``place``: topic, queue id and queue offset.

    The record about the pop is at ``physical_offset``, so the popped message is before it in the log. If the queue ends
    before the message's offset, or has a later message there, the topic was deleted after the pop and created again.
    """
    store, (topic, queue_id, offset) = context.store, place
    if offset >= store.max_offset(topic, queue_id):
        return False
    units = store.reader.queue_units(topic, queue_id, offset, 1)
    return not units or units[0][0] < physical_offset  # no unit: retention deleted the message


def _move_offset(context: Context, place: tuple[str, str, int], end: int) -> None:
    """The group had popped up to ``end`` when the broker was killed. ``place``: group, topic, queue id."""
    offset = context.offsets.query(*place)
    if offset is None or offset < end <= context.store.max_offset(*place[1:]):
        context.offsets.commit(*place, end)

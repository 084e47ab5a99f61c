"""The second half of a transaction: the message is committed, and consumers see it, or rolled back.

RocketMQ's EndTransactionProcessor. Unlike RocketMQ, a transaction ends once: a second END_TRANSACTION is refused.
"""

import logging

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import Done, EndTransaction
from broker_core.errors import BrokerError, ConflictError, NotFoundError, RequestError, StoreError, UnavailableError
from broker_core.events import TransactionEnded
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    CommitLogRecord,
    RecordError,
    decode,
)
from broker_core.formats.message_properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    UNIQ_KEY,
    WAIT,
)
from broker_core.processors.context import Context, Request
from broker_core.processors.group_commit import GroupCommit
from broker_core.processors.message_stored import message_stored
from broker_core.processors.outcome import refuse
from broker_core.processors.producers.half_message import GROUP, require_loaded
from broker_core.processors.schedule_message import DELAYS, delay, real_copy
from broker_core.store.commit_log import PendingMessage
from broker_core.store.transactional_message_service import HALF_TOPIC, OP_TOPIC, REMOVE_TAG, OpBody, op_bodies

log = logging.getLogger(__name__)

RETRY_NS = 10_000_000_000
"""How long to wait after the store refused an op message."""


class End(msgspec.Struct, frozen=True, gc=False):
    """The end of a transaction, which passed every check. ``record`` is the half message, ``topic`` the real topic.
    ``copy`` is the message that a commit stores; None for a rollback."""

    request: Request
    record: CommitLogRecord
    topic: str
    copy: PendingMessage | None


def prepare_end(context: Context, request: Request, now: Now) -> End:
    """Check a commit or a rollback. Nothing is stored yet. Raises RequestError, ConflictError, UnavailableError."""
    command: EndTransaction = request.command
    if context.draining:
        raise UnavailableError("the broker is shutting down", code=ResponseCode.SERVICE_NOT_AVAILABLE)
    context.require_writable()
    require_loaded(context)
    record = _half_record(context, command, now)
    if command.decision == "commit":
        return _commit(context, request, record, now)
    return End(request, record, message_properties.find(record.properties, REAL_TOPIC), None)


def store_ends(context: Context, commit: GroupCommit, ends: list[End], now: Now) -> None:
    """Store the ends of several transactions as one block, and answer them.

    The block has the committed messages, and op messages that list the half messages that are rolled back.
    All of the transactions are pending, and none is in the list twice.
    """
    messages = [end.copy for end in ends if end.copy is not None]
    bodies = op_bodies(end.record.queue_offset for end in ends if end.copy is None)
    messages += _op_messages(context, bodies, now)
    try:
        batch = context.store.append(messages, now)
    except Exception as error:
        _not_stored(context, commit, ends, error, now)
        return
    transactions = context.store.transactions
    for end in ends:
        if end.copy is not None:
            transactions.end(end.record.queue_offset, batch.end, now.mono_ns)
    if bodies:
        ops = next(arrival for arrival in batch.arrivals if arrival.topic == OP_TOPIC)
        transactions.roll_back(bodies, ops, batch.end)
        if transactions.has_progressed(context.store.flushed_offset):
            _note_progress(context)
    message_stored(context, batch, now)
    for end in ends:
        is_commit = end.copy is not None
        (context.stats.committed if is_commit else context.stats.rolled_back).add(end.topic)
        if is_commit:
            context.counters.transactions_committed += 1
        else:
            context.counters.transactions_rolled_back += 1
        context.events.emit(
            TransactionEnded,
            now,
            end.topic,
            *names_of(end.record),
            end.record.queue_offset,
            "committed" if is_commit else "rolled_back",
            "",
        )
        commit.acknowledge(end.request, Done(), wait=True, now=now)


def _not_stored(context: Context, commit: GroupCommit, ends: list[End], error: Exception, now: Now) -> None:
    """No copy is in the log. Try each transaction alone if one of them may be the cause, else refuse them."""
    is_cause_known = len(ends) == 1 or isinstance(error, StoreError | UnavailableError)
    for end in ends:
        if is_cause_known:
            refuse(context, end.request, error, now)
        else:
            store_ends(context, commit, [end], now)


def _half_record(context: Context, command: EndTransaction, now: Now) -> CommitLogRecord:
    """The half message of a request. RequestError if there is none, it is not the producer's, or has ended."""
    data = context.store.look_message_by_offset(command.commit_log_offset)
    try:
        record = decode(data) if data is not None else None
    except RecordError:  # the body does not have its checksum
        record = None
    if record is None or record.topic != HALF_TOPIC:
        raise NotFoundError(
            f"no half message begins at physical offset {command.commit_log_offset}", code=ResponseCode.SYSTEM_ERROR
        )
    immunity_ms = immunity_of(record)
    age_ms = now.wall_ms - record.born_timestamp
    if not command.from_transaction_check and immunity_ms is not None and age_ms > immunity_ms:
        raise ConflictError(
            f"the transaction is {age_ms} ms old and its producer asked to be checked after {immunity_ms} ms: only "
            "the answer to a check ends it now"
        )
    if message_properties.find(record.properties, PGROUP) != command.producer_group:
        raise _wrong(f"the half message is not of producer group {command.producer_group}")
    if record.queue_offset != command.tran_state_table_offset:
        raise _wrong(
            f"the half message is at offset {record.queue_offset} of its queue, not {command.tran_state_table_offset}"
        )
    half = context.store.transactions.pending.get(record.queue_offset)
    if half is None or half.physical_offset != record.physical_offset:
        raise _wrong("the transaction has ended already")
    return record


def _wrong(remark: str) -> RequestError:
    return RequestError(remark, code=ResponseCode.SYSTEM_ERROR)


def immunity_of(record: CommitLogRecord) -> int | None:
    """The age in ms before which the message's producer is not asked, if the message has its own; else None."""
    text = message_properties.find(record.properties, CHECK_IMMUNITY_TIME_IN_SECONDS)
    return int(text) * 1000 if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _commit(context: Context, request: Request, record: CommitLogRecord, now: Now) -> End:
    copy = real_copy(context, record, now)
    copy.properties = message_properties.without(copy.properties, (REAL_TOPIC, REAL_QID))
    copy.sys_flag = copy.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
    copy.prepared_transaction_offset = record.physical_offset
    topic = copy.topic
    if DELAYS in copy.properties:
        delay(context, copy, now)
    return End(request, record, topic, copy)


def names_of(record: CommitLogRecord) -> tuple[str, str]:
    """A half message's UNIQ_KEY and producer group."""
    find = message_properties.find
    return find(record.properties, UNIQ_KEY), find(record.properties, PGROUP)


def _op_messages(context: Context, bodies: list[OpBody], now: Now) -> list[PendingMessage]:
    options = context.options
    properties = message_properties.encode({WAIT: "true", TAGS: REMOVE_TAG})
    return [
        PendingMessage(OP_TOPIC, 0, body, properties, 0, 0, now.wall_ms, options.broker_ip1, options.listen_port)
        for body, _ in bodies
    ]


def store_ops(context: Context, now: Now) -> None:
    """Store the op messages of half messages that were committed or given up, and the progress of both queues."""
    transactions = context.store.transactions
    bodies = transactions.op_bodies(context.store.flushed_offset)
    if not bodies:
        _note_progress(context)
        return
    try:
        batch = context.store.append(_op_messages(context, bodies, now), now)
    except BrokerError as error:
        if not isinstance(error, StoreError | UnavailableError):
            raise
        log.warning("op messages of transactions wait until the store accepts messages: %s", error)
        transactions.pause(now.mono_ns + RETRY_NS)
        return
    message_stored(context, batch, now)
    (arrival,) = batch.arrivals
    transactions.listed(bodies, arrival, now)
    _note_progress(context)


def _note_progress(context: Context) -> None:
    half_offset, op_offset = context.store.transactions.progress(context.store.flushed_offset)
    context.offsets.commit(GROUP, HALF_TOPIC, 0, half_offset)
    context.offsets.commit(GROUP, OP_TOPIC, 0, op_offset)

"""Half messages whose transaction does not end: their producers are asked, in rounds.

RocketMQ's TransactionalMessageCheckService. Unlike RocketMQ, a half message stays where it is when its producer is
asked. So the offsets that a producer knows stay valid however long its transaction takes.
"""

import logging

from broker_core.clock import Now
from broker_core.commands import NOTICE_ID, CheckTransactionState
from broker_core.errors import StoreError, UnavailableError
from broker_core.events import TopicChanged, TransactionChecked, TransactionEnded
from broker_core.formats import commit_log_record, message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError
from broker_core.formats.message_properties import REAL_QID, REAL_TOPIC, TRANSACTION_CHECK_TIMES
from broker_core.processors.context import Context
from broker_core.processors.message_stored import message_stored
from broker_core.processors.producers.end_transaction import immunity_of, names_of, store_ops
from broker_core.store.commit_log import PendingMessage
from broker_core.store.transactional_message_service import HALF_TOPIC, Half
from broker_core.topics import PERM_READ, PERM_WRITE

log = logging.getLogger(__name__)

CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
HALVES_A_TURN = 64
BYTES_A_TURN = 1 << 20
"""The half message that reaches them is the turn's last."""
BYTES_A_SECOND = 20 << 20
"""Sent to producers at most. A channel with too many unsent bytes is closed, and so many messages may be pending."""


def tick(context: Context, now: Now) -> None:
    """Do what is due: a turn's worth of the round of checks, and op messages."""
    store, transactions = context.store, context.store.transactions
    due_ns = transactions.next_due_ns(store.flushed_offset)
    if due_ns is None or now.mono_ns < due_ns or context.draining:
        return
    if transactions.pending and not transactions.to_check and now.mono_ns >= transactions.next_check_ns:
        transactions.to_check.extend(transactions.pending)
        transactions.next_check_ns = now.mono_ns + context.options.transaction_check_interval * 1_000_000
    if now.mono_ns >= transactions.next_turn_ns:
        _check_some(context, now)
    ops_due_ns = transactions.ops_due_ns(store.flushed_offset)
    if ops_due_ns is not None and now.mono_ns >= ops_due_ns:
        store_ops(context, now)


def _check_some(context: Context, now: Now) -> None:
    transactions = context.store.transactions
    left, size = HALVES_A_TURN, 0
    while transactions.to_check and left and size < BYTES_A_TURN:
        offset = transactions.to_check.popleft()
        half = transactions.pending.get(offset)
        if half is None:
            continue  # it has ended since the round began
        left -= 1
        try:
            size += _check(context, offset, half, now)
        except (StoreError, UnavailableError) as error:
            log.warning("the check of transactions waits for its next round: %s", error)
            transactions.to_check.clear()
        except Exception:
            log.exception("the half message at offset %d could not be checked", offset)


def _check(context: Context, offset: int, half: Half, now: Now) -> int:
    """Ask the producer of a half message, if it is old enough, or give it up. Returns the bytes that were read."""
    options = context.options
    data = context.store.look_message_by_offset(half.physical_offset)
    try:
        record = commit_log_record.decode(data) if data is not None else None
    except RecordError:  # the body does not match its checksum
        record = None
    if record is None or (record.topic, record.queue_offset) != (HALF_TOPIC, offset):
        context.store.transactions.end(offset, context.store.appended_offset, now.mono_ns)
        _report_given_up(context, ("", "", ""), offset, "its record is missing from the log or incomplete", now)
        return 0
    age_ms = now.wall_ms - half.stored_ms
    if age_ms > options.file_reserved_time * 3_600_000:  # whatever its immunity: soon its file is deleted
        _give_up(context, record, "it is older than fileReservedTime", now)
        return record.size
    immunity_ms = immunity_of(record)
    if 0 <= age_ms < (options.transaction_time_out if immunity_ms is None else immunity_ms):
        return record.size
    if half.checks is None:
        text = message_properties.find(record.properties, TRANSACTION_CHECK_TIMES)
        half.checks = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    if half.checks >= options.transaction_check_max:
        _give_up(context, record, f"its producer group did not end it in {half.checks} checks", now)
    else:
        half.checks += 1
        _ask(context, record, half.checks, now)
    return record.size


def _ask(context: Context, record: CommitLogRecord, checks: int, now: Now) -> None:
    """Send CHECK_TRANSACTION_STATE to a producer of the group, a different one each time."""
    message_id, group = names_of(record)
    topic = message_properties.find(record.properties, REAL_TOPIC)
    client = context.producers.available_channel(group, checks)
    context.events.emit(
        TransactionChecked,
        now,
        topic,
        message_id,
        group,
        client.client_id if client else "",
        record.queue_offset,
        checks,
    )
    if client is None:
        return
    context.counters.transactions_checked += 1
    transactions = context.store.transactions
    due_ns = max(transactions.next_turn_ns, now.mono_ns)
    transactions.next_turn_ns = due_ns + record.size * 1_000_000_000 // BYTES_A_SECOND
    queue = message_properties.find(record.properties, REAL_QID)
    context.reply(
        client.connection,
        NOTICE_ID,
        CheckTransactionState(
            topic=topic,
            tran_state_table_offset=record.queue_offset,
            commit_log_offset=record.physical_offset,
            message_id=message_id,
            offset_message_id=f"{context.prefix_of_ids}{record.physical_offset:016X}",
            broker_name=context.options.broker_name,
            record=commit_log_record.encode(
                topic=topic,
                queue_id=int(queue) if queue.isascii() and queue.isdecimal() and len(queue) < 10 else 0,
                queue_offset=record.queue_offset,
                physical_offset=record.physical_offset,
                body=record.body,
                properties=message_properties.put(record.properties, {TRANSACTION_CHECK_TIMES: str(checks)}),
                flag=record.flag,
                sys_flag=record.sys_flag,
                born_timestamp=record.born_timestamp,
                born_host=record.born_host,
                born_port=record.born_port,
                store_timestamp=record.store_timestamp,
                store_host=record.store_host,
                store_port=record.store_port,
                reconsume_times=record.reconsume_times,
            ),
        ),
    )


def _give_up(context: Context, record: CommitLogRecord, reason: str, now: Now) -> None:
    """Move a half message to TRANS_CHECK_MAX_TIME_TOPIC, where it stays for a person to look at."""
    topic, created = context.topics.create_in_send_message_back(CHECK_MAX_TIME_TOPIC, 1, PERM_READ | PERM_WRITE, now)
    if created:
        context.events.emit(
            TopicChanged,
            now,
            CHECK_MAX_TIME_TOPIC,
            "created",
            topic.read_queue_nums,
            topic.write_queue_nums,
            topic.perm,
        )
    copy = PendingMessage(
        topic=CHECK_MAX_TIME_TOPIC,
        queue_id=0,
        body=record.body,
        properties=record.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        born_port=record.born_port,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.physical_offset,
    )
    batch = context.store.append([copy], now)
    context.store.transactions.end(record.queue_offset, batch.end, now.mono_ns)
    message_stored(context, batch, now)
    names = message_properties.find(record.properties, REAL_TOPIC), *names_of(record)
    _report_given_up(context, names, record.queue_offset, reason, now)


def _report_given_up(context: Context, names: tuple[str, str, str], offset: int, reason: str, now: Now) -> None:
    context.counters.transactions_given_up += 1
    log.warning("the half message at offset %d is given up: %s", offset, reason)
    context.events.emit(TransactionEnded, now, *names, offset, "given_up", reason)


def end_before_stop(context: Context, now: Now) -> None:
    """Store the op messages that wait, so that neither the next start nor RocketMQ has to find the copies.

    If the disk fails, this is logged: the broker still has its tables to write.
    """
    if context.store.transactions.has_ended and not context.store.problem:
        try:
            context.store.flush_everything(now)
            store_ops(context, now)
        except OSError as error:
            log.error("op messages of transactions could not be stored; the next start finds the copies: %s", error)

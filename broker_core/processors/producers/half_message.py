"""Half messages: the first half of a transaction. They wait in a topic of their own until the transaction ends.

RocketMQ's TransactionalMessageBridge. ``store/transactional_message_service.py`` knows which are pending.
"""

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import RequestError, UnavailableError
from broker_core.events import HalfMessageStored
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import TRANSACTION_MASK
from broker_core.formats.message_properties import PGROUP, REAL_QID, REAL_TOPIC, TRAN_MSG, TRANSACTION_ID, UNIQ_KEY
from broker_core.processors.context import Context
from broker_core.store.commit_log import Arrival, DispatchRequest, PendingMessage
from broker_core.store.transactional_message_service import HALF_TOPIC, OP_TOPIC

GROUP = "CID_RMQ_SYS_TRANS"
"""RocketMQ's consumer group of the half and op topics: its offsets say how far both are done with."""

MAX_PENDING = 200_000
"""Half messages of all groups that are pending at a time, which docs/operations.md names. With RocketMQ's limits a
transaction that nobody ends takes 8 minutes; with CHECK_IMMUNITY_TIME_IN_SECONDS, up to fileReservedTime."""


def load_transactions(context: Context) -> list[tuple[str, str]]:
    """Find the pending half messages, once, when recovery is finished. Returns recovery steps.

    The store of another broker is left alone, and so is a copy.
    """
    store = context.store
    if store.transactions.loaded or store.read_only or store.follows or store.unfinished_recovery is not None:
        return []
    offsets = context.offsets
    return store.transactions.load(offsets.query(GROUP, HALF_TOPIC, 0), offsets.query(GROUP, OP_TOPIC, 0))


def require_loaded(context: Context) -> None:
    """UnavailableError while the pending half messages are not known, because recovery waits for disk space."""
    if not context.store.transactions.loaded:
        raise UnavailableError(f"transactions wait until recovery is finished: {context.store.problem}")


def is_half(properties: str) -> bool:
    """Whether a message with these properties is the first half of a transaction."""
    return message_properties.find(properties, TRAN_MSG).lower() == "true"


def make_half(context: Context, message: PendingMessage, pointer: str) -> None:
    """Redirect a message to the half topic. Raises RequestError, UnavailableError if it cannot be accepted."""
    if context.options.reject_transaction_message:
        raise RequestError(
            "this broker does not accept transactional messages (rejectTransactionMessage)",
            code=ResponseCode.NO_PERMISSION,
            pointer=pointer,
        )
    if not message_properties.find(message.properties, PGROUP):
        raise RequestError(
            f"a transactional message must have its producer group in the property {PGROUP}; without it nobody could "
            "end the transaction",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer=pointer,
        )
    require_loaded(context)
    pending = len(context.store.transactions.pending)
    if pending >= MAX_PENDING:
        raise UnavailableError(f"{pending} transactions are pending; the limit is {MAX_PENDING}")
    message.properties = message_properties.put(
        message.properties,
        {
            TRANSACTION_ID: message_properties.find(message.properties, UNIQ_KEY),
            REAL_TOPIC: message.topic,
            REAL_QID: str(message.queue_id),
        },
    )
    message.sys_flag &= ~TRANSACTION_MASK
    message.topic, message.queue_id = HALF_TOPIC, 0


def half_messages_stored(context: Context, arrival: Arrival, requests: list[DispatchRequest], now: Now) -> None:
    """Note, count and report the half messages of an append, which are among ``requests``."""
    find = message_properties.find
    context.store.transactions.arrived(arrival)
    for stored in requests:
        if stored.topic == HALF_TOPIC:
            context.counters.half_messages_stored += 1
            context.events.emit(
                HalfMessageStored,
                now,
                find(stored.properties, REAL_TOPIC),
                find(stored.properties, UNIQ_KEY),
                find(stored.properties, PGROUP),
                stored.queue_offset,
                stored.physical_offset,
            )

"""Idempotency-Key: the repeat of a send gets the answer of the first one and stores nothing.

Every message that is sent with a key stores four properties: the key, the message's place in its send, the number of
messages and a digest of the whole send. So a repeat is recognised after a restart too: a key that is not in memory, or
that memory may have had to forget, is looked up in the index, where the store files it under
``IDEMPOTENCY_KEY:<key>``. If only a part of a send survived a crash, its repeat stores the rest.

A key that is used again for other content is refused. Messages that were stored without a digest, by an older version,
are compared by their number alone.
"""

import hashlib
from collections import OrderedDict
from datetime import UTC, datetime

import msgspec

from broker_core.clock import Now
from broker_core.commands import OutgoingMessage, SendMessage, SentMessage
from broker_core.errors import ConflictError
from broker_core.formats import commit_log_record, message_properties
from broker_core.formats.message_id import encode_offset_message_id
from broker_core.formats.message_properties import ENTRY_END, REAL_QID, REAL_TOPIC, UNIQ_KEY
from broker_core.formats.message_properties import IDEMPOTENCY_KEY as KEY
from broker_core.processors.context import Context
from broker_core.processors.schedule_message import recall_handle_of
from broker_core.store.delay_level import SCHEDULE_TOPIC
from broker_core.store.query_message import NO_END
from broker_core.store.timer.timer_message import TIMER_ROLL_TIMES, TIMER_TOPIC
from broker_core.walk import Steps

PLACE = "IDEMPOTENCY_PLACE"
DIGEST = "IDEMPOTENCY_DIGEST"
DIGEST_BYTES = 8
"""Enough to notice a client's mistake; the digest is no protection against an attacker."""

MAX_KEYS = 50_000
MAX_ANSWERS = 500_000
"""Messages whose places are kept in memory, over all keys."""
MAX_RECORDS = 4096
"""Records of a topic that one lookup in the store reads at most."""


def content_digest(messages: list[OutgoingMessage]) -> str:
    """Hex digest of a send as the client gave it: bodies, properties, queues, flags, and the order of the messages.

    The order of one message's properties does not count: a client may write a map in another order when it repeats.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for message in messages:
        entries = ENTRY_END.join(sorted(message.properties.split(ENTRY_END))).strip(ENTRY_END)
        properties = entries.encode("utf-8", "surrogatepass")
        lengths = (message.queue_id, message.flag, message.sys_flag, len(properties), len(message.body))
        digest.update(b"%d %d %d %d %d\n" % lengths)
        digest.update(properties)
        digest.update(message.body)
    return digest.hexdigest()


def key_properties(key: str, digest: str, index: int, count: int) -> str:
    """The properties stored with message ``index`` of the ``count`` messages of a send with this key."""
    return f"{KEY}\x01{key}\x02{PLACE}\x01{index}/{count}\x02{DIGEST}\x01{digest}\x02"


_Found = tuple[str, int, SentMessage]
"""Digest and number of messages of a send, and one of its messages."""


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The answer that one key was given, and the monotonic time of its last use, ns."""

    used_ns: int
    digest: str
    sent: list[SentMessage]


class IdempotencyKeys:
    """The answers given under each key within the window, bounded by ``MAX_KEYS`` and ``MAX_ANSWERS``."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._answers: OrderedDict[tuple[str, str], Answered] = OrderedDict()
        self._message_count = 0
        self._complete_since_ns = context.started.mono_ns
        """Keys used up to this moment may be missing here, though their window is not over."""

    def must_look_up(self, command: SendMessage, now: Now) -> bool:
        """Whether ``stored_before`` has to search the store: memory has no answer for the key, but may have lost it."""
        self._forget(now)
        window_ns = self._context.options.idempotency_window_mills * 1_000_000
        return self._answer(command) is None and now.mono_ns - self._complete_since_ns < window_ns

    def stored_before(self, command: SendMessage, digest: str, now: Now) -> Steps[dict[int, SentMessage]]:
        """Messages of this send that are stored already, by their place in it.

        ConflictError when the key was used for a send with another ``digest`` or number of messages.
        """
        found: dict[int, _Found] = {}
        if self.must_look_up(command, now):
            found = yield from self._look_up(command, now.wall_ms - self._context.options.idempotency_window_mills)
        answered = self._answer(command)  # a send with this key may have been answered between two pieces
        if answered is not None:
            _require_repeat(command, digest, answered.digest, len(answered.sent), answered.sent[0])
            return dict(enumerate(answered.sent))
        for _, (first_digest, count, sent) in sorted(found.items()):
            _require_repeat(command, digest, first_digest, count, sent)
        return {place: sent for place, (_, _, sent) in found.items()}

    def _answer(self, command: SendMessage) -> Answered | None:
        return self._answers.get((command.topic, command.idempotency_key))

    def _look_up(self, command: SendMessage, begin_ms: int) -> Steps[dict[int, _Found]]:
        """The messages that the store has under the key, by their place in their send.

        A delayed message is preferred to its delivered copy, because the first answer had the place of the delayed
        message. Of several copies, the newest is returned.
        """
        found: dict[int, _Found] = {}
        key = f"{KEY}:{command.idempotency_key}"
        for topic in (TIMER_TOPIC, SCHEDULE_TOPIC, command.topic):
            records = 0
            for pair in self._context.store.query.each_by_key(topic, key, begin_ms, NO_END):
                if pair is None:
                    yield
                    continue
                records += 1
                if records > MAX_RECORDS:
                    break
                self._add(found, command, pair[1])
        return found

    def _add(self, found: dict[int, _Found], command: SendMessage, data: bytes) -> None:
        """Add the message of a record, unless its place is taken or it belongs to another send."""
        record = commit_log_record.decode(data, check_crc=False)
        properties = message_properties.decode(record.properties)
        index, _, count = properties.get(PLACE, "").partition("/")
        if properties.get(KEY) != command.idempotency_key or not (index + count).isdecimal() or int(index) in found:
            return  # it has another key, its place is no number (a client may use this name), or the place is taken
        queue_id = record.queue_id
        if record.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
            if properties.get(REAL_TOPIC) != command.topic or TIMER_ROLL_TIMES in properties:
                return
            queue_id = int(properties[REAL_QID])
        sent = SentMessage(
            message_id=properties[UNIQ_KEY],
            queue_id=queue_id,
            queue_offset=record.queue_offset,
            offset_message_id=encode_offset_message_id(record.store_host, record.store_port, record.physical_offset),
            physical_offset=record.physical_offset,
            store_time_ms=record.store_timestamp,
            recall_handle=recall_handle_of(self._context, record.properties) if record.topic == TIMER_TOPIC else "",
        )
        found[int(index)] = properties.get(DIGEST, ""), int(count), sent

    def remember(self, command: SendMessage, digest: str, sent: list[SentMessage], now: Now) -> None:
        key = (command.topic, command.idempotency_key)
        replaced = self._answers.pop(key, None)
        self._message_count += len(sent) - (len(replaced.sent) if replaced else 0)
        self._answers[key] = Answered(now.mono_ns, digest, sent)

    def _forget(self, now: Now) -> None:
        oldest_ns = now.mono_ns - self._context.options.idempotency_window_mills * 1_000_000
        while self._answers:
            first = next(iter(self._answers))
            answered = self._answers[first]
            if answered.used_ns >= oldest_ns:
                if len(self._answers) < MAX_KEYS and self._message_count < MAX_ANSWERS:
                    return
                self._complete_since_ns = max(self._complete_since_ns, answered.used_ns)
            self._message_count -= len(answered.sent)
            del self._answers[first]


def _require_repeat(command: SendMessage, digest: str, first_digest: str, first_count: int, first: SentMessage) -> None:
    """ConflictError unless the send is a repeat of the one that stored ``first``; no ``first_digest`` fits any."""
    if len(command.messages) == first_count and first_digest in ("", digest):
        return
    used = datetime.fromtimestamp(first.store_time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    difference = (
        "this send differs in a body, tag, key, property, queue or in the order of its messages"
        if len(command.messages) == first_count
        else f"this send has {_count(len(command.messages))}"
    )
    raise ConflictError(
        f"Idempotency-Key {command.idempotency_key} was used at {used} to send {_count(first_count)} to topic "
        f"{command.topic} (message {first.message_id}, queue {first.queue_id}, offset {first.queue_offset}), and "
        f"{difference}; nothing was stored: repeat the first send unchanged, or use a new key for a new send",
        pointer="/Idempotency-Key",
    )


def _count(messages: int) -> str:
    return "1 message" if messages == 1 else f"{messages} messages"

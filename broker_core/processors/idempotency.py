"""Idempotency-Key: a repeated send is answered what the first was answered.

The key is a property of every message it stored, with its place and the number of them, so a repeat is known after
a restart too: a key that memory does not know, or may have had to forget, is looked up in the index, where the
store files it under ``IDEMPOTENCY_KEY:<key>``. A send of which only a part survived a crash stores the rest.
"""

from collections import OrderedDict

from broker_core.clock import Now
from broker_core.commands import SendMessage, SentMessage
from broker_core.errors import ConflictError
from broker_core.formats import commit_log_record, message_properties
from broker_core.formats.message_id import encode_offset_message_id
from broker_core.formats.message_properties import DELAY, REAL_QID, REAL_TOPIC
from broker_core.formats.message_properties import IDEMPOTENCY_KEY as KEY
from broker_core.processors.context import Context
from broker_core.store.delay_level import SCHEDULE_TOPIC

PLACE = "IDEMPOTENCY_PLACE"
MAX_KEYS = 50_000
MAX_KEPT = 500_000
"""Messages whose places are kept in memory, over all keys."""
MAX_FOUND = 4096


def key_properties(key: str, index: int, count: int) -> str:
    """What is stored with message ``index`` of ``count`` that a send with this key brings."""
    return f"{KEY}\x01{key}\x02{PLACE}\x01{index}/{count}\x02"


class IdempotencyKeys:
    """What was answered under each key within the window, bounded by ``MAX_KEYS`` and ``MAX_KEPT``."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._answers: OrderedDict[tuple[str, str], tuple[int, list[SentMessage]]] = OrderedDict()
        self._kept = 0
        self._forgot_ns = context.started.mono_ns
        """Keys used up to this moment may be missing here, though their window is not over."""

    def known(self, command: SendMessage, now: Now) -> dict[int, SentMessage]:
        """Messages of this send that are stored already, by their place. ConflictError for another send's key."""
        self._forget(now)
        window_ns = self._context.options.idempotency_window_mills * 1_000_000
        entry = self._answers.get((command.topic, command.idempotency_key))
        if entry is not None:
            self._require_count(command, len(entry[1]))
            return dict(enumerate(entry[1]))
        if now.mono_ns - self._forgot_ns < window_ns:
            return self._found_in_the_store(command, now)
        return {}

    def _found_in_the_store(self, command: SendMessage, now: Now) -> dict[int, SentMessage]:
        context = self._context
        found: dict[int, SentMessage] = {}
        for text in self._records(command, now.wall_ms - context.options.idempotency_window_mills):
            record = commit_log_record.decode(text, check_crc=False)
            properties = message_properties.decode(record.properties)
            index, _, count = properties.get(PLACE, "").partition("/")
            if properties.get(KEY) != command.idempotency_key or not (index + count).isdecimal():
                continue  # a client's own property of this name
            queue_id = record.queue_id
            if record.topic == SCHEDULE_TOPIC:
                if properties.get(REAL_TOPIC) != command.topic:
                    continue
                queue_id = int(properties[REAL_QID])
            self._require_count(command, int(count))
            found[int(index)] = SentMessage(
                message_id=properties["UNIQ_KEY"],
                queue_id=queue_id,
                queue_offset=record.queue_offset,
                offset_message_id=encode_offset_message_id(
                    record.store_host, record.store_port, record.physical_offset
                ),
                physical_offset=record.physical_offset,
                store_time_ms=record.store_timestamp,
            )
        return found

    def _records(self, command: SendMessage, begin_ms: int) -> list[bytes]:
        """What is filed under the key, a delayed message last: the copy of it that was delivered is not the answer."""
        store, key = self._context.store, f"{KEY}:{command.idempotency_key}"
        found = store.query_message(command.topic, key, MAX_FOUND, begin_ms, 1 << 62)
        if any(message_properties.find(message.properties, DELAY) for message in command.messages):
            found += store.query_message(SCHEDULE_TOPIC, key, MAX_FOUND, begin_ms, 1 << 62)
        return found

    def _require_count(self, command: SendMessage, count: int) -> None:
        if count != len(command.messages):
            raise ConflictError(
                f"Idempotency-Key {command.idempotency_key} was used for {count} messages, this send "
                f"has {len(command.messages)}; use a new key for a new send",
                pointer="/Idempotency-Key",
            )

    def remember(self, command: SendMessage, sent: list[SentMessage], now: Now) -> None:
        key = (command.topic, command.idempotency_key)
        before = self._answers.pop(key, None)
        self._kept += len(sent) - (len(before[1]) if before else 0)
        self._answers[key] = (now.mono_ns, sent)

    def _forget(self, now: Now) -> None:
        oldest_ns = now.mono_ns - self._context.options.idempotency_window_mills * 1_000_000
        while self._answers:
            first = next(iter(self._answers))
            used_ns, sent = self._answers[first]
            if used_ns >= oldest_ns:
                if len(self._answers) < MAX_KEYS and self._kept < MAX_KEPT:
                    return
                self._forgot_ns = max(self._forgot_ns, used_ns)
            self._kept -= len(sent)
            del self._answers[first]

"""Small stores for tests: segments of 64 KiB, queue files of 100 units, index files of 50 slots."""

from pathlib import Path

from broker_core.clock import Now
from broker_core.formats import message_properties
from broker_core.options import Options
from broker_core.store.files import CopyingFiles, RealFiles
from broker_core.store.message_store import MessageStore, PendingMessage
from broker_core.walk import finish

SMALL = Options(
    mapped_file_size_commit_log=65_536, mapped_file_size_consume_queue=2000, max_hash_slot_num=50, max_index_num=200
)
SMALL_SYNC = Options(
    mapped_file_size_commit_log=65_536,
    mapped_file_size_consume_queue=2000,
    max_hash_slot_num=50,
    max_index_num=200,
    flush_disk_type="SYNC_FLUSH",
)
BEGIN_MS = 1_700_000_000_000


def at(ms: int) -> Now:
    """A time, ``ms`` after the beginning of the test."""
    return Now(BEGIN_MS + ms, ms * 1_000_000)


def message(
    number: int,
    *,
    topic: str = "T",
    queue_id: int = 0,
    tag: str = "",
    keys: str = "",
    size: int = 20,
    sys_flag: int = 0,
    extra: dict[str, str] | None = None,
) -> PendingMessage:
    """A message with its number in body and UNIQ_KEY."""
    properties = {"UNIQ_KEY": f"ID{number:06d}"} | ({"TAGS": tag} if tag else {}) | ({"KEYS": keys} if keys else {})
    return PendingMessage(
        topic,
        queue_id,
        body_of(number, size),
        message_properties.encode(properties | (extra or {})),
        number,
        sys_flag,
        BEGIN_MS,
        "10.1.2.3",
        4567,
    )


def body_of(number: int, size: int = 20) -> bytes:
    return (b"%08d" % number) * (size // 8) + b"." * (size % 8)


def open_store(
    root: Path, options: Options = SMALL, *, files: CopyingFiles | None = None, ms: int = 0, adopt: bool = False
) -> MessageStore:
    return MessageStore.open(root, options, files or RealFiles(), at(ms), adopt=adopt)


def flush(store: MessageStore, ms: int = 1 << 40) -> bool:
    """Run the flush that is due at ``ms``; returns whether there was one."""
    due = store.next_flush(at(ms))
    if due is not None:
        store.flushed(due.run(), at(ms))
    return due is not None


def query_message(store: MessageStore, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int) -> list[bytes]:
    """The records with this key, in log order: all pieces of ``by_key`` at once."""
    return finish(store.query.by_key(topic, key, max_num, begin_ms, end_ms))

"""Poll journals for tests, written with the broker's own format."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from broker_core.formats.poll_journal import (
    FOLDER,
    KINDS,
    BlockEncoder,
    JournalEntry,
    decode_blocks,
    decode_header,
    encode_header,
    file_name,
)

BEGIN_MS = 1_700_000_000_000


def entry(number: int, **more: Any) -> JournalEntry:
    """Entry ``number``: one of each kind in turn, a second after the one before."""
    at_ms, held_us, kind = BEGIN_MS + 1000 * number, 1000 * number, KINDS[number % 4]
    usual: dict[str, Any] = {
        "at_ms": at_ms,
        "from_offset": number,
        "next_offset": number + 2,
        "max_offset": number + 5,
        "oldest_store_ms": at_ms - number,
        "held_us": 0,
        "wake_us": -1,
        "granted_ms": 15_000,
        "queue_id": number % 3,
        "messages": 2,
        "bytes": 640,
        "topic": ("orders", "Größe")[number % 2],
        "group": f"g{number % 5}",
        "client_id": f"c{number}",
        "kind": kind,
        "status": "FOUND",
        "protocol": "remoting",
    }
    nothing = {"oldest_store_ms": -1, "messages": 0, "bytes": 0, "status": ""}
    unlike: dict[str, dict[str, Any]] = {
        "woken": {"cause": "arrival", "held_us": held_us, "wake_us": number},
        "released": {**nothing, "cause": "channel_gone", "next_offset": -1, "held_us": held_us},
        "committed": {**nothing, "protocol": "", "held_us": -1, "granted_ms": -1, "messages": -1, "bytes": -1},
    }
    return JournalEntry(**(usual | unlike.get(kind, {}) | more))


def make_journal(
    store: Path,
    *files: Iterable[JournalEntry],
    block: int = 10,
    closed: bool = True,
    lost: int = 0,
    created_ms: Sequence[int] = (),
) -> list[Path]:
    """A file for each of ``files``, in blocks of ``block`` entries, ``lost`` entries missing before each block.

    The files were made at BEGIN_MS if ``created_ms`` does not say when.
    """
    (store / FOLDER).mkdir(parents=True)
    paths = []
    for number, entries in enumerate(files):
        encoder = BlockEncoder()
        data = encode_header(number, created_ms[number] if created_ms else BEGIN_MS, 42, "broker-a")
        for found in entries:
            encoder.add(found)
            if len(encoder) == block:
                data += encoder.take(lost)
        if len(encoder):
            data += encoder.take(lost)
        if closed:
            data += encoder.take()
        paths.append(store / FOLDER / file_name(number))
        paths[-1].write_bytes(data)
    return paths


def block_ends(data: bytes) -> list[int]:
    """Where the blocks of a file end."""
    header = decode_header(data)
    assert header is not None
    return [block.end for block in decode_blocks(data, header)]

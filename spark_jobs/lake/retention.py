"""How long a lake keeps its days: older ones go from the manifest, and from the disk when nobody reads them any more.

The lake's position stays where it is, so the broker deletes as before, and nothing that was dropped is read again.
"""

import msgspec

from spark_jobs.lake.manifest import Dropped, JournalPart, LakeFile, LogPart, Manifest
from spark_jobs.lake.tasks import DAY_MS


def first_kept_ms(now_ms: int, keep_days: int) -> int:
    """The beginning (UTC) of the first day that stays: so many whole days stay beside the current one."""
    return (now_ms // DAY_MS - keep_days) * DAY_MS


def drop_before(manifest: Manifest, before_ms: int, now_ms: int) -> bool:
    """Drop files of days that are over at that time; whether there were any.

    A part of the journal stays without its files: it says how far the journal was read.
    """
    dropped: list[LakeFile] = []

    def kept(files: list[LakeFile]) -> list[LakeFile]:
        dropped.extend(file for file in files if file.max_ms < before_ms)
        return [file for file in files if file.max_ms >= before_ms]

    messages, polls = manifest.messages, manifest.polls
    rows = _rows(messages), _rows(polls)
    manifest.messages = [
        msgspec.structs.replace(part, files=kept(part.files), sums=kept(part.sums)) for part in messages
    ]
    manifest.polls = [msgspec.structs.replace(part, files=kept(part.files)) for part in polls]
    if not dropped:
        return False
    known = manifest.dropped
    manifest.dropped = Dropped(
        before_ms, known.messages + rows[0] - _rows(manifest.messages), known.polls + rows[1] - _rows(manifest.polls)
    )
    manifest.messages = [
        part for part, before in zip(manifest.messages, messages, strict=True) if part.files or not before.files
    ]
    manifest.retire(dropped, now_ms)
    return True


def _rows(parts: list[LogPart] | list[JournalPart]) -> int:
    return sum(file.rows for part in parts for file in part.files)

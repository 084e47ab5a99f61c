"""Unpacked stores written by Apache RocketMQ 5.4.0, and the answers that its producer received."""

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker_core.formats import commit_log_record

ARCHIVE = Path(__file__).parent.parent / "golden" / "rocketmq-5.4.0-store.tar.xz"
STORES = ("clean-shutdown", "abort-file-present")


def unpack(folder: Path) -> Path:
    """Unpack both stores below ``folder``; returns the folder that contains them."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return next(path.parent for path in folder.rglob("sent.jsonl"))


def sent(golden: Path) -> list[dict[str, Any]]:
    """The answers that the producer received, in order, without the summary."""
    lines = (golden / "sent.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] != "summary"]


def records(store: Path) -> Iterator[commit_log_record.CommitLogRecord]:
    """Every record of a store's log, in order."""
    for path in sorted((store / "commitlog").iterdir()):
        data, at, base = path.read_bytes(), 0, int(path.name)
        while size := commit_log_record.measure(data, at, len(data), base + at):
            yield commit_log_record.decode(data, at)
            at += size


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file and folder below a folder, files with the hash of their bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }

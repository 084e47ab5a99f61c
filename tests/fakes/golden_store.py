"""The stores that Apache RocketMQ 5.4.0 wrote, unpacked, and what its producer was answered."""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).parent.parent / "golden" / "rocketmq-5.4.0-store.tar.xz"
STORES = ("clean-shutdown", "abort-file-present")


def unpack(folder: Path) -> Path:
    """The folder that holds both stores, below ``folder``."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return next(path.parent for path in folder.rglob("sent.jsonl"))


def sent(golden: Path) -> list[dict[str, Any]]:
    """What the producer was answered, in order, without the summary."""
    lines = (golden / "sent.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] != "summary"]


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder with the hash of its bytes; folders too."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))}

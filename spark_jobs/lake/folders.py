"""What the folders of lakes are called. Imports nothing that only Spark needs."""

import hashlib
import os
import re
from pathlib import Path

from spark_jobs.lake.manifest import FILE_NAME
from spark_jobs.sources.commit_log_files import is_local, local_path


def lake_name(store: str | os.PathLike[str]) -> str:
    """What the lakes of a store are called."""
    path = str(local_path(store).resolve()) if is_local(store) else os.fspath(store)
    name = re.sub(r"[^\w.-]+", "-", path.rstrip("/").rpartition("/")[2]) or "store"
    return f"{name}-{hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()}"


def generations(lakes: Path, store: str | os.PathLike[str]) -> list[Path]:
    """The lakes of stores that have been at that place, oldest first."""
    name = lake_name(store)
    found = []
    for folder in lakes.glob(f"{name}*") if lakes.is_dir() else ():
        match = re.fullmatch(rf"{re.escape(name)}(?:-(\d+))?", folder.name)
        if match and folder.is_dir():
            found.append((int(match[1] or 1), folder))
    return [folder for _, folder in sorted(found)]


def filled(lakes: Path, store: str | os.PathLike[str]) -> list[Path]:
    """Those of them that have something in them: one without a manifest is being filled for the first time."""
    return [folder for folder in generations(lakes, store) if (folder / FILE_NAME).is_file()]

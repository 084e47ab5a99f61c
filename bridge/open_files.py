"""How many files this process may have open. Every client is one, every mapped file of the store another."""

import resource
import sys
from contextlib import suppress

OPEN_FILES = 65_536
OWN_FILES = 256
"""Open files of a web process that are no clients': the database, the engine's socket, reports on their way out."""


def raise_open_files_limit() -> None:
    """The usual soft limit of 1024 is meant for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_files_limit() -> int:
    """The soft limit in force."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def most_connections(wanted: int, own_files: int = OWN_FILES) -> int:
    """``wanted``, or fewer where the machine allows fewer open files."""
    return min(wanted, max(1, open_files_limit() - own_files))

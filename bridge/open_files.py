"""How many files this process may have open. Each client and each mapped file of the store needs one."""

import resource
import sys
from contextlib import suppress

OPEN_FILES = 65_536
OWN_FILES = 256
"""Open files of a web process other than clients: the database, the engine's socket, reports being downloaded."""


def raise_open_files_limit() -> None:
    """Raise the soft limit. The usual one of 1024 is for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_files_limit() -> int:
    """The current soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def most_connections(wanted: int, own_files: int = OWN_FILES) -> int:
    """``wanted``, or fewer if the machine allows fewer open files."""
    return min(wanted, max(1, open_files_limit() - own_files))

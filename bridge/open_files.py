"""How many files this process may have open. Each client and each mapped file of the store needs one."""

import resource
import sys
from contextlib import suppress

OPEN_FILES = 65_536
OWN_FILES = 256
"""Open files of a web process other than clients with a request: 64 connections in reserve, the database, the engine's
socket, reports being downloaded."""


FEW_CONNECTIONS = 1000
"""A limit of open files that allows fewer web connections than this is worth a warning."""


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


def open_files_warning(wanted: int) -> str:
    """A sentence if this machine allows much fewer than ``wanted`` connections; otherwise empty."""
    allowed = most_connections(wanted)
    if allowed >= min(wanted, FEW_CONNECTIONS):
        return ""
    return (
        f"only {open_files_limit()} files may be open (ulimit -n), so at most {allowed} web "
        f"{'connection is' if allowed == 1 else 'connections are'} accepted at once: raise the limit to "
        f"{min(OPEN_FILES, 2 * wanted + OWN_FILES)}"
    )


def most_connections(wanted: int, own_files: int = OWN_FILES) -> int:
    """``wanted``, or fewer if the machine allows fewer open files."""
    return min(wanted, max(1, open_files_limit() - own_files))

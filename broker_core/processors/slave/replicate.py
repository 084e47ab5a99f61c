"""The commit log of another broker: its records are appended as they are, then dispatched."""

from broker_core.clock import Now
from broker_core.commands import AppendedToCommitLog, AppendToCommitLog, GetLogEnd, LogEnd, Reply
from broker_core.processors.context import Context, Request
from broker_core.processors.message_stored import dispatch
from broker_core.processors.slave.following import store_of

COMPARED = 3
"""Messages that are compared with the followed log before each connection."""


def append_to_commit_log(context: Context, request: Request, now: Now) -> Reply:
    """RequestError if the bytes do not belong at the end of the copy; UnavailableError while the disk is full."""
    command: AppendToCommitLog = request.command
    store = store_of(context)
    store.append_data(command.offset, command.data, command.store_timestamp, now)
    dispatch(context, now)
    return AppendedToCommitLog(end=store.appended_offset)


def get_log_end(context: Context, request: Request, now: Now) -> Reply:
    command: GetLogEnd = request.command
    assert isinstance(command, GetLogEnd)
    store = store_of(context)
    return LogEnd(
        end=None if store.is_empty else store.appended_offset,
        segment_size=store.segment_size,
        records=store.last_records(COMPARED),
    )

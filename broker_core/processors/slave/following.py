"""What an engine says that follows another broker's commit log, and what it refuses."""

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    Attached,
    ConsumerSendMsgBack,
    Done,
    GetAttached,
    Reply,
    ReportFollowing,
    SendMessage,
    SendReplyMessage,
)
from broker_core.errors import NotFoundError, RequestError, UnavailableError
from broker_core.processors.context import Context, Request
from broker_core.store.slave.follower_store import FollowerStore
from broker_core.verdicts.verdict import joined

SENDS = (SendMessage, ConsumerSendMsgBack, SendReplyMessage)


def store_of(context: Context) -> FollowerStore:
    """The store of an engine that follows."""
    store = context.store
    assert isinstance(store, FollowerStore)
    return store


def refuse(context: Context, request: Request, now: Now) -> Reply:
    """Refuse what would change the copy, in the words of a slave of RocketMQ. Always UnavailableError."""
    source = context.following.report.source
    advice = f"this is a copy of the broker at {source}: " if source else "this is a copy of another broker: "
    if isinstance(request.command, SENDS):
        raise UnavailableError(
            f"[REJECTREQUEST]system busy, start flow control for a while ({advice}publish there)",
            code=ResponseCode.SYSTEM_BUSY,
            retry_after_ms=0,
        )
    raise UnavailableError(
        "Can't modify topic or subscription group from slave broker, please execute it from master broker "
        f"({advice}nothing is changed here)",
        code=ResponseCode.SYSTEM_ERROR,
        retry_after_ms=0,
    )


def not_followed(context: Context, request: Request, now: Now) -> Reply:
    """Refuse a follower's command in an engine with a store of its own. Always RequestError."""
    raise RequestError(
        "this broker has a store of its own and follows no other broker", code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    )


def no_clients(context: Context, request: Request, now: Now) -> Reply:
    """Refuse a question to the clients of a broker that cannot have any. Always RequestError."""
    raise RequestError(
        "this broker has no port for RocketMQ clients (GLASSMQ_BROKER_PORT is 0), so there is no client to ask",
        code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    )


def report_following(context: Context, request: Request, now: Now) -> Reply:
    command: ReportFollowing = request.command
    following = context.following
    if (command.state, command.source) != (following.report.state, following.report.source):
        following.since_ms = now.wall_ms
    following.report = command
    return Done()


def get_attached(context: Context, request: Request, now: Now) -> Reply:
    command: GetAttached = request.command
    assert isinstance(command, GetAttached)
    if not context.store.follows:
        raise NotFoundError("this broker follows no other broker; manage.py attach starts one that does")
    store, following, options = store_of(context), context.following, context.options
    report, confirmed = following.report, store.appended_offset
    confirmed_ms = store.last_store_timestamp or None
    lag_bytes = None
    if report.master_end is not None and report.state == "following":
        lag_bytes = max(0, max(report.master_end, report.received or 0) - confirmed)
    lag_ms = 0 if lag_bytes == 0 else None
    if lag_bytes and confirmed_ms is not None:
        lag_ms = max(0, now.wall_ms - confirmed_ms)
    return Attached(
        broker=options.broker_name,
        cluster=options.broker_cluster_name,
        source=report.source,
        state=report.state,
        since_ms=following.since_ms,
        min=store.min_physical_offset,
        min_ms=store.first_store_timestamp or None,
        received=report.received,
        confirmed=confirmed,
        confirmed_ms=confirmed_ms,
        lag_bytes=lag_bytes,
        lag_ms=lag_ms,
        bytes_per_second=report.bytes_per_second,
        tables_ms=report.tables_ms,
        members_ms=report.members_ms,
        problem="; ".join([text for text in (report.problem or store.problem, _about_lmq(store.lmq_topics)) if text]),
        unindexed=store.unindexed_records,
    )


def _about_lmq(topics: list[str]) -> str:
    """A sentence about these topics, whose messages are in light message queues too; empty without topics."""
    if not topics:
        return ""
    return f"the copy lacks the light message queues (LMQ) that have messages of {joined(topics)}"

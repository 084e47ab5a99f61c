"""The broker's own figures for RocketMQ's tools. Part of RocketMQ's AdminBrokerProcessor.

RocketMQ has some 80 figures. Those that have no meaning here (capacities of thread pools, latency tables) are left out,
and so are those that are unknown, which the tools accept. None is invented.
"""

from broker_core.broker_stats import StatsWindows
from broker_core.clock import Now
from broker_core.codes import VERSION, ResponseCode, version_text
from broker_core.commands import (
    BrokerStatsData,
    DeleteExpiredCommitLog,
    Done,
    GetAllDelayOffset,
    GetBrokerRuntimeInfo,
    OffsetTable,
    Reply,
    RuntimeInfo,
    StatsSnapshot,
    ViewBrokerStatsData,
)
from broker_core.errors import NotFoundError
from broker_core.processors.context import Context, Request

QUEUES = (
    "sendThreadPoolQueue",
    "pullThreadPoolQueue",
    "litePullThreadPoolQueue",
    "queryThreadPoolQueue",
    "ackThreadPoolQueue",
)
"""All requests wait in one queue here, in the order of arrival. When this one is answered, no earlier one waits."""

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

# --- GET_BROKER_RUNTIME_INFO ------------------------------------------------------------------------------------------


def get_broker_runtime_info(context: Context, request: Request, now: Now) -> Reply:
    command: GetBrokerRuntimeInfo = request.command
    assert isinstance(command, GetBrokerRuntimeInfo)
    return RuntimeInfo(
        table=_broker(context, now)
        | _rates(context, now)
        | _totals(context)
        | _store(context)
        | _waiting(context)
        | _timers(context, now)
    )


def _broker(context: Context, now: Now) -> dict[str, str]:
    seconds = (now.mono_ns - context.started.mono_ns) // 1_000_000_000
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return {
        "brokerVersionDesc": f"V{version_text(VERSION).replace('.', '_')}",
        "brokerActive": "true",
        "bootTimestamp": str(context.started.wall_ms),
        "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
    }


def _rates(context: Context, now: Now) -> dict[str, str]:
    """Rates over the last 10 s, minute and 10 minutes, separated by spaces."""
    spans = [context.stats.rates(context.totals(), seconds, now.mono_ns) for seconds in (10, 60, 600)]
    put, found, missed, transferred, *_ = ([str(rate) for rate in rates] for rates in zip(*spans, strict=True))
    return {
        "putTps": " ".join(put),
        "getFoundTps": " ".join(found),
        "getMissTps": " ".join(missed),
        "getTransferredTps": " ".join(transferred),
        "getTotalTps": " ".join(str(found + missed) for _, found, missed, *_ in spans),
    }


def _timers(context: Context, now: Now) -> dict[str, str]:
    """The timer wheel; nothing while the timer messages are not loaded. Rates are over the last 10 s."""
    timers = context.store.timers
    if not timers.loaded:
        return {}
    *_, enqueued, dequeued = context.stats.rates(context.totals(), 10, now.mono_ns)
    return {
        "timerReadBehind": str(timers.dequeue_latency_ms(now.wall_ms) // 1000),
        "timerOffsetBehind": str(timers.behind),
        "timerCongestNum": str(timers.counts.pending),
        "timerEnqueueTps": str(enqueued),
        "timerDequeueTps": str(dequeued),
    }


def _totals(context: Context) -> dict[str, str]:
    counters, totals, stats = context.counters, context.totals(), context.stats
    return {
        "msgPutTotalTodayNow": str(totals.stored),
        "msgPutTotalTodayMorning": str(stats.today_morning.stored),
        "msgPutTotalYesterdayMorning": str(stats.yesterday_morning.stored),
        "msgGetTotalTodayNow": str(totals.transferred),
        "msgGetTotalTodayMorning": str(stats.today_morning.transferred),
        "msgGetTotalYesterdayMorning": str(stats.yesterday_morning.transferred),
        "putMessageTimesTotal": str(totals.stored),
        "putMessageSizeTotal": str(counters.bytes_stored),
        "putMessageAverageSize": str(counters.bytes_stored / max(1, totals.stored)),
    }


def _store(context: Context) -> dict[str, str]:
    store = context.store
    disk, earliest = f"{store.clean.disk_used_percent / 100:.2f}", store.reader.earliest_store_time()
    delayed = {
        f"scheduleMessageOffset_{level}": f"{done},{end}" for level, (done, end) in store.delayed.progress().items()
    }
    return delayed | {
        "commitLogMinOffset": str(store.min_physical_offset),
        "commitLogMaxOffset": str(store.appended_offset),
        "commitLogDiskRatio": disk,
        "consumeQueueDiskRatio": disk,
        "earliestMessageTimeStamp": str(-1 if earliest is None else earliest),
        "remainHowManyDataToFlush": _size(store.appended_offset - store.flushed_offset),
        "dispatchBehindBytes": str(store.appended_offset - store.dispatched_offset),
        "pageCacheLockTimeMills": "0",
    }  # nothing is stored while this request is answered


def _waiting(context: Context) -> dict[str, str]:
    return {name + what: "0" for name in QUEUES for what in ("Size", "HeadWaitTimeMills")} | {
        "EndTransactionQueueSize": "0"
    }


def _size(count: float) -> str:
    """RocketMQ's humanReadableByteCount."""
    unit = 0
    while count >= 1024 and unit < len(UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.1f} {UNITS[unit]}" if unit else f"{count} B"


# --- VIEW_BROKER_STATS_DATA, GET_ALL_DELAY_OFFSET, DELETE_EXPIRED_COMMITLOG -------------------------------------------


def view_broker_stats_data(context: Context, request: Request, now: Now) -> Reply:
    command: ViewBrokerStatsData = request.command
    windows = _windows(context, command.stats_name, command.stats_key, now)
    if windows is None:
        raise NotFoundError(
            f"there is no statistic {command.stats_name[:100]} of {command.stats_key[:300]}",
            code=ResponseCode.SYSTEM_ERROR,
        )
    return BrokerStatsData(
        **{
            name: StatsSnapshot(sum=snapshot.sum, tps=snapshot.tps, avgpt=snapshot.avgpt)
            for name, snapshot in windows._asdict().items()
        }
    )


def _windows(context: Context, name: str, key: str, now: Now) -> StatsWindows | None:
    stats = context.stats
    if name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS"):
        puts, gets = stats.windows(context.totals(), now.mono_ns)
        if key != context.options.broker_cluster_name:
            return None
        return puts if name == "BROKER_PUT_NUMS" else gets
    topic, _, group = key.rpartition("@")
    if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
        item = stats.topic_put.get(key)
    elif name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE"):
        item = stats.group_get.get((topic, group))
    elif name == "SNDBCK_PUT_NUMS":
        item = stats.send_back.get((topic, group))
    elif name == "GROUP_ACK_NUMS":
        item = stats.group_ack.get((topic, group))
    elif name == "GROUP_CK_NUMS":
        item = stats.group_ck.get((topic, group))
    else:
        return None
    if item is None:
        return None
    nums, sizes = item.windows(now.mono_ns)
    return sizes if name.endswith("_SIZE") else nums


def get_all_delay_offset(context: Context, request: Request, now: Now) -> Reply:
    command: GetAllDelayOffset = request.command
    assert isinstance(command, GetAllDelayOffset)
    return OffsetTable(
        table={"offsetTable": {level: done for level, (done, _) in context.store.delayed.progress().items()}}
    )


def delete_expired_commit_log(context: Context, request: Request, now: Now) -> Reply:
    command: DeleteExpiredCommitLog = request.command
    assert isinstance(command, DeleteExpiredCommitLog)
    context.require_writable()
    context.store.clean.execute_delete_files_manually(now)
    return Done()

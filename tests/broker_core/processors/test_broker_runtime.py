"""The broker's figures, by RocketMQ's names."""

from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.processors.broker_runtime import _size
from tests.fakes.engine import ROOT, Bench, send
from tests.fakes.members import failure
from tests.fakes.pops import ack, ack_of, change, take
from tests.fakes.timers import small_wheel, timed

__all__ = ["small_wheel"]


def table(bench: Bench) -> dict[str, str]:
    reply = bench.call(c.GetBrokerRuntimeInfo())
    assert isinstance(reply, c.RuntimeInfo)
    return reply.table


def data(bench: Bench, name: str, key: str) -> c.BrokerStatsData:
    reply = bench.call(c.ViewBrokerStatsData(stats_name=name, stats_key=key))
    assert isinstance(reply, c.BrokerStatsData), reply
    return reply


def test_a_broker_in_which_nothing_has_happened() -> None:
    bench = Bench()
    found = table(bench)
    assert found["brokerVersionDesc"] == "V5_4_0" and found["runtime"] == ("[ 0 days, 0 hours, 0 minutes, 0 seconds ]")
    assert found["bootTimestamp"] == str(bench.clock.now().wall_ms)
    assert found["earliestMessageTimeStamp"] == "-1" and found["putTps"] == "0.0 0.0 0.0"
    assert found["putMessageAverageSize"] == "0.0" and found["remainHowManyDataToFlush"] == "0 B"
    assert found["sendThreadPoolQueueSize"] == found["pullThreadPoolQueueHeadWaitTimeMills"] == "0"


def test_figures_of_the_timer_wheel(small_wheel: None) -> None:
    bench = Bench()
    for seconds in (5, 8, 9):
        bench.call(timed(TIMER_DELAY_SEC=seconds))
    before = table(bench)
    assert (before["timerOffsetBehind"], before["timerCongestNum"]) == ("3", "0")
    bench.tick()
    bench.tick(6000)
    bench.tick(1000)
    found = table(bench)
    assert (found["timerReadBehind"], found["timerOffsetBehind"], found["timerCongestNum"]) == ("0", "0", "2")
    assert (found["timerEnqueueTps"], found["timerDequeueTps"]) == (str(3 / 7), str(1 / 7))
    bench.clock.advance(60_000)
    late = table(bench)
    assert (int(late["timerReadBehind"]) >= 50, late["timerCongestNum"]) == (True, "2")


def test_the_timer_wheel_of_a_copy_is_unknown() -> None:
    assert not [name for name in table(Bench(follows=True)) if name.startswith("timer")]


def test_figures_of_a_broker_at_work() -> None:
    bench = Bench()
    begin = bench.clock.now().wall_ms
    bench.send("orders", b"1", b"2")
    bench.clock.advance(1000)
    for offset in (0, 1, 2):
        bench.pull("orders", offset, suspend_timeout_ms=0)
    bench.clock.advance(1000)
    found = table(bench)
    size = bench.context.store.appended_offset
    assert found["runtime"].endswith(" 2 seconds ]") and found["earliestMessageTimeStamp"] == str(begin)
    assert found["putTps"] == "1.0 1.0 1.0" and found["getTransferredTps"].split()[0] == "1.5"
    assert (found["getFoundTps"].split()[0], found["getMissTps"].split()[0], found["getTotalTps"].split()[0]) == (
        "1.0",
        "0.5",
        "1.5",
    )
    assert (found["putMessageTimesTotal"], found["putMessageSizeTotal"]) == ("2", str(size))
    assert found["putMessageAverageSize"] == str(size / 2)
    assert (found["msgPutTotalTodayNow"], found["msgGetTotalTodayNow"], found["msgPutTotalTodayMorning"]) == (
        "2",
        "3",
        "0",
    )
    assert (found["commitLogMinOffset"], found["commitLogMaxOffset"], found["dispatchBehindBytes"]) == (
        "0",
        str(size),
        "0",
    )
    assert found["remainHowManyDataToFlush"] == f"{size} B" and found["commitLogDiskRatio"] == "0.10"
    bench.clock.advance(86_400_000)
    bench.send("orders", b"3")
    found = table(bench)
    assert (found["msgPutTotalTodayMorning"], found["msgPutTotalTodayNow"]) == ("2", "3")
    assert found["msgGetTotalTodayMorning"] == "3" and found["runtime"] == ("[ 1 days, 0 hours, 0 minutes, 2 seconds ]")


def test_the_runtime_info_has_the_progress_of_each_delay_level() -> None:
    bench = Bench()
    bench.send("orders", b"1", properties="DELAY\x011\x02")
    bench.send("orders", b"2", properties="DELAY\x013\x02")
    bench.tick(1000)
    found = table(bench)
    assert (found["scheduleMessageOffset_1"], found["scheduleMessageOffset_3"]) == ("1,1", "0,1")
    assert bench.call(c.GetAllDelayOffset()) == c.OffsetTable(table={"offsetTable": {1: 1, 3: 0}})


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1135, "1.1 KiB"), (5 << 20, "5.0 MiB"), (3 << 50, "3072.0 TiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert _size(count) == text


def test_statistics_have_the_counts_of_messages() -> None:
    bench = Bench()
    size = 0
    for bodies in ([b"1", b"2"], [b"3"]):
        before = bench.context.store.appended_offset
        bench.send("orders", *bodies)
        size += bench.context.store.appended_offset - before
    bench.pull("orders", 0)
    bench.pull("orders", 0, consumer_group="")
    bench.clock.advance(10_000)
    assert data(bench, "TOPIC_PUT_NUMS", "orders").minute == c.StatsSnapshot(sum=3, tps=0.3, avgpt=1.5)
    assert data(bench, "TOPIC_PUT_SIZE", "orders").minute == c.StatsSnapshot(sum=size, tps=size / 10, avgpt=size / 2)
    assert data(bench, "GROUP_GET_NUMS", "orders@g").minute == c.StatsSnapshot(sum=3, tps=0.3, avgpt=3.0)
    assert data(bench, "GROUP_GET_SIZE", "orders@g").minute.sum == size
    assert data(bench, "BROKER_PUT_NUMS", "DefaultCluster").minute == c.StatsSnapshot(sum=3, tps=0.3, avgpt=0.0)
    assert data(bench, "BROKER_GET_NUMS", "DefaultCluster").minute == c.StatsSnapshot(sum=6, tps=0.6, avgpt=0.0)
    assert data(bench, "TOPIC_PUT_NUMS", "orders").hour == c.StatsSnapshot(sum=0, tps=0.0, avgpt=0.0)
    topics = bench.call(c.GetTopicStats(topic="orders"))
    assert isinstance(topics, c.TopicStats) and topics.put_tps == 0.3


def test_a_held_pull_counts_when_it_brings_something() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 1)
    bench.clock.advance(5000)
    bench.send("orders", b"2")
    bench.clock.advance(10_000)
    assert data(bench, "GROUP_GET_NUMS", "orders@g").minute.sum == 1


def test_statistics_count_messages_sent_back() -> None:
    bench = Bench()
    (sent,) = bench.send("orders", b"1").messages
    assert bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=sent.physical_offset)) == c.Done()
    bench.clock.advance(10_000)
    assert data(bench, "SNDBCK_PUT_NUMS", "orders@g").minute.sum == 1


def test_statistics_count_check_points_and_acknowledgements_of_popped_messages() -> None:
    """As in RocketMQ, a change of the invisible time is one of each, and a repeated acknowledgement counts again."""
    bench = Bench()
    bench.send("orders", b"1", b"2", b"3")
    reply = take(bench)
    ack(bench, reply, 0, 1)
    ack(bench, reply, 1)
    assert isinstance(change(bench, reply, 2, 30_000), c.InvisibleTimeChanged)
    bench.clock.advance(10_000)
    assert data(bench, "GROUP_CK_NUMS", "orders@g").minute.sum == 2
    assert data(bench, "GROUP_ACK_NUMS", "orders@g").minute.sum == 4


def test_statistics_count_no_acknowledgements_of_groups_that_do_not_exist() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = take(bench)
    ack(bench, reply)
    for number in range(3):
        late = msgspec.structs.replace(ack_of(reply), consumer_group=f"nobody-{number}")
        assert bench.call(late) == c.Acknowledged(messages=0, late=[0])
    assert bench.context.stats.group_ack.keys() == [("orders", "g")]


def test_statistics_count_no_check_points_of_pops_in_order() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = take(bench, order=True)
    bench.call(msgspec.structs.replace(ack_of(reply), order=True))
    bench.clock.advance(10_000)
    for name in ("GROUP_CK_NUMS", "GROUP_ACK_NUMS"):
        assert failure(bench, c.ViewBrokerStatsData(stats_name=name, stats_key="orders@g")).code == 1


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("GROUP_ACK_NUMS", "orders@g"),
        ("GROUP_CK_NUMS", "orders@g"),
        ("TOPIC_PUT_NUMS", "other"),
        ("GROUP_GET_NUMS", "orders"),
        ("GROUP_GET_SIZE", "orders@other"),
        ("NONE", "orders"),
        ("SNDBCK_PUT_NUMS", "orders@g"),
        ("BROKER_PUT_NUMS", "other"),
        ("GROUP_GET_FALL_SIZE", "0@orders@g"),
    ],
)
def test_statistics_without_data_are_refused(name: str, key: str) -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 0)
    assert failure(bench, c.ViewBrokerStatsData(stats_name=name, stats_key=key)).code == 1


def test_statistics_of_a_deleted_topic_or_group_are_removed() -> None:
    bench = Bench()
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"}))
    bench.send("orders", b"1")
    bench.pull("orders", 0)
    bench.call(c.DeleteSubscriptionGroup(group="g"))
    assert failure(bench, c.ViewBrokerStatsData(stats_name="GROUP_GET_NUMS", stats_key="orders@g")).code == 1
    bench.call(c.DeleteTopic(topic="orders"))
    assert failure(bench, c.ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key="orders")).code == 1


def test_expired_segments_are_deleted_on_request() -> None:
    bench = Bench(mapped_file_size_commit_log=65_536, delete_when="25")
    for _ in range(3):
        bench.send("orders", b"x" * 30_000, b"y" * 30_000)
    bench.file_work()
    bench.clock.advance(73 * 3_600_000)
    bench.file_work()
    assert len(bench.files.names(ROOT / "commitlog")) == 3
    assert bench.call(c.DeleteExpiredCommitLog()) == c.Done()
    bench.file_work()
    assert len(bench.files.names(ROOT / "commitlog")) == 1
    bench.clock.advance(73 * 3_600_000)
    bench.send("orders", *[b"x" * 30_000] * 3)
    bench.file_work()
    assert len(bench.files.names(ROOT / "commitlog")) == 3, "it was asked once"


def test_the_files_of_another_broker_are_left_alone() -> None:
    bench = Bench()
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(ROOT / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert "read-only" in failure(foreign, c.DeleteExpiredCommitLog()).remark


def test_every_figure_is_a_text() -> None:
    bench = Bench()
    bench.submit(send("orders", b"1"))
    found: dict[str, Any] = dict(table(bench))
    assert all(isinstance(value, str) and value for value in found.values())

"""The groups on the metrics page."""

import httpx
import msgspec
import pytest

from bridge.port import PortUnavailable, commands
from tests.fakes.fake_port import FakePort, broker_metrics, group_metrics, snapshot, topic_metrics
from tests.fakes.metrics_page import A, scraped

LEFT_OUT = ("groups", "group_topics", "timer_messages", "transactions", "queues")


def labels_of(topic: str = "T", **more: str) -> tuple[tuple[str, str], ...]:
    """The labels of RocketMQ's metrics of a group and a topic."""
    labels = {
        "cluster": "DefaultCluster",
        "node_type": "broker",
        "node_id": "broker-a",
        "consumer_group": "G",
        "topic": topic,
        "is_retry": "false",
        "is_system": "false",
    }
    return tuple(sorted((labels | more).items()))


def with_storage(labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((*labels, ("storage_type", "local"), ("storage_medium", "disk"))))


async def test_groups_have_the_names_and_labels_of_rocketmq(client: httpx.AsyncClient) -> None:
    values = await scraped(client)
    names = ("lag_messages", "lag_latency", "inflight_messages", "ready_messages")
    assert [values[f"rocketmq_consumer_{name}", labels_of()] for name in names] == [8, 5000, 2, 6]
    assert values["rocketmq_messages_out_total", labels_of()] == 4
    node = tuple(pair for pair in labels_of() if pair[0] not in ("topic", "is_retry", "is_system"))
    assert values["rocketmq_send_to_dlq_messages_total", node] == 7
    node = tuple(pair for pair in node if pair[0] != "consumer_group")
    assert values["rocketmq_storage_flush_behind_bytes", with_storage(node)] == 10
    assert values["rocketmq_storage_dispatch_behind_bytes", with_storage(node)] == 0


async def test_the_timer_wheel_and_transactions_have_the_names_and_labels_of_rocketmq(
    client: httpx.AsyncClient,
) -> None:
    values = await scraped(client)
    node = tuple(pair for pair in labels_of() if pair[0] in ("cluster", "node_type", "node_id"))
    names = ("enqueue_lag", "enqueue_latency", "dequeue_lag", "dequeue_latency")
    assert [values[f"rocketmq_timer_{name}", with_storage(node)] for name in names] == [4, 30, 7, 0]
    by_topic = (*node, ("topic", "T"))
    assert values["rocketmq_timing_messages", with_storage(by_topic)] == 7
    assert values["rocketmq_timer_enqueue_total", with_storage(by_topic)] == 9
    assert values["rocketmq_timer_dequeue_total", with_storage(by_topic)] == 2
    assert values["rocketmq_commit_messages_total", by_topic] == 3
    assert values["rocketmq_rollback_messages_total", by_topic] == 1


async def test_timer_messages_that_are_not_counted_yet_have_no_sample(
    client: httpx.AsyncClient, port: FakePort
) -> None:
    timers = broker_metrics().timers
    assert timers is not None
    unknown = msgspec.structs.replace(timers, enqueue_latency_ms=None, waiting=None)
    port.replies[commands.GetMetrics] = broker_metrics(timers=unknown)
    names = {name for name, _ in await scraped(client)}
    assert "rocketmq_timer_enqueue_lag" in names
    assert not names & {"rocketmq_timer_enqueue_latency", "rocketmq_timing_messages"}
    port.replies[commands.GetMetrics] = broker_metrics(timers=None)
    assert not [name for name, _ in await scraped(client) if "tim" in name and name.startswith("rocketmq")]


async def test_slaves_are_counted_and_the_slowest_is_measured(client: httpx.AsyncClient) -> None:
    values = await scraped(client)
    names = ("glassmq_slaves", "glassmq_slave_lag_bytes", "glassmq_slave_timeouts_total")
    assert [values[name, A] for name in names] == [1, 700, 3]


async def test_groups_have_a_state_and_what_waits_elsewhere(client: httpx.AsyncClient) -> None:
    values = await scraped(client)
    group = (*A, ("consumer_group", "G"))
    states = {
        dict(labels)["state"]: value
        for (name, labels), value in values.items()
        if name == "glassmq_consumer_group_state"
    }
    assert states == {
        "ok": 0,
        "catching up": 0,
        "falling behind": 0,
        "stalled": 1,
        "stopped": 0,
        "unknown": 0,
    }
    assert values["glassmq_consumer_group_held_pulls", group] == 1
    assert values["glassmq_consumer_group_retrying_messages", group] == 3
    assert values["glassmq_consumer_group_dead_letters", group] == 2
    assert values["glassmq_consumer_unknown_queues", (*group, ("topic", "T"))] == 0
    assert values["glassmq_disk_used_ratio", A] == 0.25


@pytest.mark.covers("metrics-unknown")
async def test_what_is_unknown_has_no_sample(client: httpx.AsyncClient, port: FakePort) -> None:
    unknown = {"lag": None, "oldest_ms": None, "in_flight": None, "ready": None, "delivered": None}
    port.replies[commands.GetMetrics] = broker_metrics(
        group_metrics("G", topic_metrics("T", unknown_queues=2, **unknown), retrying=None)
    )
    values = await scraped(client)
    groups = {name for name, labels in values if ("consumer_group", "G") in labels}
    assert groups == {
        "glassmq_consumer_unknown_queues",
        "glassmq_consumer_group_state",
        "glassmq_consumer_group_problem",
        "glassmq_consumer_group_held_pulls",
        "glassmq_consumer_group_dead_letters",
        "rocketmq_send_to_dlq_messages_total",
    }
    assert values["glassmq_consumer_unknown_queues", (*A, ("consumer_group", "G"), ("topic", "T"))] == 2


async def test_retry_and_system_topics_are_labelled(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetMetrics] = broker_metrics(
        group_metrics("G", topic_metrics("%RETRY%G"), topic_metrics("rmq_sys_x", is_system=True))
    )
    values = await scraped(client)
    assert values["rocketmq_consumer_lag_messages", labels_of("%RETRY%G", is_retry="true")] == 8
    assert values["rocketmq_consumer_lag_messages", labels_of("rmq_sys_x", is_system="true")] == 8


async def test_what_is_left_out_is_counted(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetMetrics] = broker_metrics(groups_left_out=9000, topics_left_out=12)
    port.replies[commands.GetSnapshot] = snapshot(queues_total=5)
    values = await scraped(client)
    left_out = {what: values["glassmq_metrics_left_out", (*A, ("what", what))] for what in LEFT_OUT}
    assert left_out == {"groups": 9000, "group_topics": 12, "timer_messages": 6, "transactions": 8, "queues": 3}


async def test_hostile_names_stay_inside_their_label(client: httpx.AsyncClient, port: FakePort) -> None:
    name = 'G"} 1\n# EOF\n\\'
    port.replies[commands.GetMetrics] = broker_metrics(group_metrics(name))
    values = await scraped(client)
    assert values["glassmq_consumer_group_held_pulls", (*A, ("consumer_group", name))] == 1


async def test_without_an_answer_about_groups(client: httpx.AsyncClient, port: FakePort) -> None:
    port.replies[commands.GetMetrics] = PortUnavailable("busy")
    values = await scraped(client)
    assert values["glassmq_up", A] == 1
    assert values["glassmq_held_pulls", A] == 2
    assert not any(name.startswith("rocketmq_") or name == "glassmq_disk_used_ratio" for name, _ in values)
    assert ("glassmq_metrics_left_out", (*A, ("what", "groups"))) not in values


async def test_the_problems_of_a_group(client: httpx.AsyncClient, port: FakePort) -> None:
    lines = [
        commands.VerdictLine(id="no_member", severity="error", sentence="x"),
        commands.VerdictLine(id="idle", severity="ok", sentence="x"),
    ]
    port.replies[commands.GetMetrics] = broker_metrics(group_metrics("G", verdicts=lines))
    found = {labels: value for (name, labels), value in (await scraped(client)).items() if name.endswith("_problem")}
    labels = {"broker": "broker-a", "consumer_group": "G", "verdict": "no_member", "severity": "error"}
    assert found == {tuple(sorted(labels.items())): 1}

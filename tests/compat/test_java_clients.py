"""The stock Java client, RocketMQ 5.4.0's and 4.9.8's, unmodified.

The cases are in ``java/``; each holds for RocketMQ itself.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from tests.compat import java_program
from tests.compat.conftest import needs
from tests.compat.feature_table import note_cases
from tests.compat.glassmq_broker import Address, glassmq
from tests.compat.real_rocketmq import OLD_VERSION, VERSION

BINARY = (
    "producer.sync",
    "producer.batch",
    "producer.oneway",
    "push.concurrent",
    "push.orderly",
    "push.tags",
    "push.broadcast",
    "retry.once",
    "lite.subscribe",
    "pull.statuses",
    "group.join_and_leave",
    "query.by_key",
)

NOT_FOR_4 = (
    *(
        "admin.cluster",
        "admin.consumers",
        "admin.dead_letters",
        "admin.groups",
        "admin.messages",
        "admin.options",
        "admin.producers",
        "admin.statistics",
        "admin.topics",
        "admin.topics_named_after_cluster_and_broker",
        "batch_queue.auto_batch",
        "batch_queue.each_message_is_consumed",
        "batch_queue.one_message_comes_back",
        "codes.clients",
        "codes.name_server",
        "codes.offsets",
        "codes.permissions",
        "codes.pull",
        "codes.queries",
        "codes.send",
        "codes.send_back",
        "codes.send_batch",
        "codes.subscriptions",
        "codes.unknown_requests",
        "group.members_by_38",
        "group.queues_shared_by_the_broker",
        "group.reset_one_queue_to_an_offset",
        "group.reset_while_offline",
        "group.reset_while_online_to_a_time",
        "group.reset_while_online_to_the_beginning",
        "group.unregister_producer",
        "hold.group_has_no_member_any_more",
        "hold.group_may_not_consume_any_more",
        "hold.member_no_longer_subscribes",
        "hold.pop_from_a_topic_that_may_not_be_read_any_more",
        "hold.pop_of_a_group_that_may_not_consume_any_more",
        "hold.push_consumer_waits_until_its_group_may_consume",
        "hold.queue_may_not_be_read_any_more",
        "hold.topic_is_deleted",
        "hold.topic_may_not_be_read_any_more",
        "lite.commit_and_continue",
        "orderly.locks",
        "pop.failed_message_comes_back",
        "pop.in_order_one_member_at_a_time",
        "pop.members_share_the_messages",
        "producer.compressed_lz4",
        "producer.compressed_zlib",
        "producer.compressed_zstd",
        "push.broadcast",
        "push.heartbeat_v2",
        "push.message_between_the_first_questions",
        "push.two_topics_and_unsubscribe",
        "timer.delay_ms",
        "timer.delay_sec",
        "timer.deliver_ms",
        "timer.recall",
        "timer.too_far_away",
        "transport.garbage_harms_nobody",
        "transport.offset_id_names_the_broker",
    ),  # use classes or methods of RocketMQ 5
    # what the old client does otherwise, at each broker
    "producer.unknown_topic_without_template",
    "pull.offsets",
)

TLS = ("producer.sync", "producer.largest", "push.held_pull_is_woken", "push.orderly", "group.join_and_leave")


def assert_all_hold(results: Iterable[dict[str, Any]], at_least: int, client: str = "") -> None:
    """Every case's result is ok, and there are as many as there should be. ``client``: its column in the table of
    features, if they are all that it can run."""
    rows = list(results)
    if client:
        note_cases(client, rows)
    failures = [f"{row['name']} after {row['seconds']:.1f} s: {row['detail']}" for row in rows if not row["ok"]]
    assert not failures, f"{len(failures)} of {len(rows)} cases do not hold:\n\n" + "\n".join(failures)
    assert len(rows) >= at_least, f"only {len(rows)} cases were run"


def run_cases(server: Address, *arguments: str, version: str = VERSION) -> Iterator[dict[str, Any]]:
    """The results of all cases. Cases that fail at RocketMQ are run again, fewer at a time: on a busy machine its
    requests time out."""
    rows = [*java_program.run("cases", "--namesrv", server.namesrv, "--parallel", "16", *arguments, version=version)]
    failed = [row["name"] for row in rows if not row["ok"]]
    if failed and not server.web:
        again = java_program.run("cases", "--namesrv", server.namesrv, "--parallel", "4", *failed, version=version)
        by_name = {row["name"]: row for row in again}
        rows = [by_name.get(row["name"], row) for row in rows]
    yield from rows


def test_every_case_holds(server: Address, everything: bool) -> None:
    needs(java_program.classes)
    assert_all_hold(run_cases(server, "--slow", "1" if everything else "0"), 100, "Java 5.4.0")


@pytest.mark.covers("first-message")
def test_a_message_between_the_first_questions_of_a_new_group(server: Address) -> None:
    """It arrives at an empty queue after the answer to QUERY_CONSUMER_OFFSET and before GET_MAX_OFFSET.

    RocketMQ's broker has no offset for the group (22), so its client skips the message. GlassMQ answers 0, which was
    the queue's end at that moment.
    """
    needs(java_program.classes)
    name = "push.message_between_the_first_questions"
    [row] = java_program.run("cases", "--namesrv", server.namesrv, name)
    assert row["ok"], row
    is_glassmq = bool(server.web)
    assert row["detail"] == ("0 [0, 1]" if is_glassmq else "22 [1]")


ALONE = {
    "hold.broker_may_not_be_read_any_more": {"brokerPermission": ("6", "6")},
    "hold.lite_pulls_are_forbidden": {"litePullMessageEnable": ("true", "true")},
    "hold.short_polling": {"longPollingEnable": ("false", "true"), "shortPollingTimeMills": ("2000", "1000")},
    "timer.recalls_are_forbidden": {"recallMessageEnable": ("false", "true")},
    "transaction.not_supported": {"rejectTransactionMessage": ("true", "false")},
    "codes.system_busy": {"waitTimeMillsInSendQueue": ("1", "10000")},
    "codes.no_new_groups": {"autoCreateSubscriptionGroup": ("false", "true")},
}
"""Cases that need options with other values: name -> (value of the case, value before and after it)."""


@contextmanager
def changed_options(server: Address, options: dict[str, tuple[str, str]]) -> Iterator[None]:
    """Options of the broker with other values: name -> (value meanwhile, value afterwards)."""
    host, port = server.broker.rsplit(":", 1)

    async def change(which: int) -> None:
        lines = "".join(f"{name}={values[which]}\n" for name, values in options.items())
        client = RemotingClient(host, int(port))
        answer = await client.invoke(RequestCode.UPDATE_BROKER_CONFIG, {}, lines.encode(), timeout_s=30)
        await client.close()
        assert answer.code == 0, answer.remark

    asyncio.run(change(0))
    try:
        yield
    finally:
        asyncio.run(change(1))


@pytest.mark.covers("short-polling")
def test_cases_of_other_options(server: Address, everything: bool) -> None:
    if not everything:
        pytest.skip("takes half a minute; --compat runs it")
    needs(java_program.classes)
    rows: list[dict[str, Any]] = []
    for name, options in ALONE.items():
        with changed_options(server, options):
            rows += java_program.run("cases", "--namesrv", server.namesrv, name)
    assert_all_hold(rows, len(ALONE), "Java 5.4.0")


@pytest.mark.covers("members-reset")
def test_members_can_be_told_of_a_reset(server: Address, everything: bool) -> None:
    """The Java client follows after 10 s."""
    if not everything:
        pytest.skip("takes 20 s; --compat runs it")
    needs(java_program.classes)
    names = ("group.reset_while_online_to_the_beginning", "group.reset_while_online_to_a_time")
    with changed_options(server, {"useServerSideResetOffset": ("false", "true")}):
        assert_all_hold(java_program.run("cases", "--namesrv", server.namesrv, *names), len(names))


def test_the_old_client_goes_on(server: Address, everything: bool) -> None:
    """The Java client of RocketMQ 4.9.8."""
    if not everything:
        pytest.skip("takes 2 minutes; --compat runs it")
    needs(java_program.classes)
    rows = run_cases(server, version=OLD_VERSION)
    assert_all_hold((row for row in rows if row["name"] not in NOT_FOR_4), 90, "Java 4.9.8")


def test_headers_may_be_binary(server: Address) -> None:
    needs(java_program.classes)
    assert_all_hold(
        java_program.run("cases", "--namesrv", server.namesrv, *BINARY, options=["-Drocketmq.serialize.type=ROCKETMQ"]),
        len(BINARY),
    )


def test_tls_may_be_insisted_on() -> None:
    needs(java_program.classes)
    with glassmq(tls=True) as broker:
        assert_all_hold(
            java_program.run("cases", "--namesrv", broker.address.namesrv, *TLS, options=["-Dtls.enable=true"]),
            len(TLS),
        )

"""The stock Java client, RocketMQ 5.4.0's, unmodified. The cases are in ``java/``; each holds for RocketMQ itself."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.compat import java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address, glassmq

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

TLS = ("producer.sync", "producer.largest", "push.held_pull_is_woken", "push.orderly", "group.join_and_leave")


def assert_all_hold(results: Iterable[dict[str, Any]], at_least: int) -> None:
    """Every case's result is ok, and there are as many as there should be."""
    rows = list(results)
    failures = [f"{row['name']} after {row['seconds']:.1f} s: {row['detail']}" for row in rows if not row["ok"]]
    assert not failures, f"{len(failures)} of {len(rows)} cases do not hold:\n\n" + "\n".join(failures)
    assert len(rows) >= at_least, f"only {len(rows)} cases were run"


def test_every_case_holds(server: Address, everything: bool) -> None:
    needs(java_program.classes)
    assert_all_hold(
        java_program.run(
            "cases", "--namesrv", server.namesrv, "--parallel", "16", "--slow", "1" if everything else "0"
        ),
        100,
    )


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

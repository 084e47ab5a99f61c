"""Three brokers under one name server, from one command: stock clients use them as one, and the API shows them all."""

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat import java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import GlassMQ, glassmq
from tests.compat.real_rocketmq import brokers_of

BROKERS = ["broker-a", "broker-b", "broker-c"]
SECONDS = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[GlassMQ]:
    """They run, and the name server knows all of them."""
    needs(java_program.classes)
    with glassmq(len(BROKERS)) as brokers:
        until(lambda: brokers_of(brokers.namesrv_port, "TBW102") == BROKERS)
        yield brokers


def until(holds: Any) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, holds
        time.sleep(0.1)


def get(cluster: GlassMQ, path: str) -> Any:
    with urllib.request.urlopen(cluster.address.web + path, timeout=30) as answer:
        return json.load(answer)


def pollers_of(detail: dict[str, Any], topic: str) -> dict[str, list[str]]:
    """Who polls which of the topic's queues."""
    by_client: dict[str, list[str]] = {}
    for queue in detail["queues"]:
        if queue["topic"] == topic and queue["polled_by"]:
            by_client.setdefault(queue["polled_by"], []).append(f"{queue['broker']}/{queue['queue_id']}")
    return {client: sorted(queues) for client, queues in by_client.items()}


def test_two_members_share_the_queues_of_three_brokers(cluster: GlassMQ) -> None:
    everywhere = sorted(f"{broker}/{queue}" for broker in BROKERS for queue in range(4))
    with java_program.start_program("sharing", "--namesrv", cluster.address.namesrv, "--brokers", "3") as clients:
        line = clients.line()
        assert sorted(queue for queues in line["held"].values() for queue in queues) == everywhere
        path, topic = f"/api/v1/groups/{line['group']}", line["topic"]
        until(lambda: pollers_of(get(cluster, path), topic) == line["held"])
        assert {member["client_id"] for member in get(cluster, path)["members"]} == set(line["held"])
        brokers = get(cluster, "/api/v1/brokers")["brokers"]
        assert [broker["broker"] for broker in brokers if broker["available"]] == BROKERS
        assert all(broker["positions"]["appended"] for broker in brokers)

        clients.write_line("the second one leaves")
        line = clients.line()
        assert list(line["held"].values()) == [everywhere]
        until(lambda: pollers_of(get(cluster, path), topic) == line["held"])

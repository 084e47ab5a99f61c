"""Dead letters that are sent to their group again."""

from typing import Any

import httpx
import pytest

from api.resources import dead_letters
from bridge.port import BrokerError, commands
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import decode, encode
from tests.fakes.engine import Bench
from tests.fakes.fake_port import FakePort

PATH = "/api/v1/groups/g/dead-letters/resend"


@pytest.fixture
def bench(port: FakePort) -> Bench:
    """An engine behind the port. Group g has three dead letters."""
    bench = Bench()
    for kind in (
        commands.GetQueues,
        commands.GetConsumerGroup,
        commands.PullMessage,
        commands.SendMessage,
        commands.GetTopic,
    ):
        port.replies[kind] = bench.call
    for body in (b"one", b"two", b"three"):
        sent = bench.send("orders", body, properties=encode({"KEYS": "k"}))
        back = commands.ConsumerSendMsgBack(group="g", physical_offset=sent.messages[0].physical_offset, delay_level=-1)
        assert bench.call(back) == commands.Done()
    return bench


def retried(bench: Bench) -> list[Any]:
    pulled = bench.call(commands.PullMessage(topic="%RETRY%g", queue_id=0, queue_offset=0))
    assert isinstance(pulled, commands.Pulled)
    return decode_all(pulled.records)


async def test_messages_that_wait_for_another_try(client: httpx.AsyncClient, bench: Bench, port: FakePort) -> None:
    port.replies[commands.GetWaitingRetries] = bench.call
    sent = bench.send("orders", b"later", properties=encode({"KEYS": "k"}))
    back = commands.ConsumerSendMsgBack(group="g", physical_offset=sent.messages[0].physical_offset, delay_level=0)
    assert bench.call(back) == commands.Done()
    due_ms = bench.clock.now().wall_ms + 10_000
    body = (await client.get("/api/v1/groups/g/retries?max_body=3")).json()
    assert (body["waiting"], body["counted"], body["broker"]) == (1, True, "broker-a")
    assert body["retry_max_times"] is None  # the broker's answer is no configuration
    port.replies[commands.GetSubscriptionGroups] = bench.call
    assert (await client.get("/api/v1/groups/g/retries")).json()["retry_max_times"] == 16
    [retry] = body["retries"]
    assert (retry["due_ms"], retry["message"]["body"], retry["message"]["reconsume_times"]) == (due_ms, "lat", 1)
    assert retry["message"]["properties"]["RETRY_TOPIC"] == "orders"
    assert (await client.get("/api/v1/groups/nobody/retries")).status_code == 404
    assert (await client.get("/api/v1/groups/g/retries?limit=65")).status_code == 400


async def test_waiting_messages_come_in_pages(
    client: httpx.AsyncClient, bench: Bench, port: FakePort, monkeypatch: pytest.MonkeyPatch
) -> None:
    port.replies[commands.GetWaitingRetries] = bench.call
    for body in (b"one", b"two", b"three"):
        sent = bench.send("orders", body)
        physical_offset = sent.messages[0].physical_offset
        bench.call(commands.ConsumerSendMsgBack(group="g", physical_offset=physical_offset, delay_level=0))

    async def bodies(limit: int) -> list[list[str]]:
        answers = [(await client.get(f"/api/v1/groups/g/retries?limit={limit}")).json()]
        while "next" in answers[-1]:
            query = {"limit": limit, "after": answers[-1]["next"]}
            answers.append((await client.get("/api/v1/groups/g/retries", params=query)).json())
        return [[retry["message"]["body"] for retry in answer["retries"]] for answer in answers]

    assert await bodies(3) == [["one", "two", "three"]]
    assert await bodies(2) == [["one", "two"], ["three"]]
    shown = dead_letters.render_messages
    monkeypatch.setattr(dead_letters, "render_messages", lambda stored, max_body: shown(stored, 3, max_body))
    assert await bodies(3) == [["one"], ["two"], ["three"]], "a page ends before a body that has no room"
    for after in ("x", "1.2", "1.2.3.4"):
        assert (await client.get(f"/api/v1/groups/g/retries?after={after}")).status_code == 400


async def test_a_preview_counts_and_changes_nothing(client: httpx.AsyncClient, bench: Bench) -> None:
    answer = (await client.post(PATH, json={"dry_run": True})).json()
    assert answer == {
        "broker": "broker-a",
        "group": "g",
        "dry_run": True,
        "messages": 3,
        "left_out": 0,
        "next_offset": 3,
        "to_offset": 3,
    }
    assert retried(bench) == []


async def test_all_or_one_go_to_the_retry_topic_of_the_group(client: httpx.AsyncClient, bench: Bench) -> None:
    one = (await client.post(PATH, json={"from_offset": 1, "to_offset": 2})).json()
    assert (one["messages"], one["next_offset"], one["to_offset"]) == (1, 2, 2)
    (record,) = retried(bench)
    properties = decode(record.properties)
    assert (record.body, record.reconsume_times) == (b"two", 0)
    assert (properties["RETRY_TOPIC"], properties["KEYS"]) == ("orders", "k")
    assert "DELAY" not in properties and "ORIGIN_MESSAGE_ID" in properties
    everything = (await client.post(PATH, json={})).json()
    assert (everything["messages"], everything["next_offset"]) == (3, 3)
    assert [record.body for record in retried(bench)] == [b"two", b"one", b"two", b"three"]


async def test_a_request_sends_as_many_as_one_pull_returns(client: httpx.AsyncClient, bench: Bench) -> None:
    physical_offset = bench.send("orders", b"more").messages[0].physical_offset
    for _ in range(40):
        bench.call(commands.ConsumerSendMsgBack(group="g", physical_offset=physical_offset, delay_level=-1))
    first = (await client.post(PATH, json={})).json()
    assert (first["messages"], first["next_offset"], first["to_offset"]) == (32, 32, 43)
    rest = (await client.post(PATH, json={"from_offset": 32, "to_offset": 43})).json()
    assert (rest["messages"], rest["next_offset"]) == (11, 43)


async def test_after_an_error_the_next_request_begins_there(
    client: httpx.AsyncClient, bench: Bench, port: FakePort
) -> None:
    sends = iter([bench.call, lambda command: BrokerError("the disk is full")])
    port.replies[commands.SendMessage] = lambda command: next(sends)(command)
    answer = (await client.post(PATH, json={})).json()
    assert (answer["messages"], answer["next_offset"]) == (1, 1)
    port.replies[commands.SendMessage] = BrokerError("the disk is full")
    assert (await client.post(PATH, json={"from_offset": 1})).status_code >= 500


async def test_a_group_that_consumes_in_order_is_refused(
    client: httpx.AsyncClient, bench: Bench, port: FakePort
) -> None:
    queue = commands.MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)
    bench.call(commands.LockBatchMq(group="g", client_id="c", queues=[queue]))
    bench.pull("orders", 3)
    answer = await client.post(PATH, json={})
    assert answer.status_code == 409 and "consumes in order" in answer.json()["detail"]


async def test_a_group_without_dead_letters_is_404(client: httpx.AsyncClient, bench: Bench) -> None:
    answer = await client.post("/api/v1/groups/other/dead-letters/resend", json={})
    assert (answer.status_code, answer.json()["detail"]) == (404, "group other has no dead letters")

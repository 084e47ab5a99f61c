"""Answers that are not what they should be. The others are in the tests of producers and consumers."""

import asyncio
from typing import Any

import pytest

from broker_core.client.mq_client_api import MQClientAPI, parse_address
from broker_core.client.mq_client_exception import MQBrokerException, MQClientException
from broker_core.commands import MessageQueue
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.send import SendMessageRequestHeaderV2
from tests.fakes.virtual_cluster import Link, VirtualCluster, run_virtually

QUEUE = MessageQueue(topic="T", broker_name="a", queue_id=3)
HEADER = SendMessageRequestHeaderV2("pg", "T", "TBW102", 4, 3, 0, 0, 0)


class Scripted:
    """A server that answers every request the same."""

    def __init__(self, link: Link, code: int, fields: dict[str, str], body: bytes) -> None:
        self.link, self.answer = link, (code, "why", fields, body)

    def receive(self, commands: list[RemotingCommand]) -> None:
        for command in commands:
            self.link.send(command.response(*self.answer).encode())

    def closed(self) -> None:
        pass


def call(name: str, *arguments: Any, code: int = 0, fields: dict[str, str] | None = None, body: bytes = b"") -> Any:
    """The result of a call whose request is answered so."""

    async def story(cluster: VirtualCluster) -> Any:
        cluster.loop.servers["h:1"] = lambda link: Scripted(link, code, fields or {}, body)
        api = MQClientAPI(lambda address, request: None)
        try:
            return await getattr(api, name)("h:1", *arguments)
        finally:
            await api.close()

    return run_virtually(story)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_topic_route_info", ("T",)),
        ("send_message", (QUEUE, HEADER, b"x", 1.0)),
        ("query_consumer_offset", ("g", QUEUE)),
        ("update_consumer_offset", ("g", QUEUE, 5)),
        ("get_max_offset", (QUEUE,)),
        ("search_offset", (QUEUE, 5)),
        ("get_consumer_id_list", ("g",)),
    ],
)
def test_refusals_and_answers_that_cannot_be_read(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(MQBrokerException, match=r"h:1 answered SERVICE_NOT_AVAILABLE \(14\): why"):
        call(name, *arguments, code=14)
    if name != "update_consumer_offset":
        with pytest.raises(MQBrokerException, match="the answer cannot be read"):
            call(name, *arguments, fields={"offset": "many"}, body=b"{")


def test_a_missing_route_or_offset_is_none() -> None:
    assert call("get_topic_route_info", "T", code=17) is None
    assert call("query_consumer_offset", "g", QUEUE, code=22) is None
    assert call("query_consumer_offset", "g", QUEUE, fields={"offset": "-1"}) is None
    assert call("query_consumer_offset", "g", QUEUE, fields={"offset": "0"}) == 0


def test_a_message_that_is_stored_less_safely_says_so() -> None:
    fields = {"msgId": "ID", "queueId": "2", "queueOffset": "9", "transactionId": "KEY"}
    result = call("send_message", QUEUE, HEADER, b"x", 1.0, code=10, fields=fields)
    assert result == ("FLUSH_DISK_TIMEOUT", "", MessageQueue(topic="T", broker_name="a", queue_id=2), 9, "ID", "")


def test_addresses() -> None:
    assert parse_address("127.0.0.1:9876") == ("127.0.0.1", 9876)
    assert parse_address(" [::1]:1 ") == ("::1", 1)
    for text in ("", "a", "a:", ":1", "a:0", "a:65536", "a:-1", "a:1x", "a:１"):  # noqa: RUF001  # a wide digit
        with pytest.raises(MQClientException, match="write host:port"):
            parse_address(text)


def test_connections_that_are_not_needed_are_closed() -> None:
    async def story(cluster: VirtualCluster) -> None:
        links: dict[str, Link] = {}
        for address in ("a:1", "b:1"):
            cluster.loop.servers[address] = lambda link, address=address: (
                links.setdefault(address, link) and Scripted(link, 0, {}, b"")
            )
        api = MQClientAPI(lambda address, request: None)
        for address in ("a:1", "b:1"):
            await api.connection(address).invoke(1, {})
        await api.close_others({"a:1"})
        assert (links["a:1"].is_closing(), links["b:1"].is_closing()) == (False, True)
        assert api.connection("a:1").connected and not api.connection("b:1").connected
        assert api.unmatched_answers == 0
        await api.close()
        await asyncio.sleep(0)
        assert links["a:1"].is_closing()

    run_virtually(story)

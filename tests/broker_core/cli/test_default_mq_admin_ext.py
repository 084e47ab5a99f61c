"""RocketMQ's requests for administrators, at a real broker and at one with odd answers."""

from collections.abc import AsyncIterator

import pytest

from broker_core.cli.default_mq_admin_ext import DefaultMQAdminExt, _is_popped
from broker_core.client import MQBrokerException, MQClientException
from broker_core.codes import RequestCode
from broker_core.commands import MessageQueue
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.testing.running_broker import RunningBroker

CLUSTER_INFO = b'{"brokerAddrTable":{"b":{"brokerAddrs":{%b},"brokerName":"b","cluster":"c"}},"clusterAddrTable":{}}'


@pytest.fixture
async def admin(broker: RunningBroker) -> AsyncIterator[DefaultMQAdminExt]:
    async with DefaultMQAdminExt(f"127.0.0.1:1; {broker.namesrv_addr}") as admin:
        yield admin


async def test_the_second_name_server_answers_for_the_first(admin: DefaultMQAdminExt, broker: RunningBroker) -> None:
    assert await admin.masters() == {"broker-a": broker.broker_addr}


async def test_ends_and_offsets_of_queues(admin: DefaultMQAdminExt, broker: RunningBroker) -> None:
    broker.create_topic("ends", 1)
    queue = MessageQueue(topic="ends", broker_name="broker-a", queue_id=0)
    (ends,) = (await admin.examine_topic_stats("ends")).values()
    assert (ends.min_offset, ends.max_offset, ends.last_update_timestamp) == (0, 0, 0)
    address = (await admin.topic_masters("ends"))["broker-a"]
    await admin.call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"ends-g"}')
    await admin.update_consumer_offset(address, "ends-g", queue, 0)
    assert {queue: 0} == {
        queue: offsets.lag for queue, offsets in (await admin.examine_consume_stats("ends-g")).items()
    }
    assert "ends-g" in await admin.consumer_groups()
    assert await admin.search_offset(address, queue, 1) == await admin.max_offset(address, queue) == 0


async def test_a_topic_of_popped_messages_is_no_group(admin: DefaultMQAdminExt, broker: RunningBroker) -> None:
    address = broker.broker_addr
    await admin.call(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b'{"groupName":"pop_g"}')
    for name in ("popped", "%RETRY%pop_g_popped", "%RETRY%pop_g", "%RETRY%pop_g_other"):
        broker.create_topic(name, 1)
    found = {name for name in await admin.consumer_groups() if name.startswith("pop_g")}
    assert found == {"pop_g", "pop_g_other"}
    assert _is_popped("pop_g+popped", {"pop_g"}, {"popped"})


async def test_what_is_unknown_is_empty_or_an_error(admin: DefaultMQAdminExt) -> None:
    assert await admin.examine_consume_stats("nobody") == {}
    assert await admin.examine_consumer_connection_info("nobody") is None
    assert await admin.query_message("TBW102", "no-key") == []
    with pytest.raises(MQBrokerException):
        await admin.topic_masters("no-topic")
    with pytest.raises(MQBrokerException, match=r"no broker is registered as 10\.0\.0\.1:10911"):
        await admin.view_message("0A00000100002A9F0000000000000000")


class Answers(DefaultMQAdminExt):
    """Gets this body to every request."""

    body = b""

    async def call(self, address: str, code: RequestCode, body: bytes = b"", /, **fields: object) -> RemotingCommand:
        return RemotingCommand(0, {}, self.body)


@pytest.mark.parametrize(
    ("addresses", "masters"),
    [
        (b'0:"h:1",1:"h:2"', {"b": "h:1"}),
        (b'"0":"h:1"', {"b": "h:1"}),
    ],
)
async def test_broker_ids_may_be_in_quotes(addresses: bytes, masters: dict[str, str]) -> None:
    admin = Answers("h:1")
    admin.body = CLUSTER_INFO % addresses
    assert await admin.masters() == masters


async def test_a_cluster_without_masters() -> None:
    admin = Answers("h:1")
    admin.body = CLUSTER_INFO % b'1:"h:2"'
    with pytest.raises(MQClientException, match="the name server knows no broker"):
        await admin.masters()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:3}}'])
async def test_an_answer_that_cannot_be_read(body: bytes) -> None:
    admin = Answers("h:1")
    admin.masters = lambda: _masters()  # type: ignore[method-assign]
    admin.body = body
    with pytest.raises(MQBrokerException, match="the answer cannot be read"):
        await admin.examine_consume_stats("g")


async def _masters() -> dict[str, str]:
    return {"b": "h:1"}

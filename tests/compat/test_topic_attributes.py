"""The attributes of topics and groups, and priorities: what a request is answered is the same for any broker."""

import json
import time
from collections.abc import Iterable

from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from broker_core.formats.commit_log_record import decode_all
from broker_core.remoting.remoting_command import RemotingCommand
from tests.compat.glassmq_broker import Address


async def update(client: RemotingClient, topic: str, attributes: str) -> RemotingCommand:
    fields = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": attributes,
    }
    return await client.invoke(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, timeout_s=60)


async def send(client: RemotingClient, topic: str, properties: str, body: bytes) -> int:
    """Send to queue 1; returns the queue of the answer."""
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "0", "h": "0", "i": properties}
    answer = await client.invoke(RequestCode.SEND_MESSAGE_V2, letters, body, timeout_s=60)
    assert answer.code == 0, answer.remark
    return int(answer.ext_fields["queueId"])


async def pop(client: RemotingClient, topic: str) -> Iterable[bytes]:
    """The bodies of a pop of one message."""
    fields = {
        "consumerGroup": f"{topic}-group",
        "topic": topic,
        "queueId": "-1",
        "maxMsgNums": "1",
        "invisibleTime": "60000",
        "pollTime": "5000",
        "bornTime": str(int(time.time() * 1000)),
        "initMode": "0",
        "expType": "TAG",
        "exp": "*",
        "order": "false",
    }
    answer = await client.invoke(RequestCode.POP_MESSAGE, fields, timeout_s=60)
    assert answer.code == 0, answer.remark
    return [record.body for record in decode_all(answer.body)]


def client_of(server: Address) -> RemotingClient:
    host, _, port = server.broker.rpartition(":")
    return RemotingClient(host, int(port))


async def test_attributes_are_refused_for_the_same_reasons(server: Address) -> None:
    client = client_of(server)
    try:
        for attributes, code, words in (
            ("+message.type=MIXED", 29, "MIXED message type is not supported."),
            ("+message.type=LITE", 1, "value is not in set:"),
            ("+other=1", 1, "unsupported key: other"),
            ("-message.type", 1, "only add attribute is supported while creating topic. key: message.type"),
            ("+message.type=FIFO,+queue.type=SimpleCQ", 0, ""),
            ("+queue.type=SimpleCQ", 1, "attempt to update an unchangeable attribute. key: queue.type"),
            ("-queue.type", 1, "attempt to update an unchangeable attribute. key: queue.type"),
            ("-cleanup.policy", 1, "attempt to delete a nonexistent key: cleanup.policy"),
            ("+message.type=DELAY", 0, ""),
            ("-message.type", 0, ""),
        ):
            answer = await update(client, "attributes", attributes)
            assert (answer.code, words in (answer.remark or "")) == (code, True), (attributes, answer.remark)
    finally:
        await client.close()


async def test_attributes_of_groups_are_refused_for_the_same_reasons(server: Address) -> None:
    client = client_of(server)
    try:
        for attributes, code, words in (
            ({"-priority.factor": ""}, 1, "only add attribute is supported while creating topic. key: priority.factor"),
            ({"priority.factor": "1"}, 1, "only add attribute is supported while creating topic. key: riority.factor"),
            ({"+other": "1"}, 1, "unsupported key: other"),
            ({"+priority.factor": "101"}, 1, "value is not in range(0, 100)"),
            ({"+priority.factor": "many"}, 1, "For input string: "),
            ({"+priority.factor": 50}, 0, ""),
            ({"priority.factor": "1"}, 1, "wrong format key: riority.factor"),
            ({"-other": ""}, 1, "attempt to delete a nonexistent key: other"),
            ({"+priority.factor": "1", "-priority.factor": ""}, 1, "alter duplication key. key: priority.factor"),
            ({"+a-b": "1"}, 1, "kv string format wrong."),
            ({"-priority.factor": ""}, 0, ""),
        ):
            body = json.dumps({"groupName": "attributes", "attributes": attributes}).encode()
            answer = await client.invoke(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body, timeout_s=60)
            assert (answer.code, words in (answer.remark or "")) == (code, True), (attributes, answer.remark)
    finally:
        await client.close()


async def test_a_priority_is_a_queue_and_the_highest_is_popped_first(server: Address) -> None:
    client = client_of(server)
    try:
        answer = await update(client, "priorities", "+message.type=PRIORITY")
        assert answer.code == 0, answer.remark
        for priority, queue_id in (("0", 0), ("2", 2), ("9", 3), ("-1", 1)):
            body = priority.encode()
            assert await send(client, "priorities", f"_SYS_MSG_PRIORITY_\x01{priority}\x02", body) == queue_id
        ordered = "_SYS_MSG_PRIORITY_\x013\x02__SHARDINGKEY\x01k\x02"
        assert await send(client, "ordered", ordered, b"x") == 1
        popped = [body for _ in range(4) for body in await pop(client, "priorities")]
        assert popped == [b"9", b"2", b"-1", b"0"]
    finally:
        await client.close()

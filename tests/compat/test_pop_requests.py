"""The requests of consumers that pop, not in order: what they are answered is the same for any broker."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from broker_core.formats.commit_log_record import decode_all
from broker_core.remoting.remoting_command import RemotingCommand
from tests.compat.glassmq_broker import Address

GROUP = "popping"
COMES_BACK_S = 50
"""RocketMQ gives messages again 1 to 3 s after their invisible time; a busy machine takes longer."""


class Popped(NamedTuple):
    """The answer to a pop that found messages of one queue."""

    bodies: list[str]
    kind: str
    queue_id: str
    start: int
    offsets: list[int]
    fields: dict[str, str]


class Member:
    """A client that pops from one topic with one queue."""

    def __init__(self, client: RemotingClient, topic: str) -> None:
        self.client = client
        self.topic = topic

    async def ask(self, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        answer = await self.client.invoke(code, fields, body, timeout_s=40)
        assert answer.code == 0, answer.remark
        return answer

    async def send(self, *bodies: str) -> None:
        wanted = await self.end() + len(bodies)
        for body in bodies:
            letters = {"a": "p", "b": self.topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0"}
            await self.ask(RequestCode.SEND_MESSAGE_V2, letters | {"i": ""}, body.encode())
        end = time.monotonic() + 60
        while await self.end() < wanted:  # RocketMQ dispatches in a thread of its own
            assert time.monotonic() < end
            await asyncio.sleep(0.05)

    async def end(self) -> int:
        answer = await self.ask(RequestCode.GET_MAX_OFFSET, {"topic": self.topic, "queueId": "0"})
        return int(answer.ext_fields["offset"])

    def wait_fields(self, queue_id: int, poll_ms: int) -> dict[str, str]:
        fields = {"consumerGroup": GROUP, "topic": self.topic, "queueId": str(queue_id), "pollTime": str(poll_ms)}
        return fields | {"bornTime": str(int(time.time() * 1000))}

    async def pop_raw(self, n: int, invisible_ms: int, poll_ms: int = 0) -> RemotingCommand:
        fields = self.wait_fields(-1, poll_ms) | {"maxMsgNums": str(n), "invisibleTime": str(invisible_ms)}
        fields |= {"initMode": "0", "order": "false", "expType": "TAG", "exp": "*"}
        return await self.client.invoke(RequestCode.POP_MESSAGE, fields, timeout_s=40)

    async def pop(self, n: int = 32, invisible_ms: int = 60_000) -> Popped:
        answer = await self.pop_raw(n, invisible_ms)
        assert answer.code == 0, answer.remark
        kind, queue_id, start = answer.ext_fields["startOffsetInfo"].split(" ")
        _, _, offsets = answer.ext_fields["msgOffsetInfo"].split(" ")
        bodies = [record.body.decode() for record in decode_all(answer.body)]
        return Popped(bodies, kind, queue_id, int(start), [int(n) for n in offsets.split(",")], answer.ext_fields)

    async def come_back(self, *wanted: str) -> list[str]:
        """What pops get until these messages have come, and for 3 s more. They acknowledge nothing."""
        bodies: list[str] = []
        end = time.monotonic() + COMES_BACK_S
        while time.monotonic() < end:
            answer = await self.pop_raw(32, 60_000)
            if answer.code == 0:
                bodies += [record.body.decode() for record in decode_all(answer.body)]
                if set(wanted) <= set(bodies):
                    end = min(end, time.monotonic() + 3)
            await asyncio.sleep(0.2)
        return sorted(bodies)

    def handle(self, popped: Popped, offset: int, info: str = "") -> dict[str, str]:
        """The fields that name a popped message."""
        fields = popped.fields
        words = [popped.start, fields["popTime"], fields["invisibleTime"], fields["reviveQid"], popped.kind]
        info = info or " ".join(map(str, [*words, "broker-a", popped.queue_id, offset]))
        place = {"consumerGroup": GROUP, "topic": self.topic, "queueId": popped.queue_id, "offset": str(offset)}
        return place | {"extraInfo": info}

    async def notified(self, poll_ms: int = 0) -> tuple[str, str]:
        answer = await self.ask(RequestCode.NOTIFICATION, self.wait_fields(-1, poll_ms))
        return answer.ext_fields["hasMsg"], answer.ext_fields["pollingFull"]

    async def polling(self, queue_id: int) -> str:
        fields = {"consumerGroup": GROUP, "topic": self.topic, "queueId": str(queue_id)}
        return (await self.ask(RequestCode.POLLING_INFO, fields)).ext_fields["pollingNum"]

    async def peek(self, n: int) -> tuple[int, list[str], str]:
        """The code, the messages, and how many there are."""
        fields = {"consumerGroup": GROUP, "topic": self.topic, "queueId": "-1", "maxMsgNums": str(n)}
        answer = await self.client.invoke(RequestCode.PEEK_MESSAGE, fields, timeout_s=60)
        return answer.code, [r.body.decode() for r in decode_all(answer.body)], answer.ext_fields.get("restNum", "")


@asynccontextmanager
async def member(server: Address, topic: str) -> AsyncIterator[Member]:
    """A member of the group for a new topic."""
    host, _, port = server.broker.rpartition(":")
    client = RemotingClient(host, int(port))
    made = Member(client, topic)
    try:
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
        fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        await made.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        yield made
    finally:
        await client.close()


async def test_a_notification_says_whether_a_pop_would_get_a_message(server: Address) -> None:
    async with member(server, "notified") as one:
        await one.send("a")
        assert await one.notified() == ("true", "false")
        assert (await one.pop()).bodies == ["a"]
        assert await one.notified() == await one.notified(1000) == ("false", "false")
        held = asyncio.create_task(one.notified(35_000))
        await asyncio.sleep(0.5)
        begin = time.monotonic()
        await one.send("b")
        assert await held == ("true", "false")
        assert time.monotonic() - begin < 30, "the message woke it"
        assert (await one.pop()).bodies == ["b"]


async def test_polling_info_counts_the_pops_that_wait(server: Address) -> None:
    async with member(server, "polling") as one:
        await one.send("a")
        assert (await one.pop()).bodies == ["a"]
        assert (await one.polling(-1), await one.polling(0)) == ("0", "0")
        held = asyncio.create_task(one.pop_raw(1, 60_000, 35_000))
        end = time.monotonic() + 60
        while await one.polling(-1) == "0":
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        assert (await one.polling(-1), await one.polling(0)) == ("1", "0"), "it waits for all queues"
        await one.send("b")
        assert [record.body for record in decode_all((await held).body)] == [b"b"]
        assert await one.polling(-1) == "0"


async def test_a_peek_shows_messages_and_takes_none(server: Address) -> None:
    async with member(server, "peeked") as one:
        await one.send("a", "b", "c")
        assert (await one.pop(1)).bodies == ["a"]
        assert await one.peek(1) == await one.peek(1) == (0, ["b"], "2")
        assert (await one.peek(32))[:2] == (0, ["b", "c"])
        assert (await one.pop()).bodies == ["b", "c"]
        assert (await one.peek(32))[:2] == (19, [])
        await one.send("d")
        assert await one.peek(1000) == (0, ["d"], "1")


async def test_a_batch_acknowledges_some_messages_of_a_pop(server: Address) -> None:
    async with member(server, "batch-acknowledged") as one:
        await one.send("a", "b", "c", "d")
        popped = await one.pop(invisible_ms=5000)
        assert (popped.bodies, popped.kind, popped.offsets) == (["a", "b", "c", "d"], "0", [0, 1, 2, 3])
        ack = {"c": GROUP, "t": one.topic, "so": popped.start, "q": 0, "pt": int(popped.fields["popTime"])}
        ack |= {"it": 5000, "r": "0", "rq": int(popped.fields["reviveQid"])}
        bits = [base64.b64encode(bytes([number])).decode() for number in (0b0001, 0b0100)]
        body = json.dumps({"brokerName": "broker-a", "acks": [ack | {"b": bit} for bit in bits]}).encode()
        await one.ask(RequestCode.BATCH_ACK_MESSAGE, {}, body)
        assert await one.come_back("b", "d") == ["b", "d"]


async def test_an_invisible_time_is_changed(server: Address) -> None:
    async with member(server, "changed") as one:
        await one.send("a", "b")
        popped = await one.pop(invisible_ms=300_000)
        assert popped.bodies == ["a", "b"]
        changed = await one.ask(
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME, one.handle(popped, 0) | {"invisibleTime": "2000"}
        )
        assert changed.ext_fields["invisibleTime"] == "2000"
        assert int(changed.ext_fields["popTime"]) >= int(popped.fields["popTime"])
        assert await one.come_back("a") == ["a"], "the other one keeps its time"


async def test_a_changed_invisible_time_gives_the_message_another_handle(server: Address) -> None:
    async with member(server, "changed-handle") as one:
        await one.send("a", "b")
        popped = await one.pop(invisible_ms=6000)
        fields = (
            await one.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, one.handle(popped, 1) | {"invisibleTime": "7000"})
        ).ext_fields
        info = f"1 {fields['popTime']} 7000 {fields['reviveQid']} 0 broker-a 0 1"
        await one.ask(RequestCode.ACK_MESSAGE, one.handle(popped, 1, info))
        assert await one.come_back("a") == ["a"]


async def test_what_is_refused(server: Address) -> None:
    async with member(server, "refused-pops") as one:
        await one.send("a", "b")
        popped = await one.pop()

        async def code(number: RequestCode, **more: str) -> int:
            fields = one.handle(popped, 0) | {"invisibleTime": "60000"} | more
            return (await one.client.invoke(number, fields, timeout_s=60)).code

        for number in (RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME):
            assert await code(number, topic="unknown") == 17
            assert await code(number, queueId="7", extraInfo="0 1 60000 0 0 broker-a 7 0") == 13
            assert await code(number, offset="99", extraInfo="0 1 60000 0 0 broker-a 0 99") == 208
        wrong = f"0 {int(popped.fields['popTime']) - 1} 60000 0 0 broker-a 0 0"
        assert await code(RequestCode.ACK_MESSAGE, extraInfo=wrong) == 0, "it acknowledges nothing"
        assert (await one.client.invoke(RequestCode.BATCH_ACK_MESSAGE, {}, b'{"acks":[]}', timeout_s=60)).code == 208


async def test_an_extra_info_of_another_message_than_the_request_names(server: Address) -> None:
    """A difference: RocketMQ acknowledges the message of the request."""
    async with member(server, "two-messages") as one:
        await one.send("a", "b")
        popped = await one.pop(invisible_ms=2000)
        of_a = one.handle(popped, 0)["extraInfo"]
        code = (await one.client.invoke(RequestCode.ACK_MESSAGE, one.handle(popped, 1, of_a), timeout_s=60)).code
        is_glassmq = bool(server.web)
        assert code == (29 if is_glassmq else 0)
        wanted = ["a", "b"] if is_glassmq else ["a"]
        assert await one.come_back(*wanted) == wanted

"""Pops in order: what requests are answered is the same for any broker."""

import asyncio
import base64
import json
import time
from typing import NamedTuple

from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from broker_core.formats.commit_log_record import decode_all
from broker_core.remoting.remoting_command import RemotingCommand
from tests.compat.glassmq_broker import Address

GROUP = "in-order"


class Popped(NamedTuple):
    """The answer to a pop of the one queue of a topic."""

    code: int
    bodies: list[str]
    rest: str
    counts: str
    pop_time: str


class Member:
    """A client that pops from one topic in order."""

    def __init__(self, client: RemotingClient, topic: str) -> None:
        self._client = client
        self._topic = topic

    async def create(self, *bodies: str) -> None:
        fields = {"topic": self._topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
        fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        await self._ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        for body in bodies:
            letters = {"a": "p", "b": self._topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0"}
            await self._ask(RequestCode.SEND_MESSAGE_V2, letters | {"i": ""}, body.encode())

    async def _ask(self, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        answer = await self._client.invoke(code, fields, body, timeout_s=30)
        assert answer.code == 0, answer.remark
        return answer

    async def pop(self, n: int = 3, attempt: str = "", invisible_ms: int = 60_000, poll_ms: int = 0) -> Popped:
        fields = {"consumerGroup": GROUP, "topic": self._topic, "queueId": "-1", "maxMsgNums": str(n)}
        fields |= {"invisibleTime": str(invisible_ms), "pollTime": str(poll_ms), "initMode": "0", "order": "true"}
        fields |= {"bornTime": str(int(time.time() * 1000)), "expType": "TAG", "exp": "*"}
        if attempt:
            fields["attemptId"] = attempt
        answer = await self._client.invoke(RequestCode.POP_MESSAGE, fields, timeout_s=30)
        of_answer = answer.ext_fields
        assert of_answer["reviveQid"] == "999"
        return Popped(
            answer.code,
            [record.body.decode() for record in decode_all(answer.body)],
            of_answer["restNum"],
            of_answer["orderCountInfo"],
            of_answer["popTime"],
        )

    def _handle(self, popped: Popped, offset: int) -> dict[str, str]:
        info = f"{offset} {popped.pop_time} 60000 999 0 broker-a 0 {offset}"
        place = {"consumerGroup": GROUP, "topic": self._topic, "queueId": "0", "offset": str(offset)}
        return place | {"extraInfo": info}

    async def ack(self, popped: Popped, offset: int) -> tuple[int, int]:
        """Returns the code of the answer, and the group's offset then."""
        answer = await self._client.invoke(RequestCode.ACK_MESSAGE, self._handle(popped, offset), timeout_s=60)
        return answer.code, await self.offset()

    async def ack_all(self, popped: Popped, start: int, bits: int) -> int:
        """A batch; returns the group's offset then."""
        ack = {"c": GROUP, "t": self._topic, "so": start, "q": 0, "pt": int(popped.pop_time), "it": 60_000}
        ack |= {"r": "0", "rq": 999, "b": base64.b64encode(bytes([bits])).decode()}
        body = json.dumps({"brokerName": "broker-a", "acks": [ack]}).encode()
        await self._ask(RequestCode.BATCH_ACK_MESSAGE, {}, body)
        return await self.offset()

    async def change(self, popped: Popped, offset: int, invisible_ms: int) -> dict[str, str]:
        fields = self._handle(popped, offset) | {"invisibleTime": str(invisible_ms)}
        return (await self._ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)).ext_fields

    async def has_message(self, attempt: str) -> str:
        fields = {"consumerGroup": GROUP, "topic": self._topic, "queueId": "-1", "pollTime": "0", "order": "true"}
        fields |= {"bornTime": str(int(time.time() * 1000)), "attemptId": attempt}
        return (await self._ask(RequestCode.NOTIFICATION, fields)).ext_fields["hasMsg"]

    async def offset(self) -> int:
        fields = {"consumerGroup": GROUP, "topic": self._topic, "queueId": "0"}
        return int((await self._ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)).ext_fields["offset"])


async def test_a_queue_is_handed_out_to_one_member_at_a_time(server: Address) -> None:
    host, _, port = server.broker.rpartition(":")
    clients = [RemotingClient(host, int(port)) for _ in range(2)]
    one, two = (Member(client, "one-at-a-time") for client in clients)
    try:
        await one.create(*map(str, range(8)))
        first = await one.pop(attempt="a")
        assert (first.code, first.bodies, first.rest, first.counts) == (0, ["0", "1", "2"], "5", "0 0 0")
        assert (await two.pop(attempt="b"))[:4] == (await two.pop())[:4] == (210, [], "0", "")
        again = await one.pop(attempt="a")
        assert (again.bodies, again.counts) == (["0", "1", "2"], "0 0 0")
        assert await one.ack(first, 0) == (0, 0), "of an earlier pop"
        assert await one.ack(again, 1) == (0, 0)
        assert await one.ack(again, 0) == await one.ack(again, 0) == (0, 2)
        assert (await two.has_message("b"), await one.has_message("a")) == ("false", "true")
        assert await one.ack(again, 99) == (208, 2)
        assert await one.ack(again, 7) == (13, 2)
        held = asyncio.create_task(two.pop(attempt="b", poll_ms=20_000))
        assert await one.ack(again, 2) == (0, 3)
        second = await held
        assert (second.bodies, second.counts, second.rest) == (["3", "4", "5"], "0 0 0", "2")
        changed = await two.change(second, 3, 100)
        assert (changed["popTime"], changed["reviveQid"]) == (second.pop_time, "999")
        assert int(changed["invisibleTime"]) >= 100
        assert await two.ack_all(second, 3, 0b110) == 3
        while not (third := await one.pop(attempt="c", poll_ms=100)).bodies:
            pass
        assert third.bodies == ["3", "4", "5"], "what was acknowledged behind it comes again"
        assert third.counts == "0 qo0%3 1;0 qo0%4 1;0 qo0%5 1;0 0 1"
        assert await one.ack_all(third, 3, 0b111) == 6
    finally:
        for client in clients:
            await client.close()


async def test_a_held_pop_gets_the_queue_when_its_time_is_over(server: Address) -> None:
    host, _, port = server.broker.rpartition(":")
    client = RemotingClient(host, int(port))
    member = Member(client, "time-is-over")
    try:
        await member.create("a", "b", "c")
        first = await member.pop(n=2, invisible_ms=1000)
        second = await member.pop(n=3, poll_ms=20_000)
        assert (first.bodies, second.bodies) == (["a", "b"], ["a", "b", "c"])
        assert second.counts == "0 qo0%0 1;0 qo0%1 1;0 0 0"
        assert await member.ack(first, 0) == (0, 0), "of an earlier pop"
    finally:
        await client.close()

"""What is pending goes on at the other broker: half messages, op messages, check points, acknowledgements."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from broker_core.engine import Engine
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_id import decode_offset_message_id
from broker_core.formats.message_properties import encode
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.store.config_tables import load_table
from broker_core.store.files import RealFiles
from broker_core.store.transactional_message_service import HALF_TOPIC
from tests.compat.conftest import needs
from tests.compat.real_rocketmq import RealRocketMQ, jars
from tests.compat.test_there_and_back import CLOCK, call, our_engine
from tests.compat.test_timer_store import let_pass
from tests.fakes.engine import context_of
from tests.fakes.transactions import ending

BOUGHT, POPPED = "bought", "popped"
DECISIONS: dict[str, Any] = {"committed": "commit", "rolled back": "rollback"}
COMES_BACK_S = 90
INVISIBLE_MS = 30_000
"""Long enough for the other broker to start, as a rule; nothing depends on that."""
EMPTY: dict[str, Any] = {"offsetTable": {}}
COMMIT, ROLLBACK = "8", "12"


# --- at GlassMQ -------------------------------------------------------------------------------------------------------


def create(engine: Engine) -> None:
    for topic in (BOUGHT, POPPED):
        call(engine, c.UpdateAndCreateTopic(topic=topic, read_queues=1, write_queues=1))


def our_half(engine: Engine, body: str) -> c.SentMessage:
    properties = encode({"TRAN_MSG": "true", "PGROUP": "pg"})
    message = c.OutgoingMessage(body=body.encode(), properties=properties, queue_id=0, sys_flag=4)
    reply = call(engine, c.SendMessage(topic=BOUGHT, messages=[message]))
    assert isinstance(reply, c.Sent), reply
    return reply.messages[0]


def our_pop(engine: Engine) -> tuple[list[str], c.Popped]:
    reply = call(engine, c.PopMessage(topic=POPPED, consumer_group="g", invisible_ms=INVISIBLE_MS))
    assert isinstance(reply, c.Popped), reply
    return [record.body.decode() for record in decode_all(reply.records)], reply


def our_pops(engine: Engine, wanted: set[str]) -> set[str]:
    """What pops get until these messages have come back, and for five seconds more."""
    end, bodies = time.monotonic() + COMES_BACK_S, set()
    while time.monotonic() < end:
        let_pass(engine, 0.2)
        bodies.update(our_pop(engine)[0])
        if wanted <= bodies:
            end, wanted = time.monotonic() + 5, {""}
    return bodies


def our_bought(engine: Engine) -> list[str]:
    reply = call(engine, c.PullMessage(topic=BOUGHT, queue_id=0, queue_offset=0, consumer_group="r"))
    return [record.body.decode() for record in decode_all(reply.records)]


def our_pending(engine: Engine) -> dict[tuple[int, int], str]:
    """The pending half messages by their places, as in END_TRANSACTION."""
    found = {}
    for offset in list(context_of(engine).store.transactions.pending):
        reply = call(engine, c.PullMessage(topic=HALF_TOPIC, queue_id=0, queue_offset=offset, consumer_group="r"))
        record = next(iter(decode_all(reply.records)))
        found[offset, record.physical_offset] = record.body.decode()
    return found


def write_tables(engine: Engine) -> None:
    """Flush the log and write the tables, until RocketMQ would find the group's offset, which it finds nowhere else."""
    config, end = context_of(engine).store.root / "config", time.monotonic() + 30
    while (load_table(RealFiles(), config, "consumerOffset") or EMPTY)["offsetTable"].get(f"{POPPED}@g") != {0: 2}:
        assert time.monotonic() < end
        let_pass(engine, 1)
        flush = engine.next_flush(CLOCK.now())
        if flush is not None:
            flush.run()
            engine.flushed(flush, 0, CLOCK.now())
        while (work := engine.next_file_work(CLOCK.now())) is not None:
            work.run()
            engine.file_work_done(work, CLOCK.now())
    let_pass(engine, 4)  # for the op messages, which it stores 3 s after the copies are on the disk


def leave_work(engine: Engine) -> c.SentMessage:
    """A transaction of each kind, and a pop of which one message is acknowledged. Returns the pending half message."""
    create(engine)
    halves = {body: our_half(engine, f"ours {body}") for body in (*DECISIONS, "pending")}
    for body, decision in DECISIONS.items():
        assert call(engine, ending(halves[body], decision)) == c.Done()
    for body in ("ours acknowledged", "ours left"):
        message = c.OutgoingMessage(body=body.encode(), queue_id=0)
        assert isinstance(call(engine, c.SendMessage(topic=POPPED, messages=[message])), c.Sent)
    bodies, popped = our_pop(engine)
    assert bodies == ["ours acknowledged", "ours left"]
    [queue] = popped.queues
    command = c.AckMessage(
        consumer_group="g",
        topic=POPPED,
        queue_id=0,
        start_offset=queue.start_offset,
        pop_time_ms=popped.pop_time_ms,
        offsets=[queue.offsets[0]],
    )
    assert call(engine, command) == c.Acknowledged(messages=1)
    write_tables(engine)
    return halves["pending"]


# --- at RocketMQ ------------------------------------------------------------------------------------------------------


class Theirs:
    """Requests to RocketMQ."""

    def __init__(self, client: RemotingClient) -> None:
        self._client = client

    async def _ask(self, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> RemotingCommand:
        answer = await self._client.invoke(code, fields, body, timeout_s=30)
        assert answer.code == 0, answer.remark
        return answer

    async def send(self, topic: str, body: str, sys_flag: int = 0, **properties: str) -> RemotingCommand:
        fields = {"producerGroup": "pg", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
        fields |= {"queueId": "0", "sysFlag": str(sys_flag), "bornTimestamp": str(int(time.time() * 1000))}
        fields |= {"flag": "0", "reconsumeTimes": "0", "properties": encode(properties), "unitMode": "false"}
        return await self._ask(RequestCode.SEND_MESSAGE, fields, body.encode())

    async def begin(self, body: str) -> tuple[int, int]:
        """Store a half message; returns its offset in the half queue and in the log."""
        sent = await self.send(BOUGHT, body, 4, TRAN_MSG="true", PGROUP="pg", UNIQ_KEY=body)
        return int(sent.ext_fields["queueOffset"]), decode_offset_message_id(sent.ext_fields["msgId"]).physical_offset

    async def end(self, half_offset: int, physical_offset: int, decision: str) -> None:
        fields = {"producerGroup": "pg", "tranStateTableOffset": str(half_offset), "msgId": ""}
        fields |= {"commitLogOffset": str(physical_offset), "commitOrRollback": decision, "topic": BOUGHT}
        await self._ask(RequestCode.END_TRANSACTION, fields | {"fromTransactionCheck": "false", "transactionId": "t"})

    async def bought(self, wanted: str) -> list[str]:
        """The messages of the topic, once this one is there."""
        fields = {"consumerGroup": "r", "topic": BOUGHT, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"}
        fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
        end = time.monotonic() + 30
        while True:
            answer = await self._client.invoke(
                RequestCode.PULL_MESSAGE, fields | {"subVersion": "0", "expressionType": "TAG"}, timeout_s=30
            )
            bodies = [record.body.decode() for record in decode_all(answer.body)] if answer.code == 0 else []
            if wanted in bodies or time.monotonic() > end:
                return bodies
            await asyncio.sleep(0.2)

    async def pop(self) -> tuple[list[str], RemotingCommand]:
        fields = {"consumerGroup": "g", "topic": POPPED, "queueId": "-1", "maxMsgNums": "32", "initMode": "0"}
        fields |= {"invisibleTime": str(INVISIBLE_MS), "pollTime": "0", "expType": "TAG", "exp": "*"}
        fields |= {"bornTime": str(int(time.time() * 1000)), "order": "false"}
        answer = await self._client.invoke(RequestCode.POP_MESSAGE, fields, timeout_s=30)
        return [record.body.decode() for record in decode_all(answer.body)] if answer.code == 0 else [], answer

    async def pops(self, wanted: set[str]) -> set[str]:
        """What pops get until these messages have come back, and for five seconds more."""
        end, bodies = time.monotonic() + COMES_BACK_S, set()
        while time.monotonic() < end:
            bodies.update((await self.pop())[0])
            if wanted <= bodies:
                end, wanted = time.monotonic() + 5, {""}
            await asyncio.sleep(0.2)
        return bodies

    async def leave_work(self) -> None:
        """As at GlassMQ."""
        places = {body: await self.begin(f"theirs {body}") for body in ("committed", "rolled back", "pending")}
        await self.end(*places["committed"], COMMIT)
        await self.end(*places["rolled back"], ROLLBACK)
        for body in ("theirs acknowledged", "theirs left"):
            await self.send(POPPED, body)
        await asyncio.sleep(1)  # for the dispatch of both
        found, answer = await self.pop()
        assert found == ["theirs acknowledged", "theirs left"]
        fields = answer.ext_fields
        kind, queue_id, start = fields["startOffsetInfo"].split(" ")
        words = [start, fields["popTime"], str(INVISIBLE_MS), fields["reviveQid"], kind, "broker-a", queue_id, start]
        place = {"consumerGroup": "g", "topic": POPPED, "queueId": queue_id, "offset": start}
        await self._ask(RequestCode.ACK_MESSAGE, place | {"extraInfo": " ".join(words)})
        await asyncio.sleep(4)  # for the op messages, which it stores every 3 s


async def at_rocketmq(port: int, pending: c.SentMessage) -> tuple[list[str], set[str]]:
    """GlassMQ's pending work goes on, and RocketMQ leaves its own. Returns what was bought, and what came back."""
    client = RemotingClient("127.0.0.1", port)
    theirs = Theirs(client)
    try:
        await theirs.end(pending.queue_offset, pending.physical_offset, COMMIT)
        bought = await theirs.bought("ours pending")
        popped = await theirs.pops({"ours left"})
        await theirs.leave_work()
        return bought, popped
    finally:
        await client.close()


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_what_is_pending_goes_on_at_the_other_broker(
    tmp_path: Path, request: pytest.FixtureRequest, killed: bool
) -> None:
    if not request.config.getoption("--compat"):
        pytest.skip("starts RocketMQ: make compat")
    needs(jars)
    store = tmp_path / "store"
    with our_engine(store, killed=killed) as engine:
        pending = leave_work(engine)
        assert our_bought(engine) == ["ours committed"]
    servers = RealRocketMQ(
        tmp_path / "rocketmq", storePathRootDir=str(store), storePathCommitLog=str(store / "commitlog")
    )
    try:
        servers.start()
        bought, popped = asyncio.run(at_rocketmq(servers.broker.port, pending))
    finally:
        servers.stop()
    assert bought == ["ours committed", "ours pending"]
    assert popped == {"ours left"}
    with our_engine(store) as engine:
        steps = context_of(engine).store.recovery_steps
        places = our_pending(engine)
        assert ("transactions", f"{len(places)} half messages wait for their transactions to end") in steps
        # RocketMQ stores a half message again when it asks about it; a stop directly after that leaves both.
        assert set(places.values()) == {"theirs pending"}
        half_offset, physical_offset = max(places)
        command = c.EndTransaction(
            producer_group="pg",
            tran_state_table_offset=half_offset,
            commit_log_offset=physical_offset,
            decision="commit",
        )
        assert call(engine, command) == c.Done()
        assert our_bought(engine) == [*bought, "theirs committed", "theirs pending"]
        left = {"ours left", "theirs left"}
        assert our_pops(engine, left) == left

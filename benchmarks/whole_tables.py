"""The longest turn of the engine with 2,000 topics of 1,024 queues, 100,000 held pulls and 2 million offsets.

    python -m benchmarks.whole_tables [--topics N] [--queues N] [--holds N] [--groups N] [--only groups|pops]

A second engine has 10,000 groups that all consume one topic of 8 queues. Each has a member on its own connection and a
held pull. In a third one, groups pop from a topic of 1,024 queues. ``--only`` leaves out the other engines.

A turn is everything that the engine does before the event loop can serve another connection: it includes encoding the
answer for a web process. For each question about whole tables, and for other work that grows with the tables, the
longest turn and the time until the answer are printed. Goal: no turn above 20 ms.
"""

import argparse
import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from benchmarks.common import engine, title
from bridge import wire
from bridge.event_fanout import EventFanout
from bridge.history.boards import ASK
from bridge.limits import Limits
from broker_core import commands as c
from broker_core.clock import SystemClock
from broker_core.engine import Engine
from broker_core.processors import pull_message
from broker_core.server.engine_runner import Connection, EngineRunner
from broker_core.server.garbage_collection import freeze

GROUP = "readers"
HOLDING = 1000
"""Connections with held pulls."""

LONG_MS = 3_600_000
"""How long a pull is held, so that none ends while something else is measured."""

TURNS = ("_turn", "_on_flushed", "_look_for_file_work", "_on_file_work")


class Bench:
    """One engine with its runner, a client, and the time of each turn."""

    def __init__(self, broker: Engine) -> None:
        self.runner = EngineRunner(lambda: broker, SystemClock())
        self.connection = Connection(self._sink)
        self.turns: list[float] = []
        self.cpu: list[float] = []
        self.bytes = 0
        self._answers: dict[int, asyncio.Future[c.Reply]] = {}
        self._asked = 0
        for name in TURNS:
            self.time(self.runner, name)

    def time(self, owner: object, name: str) -> None:
        """Note each call of a method of ``owner`` as a turn."""
        turn: Callable[..., None] = getattr(owner, name)

        def timed(*arguments: Any) -> None:
            began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
            turn(*arguments)
            self.note((time.perf_counter_ns() - began) / 1e6, (time.thread_time_ns() - began_cpu) / 1e6)

        setattr(owner, name, timed)

    def note(self, wall_ms: float, cpu_ms: float) -> None:
        """Note one turn, with all of its time and with the part in which it had the processor."""
        self.turns.append(wall_ms)
        self.cpu.append(cpu_ms)

    def _sink(self, replies: list[tuple[Connection, int, c.Reply]]) -> None:
        for _, request_id, reply in replies:
            self.bytes += len(wire.encode_reply(reply))  # as the bridge does it
            answer = self._answers.pop(request_id, None)
            if answer is not None:
                answer.set_result(reply)

    async def ask(self, command: c.Command) -> c.Reply:
        self._asked += 1
        answer = self._answers[self._asked] = asyncio.get_running_loop().create_future()
        self.runner.submit(self.connection, self._asked, command)
        return await answer

    async def measure(self, name: str, work: Callable[[], Awaitable[Any]]) -> None:
        """Print how long this work takes, and the longest turn meanwhile."""
        await asyncio.sleep(0.3)
        self.turns.clear()
        self.cpu.clear()
        self.bytes = 0
        began = time.perf_counter()
        reply = await work()
        taken = (time.perf_counter() - began) * 1000
        outcome = reply.remark[:60] if isinstance(reply, c.Failed) else f"{self.bytes / 1024:,.0f} KiB"
        longest, cpu = max(self.turns, default=0), max(self.cpu, default=0)
        print(f"  {name:34} {longest:9.1f} {cpu:9.1f} {taken:11.1f}   {outcome}", flush=True)

    async def idle(self, done: Callable[[], bool]) -> None:
        while not done():
            await asyncio.sleep(0.01)


def pull(number: int, topics: int, queues: int, wait_ms: int = LONG_MS) -> c.PullMessage:
    return c.PullMessage(
        topic=f"topic-{number % topics:05}",
        queue_id=number // topics % queues,
        queue_offset=1 if number // topics % queues == 0 else 0,
        suspend_timeout_ms=wait_ms,
        consumer_group=GROUP,
        client_id=f"client-{number % HOLDING}",
        protocol="remoting",
    )


async def fill(bench: Bench, topics: int, queues: int, holds: int) -> None:
    names = [f"topic-{number:05}" for number in range(topics)]
    for name in names:
        await bench.ask(c.UpdateAndCreateTopic(topic=name, read_queues=queues, write_queues=queues))
        await bench.ask(c.SendMessage(topic=name, messages=[c.OutgoingMessage(body=b"x", queue_id=0)]))
        await bench.ask(
            c.UpdateConsumerOffset(
                group=GROUP, offsets=[c.QueueOffset(topic=name, queue_id=n, offset=0) for n in range(queues)]
            )
        )
    await hold(bench, topics, queues, holds)


async def hold(bench: Bench, topics: int, queues: int, holds: int, wait_ms: int = LONG_MS) -> None:
    connections = [Connection(bench._sink) for _ in range(HOLDING)]
    for number in range(holds):
        bench.runner.submit(connections[number % HOLDING], -2 - number, pull(number, topics, queues, wait_ms))
        if number % 200 == 199:
            await asyncio.sleep(0)
    await bench.idle(lambda: not bench.runner.backlog)


async def questions(bench: Bench, topic: str) -> None:
    for command in (
        c.GetTopics(),
        c.GetQueues(),
        c.GetTopicConfigs(),
        c.GetConsumerGroups(),
        c.GetConsumerGroup(group=GROUP),
        c.GetSubscriptionGroups(),
        c.GetConsumeStats(group=GROUP, topics=[topic]),
        c.GetConsumeStats(group=GROUP),
        c.GetBrokerConsumeStats(),
        c.GetAllConsumerOffset(),
        c.QueryConsumerOffset(group=GROUP),
        c.QueryTopicConsumeByWho(topic=topic),
        c.QueryTopicsByConsumer(group=GROUP),
        c.QueryConsumeTimeSpan(topic=topic, group=GROUP),
        c.QueryCorrectionOffset(topic=topic),
        c.GetClients(),
        c.GetProducerConnections(),
        c.GetConsumerConnections(group=GROUP),
        c.GetBrokerRuntimeInfo(),
        c.GetSnapshot(),
        c.GetSnapshot(max_holds=2000),
        c.GetHolds(limit=5000),
        c.GetHolds(topic=topic),
        c.GetEvents(limit=5000),
        c.ViewMessage(message_id="7F0000010001000000000000000000FF"),
        c.GetMessageTimeline(message_id="7F0000010001000000000000000000FF"),
        c.GetQueues(topic=topic),
        c.GetTopicStats(topic=topic),
    ):
        fields = ", ".join(str(value) for value in msgspec.structs.astuple(command) if value not in ("", [], None))
        await bench.measure(f"{type(command).__name__} {fields}", lambda asked=command: bench.ask(asked))  # type: ignore[misc]


async def run(topics: int, queues: int, holds: int) -> None:
    with engine(
        max_holds=2 * holds,
        max_holds_per_connection=2 * holds,
        wait_time_mills_in_pull_queue=600_000,
        mapped_file_size_consume_queue=20_000,
        flush_consumer_offset_interval=1000,
    ) as broker:
        pull_message.MAX_SUSPEND_MS = LONG_MS
        bench = Bench(broker)
        await bench.runner.start()
        freeze()
        began = time.perf_counter()
        await fill(bench, topics, queues, holds)
        print(f"  filled in {time.perf_counter() - began:.0f} s, {broker.hold_count:,} holds")
        headings()
        await questions(bench, "topic-00000")
        await other_work(bench, topics, queues, holds)


async def other_work(bench: Bench, topics: int, queues: int, holds: int) -> None:
    runner, broker = bench.runner, bench.runner.engine
    files = broker.next_file_work
    writes: list[str] = []

    def noted(now: Any) -> Any:
        work = files(now)
        writes.append(getattr(work, "name", ""))
        return work

    broker.next_file_work = noted  # type: ignore[method-assign]
    await bench.measure("create a topic", lambda: bench.ask(new_topic("new", queues)))
    await bench.measure(
        "create 512 topics at once",
        lambda: asyncio.gather(*(bench.ask(new_topic(f"new-{number}", queues)) for number in range(512))),
    )

    async def write_offsets() -> None:
        writes.clear()
        await bench.ask(c.UpdateConsumerOffset(group=GROUP, offsets=[c.QueueOffset(topic="new", queue_id=0, offset=1)]))
        await bench.idle(lambda: "consumerOffset" in writes and runner._file_work is None)

    await bench.measure("write consumerOffset.json", write_offsets)
    await bench.measure("delete a topic", lambda: delete(bench, "topic-00001"))
    await bench.measure(
        "long polling off", lambda: bench.ask(c.UpdateBrokerConfig(changes={"longPollingEnable": False}))
    )
    await bench.measure("  and the check that follows", lambda: bench.idle(lambda: not broker._context.holds.checking))
    await bench.ask(c.UpdateBrokerConfig(changes={"longPollingEnable": True}))
    await bench.measure("the periodic check", lambda: asyncio.sleep(6))
    gone = Connection(bench._sink)
    for number in range(10_000):
        runner.submit(gone, -2 - number, pull(number, topics, queues))
    await bench.idle(lambda: not runner.backlog)
    await bench.measure("a connection with 10,000 holds goes", lambda: close(bench, gone))
    await send_to_all_queues(bench, "topic-00003", queues)
    for to in ("min", "0"):
        reset = c.ResetConsumerOffset(group=GROUP, topic="topic-00003", to=to)
        await bench.measure(f"reset {queues} offsets to {to}", lambda asked=reset: bench.ask(asked))  # type: ignore[misc]
    await hold_in_one_topic(bench, "topic-00002", queues, 10_000)
    await bench.measure("delete a topic with 10,000 holds", lambda: delete(bench, "topic-00002"))
    await hold(bench, topics, queues, holds, 2000)
    await bench.measure("half of the holds time out", lambda: bench.idle(lambda: broker.hold_count <= holds))

    async def collect() -> None:
        began, began_cpu = time.perf_counter_ns(), time.thread_time_ns()
        gc.collect()
        bench.note((time.perf_counter_ns() - began) / 1e6, (time.thread_time_ns() - began_cpu) / 1e6)

    await bench.measure("a full garbage collection", collect)
    await bench.measure(
        "delete the group", lambda: bench.ask(c.DeleteSubscriptionGroup(group=GROUP, clean_offset=True))
    )
    await bench.measure("stop", runner.stop)


async def many_groups(groups: int, queues: int) -> None:
    """One topic that many groups consume, each with one member, whose pull is held."""
    with engine(
        mapped_file_size_consume_queue=20_000, max_holds=2 * groups, flush_consumer_offset_interval=1000
    ) as broker:
        pull_message.MAX_SUSPEND_MS = LONG_MS
        bench = Bench(broker)
        await bench.runner.start()
        freeze()
        await bench.ask(new_topic("shared", queues))
        members = [Connection(bench._sink) for _ in range(groups)]
        for number, member in enumerate(members):
            group = f"group-{number:05}"
            bench.runner.submit(member, -1, c.OpenConnection(client_id="", protocol="remoting"))
            bench.runner.submit(member, -2, heartbeat_of(group))
            offsets = [c.QueueOffset(topic="shared", queue_id=one, offset=0) for one in range(queues)]
            await bench.ask(c.UpdateConsumerOffset(group=group, offsets=offsets))
        await send_to_all_queues(bench, "shared", queues)
        for number, member in enumerate(members):
            bench.runner.submit(member, -3, pull_of(f"group-{number:05}", number % queues, 16))
        await bench.idle(lambda: broker.hold_count == groups)
        await written(bench)
        print(f"  {groups:,} groups, {broker.hold_count:,} holds, {len(broker.topics.names()):,} topics")
        for command in (
            c.GetConsumerGroups(),
            c.GetConsumerGroups(limit=100),
            c.GetConsumerGroups(limit=100, after=f"group-{groups // 2:05}"),
            c.QueryTopicConsumeByWho(topic="shared"),
            c.QueryCorrectionOffset(topic="shared"),
            c.GetMetrics(estimate=True),
            c.GetMetrics(after="", alone=True, sentences=True),
            c.GetHistorySample(),
            ASK,
            c.GetGroupFacts(group="group-00000"),
            c.GetSubscriptionGroups(),
            c.GetTopicConfigs(),
            c.GetClients(),
        ):
            fields = ", ".join(str(value) for value in msgspec.structs.astuple(command) if value not in ("", [], None))
            await bench.measure(f"{type(command).__name__} {fields}", lambda asked=command: bench.ask(asked))  # type: ignore[misc]
        await changes_of_groups(bench, members)
        await bench.measure("delete the topic of all groups", lambda: delete(bench, "shared"))
        await bench.runner.stop()


async def changes_of_groups(bench: Bench, members: list[Connection]) -> None:
    broker, groups = bench.runner.engine, len(members)

    async def heartbeats() -> None:
        for number, member in enumerate(members):
            bench.runner.submit(member, -5, heartbeat_of(f"group-{number:05}"))
        await bench.idle(lambda: not bench.runner.backlog)

    async def join() -> None:
        member = Connection(bench._sink)
        bench.runner.submit(member, -1, c.OpenConnection(client_id="", protocol="remoting"))
        bench.runner.submit(member, -2, heartbeat_of("one-more"))
        await bench.idle(lambda: "one-more" in broker._context.consumers)
        await written(bench)

    async def commit() -> None:
        offsets = [c.QueueOffset(topic="shared", queue_id=0, offset=1)]
        await bench.ask(c.UpdateConsumerOffset(group="group-00000", offsets=offsets))
        await written(bench)

    await bench.measure("each group sends a heartbeat", heartbeats)
    await bench.measure("a new group joins", join)
    await bench.measure("write consumerOffset.json", commit)
    await bench.measure("the periodic check", lambda: asyncio.sleep(6))
    fanout = EventFanout(broker, SystemClock(), Limits(), lambda delta, _: delta and len(wire.encode_delta(delta)))
    bench.time(fanout, "_on_timer")
    fanout.watch(deltas=True, events=False)
    sent = c.SendMessage(topic="shared", messages=[c.OutgoingMessage(body=b"x", queue_id=0)])
    await bench.measure(
        f"a message wakes {broker.hold_count // 8:,} groups", lambda: asyncio.gather(bench.ask(sent), asyncio.sleep(1))
    )
    fanout.stop()
    gone = members[groups // 2 :]

    async def leave() -> None:
        for member in gone:
            bench.runner.submit(member, 0, c.CloseConnection())
        await bench.idle(lambda: not bench.runner.backlog and broker.next_deadline() != 0)

    await bench.measure(f"members of {len(gone):,} groups leave", leave)


async def written(bench: Bench) -> None:
    """Until all changed tables are written."""
    broker, runner = bench.runner.engine, bench.runner
    context = broker._context
    await asyncio.sleep(0.3)
    await bench.idle(
        lambda: (
            not (context.topics.dirty or context.subscription_groups.dirty or context.offsets.dirty)
            and runner._file_work is None
        )
    )


def heartbeat_of(group: str) -> c.HeartBeat:
    subscriptions = [c.SubscriptionData(topic="shared"), c.SubscriptionData(topic=f"%RETRY%{group}")]
    return c.HeartBeat(
        client_id=group, protocol="remoting", consumers=[c.ConsumerData(group=group, subscriptions=subscriptions)]
    )


async def pops(queues: int) -> None:
    """Groups that pop, in order and not, from a topic whose queues all have messages."""
    with engine(mapped_file_size_consume_queue=20_000) as broker:
        bench = Bench(broker)
        await bench.runner.start()
        freeze()
        await bench.ask(new_topic("popped", queues))
        await send_to_all_queues(bench, "popped", queues)
        print(f"  {queues:,} queues with messages")
        for order in (False, True):
            group = f"begins-{order}"
            offsets = [c.QueueOffset(topic="popped", queue_id=queue_id, offset=0) for queue_id in range(queues)]
            await bench.ask(c.UpdateConsumerOffset(group=group, offsets=offsets))
            one = pop_of(group, order=order)
            await bench.measure(f"pop{' in order' * order}", lambda asked=one: bench.ask(asked))  # type: ignore[misc]
        await hand_out_all(bench, "waiting", queues, invisible_ms=15_000)
        connections = [Connection(bench._sink) for _ in range(16)]
        for number in range(min(queues, 1024)):
            one = pop_of("waiting", order=True, poll_ms=30_000)
            bench.runner.submit(connections[number % 16], -2 - number, one)
        await bench.idle(lambda: not bench.runner.backlog)
        name = f"{queues} queues are free, {broker.hold_count} pops wait"
        await bench.measure(name, lambda: bench.idle(lambda: broker.hold_count <= queues // 2))  # 2 queues for each
        infos = broker._context.order_infos
        for number in range(9):
            await hand_out_all(bench, f"group-{number}", queues)
        await bench.measure(f"write {len(infos):,} order infos", lambda: bench.idle(lambda: not infos.dirty))
        await bench.runner.stop()


async def hand_out_all(bench: Bench, group: str, queues: int, invisible_ms: int = 200_000) -> None:
    for queue_id in range(queues):
        await bench.ask(pop_of(group, order=True, queue_id=queue_id, invisible_ms=invisible_ms))


def pop_of(group: str, **more: Any) -> c.PopMessage:
    return c.PopMessage(topic="popped", consumer_group=group, client_id="c", **more)


def pull_of(group: str, queue_id: int, offset: int) -> c.PullMessage:
    return c.PullMessage(
        topic="shared",
        queue_id=queue_id,
        queue_offset=offset,
        suspend_timeout_ms=LONG_MS,
        consumer_group=group,
        client_id=group,
        protocol="remoting",
    )


async def send_to_all_queues(bench: Bench, topic: str, queues: int) -> None:
    for queue_id in range(queues):
        await bench.ask(c.SendMessage(topic=topic, messages=[c.OutgoingMessage(body=b"x", queue_id=queue_id)] * 16))


def new_topic(name: str, queues: int) -> c.UpdateAndCreateTopic:
    return c.UpdateAndCreateTopic(topic=name, read_queues=queues, write_queues=queues)


async def hold_in_one_topic(bench: Bench, topic: str, queues: int, holds: int) -> None:
    connection = Connection(bench._sink)
    for number in range(holds):  # queue 0 has a message
        queue_id = 1 + number % (queues - 1)
        one = msgspec.structs.replace(pull(0, 1, queues), topic=topic, queue_id=queue_id, queue_offset=0)
        bench.runner.submit(connection, -2 - number, one)
    await bench.idle(lambda: not bench.runner.backlog)


async def delete(bench: Bench, topic: str) -> c.Reply:
    """Until the files are gone, too."""
    reply = await bench.ask(c.DeleteTopic(topic=topic))
    store = bench.runner.engine._context.store
    await bench.idle(lambda: not store.removed_folders.due and bench.runner.engine.next_deadline() != 0)
    return reply


async def close(bench: Bench, connection: Connection) -> None:
    bench.runner.submit(connection, 0, c.CloseConnection())
    while bench.runner.backlog or bench.runner.engine.next_deadline() == 0:
        await asyncio.sleep(0)


def headings() -> None:
    print(f"  {'':34} {'longest':>9} {'processor':>9} {'until the':>11}")
    print(f"  {'work':34} {'turn, ms':>9} {'time, ms':>9} {'answer, ms':>11}   answer", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--topics", type=int, default=2000)
    parser.add_argument("--queues", type=int, default=1024)
    parser.add_argument("--holds", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--only", choices=["groups", "pops"])
    arguments = parser.parse_args()
    if arguments.only is None:
        title(f"Longest turns: {arguments.topics:,} topics of {arguments.queues:,} queues, {arguments.holds:,} holds")
        asyncio.run(run(arguments.topics, arguments.queues, arguments.holds))
    if arguments.only in (None, "groups"):
        title(f"Longest turns with {arguments.groups:,} groups")
        headings()
        asyncio.run(many_groups(arguments.groups, 8))
    if arguments.only in (None, "pops"):
        title("Longest turns with pops")
        headings()
        asyncio.run(pops(arguments.queues))


if __name__ == "__main__":
    main()

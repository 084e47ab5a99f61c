"""The engine's owner on a real event loop: batches, the timer, the flush thread, leaving in order."""

import asyncio
import errno
import gc
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.clock import Clock, SystemClock
from broker_core.codes import ResponseCode
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.formats.poll_journal import FOLDER, decode_entries
from broker_core.options import Options
from broker_core.processor_table import GATHERED, PROCESSORS
from broker_core.server.delayed_commands import MAX_REFUSED
from broker_core.server.engine_runner import (
    FILTERED_PULL_WEIGHT,
    MAX_BATCH,
    MAX_DELAYED_BATCH,
    MAX_QUESTIONS,
    WEIGHTS,
    Connection,
    EngineRunner,
)
from broker_core.server.poll_journal import PollJournal
from broker_core.server.questions import WHOLE_TABLES
from broker_core.store.flush import Flush
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import ROOT, SMALL, context_of, send
from tests.fakes.simulated_files import SimulatedFiles

PATIENT = {"wait_time_mills_in_send_queue": 600_000, "wait_time_mills_in_pull_queue": 600_000}
"""So that a slow machine refuses nothing in a test about something else."""


class Client:
    """Sends commands and waits for their answers."""

    def __init__(self, runner: EngineRunner) -> None:
        self.runner = runner
        self.connection = Connection(self.sink)
        self.answers: dict[int, asyncio.Future[c.Reply]] = {}
        self.calls = 0

    def sink(self, replies: list[tuple[Connection, int, c.Reply]]) -> None:
        self.calls += 1
        for _, request_id, reply in replies:
            if not isinstance(reply, c.Held):
                self.answers[request_id].set_result(reply)

    def ask(self, command: c.Command) -> "asyncio.Future[c.Reply]":
        request_id = len(self.answers) + 1
        answer = self.answers[request_id] = asyncio.get_running_loop().create_future()
        self.runner.submit(self.connection, request_id, command)
        return answer


@asynccontextmanager
async def running(
    files: SimulatedFiles | None = None, clock: Clock | None = None, **options: Any
) -> AsyncIterator[Client]:
    opened = opener(files or SimulatedFiles(), **(PATIENT | options))
    runner = EngineRunner(opened, clock or SystemClock())
    await runner.start()
    try:
        yield Client(runner)
    finally:
        await runner.stop()


def opener(files: SimulatedFiles, **options: Any) -> Callable[[], Engine]:
    keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
    return lambda: Engine.open(ROOT, Options(**(SMALL | options)), files, SystemClock(), keys.next)


def pull(offset: int, wait_ms: int = 30_000) -> c.PullMessage:
    return c.PullMessage(topic="orders", queue_id=0, queue_offset=offset, suspend_timeout_ms=wait_ms)


async def test_answers_are_written_before_what_can_wait_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    async with running() as client:
        engine, loop = client.runner.engine, asyncio.get_running_loop()
        tick = engine.tick

        def noted(now: Any) -> Any:
            order.append("tick")
            return tick(now)

        def sink(replies: list[Any]) -> None:
            order.append("answer")
            loop.call_soon(order.append, "written")  # as a server writes what it has gathered
            if order.count("answer") < 20:
                client.runner.submit(connection, 1, send("orders", b"x"))

        connection = Connection(sink)
        monkeypatch.setattr(engine, "tick", noted)
        client.runner.submit(connection, 1, send("orders", b"x"))
        async with asyncio.timeout(60):
            while order.count("written") < 20 or context_of(engine).store.index_is_behind:
                await asyncio.sleep(0)
    assert order[:4] == ["answer", "written", "answer", "tick"]  # it waits for one turn, however busy the broker is
    assert order.count("tick") >= 10


async def test_slaves_get_a_message_before_what_can_wait_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    async with running(broker_role="SYNC_MASTER", in_sync_replicas=2, slave_timeout=100) as client:
        engine = client.runner.engine
        tick = engine.tick

        def noted(now: Any) -> Any:
            order.append("tick")
            return tick(now)

        before = engine.sendable_offset
        client.runner.turn_listeners.append(lambda: order.append("sent" if engine.sendable_offset > before else ""))
        monkeypatch.setattr(engine, "tick", noted)
        monkeypatch.setattr(engine, "next_deadline", lambda: 0)  # something else is due
        await client.ask(send("orders", b"x"))
    assert order[: order.index("sent")][-1:] != ["tick"]


async def test_a_held_pull_is_woken() -> None:
    async with running() as client:
        await client.ask(send("orders", b"one"))
        held = client.ask(pull(1))
        await client.ask(send("orders", b"two"))
        answer = await held
        assert isinstance(answer, c.Pulled) and answer.hold is not None and answer.hold.wake_cause == "arrival"


async def test_commands_of_one_turn_of_the_loop_are_one_batch() -> None:
    async with running() as client:
        await client.ask(send("orders", b"warm"))
        before = client.calls
        await asyncio.gather(*(client.ask(send("orders", b"x")) for _ in range(64)))
        assert client.calls == before + 1


async def test_a_flood_is_handled_in_bounded_turns() -> None:
    async with running() as client:
        await client.ask(send("orders", b"warm"))
        before = client.calls
        await asyncio.gather(*(client.ask(send("orders", b"x")) for _ in range(3 * MAX_BATCH)))
        assert client.calls == before + 3


@pytest.mark.parametrize(
    ("fields", "weight"),
    [
        ({}, WEIGHTS[c.PullMessage]),
        ({"subscription": "a = 1", "expression_type": "SQL92"}, FILTERED_PULL_WEIGHT),
        ({"subscription": None}, FILTERED_PULL_WEIGHT),
    ],
    ids=["all", "sql", "go"],
)
async def test_pulls_weigh_more_than_sends(fields: dict[str, Any], weight: int) -> None:
    async with running() as client:
        await client.ask(send("orders", b"warm"))
        by_sql = c.SubscriptionData(topic="orders", sub_string="a = 1", expression_type="SQL92", sub_version=1)
        group = c.ConsumerData(group="g", subscriptions=[by_sql])
        await client.ask(c.OpenConnection(client_id="A", protocol="remoting", remote=""))
        await client.ask(c.HeartBeat(client_id="A", protocol="remoting", consumers=[group]))
        before = client.calls
        a_turn = MAX_BATCH // weight
        asked = msgspec.structs.replace(pull(0), consumer_group="g", **fields)
        answers = await asyncio.gather(*(client.ask(asked) for _ in range(3 * a_turn)))
        assert client.calls == before + 3
        assert all(isinstance(answer, c.Pulled) for answer in answers)


async def test_thousands_of_clients_that_leave_at_once_do_so_in_several_turns() -> None:
    async with running() as client:
        await client.ask(send("orders", b"warm"))
        before, members = client.calls, [Connection(client.sink) for _ in range(MAX_BATCH)]
        for number, member in enumerate(members):
            client.answers[-number] = asyncio.get_running_loop().create_future()
            client.runner.submit(member, -number, c.CloseConnection())
        await asyncio.gather(*client.answers.values())
        assert client.calls - before >= WEIGHTS[c.CloseConnection]


async def test_a_send_weighs_what_it_brings_and_has_a_turn_however_much_that_is() -> None:
    async with running() as client:
        await client.ask(send("orders", b"warm"))
        before = client.calls
        many = [send("orders", *[b"x"] * (MAX_BATCH // 2)) for _ in range(6)]
        answers = await asyncio.gather(*map(client.ask, many))
        assert client.calls == before + 3
        too_many = client.ask(send("orders", *[b"x"] * (MAX_BATCH + 1)))
        answers += await asyncio.gather(too_many, client.ask(send("orders", b"x")))
        assert client.calls == before + 5
        assert all(isinstance(answer, c.Sent) for answer in answers)


@pytest.mark.parametrize(
    "question",
    [
        c.GetMessageTimeline(message_id="none"),
        c.GetHolds(topic="orders"),
        c.QueryCorrectionOffset(topic="orders"),
        c.GetConsumerConnections(group="g"),
    ],
)
async def test_questions_about_whole_tables_are_set_aside(question: c.Command) -> None:
    async with running() as client:
        asked = [client.ask(question) for _ in range(3)]
        assert client.runner.has_waiting(client.connection) and client.runner.backlog == 3
        await asyncio.gather(*asked)
        assert client.calls == 3


def test_a_command_of_any_weight_gets_a_turn() -> None:
    assert all(1 < weight <= MAX_BATCH for weight in WEIGHTS.values())
    assert {*WEIGHTS, *WHOLE_TABLES} <= {*PROCESSORS, *GATHERED}
    assert all({*fields} <= {*kind.__struct_fields__} for kind, fields in WHOLE_TABLES.items())
    assert not any(kind in WEIGHTS for kind, fields in WHOLE_TABLES.items() if not fields)


async def test_a_question_about_one_thing_is_a_command_like_others() -> None:
    async with running() as client:
        await client.ask(send("orders", b"warm"))
        before = client.calls
        asked = [
            client.ask(command)
            for command in (
                c.GetTopicConfigs(topic="orders"),
                c.GetQueues(topic="orders"),
                c.GetTopicStats(topic="orders"),
            )
        ]
        assert not client.runner.has_waiting(client.connection)
        assert isinstance(await asked[-1], c.TopicStats) and client.calls == before + 1
        asked = [client.ask(c.GetQueues(topic="orders")) for _ in range(2 * MAX_QUESTIONS)]
        assert all(isinstance(answer, c.Queues) for answer in await asyncio.gather(*asked))
        client.ask(c.GetQueues())
        assert client.runner.has_waiting(client.connection)


async def test_questions_about_whole_tables_are_answered_one_a_turn_and_nobody_else_waits_for_them() -> None:
    async with running() as curious:
        await curious.ask(send("orders", b"warm"))
        questions = [curious.ask(c.GetTopicConfigs()) for _ in range(MAX_QUESTIONS)]
        other, third = Client(curious.runner), Client(curious.runner)
        before = curious.calls
        assert isinstance(await other.ask(send("orders", b"two")), c.Sent)
        assert curious.calls == before + 1
        assert isinstance(await third.ask(c.GetTopics()), c.Topics)  # it is this connection's turn, before theirs
        assert curious.calls <= before + 3
        assert all(isinstance(answer, c.TopicConfigs) for answer in await asyncio.gather(*questions))
        assert curious.calls == before + MAX_QUESTIONS


async def test_a_question_about_a_whole_table_sees_earlier_changes() -> None:
    async with running() as client:
        made, seen = client.ask(c.UpdateAndCreateTopic(topic="new")), client.ask(c.GetTopics())
        answer = await seen
        assert made.done() and isinstance(answer, c.Topics) and "new" in {topic.topic for topic in answer.topics}


async def test_a_question_about_a_whole_table_overtakes_nothing_that_came_before_it() -> None:
    async with running() as client:
        await client.ask(send("orders", b"warm"))
        asked = [client.ask(pull(0, wait_ms=0)) for _ in range(3 * MAX_BATCH // WEIGHTS[c.PullMessage])]
        made, seen = client.ask(c.UpdateAndCreateTopic(topic="new")), client.ask(c.GetTopics())
        other = Client(client.runner)
        theirs = other.ask(c.GetTopics())
        answer = await seen
        assert made.done() and all(pulled.done() for pulled in asked)
        assert isinstance(answer, c.Topics) and "new" in {topic.topic for topic in answer.topics}
        assert isinstance(await theirs, c.Topics) and client.runner.backlog == 0


async def test_a_flood_of_one_connection_delays_others_by_one_turn() -> None:
    async with running() as flood:
        await flood.ask(send("orders", b"warm"))
        before = flood.calls
        asked = [flood.ask(send("orders", b"x")) for _ in range(20 * MAX_BATCH)]
        others = [Client(flood.runner) for _ in range(10)]
        answers = [asyncio.gather(*[other.ask(send("orders", b"y")) for _ in range(5)]) for other in others]
        assert flood.runner.backlog == 20 * MAX_BATCH + 50
        for answered in answers:
            assert all(isinstance(answer, c.Sent) for answer in await answered)
        assert flood.calls <= before + 3
        late = Client(flood.runner)
        assert isinstance(await late.ask(send("orders", b"z")), c.Sent)
        assert flood.calls <= before + 5
        sent = await asyncio.gather(*asked)
        offsets = [answer.messages[0].physical_offset for answer in sent if isinstance(answer, c.Sent)]
        assert len(offsets) == len(asked) and offsets == sorted(offsets), "in the order of the connection"


async def test_turns_are_short_while_commands_of_several_connections_are_delayed() -> None:
    async with running() as client:
        await client.ask(send("orders", b"warm"))
        other = Client(client.runner)
        before = client.calls
        both = [each.ask(send("orders", b"x")) for _ in range(MAX_BATCH) for each in (client, other)]
        await asyncio.gather(*both)
        assert client.calls == before + 1 + MAX_BATCH // MAX_DELAYED_BATCH


async def test_a_question_waits_only_for_its_own_connection() -> None:
    async with running() as flood:
        await flood.ask(send("orders", b"warm"))
        before = flood.calls
        asked = [flood.ask(send("orders", b"x")) for _ in range(20 * MAX_BATCH)]
        own, theirs = flood.ask(c.GetTopics()), Client(flood.runner).ask(c.GetTopics())
        assert isinstance(await theirs, c.Topics) and flood.calls <= before + 4
        await own
        assert all(answer.done() for answer in asked)


async def test_commands_that_wait_too_long_are_answered_busy() -> None:
    clock = VirtualClock()
    options = {"wait_time_mills_in_send_queue": 200, "wait_time_mills_in_pull_queue": 5000}
    async with running(clock=clock, **options) as client:
        await client.ask(send("orders", b"warm"))
        asked = [client.ask(send("orders", b"x")) for _ in range(3 * MAX_BATCH)]
        pulls = [client.ask(pull(0, wait_ms=0)) for _ in range(3)]
        other = client.ask(c.GetBroker())
        await asked[0]
        clock.advance(201)
        answers = await asyncio.gather(*asked)
        failed = [answer for answer in answers if isinstance(answer, c.Failed)]
        assert all(isinstance(answer, c.Sent) for answer in answers[:MAX_BATCH]) and len(failed) >= MAX_REFUSED
        for answer in failed:
            assert (answer.code, answer.kind) == (ResponseCode.SYSTEM_BUSY, "overload")
            assert answer.remark.startswith("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period ")
            assert answer.retry_after_ms > 0
        lateness = context_of(client.runner.engine).lateness
        assert sum(one.refused for one in lateness.recent) == len(failed)
        assert max(one.waited_ns for one in lateness.recent) == 201_000_000
        assert all(isinstance(answer, c.Pulled) for answer in await asyncio.gather(*pulls))
        assert not isinstance(await other, c.Failed)
        assert isinstance(await client.ask(send("orders", b"y")), c.Sent)


async def test_too_many_questions_about_whole_tables_are_refused() -> None:
    async with running() as client:
        questions = [client.ask(c.GetTopics()) for _ in range(MAX_QUESTIONS + 2)]
        assert client.runner.backlog == MAX_QUESTIONS and client.runner.has_waiting(client.connection)
        answers = await asyncio.gather(*questions)
        assert not client.runner.has_waiting(client.connection)
        refused = [answer for answer in answers if isinstance(answer, c.Failed)]
        assert [answer.code for answer in refused] == [ResponseCode.SYSTEM_BUSY] * 2
        assert refused == answers[MAX_QUESTIONS:] and isinstance(await client.ask(c.GetTopics()), c.Topics)


async def test_the_questions_of_a_closed_connection_are_dropped() -> None:
    async with running() as client:
        gone = Client(client.runner)
        for _ in range(MAX_QUESTIONS):
            gone.ask(c.GetTopics())
        await gone.ask(c.CloseConnection())
        assert client.runner.backlog == 0 and not client.runner.has_waiting(gone.connection)
        assert isinstance(await client.ask(c.GetTopics()), c.Topics)
        assert gone.calls == 1


async def test_handled_commands_are_counted() -> None:
    async with running() as client:
        runner, begin = client.runner, client.runner.handled
        asked = [client.ask(pull(0, wait_ms=0)) for _ in range(40)]
        client.ask(c.GetTopics())
        wanted = runner.submitted
        assert (wanted - begin, runner.handled) == (40, begin)
        await asyncio.gather(*asked)
        assert runner.handled == wanted == runner.submitted


async def test_the_timer_ends_a_hold() -> None:
    async with running() as client:
        await client.ask(send("orders", b"one"))
        answer = await asyncio.wait_for(client.ask(pull(1, wait_ms=30)), 60)
        assert isinstance(answer, c.Pulled) and answer.hold is not None
        assert answer.hold.wake_cause == "timeout" and answer.hold.held_us >= 30_000


async def test_sync_flush_answers_from_the_flush_thread() -> None:
    files = SimulatedFiles()
    async with running(files, flush_disk_type="SYNC_FLUSH") as client:
        answers = await asyncio.gather(*(client.ask(send("orders", b"x")) for _ in range(50)))
        assert all(isinstance(answer, c.Sent) and answer.code == 0 for answer in answers)
        store = context_of(client.runner.engine).store
        assert store.flushed_offset == store.appended_offset


async def test_a_disk_that_refuses_stops_acknowledgement() -> None:
    files = SimulatedFiles()
    async with running(files, flush_disk_type="SYNC_FLUSH") as client:
        await client.ask(send("orders", b"one"))
        files.fail("flush", 1, errno.EIO)
        late = await client.ask(send("orders", b"two"))
        assert isinstance(late, c.Sent) and late.code == ResponseCode.FLUSH_DISK_TIMEOUT
        files.mend()
        refused = await client.ask(send("orders", b"three"))
        assert isinstance(refused, c.Failed) and refused.code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_a_change_of_topics_is_reported_before_the_answer() -> None:
    async with running() as client:
        notices: list[tuple[set[str], int]] = []
        broken: list[set[str]] = []

        def breaks(topics: set[str]) -> None:
            broken.append(topics)
            raise ZeroDivisionError

        await client.ask(c.GetTopics())  # the broker's own topics are reported now, or before if a thread was fast
        client.runner.topic_listeners += [breaks, lambda topics: notices.append((topics, client.calls))]
        await client.ask(send("orders", b"one"))
        [(topics, calls)] = notices
        assert topics == {"orders"} and calls == client.calls - 1 and broken == [topics]
        await client.ask(send("orders", b"two"))
        assert len(notices) == 1
        await client.ask(c.DeleteTopic(topic="orders"))
        assert notices[1][0] == {"orders"}


async def test_a_sink_that_fails_harms_no_other() -> None:
    async with running() as client:

        def broken(replies: object) -> None:
            raise ValueError("broken")

        client.runner.submit(Connection(broken), 1, send("orders", b"one"))
        assert isinstance(await client.ask(send("orders", b"two")), c.Sent)


async def test_changed_tables_reach_the_disk() -> None:
    files = SimulatedFiles()
    async with running(files) as client:
        await client.ask(c.UpdateAndCreateTopic(topic="made"))
        async with asyncio.timeout(60):
            while b"made" not in (files.read(ROOT / "config" / "topics.json") or b""):
                await asyncio.sleep(0.01)


async def test_stopping_answers_holds_and_leaves_a_clean_store() -> None:
    files = SimulatedFiles()
    async with running(files) as client:
        await client.ask(send("orders", b"one"))
        held = [client.ask(pull(1)) for _ in range(700)]
        while client.runner.engine.hold_count < 700:
            await asyncio.sleep(0)
    for answer in held:
        reply = answer.result()
        assert isinstance(reply, c.Pulled) and reply.hold is not None and reply.hold.wake_cause == "shutdown"
    assert not files.exists(ROOT / "abort")
    async with running(files) as client:
        answer = await client.ask(pull(0))
        assert isinstance(answer, c.Pulled) and answer.code == 0


async def test_the_journal_has_everything_from_the_start_to_the_last_answer() -> None:
    files = SimulatedFiles()
    runner = EngineRunner(
        opener(files, poll_journal_flush_interval=10_000), SystemClock(), journal=PollJournal(files, SystemClock())
    )
    await runner.start()
    client = Client(runner)
    await client.ask(send("orders", b"one"))
    await client.ask(pull(0))
    held = [client.ask(pull(1)) for _ in range(300)]
    while runner.engine.hold_count < 300:
        await asyncio.sleep(0)
    await runner.stop()
    assert all(answer.done() for answer in held)
    (name,) = files.names(ROOT / FOLDER)
    found = list(decode_entries(files.read(ROOT / FOLDER / name) or b""))
    assert [(entry.kind, entry.cause) for entry in found] == (
        [("answered_at_once", "")] + [("woken", "shutdown")] * 300
    )
    counters = runner.engine.counters.as_dict()
    assert (counters["journal_entries"], counters["journal_lost"]) == (301, 0)


async def test_stopping_twice_is_stopping_once() -> None:
    async with running() as client:
        await client.runner.stop()


async def test_commands_in_the_inbox_are_answered_before_the_end() -> None:
    async with running() as client:
        await client.ask(send("orders", b"one"))
        waiting = [client.ask(send("orders", b"two")), client.ask(pull(1))]
    for answer in waiting:
        reply = answer.result()
        assert isinstance(reply, c.Failed) and reply.kind == "unavailable"


async def test_a_turn_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as client:
        await client.ask(send("orders", b"one"))
        held = client.ask(pull(1, wait_ms=30))
        await asyncio.sleep(0)
        with monkeypatch.context() as patch:
            patch.setattr(client.runner.engine, "tick", lambda now: {}["defect"])
            patch.setattr(client.runner.engine, "next_file_work", lambda now: {}["defect"])
            await asyncio.sleep(0.3)
        assert isinstance(await asyncio.wait_for(held, 60), c.Pulled)
        await client.ask(c.UpdateAndCreateTopic(topic="made"))
        async with asyncio.timeout(60):
            while context_of(client.runner.engine).topics.dirty:
                await asyncio.sleep(0.01)


async def test_a_flush_that_fails_in_no_known_way_stops_acknowledgement_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(flush_disk_type="SYNC_FLUSH") as client:
        monkeypatch.setattr(Flush, "run", lambda flush: {}["defect"])
        late = await client.ask(send("orders", b"two"))
        assert isinstance(late, c.Sent) and late.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert isinstance(await client.ask(send("orders", b"three")), c.Failed)


async def test_the_backlog_counts_commands_that_no_turn_has_taken() -> None:
    async with running() as client:
        answers = [client.ask(c.GetBroker()) for _ in range(MAX_BATCH + 3)]
        assert client.runner.backlog == MAX_BATCH + 3
        await asyncio.gather(*answers)
        assert client.runner.backlog == 0


async def test_file_work_goes_on_after_a_defect_in_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(flush_consumer_offset_interval=1) as client:
        done: list[str] = []

        def fail_once(work: Any, now: Any) -> Any:
            done.append(work.name)
            if len(done) == 1:
                raise ArithmeticError("a defect")
            return file_work_done(work, now)

        file_work_done = client.runner.engine.file_work_done
        monkeypatch.setattr(client.runner.engine, "file_work_done", fail_once)
        await client.ask(send("orders", b"1"))
        async with asyncio.timeout(60):
            while not done:
                await asyncio.sleep(0.001)
            await client.ask(send("more", b"1"))
            while done.count("topics") < 2:
                await asyncio.sleep(0.001)


async def test_a_full_collection_finds_few_fields_of_events() -> None:
    async with running() as client:
        await client.ask(send("orders", b"1"))
        recent = client.runner.engine.events.last.note.fields
        assert recent, "the event has fields"
        async with asyncio.timeout(60):
            while gc.is_tracked(recent):
                await asyncio.sleep(0.001)


async def test_a_turn_that_takes_long_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    async with running(clock=clock) as client:
        engine = client.runner.engine
        handle_batch = engine.handle_batch

        def handle_slowly(batch: Any, now: Any) -> Any:
            clock.advance(600)
            return handle_batch(batch, now)

        assert isinstance(await client.ask(send("orders", b"x")), c.Sent)
        assert not context_of(engine).lateness.recent
        monkeypatch.setattr(engine, "handle_batch", handle_slowly)
        assert isinstance(await client.ask(send("orders", b"x")), c.Sent)
        await asyncio.sleep(0)
        (second,) = context_of(engine).lateness.recent
        assert (second.waited_ns, second.began_ns) == (600_000_000, clock.mono_ns()), "it ended just now"

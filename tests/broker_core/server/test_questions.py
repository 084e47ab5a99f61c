"""Questions about whole tables: how much of an answer a turn makes, and what happens between the turns."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.engine import Engine
from broker_core.processor_table import WALKS
from broker_core.server.engine_runner import MAX_BATCH, Connection
from broker_core.server.questions import ANSWER_NS, WHOLE_TABLES
from tests.broker_core.server.test_engine_runner import Client, running
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import send

LOOK_NS = ANSWER_NS // 4
TOPICS = 200


class TickingClock(VirtualClock):
    """Every look at the monotonic time takes a quarter of the time that a turn has for a question."""

    def mono_ns(self) -> int:
        self._mono_ns += LOOK_NS
        return self._mono_ns


class Turns:
    """Counts an engine's turns, and the pieces of answers in each."""

    def __init__(self, engine: Engine, patch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.pieces: Counter[int] = Counter()
        self.ended = 0
        self._handle_batch, self._walk = engine.handle_batch, engine.walk
        patch.setattr(engine, "handle_batch", self._count_turn)
        patch.setattr(engine, "walk", self._count_pieces)

    def _count_turn(self, batch: Any, now: Any) -> Any:
        self.number += 1
        return self._handle_batch(batch, now)

    def _count_pieces(self, command: c.Command, now: Any) -> Iterator[None]:
        steps = self._walk(command, now)
        try:
            while True:
                self.pieces[self.number] += 1
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                yield
        finally:
            self.ended += 1


@asynccontextmanager
async def ticking(patch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Client, Turns]]:
    """A client of an engine with ``TOPICS`` topics, whose answers take several turns."""
    async with running(clock=TickingClock(), hold_check_interval_mills=0) as client:
        await client.ask(
            c.UpdateAndCreateTopicList(topics=[c.UpdateAndCreateTopic(topic=f"t{n}") for n in range(TOPICS)])
        )
        async with asyncio.timeout(60):  # a lost answer fails the test and does not stop it
            yield client, Turns(client.runner.engine, patch)


async def test_a_turn_makes_a_bounded_part_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ticking(monkeypatch) as (client, turns):
        answer = await client.ask(c.GetTopics(system=False))
        assert isinstance(answer, c.Topics) and len(answer.topics) == TOPICS
        assert turns.pieces.total() > TOPICS and max(turns.pieces.values()) == ANSWER_NS // LOOK_NS


async def test_a_piece_that_takes_long_is_the_only_one_of_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.broker_core.server.test_questions.LOOK_NS", 3 * ANSWER_NS)
    async with ticking(monkeypatch) as (client, turns):
        assert isinstance(await client.ask(c.GetTopics()), c.Topics)
        assert {*turns.pieces.values()} == {1}


async def test_other_commands_are_answered_between_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ticking(monkeypatch) as (client, turns):
        question, other = client.ask(c.GetTopics(system=False)), Client(client.runner)
        deletions = []
        for number in range(5):
            began = turns.number
            assert isinstance(await other.ask(send("orders", b"x")), c.Sent)
            await other.ask(c.UpdateAndCreateTopic(topic=f"u{number}"))
            deletions.append(other.ask(c.DeleteTopic(topic=f"t{TOPICS - 1 - number}")))
            assert turns.number - began <= 3
        assert not question.done() and client.runner.backlog == 2  # it, and the last deletion
        answer = await question
        assert {*await asyncio.gather(*deletions)} == {c.Done()}
        assert isinstance(answer, c.Topics)
        names = {topic.topic for topic in answer.topics}
        assert names >= {f"t{number}" for number in range(TOPICS - 5)}


async def test_the_questions_of_a_connection_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ticking(monkeypatch) as (client, _):
        order: list[int] = []
        asked = [client.ask(question) for question in (c.GetTopics(), c.GetBrokerRuntimeInfo(), c.GetTopicConfigs())]
        for number, answer in enumerate(asked):
            answer.add_done_callback(lambda done, number=number: order.append(number))  # type: ignore[misc]
        theirs = Client(client.runner).ask(c.GetTopics())
        await asyncio.gather(*asked, theirs)
        await asyncio.sleep(0)
        assert order == [0, 1, 2]


async def test_a_question_sees_what_its_connection_sent_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ticking(monkeypatch) as (client, _):
        theirs = Client(client.runner).ask(c.GetTopics())  # this one is begun before the flood
        await asyncio.sleep(0)
        flood = [client.ask(send("orders", b"x")) for _ in range(3 * MAX_BATCH)]
        client.ask(c.UpdateAndCreateTopic(topic="new"))
        seen = client.ask(c.GetTopics(system=False))
        answer = await seen
        assert all(sent.done() for sent in flood) and theirs.done()
        assert isinstance(answer, c.Topics) and "new" in {topic.topic for topic in answer.topics}


async def test_a_connection_that_closes_ends_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ticking(monkeypatch) as (client, turns):
        gone, runner = Client(client.runner), client.runner
        gone.ask(c.GetTopics())
        gone.ask(c.GetTopicConfigs())
        while not turns.pieces:
            await asyncio.sleep(0)
        assert runner.has_waiting(gone.connection) and runner.backlog == 2 and not turns.ended
        calls = gone.calls
        await gone.ask(c.CloseConnection())
        assert turns.ended == 1 and runner.backlog == 0 and not runner.has_waiting(gone.connection)
        assert isinstance(await client.ask(c.GetTopics()), c.Topics) and gone.calls == calls + 1


async def test_the_question_that_is_being_answered_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ticking(monkeypatch) as (client, turns):
        other = Client(client.runner)
        other.connection = Connection(other.sink, questions=2)
        first = other.ask(c.GetTopics())
        while not turns.pieces:
            await asyncio.sleep(0)
        second, third = other.ask(c.GetTopics()), other.ask(c.GetTopics())
        refused = await third
        assert isinstance(refused, c.Failed) and refused.kind == "unavailable" and not first.done()
        assert all(isinstance(answer, c.Topics) for answer in await asyncio.gather(first, second))


async def test_a_question_that_cannot_be_answered_is_refused_and_the_next_one_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ticking(monkeypatch) as (client, _):
        wrong, right = client.ask(c.GetHolds(limit=0)), client.ask(c.GetTopics())
        answer = await wrong
        assert isinstance(answer, c.Failed) and answer.pointer == "/limit"
        assert isinstance(await right, c.Topics)


async def test_stopping_waits_for_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ticking(monkeypatch) as (client, turns):
        question = client.ask(c.GetTopics())
        while not turns.pieces:
            await asyncio.sleep(0)
        await client.runner.stop()
        assert isinstance(question.result(), c.Topics)


def test_every_question_that_can_be_answered_in_pieces_is() -> None:
    assert {*WALKS} <= {*WHOLE_TABLES}
    assert "topic" not in WHOLE_TABLES[c.ViewMessage], "a key is searched in the index of one topic, too"

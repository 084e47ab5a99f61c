"""Questions about whole tables. They wait beside the other commands, and are answered in pieces between them."""

from collections import deque
from typing import TYPE_CHECKING

from broker_core import commands
from broker_core.clock import Clock, Now
from broker_core.commands import Command, Reply
from broker_core.engine import Engine
from broker_core.processor_table import WALKS
from broker_core.server.delayed_commands import DelayedCommands

if TYPE_CHECKING:
    from broker_core.server.engine_runner import Connection, Submission
    from broker_core.walk import Steps

_ALWAYS: tuple[type[Command], ...] = (
    commands.GetTopics,
    commands.GetConsumerGroups,
    commands.GetConsumerGroup,
    commands.GetWaitingRetries,
    commands.GetGroupFacts,
    commands.GetConsumeStats,
    commands.GetBrokerConsumeStats,
    commands.GetAllConsumerOffset,
    commands.QueryTopicConsumeByWho,
    commands.QueryTopicsByConsumer,
    commands.QueryConsumeTimeSpan,
    commands.GetClients,
    commands.GetProducerConnections,
    commands.GetConsumerConnections,
    commands.GetBrokerRuntimeInfo,
    commands.GetSnapshot,
    commands.GetHolds,
    commands.GetEvents,
    commands.QueryCorrectionOffset,
    commands.GetMessageTimeline,
    commands.QueryMessage,
    commands.ConsumeMessageDirectly,
    commands.QueryMessageByTime,
    commands.GetMetrics,
    commands.GetHistorySample,
    commands.GetHoldTimeline,
    commands.GetPulls,
)
WHOLE_TABLES: dict[type[Command], tuple[str, ...]] = dict.fromkeys(_ALWAYS, ()) | {
    commands.GetTopicConfigs: ("topic",),
    commands.GetQueues: ("topic",),
    commands.GetSubscriptionGroups: ("group",),
    commands.QueryConsumerOffset: ("topic",),
    commands.ViewMessage: ("physical_offset",),
}
"""Questions about whole tables or all recent events, unless one of the named fields is set, which narrows them to one
thing. They change nothing."""

ANSWER_NS = 2_000_000
"""How long a turn goes on answering a question. The piece in which this time ends is its last one."""


class Questions:
    """The questions that wait, and the one that is being answered. The connections take turns.

    One question is answered at a time, so each connection's questions are answered in their order, and there is one
    unfinished answer in memory at most.
    """

    def __init__(self) -> None:
        self._by_connection: dict[Connection, deque[tuple[int, Submission]]] = {}
        self._waiting = 0
        self._answering: tuple[Connection, int, Steps[Reply]] | None = None

    def __len__(self) -> int:
        return self._waiting + (self._answering is not None)

    def __contains__(self, connection: "Connection") -> bool:
        return connection in self._by_connection or self._is_answering(connection)

    def _is_answering(self, connection: "Connection") -> bool:
        return self._answering is not None and self._answering[0] is connection

    def put(self, question: "Submission", after: int) -> bool:
        """Add a question to be answered after so many commands. False if too many of its connection wait."""
        connection = question[0]
        waiting = self._by_connection.get(connection, ())
        if len(waiting) + self._is_answering(connection) >= connection.questions:
            return False
        self._by_connection.setdefault(connection, deque()).append((after, question))
        self._waiting += 1
        return True

    def drop(self, connection: "Connection") -> None:
        """Drop the questions of a connection that has closed."""
        self._waiting -= len(self._by_connection.pop(connection, ()))
        if self._is_answering(connection):
            self._answering = None

    def take(self, delayed: DelayedCommands) -> "Submission | None":
        """The next question, to ``begin`` or to handle as one of this turn's commands.

        None while a question is being answered, or if the next one's connection has delayed commands that were
        submitted before it.
        """
        if self._answering is not None or not self._by_connection:
            return None
        connection, waiting = next(iter(self._by_connection.items()))
        after, question = waiting[0]
        del self._by_connection[connection]
        is_due = not delayed.has_before(connection, after)
        if is_due:
            waiting.popleft()
            self._waiting -= 1
        if waiting:
            self._by_connection[connection] = waiting
        return question if is_due else None

    def begin(self, question: "Submission", engine: Engine, now: Now) -> bool:
        """Begin to answer a question in pieces. False if it is answered in one piece, as a command like others."""
        connection, request_id, command = question
        if type(command) not in WALKS:
            return False
        self._answering = connection, request_id, engine.walk(command, now)
        return True

    def answer(self, clock: Clock) -> "list[tuple[Connection, int, Reply]]":
        """Go on with the answer for ``ANSWER_NS``. Returns it when it is complete, an empty list before."""
        if self._answering is None:
            return []
        connection, request_id, steps = self._answering
        end_ns = clock.mono_ns() + ANSWER_NS
        try:
            next(steps)
            while clock.mono_ns() < end_ns:
                next(steps)
        except StopIteration as end:
            self._answering = None
            return [(connection, request_id, end.value)]
        return []

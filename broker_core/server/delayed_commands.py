"""Commands that did not fit into the first turn after they arrived. While there are none, this costs nothing."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from broker_core.codes import ResponseCode
from broker_core.commands import Command, Failed, Reply

if TYPE_CHECKING:
    from broker_core.server.engine_runner import Connection, Submission

MAX_REFUSED = 128
"""Commands that one turn refuses; it handles the others, however late they are."""
MAX_REFUSED_IN_A_ROW = 16
"""Commands of one connection that are refused before the next connection has its turn."""

RETRY_AFTER_MS = 1000


_Delayed = tuple[int, int, "Submission"]
"""Its number, which counts all submissions; the monotonic time of the turn that it did not fit into; the submission."""


class DelayedCommands:
    """RocketMQ's BrokerFastFailure, with fair shares: the connections take turns, ``Connection.share`` commands each.

    The commands of one connection keep their order. Commands that have waited longer than allowed are refused.
    """

    def __init__(self) -> None:
        self._by_connection: dict[Connection, deque[_Delayed]] = {}
        self._turns: deque[Connection] = deque()
        self._count = 0
        self._taken_in_a_row = 0
        """Commands taken of the connection whose turn it is. Its turn may continue in the engine's next turn."""
        self.waited_ns = 0
        """How long the command had waited that waited longest of those that ``take`` took or refused last."""

    def __len__(self) -> int:
        return self._count

    @property
    def connections(self) -> int:
        """How many connections have delayed commands."""
        return len(self._turns)

    def __contains__(self, connection: "Connection") -> bool:
        return connection in self._by_connection

    def has_before(self, connection: "Connection", number: int) -> bool:
        """Whether the connection has a delayed command that is among the first ``number`` submissions of all."""
        waiting = self._by_connection.get(connection)
        return waiting is not None and waiting[0][0] < number

    def add(self, submissions: "Iterable[Submission]", first: int, now_ns: int) -> None:
        """Delay submissions, the first of which has the number ``first``."""
        for number, submission in enumerate(submissions, first):
            connection = submission[0]
            waiting = self._by_connection.get(connection)
            if waiting is None:
                waiting = self._by_connection[connection] = deque()
                self._turns.append(connection)
            waiting.append((number, now_ns, submission))
            self._count += 1

    def take(
        self, weigh: Callable[[Command], int], room: int, now_ns: int, limits_ns: Mapping[type[Command], int]
    ) -> "tuple[list[Submission], list[tuple[Connection, int, Reply]]]":
        """Take the commands of the next turn, of a total weight of ``room`` or one heavier command.

        Also returns the answers to those that have waited longer than the limit of their type.
        """
        batch: list[Submission] = []
        refused: list[tuple[Connection, int, Reply]] = []
        refused_in_a_row = 0
        self.waited_ns = 0
        while self._turns:
            connection = self._turns[0]
            waiting = self._by_connection[connection]
            _, since_ns, submission = waiting[0]
            command = submission[2]
            limit_ns = limits_ns.get(type(command))
            if limit_ns is not None and now_ns - since_ns > limit_ns and len(refused) < MAX_REFUSED:
                refused.append((connection, submission[1], _busy(now_ns - since_ns, self._count)))
                refused_in_a_row += 1
                is_next_turn = refused_in_a_row == MAX_REFUSED_IN_A_ROW
            else:
                room -= weigh(command)
                if room < 0 and batch:
                    break
                batch.append(submission)
                self._taken_in_a_row += 1
                is_next_turn = self._taken_in_a_row >= connection.share
            waiting.popleft()
            self._count -= 1
            self.waited_ns = max(self.waited_ns, now_ns - since_ns)
            if not waiting:
                del self._by_connection[connection]
                self._turns.popleft()
                refused_in_a_row = self._taken_in_a_row = 0
            elif is_next_turn:
                self._turns.rotate(-1)
                refused_in_a_row = self._taken_in_a_row = 0
        return batch, refused


def _busy(waited_ns: int, size: int) -> Failed:
    return Failed(
        code=ResponseCode.SYSTEM_BUSY,
        kind="overload",
        retry_after_ms=RETRY_AFTER_MS,
        remark="[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: "
        f"{waited_ns // 1_000_000}ms, size of queue: {size}",
    )

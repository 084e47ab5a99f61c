"""Fair shares of delayed commands by connection, and the answers to those that waited too long."""

from broker_core.commands import Command, Failed, GetBroker, PullMessage, SendMessage
from broker_core.server import delayed_commands
from broker_core.server.delayed_commands import DelayedCommands
from broker_core.server.engine_runner import Connection, Submission

SEND = SendMessage(topic="t", messages=[])
PULL = PullMessage(topic="t", queue_id=0, queue_offset=0)
ASK = GetBroker()
LIMITS: dict[type[Command], int] = {SendMessage: 200, PullMessage: 5000}
A, B, C = (Connection(list.clear, name) for name in "ABC")


def weigh(command: Command) -> int:
    return 8 if isinstance(command, PullMessage) else 1


def delayed(*submissions: Submission) -> DelayedCommands:
    commands = DelayedCommands()
    commands.add(submissions, 100, 1000)
    return commands


def take(commands: DelayedCommands, room: int = 100, now: int = 1000) -> tuple[list[str], list[str]]:
    """The taken and the refused commands, as connection and request id."""
    batch, refused = commands.take(weigh, room, now, LIMITS)
    return [f"{taken[0].key}{taken[1]}" for taken in batch], [f"{answer[0].key}{answer[1]}" for answer in refused]


def test_connections_take_turns_and_each_keeps_its_order() -> None:
    commands = delayed((A, 1, SEND), (A, 2, SEND), (A, 3, SEND), (B, 1, SEND), (C, 1, SEND), (C, 2, SEND))
    assert take(commands, room=4) == (["A1", "B1", "C1", "A2"], [])
    assert len(commands) == 2 and B not in commands and A in commands
    commands.add([(B, 2, SEND)], 106, 1001)
    assert take(commands) == (["C2", "A3", "B2"], [])
    assert len(commands) == 0 and A not in commands


def test_a_connection_of_many_clients_has_its_share_in_each_turn() -> None:
    many = Connection(list.clear, "M", share=3)
    commands = delayed(*((many, number, SEND) for number in range(1, 8)), (A, 1, SEND), (A, 2, SEND), (A, 3, SEND))
    assert take(commands, room=2)[0] == ["M1", "M2"]
    assert take(commands, room=2)[0] == ["M3", "A1"], "its turn continues, and does not begin again"
    assert take(commands)[0] == ["M4", "M5", "M6", "A2", "M7", "A3"]


def test_a_share_that_was_not_used_is_not_the_next_connections() -> None:
    many, others = (Connection(list.clear, name, share=3) for name in "MN")
    commands = delayed((many, 1, SEND), (many, 2, SEND), *((C, number, SEND) for number in (1, 2)), (A, 1, SEND))
    commands.add(((others, number, SEND) for number in range(1, 5)), 200, 1000)
    assert take(commands)[0] == ["M1", "M2", "C1", "A1", "N1", "N2", "N3", "C2", "N4"]


def test_a_turn_has_the_weight_that_is_allowed_or_one_command() -> None:
    commands = delayed((A, 1, PULL), (B, 1, PULL), (C, 1, SEND))
    assert take(commands, room=4)[0] == ["A1"]
    assert take(commands, room=9)[0] == ["B1", "C1"]


def test_a_command_that_waited_longer_than_its_type_allows_is_refused() -> None:
    commands = delayed((A, 1, SEND), (A, 2, PULL), (A, 3, SEND), (B, 1, ASK))
    assert take(commands, now=1200, room=1) == (["A1"], [])
    assert take(commands, now=6000) == (["B1", "A2"], ["A3"])


def test_the_answer_has_rocketmqs_words() -> None:
    commands = delayed((A, 1, SEND))
    ((_, _, reply),) = commands.take(weigh, 1, 1000 + 350 * 1_000_000, LIMITS)[1]
    assert isinstance(reply, Failed) and (reply.code, reply.kind) == (2, "overload")
    assert reply.remark == (
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 350ms, size of queue: 1"
    )


def test_refusals_of_one_turn_are_bounded() -> None:
    most = delayed_commands.MAX_REFUSED
    commands = delayed(*((A, number, SEND) for number in range(most + 50)))
    assert list(map(len, take(commands, room=20, now=9000))) == [20, most]
    assert list(map(len, take(commands, room=20, now=9000))) == [0, 30]


def test_refusals_of_one_connection_do_not_delay_another() -> None:
    commands = delayed(*((A, number, SEND) for number in range(100)), (B, 1, ASK))
    batch, refused = take(commands, room=1, now=9000)
    assert batch == ["B1"] and len(refused) >= delayed_commands.MAX_REFUSED_IN_A_ROW


def test_a_connection_knows_whether_earlier_submissions_of_it_wait() -> None:
    commands = delayed((A, 1, SEND), (B, 1, SEND))
    assert not commands.has_before(A, 100) and commands.has_before(A, 101)
    assert not commands.has_before(B, 101) and commands.has_before(B, 102)
    assert not commands.has_before(C, 1000)

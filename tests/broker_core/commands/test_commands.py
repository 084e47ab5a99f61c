"""The vocabulary: everything encodes, and decodes to the same."""

import msgspec

from broker_core import commands
from broker_core.processor_table import GATHERED, PROCESSORS


def test_every_command_has_a_processor_or_gathers() -> None:
    kinds = set(commands.AnyCommand.__args__)
    assert kinds == set(PROCESSORS) | GATHERED


def leaves(base: type) -> set[type]:
    below = {leaf for kind in base.__subclasses__() for leaf in leaves(kind)}
    return below or {base}


def test_every_command_and_reply_is_in_its_set() -> None:
    def of_the_vocabulary(base: type) -> set[type]:
        return {kind for kind in leaves(base) if kind.__module__.startswith("broker_core.commands.")}

    assert of_the_vocabulary(commands.Command) == set(commands.AnyCommand.__args__)
    assert of_the_vocabulary(commands.Reply) == set(commands.AnyReply.__args__)


def test_a_batch_of_different_commands_survives_the_wire() -> None:
    batch = [
        (1, 1, commands.SendMessage(topic="T", messages=[commands.OutgoingMessage(body=b"\x00\xff")])),
        (2, 7, commands.PullMessage(topic="T", queue_id=0, queue_offset=1 << 40)),
    ]
    text = msgspec.msgpack.encode(batch)
    assert msgspec.msgpack.decode(text, type=list[tuple[int, int, commands.AnyCommand]]) == batch


def test_replies_survive_the_wire() -> None:
    replies = [
        commands.Done(),
        commands.Failed(code=17, remark="no", kind="not_found"),
        commands.Pulled(
            code=0,
            status="FOUND",
            next_begin_offset=1,
            min_offset=0,
            max_offset=1,
            suspend_timeout_ms=0,
            read_us=1,
            records=b"r",
            hold=commands.HoldOutcome(hold_id=1, held_us=2, wake_us=3, wake_cause="arrival"),
        ),
    ]
    text = msgspec.msgpack.encode(replies)
    assert msgspec.msgpack.decode(text, type=list[commands.AnyReply]) == replies

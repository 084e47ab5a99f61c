"""Commands of one batch that store messages: each kind is one block, and a defect in one kind does not stop another."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core import gathered_commands
from tests.fakes.engine import Bench
from tests.fakes.pops import ack_of, change_of, take
from tests.fakes.transactions import begin, ending


def test_a_batch_of_many_kinds_is_three_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    popped, transactions = take(bench), [begin(bench), begin(bench)]
    append, blocks = bench.context.store.append, []

    def counted(messages: Any, now: Any) -> Any:
        blocks.append(len(messages))
        return append(messages, now)

    monkeypatch.setattr(bench.context.store, "append", counted)
    send = c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"c", queue_id=0)])
    commands = [send, ack_of(popped, 0), ending(transactions[0]), ack_of(popped, 1), send, ending(transactions[1])]
    requests = bench.submit(*commands)
    assert blocks == [2, 2, 1], "ends, sends, one record of acknowledgements"
    assert not any(isinstance(bench.final(request), c.Failed | None) for request in requests)


def test_what_follows_in_the_batch_finds_what_was_gathered() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    reply = take(bench)
    acknowledge, change = bench.submit(ack_of(reply), change_of(reply, 0, 1000))
    refused = bench.final(change)
    assert bench.final(acknowledge) == c.Acknowledged(messages=1)
    assert isinstance(refused, c.Failed) and refused.code == 208, "it is not invisible any more"


def test_a_defect_in_one_kind_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise ZeroDivisionError

    bench = Bench()
    bench.send("orders", b"a")
    popped, half = take(bench), begin(bench)
    monkeypatch.setattr(gathered_commands, "store_ends", broken)
    end, acknowledge = bench.submit(ending(half), ack_of(popped))
    assert bench.final(end) is None and bench.final(acknowledge) == c.Acknowledged(messages=1)
    bench.send("orders", b"b")

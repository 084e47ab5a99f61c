"""RocketMQ's own ``mqadmin`` prints for any broker what it prints for RocketMQ (``mqadmin_scenario.py``)."""

import difflib
import json

from tests.compat import java_program, mqadmin_scenario
from tests.compat.conftest import needs
from tests.compat.feature_table import note_cases
from tests.compat.glassmq_broker import Address


def case(command: str, is_right: bool) -> dict[str, str | bool]:
    """The case of a command of the story, for the table of features."""
    return {"name": f"mqadmin.{mqadmin_scenario.name_of(command.split()[1:])}", "ok": is_right}


def test_mqadmin_prints_the_same_for_glassmq_and_rocketmq(server: Address) -> None:
    needs(java_program.classes)
    expected = json.loads(mqadmin_scenario.GOLDEN.read_text())
    printed = mqadmin_scenario.run(server.namesrv, server.broker)
    assert list(printed) == list(expected), "the story is another: run `python -m tests.compat.mqadmin_scenario`"
    note_cases("mqadmin 5.4.0", (case(command, printed[command] == expected[command]) for command in expected))
    others = [
        line
        for command in expected
        if printed[command] != expected[command]
        for line in (f"\n{command}", *difflib.ndiff(expected[command], printed[command]))
        if line[:1] != "?"
    ]
    assert not others, "RocketMQ prints the lines with -, this broker those with +:\n" + "\n".join(others)

"""RocketMQ's own ``mqadmin`` prints for any broker what it prints for RocketMQ (``mqadmin_scenario.py``)."""

import difflib
import json

from tests.compat import java_program, mqadmin_scenario
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address


def test_mqadmin_prints_the_same_for_glassmq_and_rocketmq(server: Address) -> None:
    needs(java_program.classes)
    expected = json.loads(mqadmin_scenario.GOLDEN.read_text())
    printed = mqadmin_scenario.run(server.namesrv, server.broker)
    assert list(printed) == list(expected), "the story is another: run `python -m tests.compat.mqadmin_scenario`"
    others = [
        line
        for command in expected
        if printed[command] != expected[command]
        for line in (f"\n{command}", *difflib.ndiff(expected[command], printed[command]))
        if line[:1] != "?"
    ]
    assert not others, "RocketMQ prints the lines with -, this broker those with +:\n" + "\n".join(others)

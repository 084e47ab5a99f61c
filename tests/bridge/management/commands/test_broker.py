"""What a signal does to the process. tests/test_commands.py runs the command itself."""

import sys

import pytest

from bridge.management.commands.broker import BrokerProcess


class ClosedTerminal:
    """A stderr that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_signal_stops_the_broker_though_nobody_reads_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    process, stops = BrokerProcess.__new__(BrokerProcess), []
    process._stopping = None
    monkeypatch.setattr(process, "_stop_once", lambda: stops.append("stop"))
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    process._on_signal()
    assert stops == ["stop"]

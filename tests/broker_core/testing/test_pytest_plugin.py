"""The pytest plugin, in a pytest of its own."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import PROJECT

TESTS = """
import pytest
from broker_core.client import Message
from broker_core.client.sync import DefaultMQProducer

@pytest.mark.parametrize("time", [1, 2])
def test_every_broker_is_empty(glassmq_broker, time):
    with DefaultMQProducer("p", namesrv_addr=glassmq_broker.namesrv_addr) as producer:
        sent = [producer.send(Message("orders", b"x")) for _ in range(4)]
    assert {result.queue_offset for result in sent} == {0}
"""


def test_a_test_elsewhere_gets_a_broker(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(TESTS)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "broker_core.testing.pytest_plugin",
            "-p",
            "no:django",
            str(tmp_path),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr

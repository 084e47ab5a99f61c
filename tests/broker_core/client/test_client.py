"""The package as users import it."""

import subprocess
import sys

import broker_core.client
from tests.conftest import PROJECT


def test_a_client_needs_no_broker_and_no_framework() -> None:
    program = (
        "import sys, broker_core.client, broker_core.client.sync;"
        "print(*sorted(name for name in sys.modules if name.startswith("
        "('django', 'channels', 'twisted', 'celery', 'uvloop', 'redis', 'broker_core.engine', 'broker_core.store',"
        " 'broker_core.processors', 'broker_core.server'))))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_every_exported_name_exists() -> None:
    assert all(hasattr(broker_core.client, name) for name in broker_core.client.__all__)

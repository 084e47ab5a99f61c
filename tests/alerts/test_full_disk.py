"""From a disk that is really full to a receiver: a small file system, an engine on it, a rule, and a web hook."""

import asyncio
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alerts import catalogue, records
from alerts.models import AlertRecord, AlertRule
from alerts.sending import Outbox
from alerts.service import AlertService
from bridge.port import commands
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.store.files import RealFiles
from tests.alerts.receivers import http_receiver
from tests.alerts.test_service import database
from tests.fakes.engine import Bench
from tests.fakes.fake_port import FakePort

pytestmark = pytest.mark.django_db(transaction=True)

SIZE_MIB = 24


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of SIZE_MIB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "glassmq-test", str(folder)]
    mounting = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounting.returncode:
        pytest.skip(f"no file system can be mounted here: {mounting.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


class EngineOnDisk(Bench):
    """An engine on real files and a virtual clock. Its port answers with what the engine says."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
        self.engine = Engine.open(folder / "store", self.options, RealFiles(), self.clock, keys.next)
        self.port = FakePort()
        self.port.replies[commands.GetMetrics] = self.call


async def test_a_full_disk_fires_a_rule_reaches_a_receiver_and_stays_in_the_history(disk: Path) -> None:
    engine = EngineOnDisk(disk)
    ballast = disk / "ballast"

    async def ended(outcome: Any) -> None:
        await service._on_outcome(outcome)

    async def round_after(ms: int) -> None:
        engine.tick(ms)
        engine.file_work()
        await service.round()
        await asyncio.gather(*outbox._tasks.values())

    outbox = Outbox(ended)
    service = AlertService(ports=lambda: {"broker-a": engine.port}, clock=engine.clock, outbox=outbox)
    async with http_receiver() as receiver:

        def declare() -> None:
            AlertRule.objects.all().delete()
            channel = catalogue.add_channel(name="hook", kind="webhook", url=receiver.url)
            catalogue.add_rule(name="Disk fills", what="disk_used", threshold=80, for_s=0, channels=(channel.id,))

        await database(declare)
        await round_after(engine.options.clean_resource_interval)
        assert receiver.requests == []

        with ballast.open("wb", buffering=0) as file:
            while file.write(b"\1" * (1 << 20)) == 1 << 20:
                if RealFiles().free_space(disk) < 2 << 20:
                    break
        percent = f"{RealFiles().disk_used_percent(disk):.1f}"
        await round_after(engine.options.clean_resource_interval)
        [(_, _, body)] = receiver.requests
        [alert] = json.loads(body)["alerts"]
        assert (alert["status"], alert["labels"]["alertname"]) == ("firing", "Disk fills")
        assert f"the disk is {percent} % full" in json.dumps(alert)
        assert await database(records.firing_counts) == {"warning": 1}

        ballast.unlink()
        await round_after(60_000)
        assert [json.loads(body)["alerts"][0]["status"] for _, _, body in receiver.requests] == ["firing", "resolved"]
        [record] = await database(lambda: list(AlertRecord.objects.all()))
        assert record.resolved_ms is not None and record.text == f"the disk is {percent} % full"
    engine.engine.close(engine.clock.now())

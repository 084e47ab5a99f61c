"""Rounds of evaluation, from a broker's answers to a receiver, over a real database."""

import asyncio
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, transaction

from alerts import catalogue, records, service
from alerts.evaluation import Notice
from alerts.messages import place_of
from alerts.models import AlertRecord, AlertRule
from alerts.rules import Channel
from alerts.sending import Outbox, Outcome
from alerts.service import AlertService
from bridge.port import PortTimeout, commands
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.store.files import RealFiles
from spark_jobs.models import ReportRun, Status
from tests.alerts.receivers import http_receiver
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import Bench as EngineBench
from tests.fakes.fake_port import FakePort, broker_metrics, group_metrics

pytestmark = pytest.mark.django_db(transaction=True)


def database(work: Any, *arguments: Any, **more: Any) -> Any:
    return sync_to_async(work)(*arguments, **more)


class Bench:
    """A web process over a scripted broker."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.port = FakePort()
        self.clock = clock or VirtualClock()
        self.sent: list[Notice] = []
        self.outbox = Outbox(self._ended, sending=self._send)
        self.service = self.process()

    def process(self) -> AlertService:
        return AlertService(ports=lambda: {"broker-a": self.port}, clock=self.clock, outbox=self.outbox)

    async def _send(self, to: Channel, notice: Notice) -> None:
        self.sent.append(notice)

    async def _ended(self, outcome: Outcome) -> None:
        await self.service._on_outcome(outcome)

    def stalled(self, *groups: str) -> None:
        self.port.replies[commands.GetMetrics] = broker_metrics(*(group_metrics(group) for group in groups))

    async def round(self, after_ms: int = 0) -> list[Notice]:
        """One round; the messages that it sent."""
        self.clock.advance(after_ms)
        self.sent.clear()
        await self.service.round()
        await asyncio.gather(*self.outbox._tasks.values())
        return list(self.sent)


async def declared() -> int:
    """A rule for stalled groups with a channel, and no other."""

    def declare() -> int:
        AlertRule.objects.all().delete()
        channel = catalogue.add_channel(name="hook", kind="webhook", url="http://x.example/s3cret")
        fields: dict[str, Any] = {"name": "stalled", "what": "group_state", "states": ("stalled",), "for_s": 60}
        return catalogue.add_rule(**fields, channels=(channel.id,)).id

    number: int = await database(declare)
    return number


async def test_from_a_stalled_group_to_a_receiver_and_back() -> None:
    await declared()
    bench = Bench()
    bench.stalled("billing", "orders")
    assert await bench.round() == []
    [notice] = await bench.round(after_ms=60_000)
    assert [alert.subject.group for alert in notice.firing] == ["billing", "orders"]
    assert await database(records.firing_counts) == {"warning": 2}
    assert await database(lambda: AlertRecord.objects.exclude(notified_ms=None).count()) == 2
    bench.stalled("orders")
    [ended] = await bench.round(after_ms=60_000)
    assert [alert.subject.group for alert in ended.resolved] == ["billing"]
    assert await database(records.firing_counts) == {"warning": 1}


async def test_two_web_processes_send_one_message() -> None:
    await declared()
    bench = Bench()
    other = Bench(bench.clock)
    for process in (bench, other):
        process.stalled("g")
        await process.round()
    sent = [*await bench.round(after_ms=60_000), *await other.round()]
    assert len(sent) == 1


async def test_a_slow_round_is_followed_by_a_pause_in_which_the_turn_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    await declared()
    monkeypatch.setattr(service, "SHARE", 1e12)
    bench = Bench()
    other = Bench(bench.clock)
    for process in (bench, other):
        process.stalled("g")
        await process.round()
    asked = len(bench.port.commands)
    for _ in range(10):
        await bench.round(after_ms=15_000)
        await other.round()
    assert len(bench.port.commands) == asked
    assert other.port.commands == []
    bench.service.evaluate_soon()
    assert len(await bench.round()) == 1


async def test_an_engine_that_stops_in_the_pause_after_a_slow_round_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    await declared()
    await database(lambda: catalogue.add_rule(name="down", what="engine_down", for_s=60))
    monkeypatch.setattr(service, "SHARE", 1e12)
    bench = Bench()
    bench.stalled("g")
    await bench.round()
    asked = len(bench.port.commands)
    await bench.round(after_ms=15_000)
    assert bench.port.commands[asked:] == [commands.GetBroker()]
    bench.port.replies[commands.GetBroker] = PortTimeout("no answer within 10 s")
    await bench.round(after_ms=15_000)
    await bench.round(after_ms=60_000)
    assert await database(lambda: list(AlertRecord.objects.values_list("rule_name", "broker"))) == [
        ("down", "broker-a")
    ]


async def test_an_engine_that_does_not_answer_delays_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    await declared()
    monkeypatch.setattr(service, "SHARE", 1e12)
    bench = Bench()
    bench.port.replies[commands.GetBroker] = PortTimeout("no answer within 10 s")
    await bench.round()
    asked = len(bench.port.commands)
    await bench.round(after_ms=15_000)
    assert len(bench.port.commands) == 2 * asked


async def test_the_next_process_goes_on_and_sends_nothing_twice() -> None:
    await declared()
    bench = Bench()
    bench.stalled("g")
    await bench.round()
    assert len(await bench.round(after_ms=60_000)) == 1
    await bench.service.stop()
    bench.service = bench.process()
    assert await bench.round(after_ms=1000) == []
    bench.stalled()
    [ended] = await bench.round(after_ms=60_000)
    assert [alert.subject.group for alert in ended.resolved] == ["g"]
    assert await database(records.firing_counts) == {}


async def test_a_broker_that_does_not_answer_ends_no_alert() -> None:
    await declared()
    bench = Bench()
    bench.stalled("g")
    await bench.round()
    await bench.round(after_ms=60_000)
    bench.port.replies[commands.GetBroker] = PortTimeout("no answer")
    assert await bench.round(after_ms=60_000) == []
    assert await database(records.firing_counts) == {"warning": 1}


async def test_a_database_that_fails_holds_no_message_back(monkeypatch: pytest.MonkeyPatch) -> None:
    await declared()
    bench = Bench()
    bench.stalled("g")
    await bench.round()

    def fail(*_: Any, **__: Any) -> None:
        raise DatabaseError("database or disk is full")

    for name in ("take_turn", "declared", "write", "note_round", "note_outcome"):
        monkeypatch.setattr(records, name, fail)
    assert len(await bench.round(after_ms=60_000)) == 1


async def test_what_fires_is_in_the_history_as_soon_as_the_database_answers_again() -> None:
    await declared()
    bench = Bench()
    bench.stalled("ends", "goes-on")
    await bench.round()
    await bench.round(after_ms=60_000)

    write = records.write

    @transaction.atomic
    def write_and_fail(*arguments: Any) -> None:
        write(*arguments)
        raise DatabaseError("database or disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "write", write_and_fail)
        bench.stalled("goes-on", "begins")
        await bench.round(after_ms=15_000)
        await bench.round(after_ms=60_000)
    for _ in range(2):
        await bench.round(after_ms=15_000)
        firing = await database(
            lambda: sorted(row.group for row in records.page(firing=True, before=None, limit=9).rows)
        )
        assert firing == ["begins", "goes-on"]


async def test_a_rule_that_is_removed_ends_its_alerts_without_a_message() -> None:
    number = await declared()
    bench = Bench()
    bench.stalled("g")
    await bench.round()
    await bench.round(after_ms=60_000)
    await database(catalogue.remove_rule, number)
    assert await bench.round(after_ms=60_000) == []
    assert await database(records.firing_counts) == {}


async def test_a_process_evaluates_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    await declared()
    port = FakePort()
    port.replies[commands.GetMetrics] = broker_metrics(group_metrics("billing"))
    monkeypatch.setattr(service, "get_ports", lambda: {"broker-a": port})
    async with http_receiver() as receiver:
        await database(lambda: catalogue.change_rule(catalogue.rules()[0].id, for_s=0))
        await database(lambda: catalogue.change_channel(catalogue.channels()[0].id, url=receiver.url))
        service.start_alerts()
        service.evaluate_soon()
        async with asyncio.timeout(60):
            await receiver.got.wait()
        await service.stop_alerts()
        [(_, _, body)] = receiver.requests
    assert json.loads(body)["alerts"][0]["labels"]["consumer_group"] == "billing"
    assert await database(records.take_turn, "another", 1)
    service.evaluate_soon()
    await service.stop_alerts()


async def test_a_figure_of_a_report_fires_when_a_run_has_ended() -> None:
    def declare() -> None:
        AlertRule.objects.all().delete()
        channel = catalogue.add_channel(name="hook", kind="webhook", url="http://x.example/s3cret")
        fields: dict[str, Any] = {"what": "report", "report": "consumer_lag", "figure": "most_lag", "threshold": 100}
        catalogue.add_rule(name="daily lag", channels=(channel.id,), **fields)

    def end_run(lag: int) -> None:
        headline = {"name": "most_lag", "label": "Messages behind", "kind": "number", "value": lag}
        ReportRun.objects.create(report="consumer_lag", status=Status.DONE, result={"headlines": [headline]})

    await database(declare)
    bench = Bench()
    assert await bench.round() == []
    evaluator = await database(records.evaluator)
    assert evaluator.problems[0].startswith("daily lag: most_lag of the report consumer_lag is not known")
    await database(end_run, 101)
    [notice] = await bench.round(after_ms=60_000)
    assert [place_of(alert.subject) for alert in notice.firing] == ["reports"]
    assert notice.firing[0].text.startswith("Messages behind: 101 (run ")
    assert await bench.round(after_ms=60_000) == []
    bench.service = bench.process()
    assert await bench.round(after_ms=120_000) == [], "the next web process does not send it again"
    await database(end_run, 100)
    [notice] = await bench.round(after_ms=60_000)
    assert len(notice.resolved) == 1


# --- A disk that is really full: a small file system, an engine on it, a rule, and a web hook ---

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


class EngineOnDisk(EngineBench):
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

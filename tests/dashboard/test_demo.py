"""The demo's records, and its clients against a real broker."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker_core import commands as c
from dashboard import demo
from dashboard.demo import BY_TRIES, COPIES, GROUPS, TO_DEAD_LETTERS, TRIES, Demo, DemoError, message, records
from tests.conftest import Manage
from tests.fakes.engine import Bench

pytestmark = pytest.mark.slow
PATIENCE_S = 300
GAMES = [{"Package": f"game-{number}", "Section": "games"} for number in range(4)]


def test_the_default_records_are_debian_packages() -> None:
    packages = records(None)
    assert len(packages) > 100
    assert all("Package" in package for package in packages)
    assert demo.PACKAGES.parent == Path(demo.__file__).parent, "the image has no other folder with data"


def test_every_filter_accepts_some_packages() -> None:
    sections = {package["Section"] for package in records(None)}
    filters = {expression for group in GROUPS for expression in group.filters} - {"*"}
    assert {section for expression in filters for section in expression.split(" || ")} <= sections


def test_reads_the_records_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('{"a": 1}\n\n{"b": "ü"}\n', encoding="utf-8")
    assert records(file) == [{"a": 1}, {"b": "ü"}]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b'{"a": 1}\n{"a":\n', r"lines\.jsonl line 2 is not JSON"),
        (b'{"a": 1}\n[1]\n', r"lines\.jsonl line 2 is not a JSON object"),
        (b"\n\n", r"lines\.jsonl has no records"),
        (b"\xff\n", r"lines\.jsonl cannot be read"),
        (None, r"lines\.jsonl cannot be read: .*No such file"),
    ],
)
def test_an_invalid_file_is_an_error_with_its_name(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    file = tmp_path / "lines.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DemoError, match=complaint):
        records(file)


@pytest.mark.parametrize(
    ("record", "properties"),
    [
        ({"Package": "zsh", "Section": "shells"}, {"tag": "shells", "keys": ["zsh"]}),
        ({"key": "k", "tag": "t"}, {"tag": "t", "keys": ["k"]}),
        ({"Package": "two words", "Section": "a||b"}, {}),
        ({"Package": 5, "Section": ["x"]}, {}),
        ({"Package": "", "Section": ""}, {}),
        ({"other": 1}, {}),
    ],
)
def test_a_record_as_a_message(record: dict[str, Any], properties: dict[str, Any]) -> None:
    assert message(record) == {"body": record, "body_encoding": "json"} | properties


def test_a_message_of_failing_importer_leaves_so_many_copies() -> None:
    bench = Bench(default_topic_queue_nums=1)
    bench.send("demo", b"x")
    topic = "demo"
    for number in range(TRIES):
        bench.tick(3_600_000)
        ((physical_offset, _, _),) = bench.context.store.reader.queue_units(topic, 0, number - 1 if number else 0, 1)
        level = BY_TRIES if number + 1 < TRIES else TO_DEAD_LETTERS
        assert (
            bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=physical_offset, delay_level=level)) == c.Done()
        )
        topic = "%RETRY%g"
    bench.tick(3_600_000)
    assert bench.context.counters.messages_stored == 1 + COPIES


async def until(true: Callable[[], object], task: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            assert not task.done(), task.result()
            await asyncio.sleep(0.02)


@pytest.fixture
def url(manage: Manage) -> str:
    return f"http://127.0.0.1:{manage.environment['GLASSMQ_WEB_PORT']}"


def stored(url: str) -> int:
    queues = httpx.get(f"{url}/api/v1/topics/demo/queues", timeout=60).json()["queues"]
    return sum(queue["max_offset"] for queue in queues)


def connection_changes(said: list[str]) -> list[str]:
    """``no`` for each lost connection, ``connected`` for each new one. Other lines are counts of messages."""
    return [line.partition(" ")[0] for line in said if "connect" in line]


async def test_a_healthy_group_consumes_across_a_restart(
    manage: Manage, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "RETRY_SECONDS", 0.05)
    said: list[str] = []
    clients = Demo(url, "demo", rate=200.0, count=None, say=said.append)
    running = asyncio.create_task(clients.run(GAMES))

    def are_ahead(start: int) -> bool:
        return clients.published > start and clients.consumed["search-index"] > start

    await until(lambda: said, running)
    first = manage.start("broker", "--no-schedules")
    await until(lambda: are_ahead(100), running)
    assert re.match(r"no connection to ws://127\.0\.0\.1:\d+/ws/v1/consumer", said[0])
    assert connection_changes(said) == ["no", "connected"] * (len(connection_changes(said)) // 2)
    changes = len(connection_changes(said))  # on a slow machine more than two: the web comes up before the engine

    first.terminate()
    await asyncio.to_thread(first.communicate)
    await until(lambda: connection_changes(said)[changes:][-1:] == ["no"], running)
    manage.start("broker", "--no-schedules")
    before = clients.published
    await until(lambda: are_ahead(before), running)
    assert connection_changes(said)[-1] == "connected"

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(scope="module")
def shared_url(shared_manage: Manage) -> str:
    """The address of a broker that starts, or has started."""
    shared_manage.start("broker", "--no-schedules")
    return f"http://127.0.0.1:{shared_manage.environment['GLASSMQ_WEB_PORT']}"


async def test_each_group_gets_its_verdict(shared_url: str) -> None:
    """Those that the group page shows, the worst first."""
    clients = Demo(shared_url, "demo-groups", rate=50.0, count=None, say=lambda line: None)
    running = asyncio.create_task(clients.run(records(None)))
    expected = {
        "search-index": ("ok", "ok"),
        "slow-scanner": ("falling behind", "falling_behind"),
        "stuck-mirror": ("stalled", "not_acknowledged"),
        "failing-importer": ("stalled", "every_message_fails"),
        "mixed-alerts": ("", "subscriptions_disagree"),
    }
    assert set(expected) == {group.name for group in GROUPS}
    answers: dict[str, Any] = {}
    await until(lambda: clients.published, running)
    async with httpx.AsyncClient(base_url=shared_url, timeout=60) as http, asyncio.timeout(PATIENCE_S):
        for name, (state, verdict) in expected.items():
            while True:
                assert not running.done(), running.result()
                answers[name] = (await http.get(f"/api/v1/groups/{name}/verdicts?patience_ms=10000")).json()
                first = next(iter(answers[name].get("verdicts", [])), {"id": None})
                if first["id"] == verdict and state in ("", answers[name]["state"]):
                    break
                await asyncio.sleep(0.2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_publishes_count_messages_and_ends(shared_url: str) -> None:
    clients = Demo(shared_url, "demo", rate=1000.0, count=33, say=lambda line: None)
    async with asyncio.timeout(PATIENCE_S):
        await clients.run(GAMES)
    assert clients.published == 33
    assert await asyncio.to_thread(stored, shared_url) == 33


async def test_a_refusal_ends_the_demo_with_the_brokers_reason(shared_url: str) -> None:
    clients = Demo(shared_url, "no such/topic", rate=5.0, count=1, say=lambda line: None)
    with pytest.raises(DemoError, match="the broker refused a request of the demo: "):
        async with asyncio.timeout(PATIENCE_S):
            await clients.run(GAMES)


async def test_a_missing_token_ends_the_demo_with_a_hint(manage: Manage, url: str) -> None:
    manage.start("broker", "--no-schedules", GLASSMQ_API_TOKEN="only-for-this-test-0123456789")
    clients = Demo(url, "demo", rate=5.0, count=1, say=lambda line: None)
    with pytest.raises(DemoError, match="GLASSMQ_API_TOKEN"):
        async with asyncio.timeout(PATIENCE_S):
            await clients.run(GAMES)


def test_a_message_can_be_encoded_as_json() -> None:
    assert json.loads(json.dumps(message(GAMES[0])))["tag"] == "games"

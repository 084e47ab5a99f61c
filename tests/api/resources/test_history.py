"""The history, over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.resources import history as resource
from bridge.port import History, get_history, set_histories, set_ports
from broker_core.clock import Now
from tests.bridge.history.test_boards import snapshot
from tests.bridge.history.test_history import START_S, sample
from tests.fakes.fake_port import FakePort

PATH = "/api/v1/history"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    """Twenty samples of a broker that stores and delivers 20 messages in 10 s; the twelfth is missing."""

    class Clock:
        def now(self) -> Now:
            return Now((START_S + 203) * 1000, 0)

    monkeypatch.setattr(resource, "SystemClock", Clock)
    history = History(tmp_path / "broker-a.sqlite3")
    for number in range(1, 21):
        if number != 12:
            history.record(sample(number * 20, lag=number), Now((START_S + 10 * number) * 1000, number * 10**10))
    set_histories({"broker-a": history})
    yield history
    history.close()
    set_histories({})


async def body_of(client: httpx.AsyncClient, **params: Any) -> Any:
    answer = await client.get(PATH, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def metrics(body: Any) -> dict[str, list[float | None]]:
    return {metric["name"]: metric["values"] for metric in body["metrics"]}


async def test_the_last_hour_of_the_broker(client: httpx.AsyncClient, recorded: History) -> None:
    body = await body_of(client)
    assert {name: body[name] for name in ("broker", "now_ms", "from_ms", "to_ms", "step_ms", "kept_from_ms")} == {
        "broker": "broker-a",
        "now_ms": (START_S + 203) * 1000,
        "from_ms": (START_S - 3400) * 1000,
        "to_ms": (START_S + 200) * 1000,
        "step_ms": 10_000,
        "kept_from_ms": START_S * 1000,
    }
    assert (body["problem"], body["left_out"]) == ("", 0)
    found = metrics(body)
    assert list(found) == ["stored_tps", "delivered_tps", "woken_tps", "holds", "wake_p99_us", "lag"]
    assert {len(values) for values in found.values()} == {360}
    assert found["stored_tps"][-20:] == [None, *[2.0] * 10, None, None, *[2.0] * 7]
    assert found["holds"][-21:-17] == [None, 2, 2, 2]


async def test_a_topic_and_a_group(client: httpx.AsyncClient, recorded: History) -> None:
    body = await body_of(client, group="g", from_ms=START_S * 1000, to_ms=(START_S + 30) * 1000)
    assert (body["group"], "topic" in body) == ("g", False)
    assert metrics(body) == {
        "delivered_tps": [None, 2, 2],
        "woken_tps": [None, 2, 2],
        "holds": [1, 1, 1],
        "wake_p99_us": [20, 20, 20],
        "lag": [1, 2, 3],
    }
    body = await body_of(client, topic="t", metric="woken_tps", from_ms=START_S * 1000, to_ms=(START_S + 30) * 1000)
    assert metrics(body) == {"woken_tps": [None, 2, 2]}
    body = await body_of(client, topic="t", metric="stored_tps", from_ms=START_S * 1000, to_ms=(START_S + 30) * 1000)
    assert metrics(body) == {"stored_tps": [None, 2, 2]}
    body = await body_of(client, group="unknown", from_ms=START_S * 1000)
    assert body["kept_from_ms"] is None and set(metrics(body)["lag"]) == {None}


async def test_the_step_depends_on_the_time(client: httpx.AsyncClient, recorded: History) -> None:
    now_ms = (START_S + 203) * 1000
    for ago_s, step_s in ((3600, 10), (3601, 60), (86_400, 60), (86_401, 600), (30 * 86_400, 600), (31 * 86_400, 600)):
        assert (await body_of(client, from_ms=now_ms - ago_s * 1000))["step_ms"] == step_s * 1000
    assert (await body_of(client, last_s=86_400))["step_ms"] == 60_000
    body = await body_of(client, last_s=86_400, to_ms=1)
    assert (body["from_ms"], body["to_ms"]) == (0, 0)
    body = await body_of(client, from_ms=START_S * 1000, step_s=60)
    assert metrics(body)["stored_tps"] == [2, 2, 2]


async def test_the_lags_of_several_groups(client: httpx.AsyncClient, recorded: History) -> None:
    answer = await client.get(f"{PATH}/lags?groups=g,unknown,g")
    body = answer.json()
    assert answer.status_code == 200, answer.text
    begin_ms = (START_S + 203) // 60 * 60_000 - 3_600_000
    assert (body["from_ms"], body["to_ms"], body["step_ms"]) == (begin_ms, begin_ms + 3_600_000, 60_000)
    assert [line["group"] for line in body["groups"]] == ["g", "unknown"]
    known, unknown = (line["lags"] for line in body["groups"])
    assert (len(known), unknown) == (60, [None] * 60)
    one = await body_of(client, group="g", metric="lag", step_s=60, from_ms=begin_ms, to_ms=begin_ms + 3_600_000)
    assert known == metrics(one)["lag"] and any(known)


@pytest.mark.parametrize("groups", ["", "a,", ",a", "a,,b", "a%00", ",".join("a" * 101), "a" * 121])
async def test_the_names_of_groups_are_checked(client: httpx.AsyncClient, recorded: History, groups: str) -> None:
    answer = await client.get(f"{PATH}/lags?groups={groups}")
    assert answer.status_code == 400 and "groups" in answer.text
    assert (await client.get(f"{PATH}/lags")).status_code == 400


async def test_lags_without_a_history_are_unknown(client: httpx.AsyncClient, port: FakePort) -> None:
    body = (await client.get(f"{PATH}/lags", params={"groups": "%RETRY%g,h"})).json()
    assert body["problem"] == "This web process keeps no history."
    assert body["groups"] == [{"group": name, "lags": [None] * 60} for name in ("%RETRY%g", "h")]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("topic=t&group=g", "a topic or a group"),
        ("group=g&metric=stored_tps", "no stored_tps of a group"),
        ("metric=nope", "metric"),
        ("step_s=7", "step_s"),
        ("from_ms=9&to_ms=9", "from_ms must be before"),
        ("from_ms=4000000000000", "from_ms must be before"),
        ("from_ms=0&step_s=10", "more than 5000 steps"),
        ("group=%00", "group"),
        ("from_ms=9&last_s=10", "not both"),
        ("last_s=9", "last_s"),
    ],
)
async def test_invalid_history_requests_are_refused(
    client: httpx.AsyncClient, recorded: History, query: str, text: str
) -> None:
    answer = await client.get(f"{PATH}?{query}")
    assert answer.status_code == 400 and text in answer.text


async def test_the_history_is_there_while_the_engine_is_away(
    client: httpx.AsyncClient, port: FakePort, recorded: History
) -> None:
    await body_of(client, group="g")
    assert port.commands == []


async def test_several_brokers_have_several_histories(
    client: httpx.AsyncClient, port: FakePort, recorded: History
) -> None:
    set_ports({"broker-a": port, "broker-b": FakePort()})
    assert (await client.get(PATH)).status_code == 400
    assert (await body_of(client, broker="broker-a"))["kept_from_ms"] == START_S * 1000
    body = await body_of(client, broker="broker-b")
    assert (body["kept_from_ms"], body["problem"]) == (None, "This web process keeps no history.")
    assert (await client.get(f"{PATH}?broker=nope")).status_code == 404


async def test_a_problem_is_in_the_answer(client: httpx.AsyncClient, recorded: History) -> None:
    recorded.problem = "The disk is full."
    assert (await body_of(client))["problem"] == "The disk is full."
    assert get_history("broker-a") is recorded


async def test_an_earlier_board_is_returned(client: httpx.AsyncClient, recorded: History) -> None:
    recorded.boards.add(snapshot(5000, holds=7))
    recorded.boards.add(snapshot(15_000))
    body = (await client.get(f"{PATH}/boards")).json()
    assert body == {
        "broker": "broker-a",
        "boards": [{"at_ms": 5000, "holds_total": 7}, {"at_ms": 15_000, "holds_total": 0}],
    }
    body = (await client.get(f"{PATH}/boards/14999")).json()
    assert (body["wall_ms"], body["holds_total"], len(body["holds"])) == (5000, 7, 1)
    answer = await client.get(f"{PATH}/boards/4999")
    assert answer.status_code == 404 and "no board of broker-a is kept" in answer.text
    assert (await client.get(f"{PATH}/boards/x")).status_code == 400


async def test_without_a_history_there_is_no_board(client: httpx.AsyncClient, port: FakePort) -> None:
    assert (await client.get(f"{PATH}/boards")).json() == {"broker": "broker-a", "boards": []}
    assert (await client.get(f"{PATH}/boards/1")).status_code == 404

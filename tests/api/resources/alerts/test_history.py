"""Alerts that fire or fired, over HTTP."""

import httpx
import pytest
from asgiref.sync import sync_to_async

from alerts import records
from alerts.evaluation import Alert, Changes, Moment
from alerts.rules import Rule, Subject
from bridge.port import SystemClock

pytestmark = pytest.mark.django_db(transaction=True)
RULE = Rule(id=7, name="stalled", what="group_state", severity="critical")


async def store() -> None:
    """Three alerts that fire, and one that ended."""

    def write() -> None:
        moment = Moment(1000, 0)
        alerts = [
            Alert(subject=Subject("broker-a", f"g{number}"), text="stalled", since=moment, fired=moment)
            for number in range(4)
        ]
        records.write([(RULE, Changes(alerts, []))], [7], 1000)
        records.write([(RULE, Changes([], [alerts[3]]))], [7], 2000)

    await sync_to_async(write)()


async def test_what_fires_is_listed_with_its_counts(client: httpx.AsyncClient) -> None:
    await store()
    answer = (await client.get("/api/v1/alerts")).json()
    assert answer["firing"] == {"critical": 3, "warning": 0, "info": 0}
    assert [(one["group"], one["silenced"], one["resolved_ms"]) for one in answer["alerts"]] == [
        ("g2", False, None),
        ("g1", False, None),
        ("g0", False, None),
    ]
    assert "next" not in answer
    [ended] = (await client.get("/api/v1/alerts?state=resolved")).json()["alerts"]
    assert (ended["group"], ended["resolved_ms"]) == ("g3", 2000)


async def test_a_silenced_alert_says_so(client: httpx.AsyncClient) -> None:
    await store()
    now_ms = SystemClock().now().wall_ms
    silence = {"group": "g0", "from_ms": now_ms - 1000, "to_ms": now_ms + 3_600_000}
    assert (await client.post("/api/v1/alerts/silences", json=silence)).status_code == 201
    await client.post("/api/v1/alerts/silences", json=silence | {"group": "*", "from_ms": now_ms + 3_000_000})
    answer = (await client.get("/api/v1/alerts")).json()
    assert [one["group"] for one in answer["alerts"] if one["silenced"]] == ["g0"]


async def test_the_history_has_pages(client: httpx.AsyncClient) -> None:
    await store()
    first = (await client.get("/api/v1/alerts?state=all&limit=3")).json()
    second = (await client.get(f"/api/v1/alerts?state=all&limit=3&before={first['next']}")).json()
    assert [one["group"] for one in first["alerts"] + second["alerts"]] == ["g3", "g2", "g1", "g0"]
    assert "next" not in second
    assert (await client.get("/api/v1/alerts?state=asleep")).status_code == 400


async def test_without_a_round_it_says_so(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/api/v1/alerts")).json()
    assert (answer["evaluated_ms"], answer["problems"], answer["alerts"]) == (None, [], [])

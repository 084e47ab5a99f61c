"""Alert rules over HTTP."""

import httpx
import pytest

from api.resources.alerts import rules

pytestmark = pytest.mark.django_db(transaction=True)
RULES = "/api/v1/alerts/rules"
LAG = {"name": "billing waits", "what": "lag", "threshold": 1000, "group": "billing*", "for_s": 60}


async def test_a_rule_is_added_changed_listed_and_deleted(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[bool] = []
    monkeypatch.setattr(rules, "evaluate_soon", lambda: woken.append(True))
    added = await client.post(RULES, json=LAG)
    assert added.status_code == 201
    view = added.json()
    assert view["topic"] == "*"
    assert added.headers["location"] == f"{RULES}/{view['id']}"
    assert view in (await client.get(RULES)).json()["rules"]
    changed = await client.patch(f"{RULES}/{view['id']}", json={"enabled": False, "threshold": 0})
    assert changed.json() == view | {"enabled": False, "threshold": 0}
    assert (await client.delete(f"{RULES}/{view['id']}")).status_code == 204
    assert len(woken) == 3
    assert (await client.delete(f"{RULES}/{view['id']}")).status_code == 404


async def test_a_rule_on_verdicts_is_added_and_changed(client: httpx.AsyncClient) -> None:
    body = {"name": "v", "what": "group_verdict", "verdicts": ["no_member", "heartbeat_late"]}
    view = (await client.post(RULES, json=body)).json()
    assert (view["verdicts"], view["verdict_severities"]) == (["no_member", "heartbeat_late"], [])
    changed = await client.patch(f"{RULES}/{view['id']}", json={"verdicts": [], "verdict_severities": ["error"]})
    assert changed.json() == view | {"verdicts": [], "verdict_severities": ["error"]}


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({"name": "x", "what": "cpu"}, "/what", "Invalid enum value 'cpu'"),
        ({"name": "x", "what": "lag", "treshold": 5}, "/treshold", "unknown field"),
        ({"name": "x", "what": "lag", "threshold": -1}, "/threshold", "Expected `int` >= 0"),
        ({"name": "x", "what": "group_state", "states": ["asleep"]}, "/states/0", "Invalid enum value"),
        ({"name": "x", "what": "group_state"}, "/states", "must name the states in which it fires"),
        ({"name": "x", "what": "group_verdict"}, "/verdicts", "must name verdicts"),
        (
            {"name": "x", "what": "group_verdict", "verdicts": ["asleep"]},
            "/verdicts",
            "'asleep' is no error or warning",
        ),
        (
            {"name": "x", "what": "group_verdict", "verdict_severities": ["info"]},
            "/verdict_severities/0",
            "Invalid enum",
        ),
        ({"name": "x", "what": "lag", "channels": [99]}, "/channels", "there is no channel 99"),
        ({"name": "x", "what": "lag", "repeat_s": 1}, "/repeat_s", "Expected `int` >= 300"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused_at_its_field(
    client: httpx.AsyncClient, body: dict[str, object], pointer: str, said: str
) -> None:
    answer = await client.post(RULES, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, pointer)
    assert said in answer.json()["errors"][0]["detail"]


async def test_a_name_is_taken_once_and_a_change_changes_something(client: httpx.AsyncClient) -> None:
    number = (await client.post(RULES, json=LAG)).json()["id"]
    again = await client.post(RULES, json=LAG)
    assert (again.status_code, again.json()["code"]) == (409, "ILLEGAL_OPERATION")
    assert (await client.patch(f"{RULES}/{number}", json={})).status_code == 400

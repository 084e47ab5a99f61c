"""All situations at once: a group's verdicts, the list of groups, the metrics page and the alerts say the same."""

import asyncio
import re
from contextlib import AsyncExitStack
from typing import Any

import pytest

from broker_core.verdicts.group_state import PATIENCE_MS
from tests.conftest import Manage
from tests.e2e.conftest import Broker
from tests.e2e.test_why_waiting import TABLE, Situation, holds_used_up, sql92_switched_off
from tests.e2e.waiting_site import Site

pytestmark = pytest.mark.slow

ALONE = (sql92_switched_off, holds_used_up)
"""These change options of the broker, so no other group can be beside them."""
SITUATIONS: list[Situation] = [row[0] for row in TABLE if row[0] not in ALONE]
DEADLINE_S = 300.0
STATE = re.compile(r'^glassmq_consumer_group_state\{.*?consumer_group="([^"]+)",state="([^"]+)"\} 1\.0$', re.MULTILINE)
STATES = ("ok", "catching up", "falling behind", "stalled", "stopped", "unknown")

Groups = dict[str, tuple[str, list[str]]]
"""By group: its state, and the ids of its errors and warnings."""


async def of_list(broker: Broker) -> Groups:
    answer = await asyncio.to_thread(broker.call, "GET", "/api/v1/groups")
    return {group["group"]: (group["state"], sorted(group["problems"])) for group in answer["groups"]}


async def of_verdicts(broker: Broker, group: str) -> tuple[str, list[str]]:
    answer = await asyncio.to_thread(broker.call, "GET", f"/api/v1/groups/{group}/verdicts")
    problems = {one["id"] for one in answer["verdicts"] if one["severity"] in ("error", "warning")}
    return answer["state"], sorted(problems)


async def of_metrics(broker: Broker) -> dict[str, str]:
    page = await asyncio.to_thread(broker.text, "/metrics")
    return dict(STATE.findall(page))


class Alerts:
    """Rules on all states and on all problems, and what fires for them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rules: dict[int, str] = {}

    async def _add(self, name: str, **rule: Any) -> None:
        body = {"name": f"all {name}", "group": "all-*", "for_s": 0} | rule
        added = await asyncio.to_thread(self._broker.call, "POST", "/api/v1/alerts/rules", body)
        self._rules[added["id"]] = name

    async def add_rules(self) -> None:
        for state in STATES:
            await self._add(state, what="group_state", states=[state])
        await self._add("problem", what="group_verdict", verdict_severities=["error", "warning"])

    async def firing(self) -> dict[str, dict[str, str]]:
        """By group: the names of the rules that fire now, with the texts of their alerts."""
        number = next(iter(self._rules))
        path = f"/api/v1/alerts/rules/{number}"
        await asyncio.to_thread(self._broker.call, "PATCH", path, {"enabled": True})  # which has all evaluated at once
        await asyncio.sleep(1.0)
        found: dict[str, dict[str, str]] = {}
        answer = await asyncio.to_thread(self._broker.call, "GET", "/api/v1/alerts?state=firing&limit=500")
        for alert in answer["alerts"]:
            if alert["rule"] in self._rules:
                found.setdefault(alert["group"], {})[self._rules[alert["rule"]]] = alert["text"]
        return found


def disagreement(listed: Groups, judged: Groups, metrics: dict[str, str], firing: dict[str, dict[str, str]]) -> str:
    """What the four do not say alike; empty if they agree."""
    for group, (state, problems) in judged.items():
        if listed.get(group) != (state, problems):
            return f"{group} is {listed.get(group)} in the list, and {(state, problems)} in its verdicts"
        if metrics.get(group) != state:
            return f"{group} is {metrics.get(group)} in the metrics, and {state} in its verdicts"
        alerts = firing.get(group, {})
        if not alerts.get(state, "").startswith(f"{state}: ") or ("problem" in alerts) != bool(problems):
            return f"{group} is {state} with {problems}, and its alerts are {alerts}"
        if state != "unknown" and not set(alerts) <= {state, "problem"}:  # what is unknown ends no alert
            return f"{group} is {state}, and its alerts are {alerts}"
    return ""


async def test_list_verdicts_metrics_and_alerts_agree(broker: Broker, shared_manage: Manage) -> None:
    async with AsyncExitStack() as stack:
        groups = []
        for situation in SITUATIONS:
            name = f"all-{situation.__name__.replace('_', '-')}"
            site = await asyncio.to_thread(Site, broker, name, shared_manage.environment)
            await stack.enter_async_context(situation(site))
            groups.append(site.group)
        alerts = Alerts(broker)
        await alerts.add_rules()
        await asyncio.sleep(PATIENCE_MS / 1000 + 1)
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        while True:
            firing = await alerts.firing()
            judged = {group: await of_verdicts(broker, group) for group in groups}
            found = disagreement(await of_list(broker), judged, await of_metrics(broker), firing)
            if not found:
                break
            assert asyncio.get_running_loop().time() < deadline, found
        states = {state for state, _ in judged.values()}
        assert {"ok", "stalled", "stopped", "unknown"} <= states
        blocked = judged["all-listener-blocked-readers"]
        assert blocked[0] == "stalled" and "listener_blocked" in blocked[1], "it has committed nothing yet"

"""The alert rules and the dashboard in docs/monitoring ask for what the metrics page has."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from bridge.port import PROBLEMS, commands
from broker_core.counters import Counters
from tests.conftest import PROJECT
from tests.fakes.fake_port import FakePort, broker_metrics, group_metrics, snapshot
from tests.fakes.metrics_page import scraped

FOLDER = PROJECT / "docs" / "monitoring"
RULES = yaml.safe_load((FOLDER / "prometheus-rules.yml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
OPERATIONS = (PROJECT / "docs" / "operations.md").read_text(encoding="utf-8")
PROMTOOL = shutil.which("promtool")

METRIC = re.compile(r"\b((?:glassmq|rocketmq)_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|=)\s*"([^"]*)"')

Labels = dict[str, set[str]]
"""The labels of a metric, each with its values."""


def alerts() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str]]:
    """(where, PromQL) of every rule, panel and variable."""
    for rule in alerts():
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


async def page(client: httpx.AsyncClient, port: FakePort) -> dict[str, Labels]:
    """The metrics of a page of a broker that has some of everything, with their labels."""
    port.replies[commands.GetSnapshot] = snapshot(counters=Counters().as_dict())
    problems = [commands.VerdictLine(id=name, severity=PROBLEMS[name][0], sentence="x") for name in PROBLEMS]
    port.replies[commands.GetMetrics] = broker_metrics(group_metrics(verdicts=problems))
    metrics: dict[str, Labels] = {}
    for name, labels in await scraped(client):
        for label, value in labels:
            metrics.setdefault(name, {}).setdefault(label, set()).add(value)
    return metrics


def mistakes(query: str, metrics: dict[str, Labels]) -> Iterator[str]:
    """What a query asks for that the page does not have: a metric, a label, or the value of a fixed label."""
    for name, matchers in METRIC.findall(query):
        if name not in metrics:
            yield f"no metric {name}"
            continue
        for label, operator, value in MATCHER.findall(matchers):
            values = value.split("|") if operator == "=~" else [value]
            if label not in metrics[name]:
                yield f"{name} has no label {label}"
            elif not value.startswith("$") and not metrics[name][label].issuperset(values):
                yield f"no value of {name} has {label} {value}"


async def test_queries_name_only_what_the_page_has(client: httpx.AsyncClient, port: FakePort) -> None:
    metrics = await page(client, port)
    found = [(where, mistake) for where, query in queries() for mistake in mistakes(query, metrics)]
    assert found == []
    assert sum(len(METRIC.findall(query)) for _, query in queries()) > 40


async def test_a_mistake_would_be_noticed(client: httpx.AsyncClient, port: FakePort) -> None:
    metrics = await page(client, port)
    queries = {
        'sum(glassmq_held{broker=~"$broker"})': ["no metric glassmq_held"],
        'glassmq_up{node_id="a"}': ["glassmq_up has no label node_id"],
        'glassmq_consumer_group_state{state=~"stuck|ok"}': [
            "no value of glassmq_consumer_group_state has state stuck|ok"
        ],
        'rocketmq_consumer_lag_messages{node_id=~"$broker"} > 0': [],
    }
    assert {query: list(mistakes(query, metrics)) for query in queries} == queries


async def test_every_metric_of_groups_and_disk_is_explained(client: httpx.AsyncClient, port: FakePort) -> None:
    metrics = await page(client, port)
    groups = [
        name
        for name in metrics
        if name.startswith(("rocketmq_", "glassmq_consumer_", "glassmq_metrics_", "glassmq_disk_"))
    ]
    assert [name for name in groups if f"`{name}`" not in OPERATIONS] == []
    assert len(groups) > 12


def test_every_alert_says_what_to_do_and_is_in_the_docs() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names)) > 10
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert {"summary", "description"} == set(rule["annotations"]), rule["alert"]
    assert [name for name in names if f"`{name}`" not in OPERATIONS] == []


def test_panels_have_their_own_place_and_number() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 15
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_panels_read_from_the_chosen_source() -> None:
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used == variables
    sources = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if panel["type"] != "row"}
    assert sources == {"${datasource}"}


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of Prometheus")
@pytest.mark.parametrize("command", [["check", "rules"], ["test", "rules"]], ids=" ".join)
def test_promtool_accepts_the_rules(command: list[str]) -> None:
    name = "prometheus-rules.yml" if command[0] == "check" else "prometheus-rules.test.yml"
    done = subprocess.run(
        [PROMTOOL or "promtool", *command, str(FOLDER / name)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr

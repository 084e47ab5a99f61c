"""The route table as a whole."""

import re

import httpx
import msgspec
import pytest

from api.http.routes import Route, Router
from api.routing import ROUTES
from bridge.port import set_port
from tests.conftest import PROJECT

ALL = pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")


def test_no_two_routes_are_the_same() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


@ALL
def test_every_route_is_whole(route: Route) -> None:
    in_path = set(re.findall(r"\{(\w+)\}", route.path))
    assert in_path <= set(route.params.__struct_fields__)
    assert route.params.__struct_config__.forbid_unknown_fields
    assert route.summary
    assert route.group
    assert (route.method in ("POST", "PUT", "PATCH")) == bool(route.bodies)
    assert all(isinstance(field, str) for field in msgspec.structs.fields(route.params)[0].name)


@ALL
async def test_a_parameter_that_nobody_reads_is_refused_everywhere(client: httpx.AsyncClient, route: Route) -> None:
    path = re.sub(r"\{(queue_id|id|at_ms)\}", "1", route.path)
    path = re.sub(r"\{\w+\}", "T", path)
    answer = await client.request(route.method, path + "?nobody=1")
    assert answer.status_code == 400
    assert any(error["pointer"] == "/nobody" or "missing" in error["detail"] for error in answer.json()["errors"])


@ALL
async def test_without_an_engine_what_needs_one_is_503(client: httpx.AsyncClient, route: Route) -> None:
    set_port(None)
    path = re.sub(r"\{(queue_id|id|at_ms)\}", "1", route.path)
    path = re.sub(r"\{\w+\}", "T", path)
    bodies = {
        "publish": {"body": "x"},
        "put_offsets": {"offsets": [{"topic": "T", "queue_id": 0, "offset": 1}]},
        "reset_offsets": {"topic": "T", "to": "min"},
        "put_topic": {},
        "resend": {},
        "consume_directly": {"group": "g", "client_id": "c"},
        "patch_config": {"longPollingEnable": True},
        "recall": {"recall_handle": "x"},
        "receive": {"group": "G"},
        "ack": {"group": "G", "receipts": ["x"]},
        "lease": {"group": "G", "receipts": ["x"], "lease_ms": 0},
    }
    body = bodies.get(route.handler.__name__)
    query = {
        "pull": "?offset=0",
        "find_messages": "?topic=T&key=k",
        "search_offset": "?timestamp_ms=1",
        "get_lags": "?groups=g",
    }
    answer = await client.request(route.method, path + query.get(route.handler.__name__, ""), json=body)
    assert (answer.status_code == 503) == route.needs_broker


def test_the_guide_calls_what_there_is() -> None:
    guide = (PROJECT / "docs" / "api.md").read_text(encoding="utf-8").replace("\\\n", " ")
    calls = re.findall(r"^curl (.*?)'?localhost:8000(/[^\s'?]*)", guide, re.MULTILINE)
    assert len(calls) > 20
    router = Router(ROUTES)
    for options, path in calls:
        method = re.search(r"-X (\w+)", options)
        found = router.find(path.split("/")[1:])
        assert found is not None, path
        assert (method[1] if method else "GET") in found[0], path

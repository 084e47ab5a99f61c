"""What ``glassmq doctor`` finds."""

import pytest

from broker_core.cli.doctor import check_broker, disk_findings
from tests.broker_core.cli.conftest import Glassmq, Web

BROKER = {"broker": "broker-a", "problem": "", "config": {"longPollingEnable": True}}


def levels(answer: dict) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in answer["findings"]:
        found.setdefault(finding["level"], []).append(finding["text"])
    return found


def test_a_sound_set_up(glassmq: Glassmq, web: Web) -> None:
    web.answers["/api/v1/brokers"] = (200, {"brokers": [{"broker": "broker-a", "available": True}]})
    web.answers["/api/v1/broker"] = (200, BROKER)
    done = glassmq("doctor", "--json", "--url", web.url)
    assert done.code == 0 and done.json["ok"]
    assert "error" not in levels(done.json)
    assert any("broker broker-a at 127.0.0.1:" in text for text in levels(done.json)["ok"])


def test_nothing_runs(run_command: Glassmq) -> None:
    done = run_command("--namesrv", "127.0.0.1:1", "--url", "http://127.0.0.1:1", "doctor", "--json")
    assert done.code == 1 and not done.json["ok"]
    assert levels(done.json)["error"][0].startswith("no name server answers at 127.0.0.1:1")
    assert levels(done.json)["warning"][0].startswith("the HTTP API at http://127.0.0.1:1 cannot be used")
    out = run_command("--namesrv", "127.0.0.1:1", "--url", "http://127.0.0.1:1", "doctor").out
    assert "error   no name server answers" in out and "Start a broker with `glassmq up`" in out


def test_brokers_with_problems(glassmq: Glassmq, web: Web) -> None:
    web.answers["/api/v1/brokers"] = (
        200,
        {"brokers": [{"broker": "a", "available": True}, {"broker": "b", "available": False, "problem": "gone"}]},
    )
    web.answers["/api/v1/broker"] = (
        200,
        {"broker": "a", "problem": "the disk is full", "config": {"longPollingEnable": False}},
    )
    done = glassmq("doctor", "--json", "--url", web.url)
    found = levels(done.json)
    assert done.code == 1
    assert "broker a accepts no messages: the disk is full" in found["error"]
    assert "broker b does not answer its web process: gone" in found["error"]
    assert any(text.startswith("long polling of a is off") for text in found["warning"])


@pytest.mark.parametrize(
    ("ratio", "level"), [("0.2", ["ok"]), ("0.80", ["warning"]), ("0.95", ["error"]), ("-1", []), ("x", [])]
)
def test_a_disk_that_fills(ratio: str, level: list[str]) -> None:
    assert [finding.level for finding in disk_findings("a", {"commitLogDiskRatio": ratio})] == level


class Admin:
    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem

    async def fetch_broker_runtime_stats(self, address: str) -> dict[str, str]:
        if self.problem is not None:
            raise self.problem
        return {}


async def test_a_broker_with_an_address_for_its_own_machine_only() -> None:
    findings = await check_broker(Admin(), "a", "127.0.0.1:10911", "10.0.0.7:9876")  # type: ignore[arg-type]
    assert [finding.level for finding in findings] == ["ok", "error"]
    assert "brokerIP1" in findings[1].advice


async def test_a_broker_that_is_registered_and_away() -> None:
    (finding,) = await check_broker(Admin(OSError("refused")), "a", "h:1", "h:2")  # type: ignore[arg-type]
    assert finding.level == "error" and "does not answer there: refused" in finding.text

"""The options that all commands share."""

import pytest

from broker_core.cli.target import Target
from tests.broker_core.cli.conftest import Glassmq, Web


def test_shared_options_may_stand_before_or_after_the_command(run_command: Glassmq, web: Web) -> None:
    web.answers["/api/v1/holds"] = (200, {"holds": [], "total": 0})
    web.answers["/api/v1/attached"] = (200, {"brokers": []})
    for arguments in (("--url", web.url, "--json", "holds"), ("holds", "--url", web.url, "--json")):
        assert run_command(*arguments).json == {"holds": [], "total": 0}
    both = run_command("--url", "http://127.0.0.1:1", "holds", "--url", web.url)
    assert (both.code, both.out.splitlines()[-1]) == (0, "0 held pulls")


def test_variables_replace_options(run_command: Glassmq, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    web.answers["/api/v1/holds"] = (200, {"holds": [], "total": 0})
    web.answers["/api/v1/attached"] = (200, {"brokers": []})
    monkeypatch.setenv("GLASSMQ_URL", web.url)
    monkeypatch.setenv("GLASSMQ_API_TOKEN", "secret")
    assert run_command("holds").code == 0
    assert web.asked[-1][2]["authorization"] == "Bearer secret"
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    done = run_command("topics")
    assert done.code == 3 and "no name server answers at 127.0.0.1:1" in done.err


def test_the_defaults_are_those_of_a_broker() -> None:
    target = Target()
    assert (target.namesrv, target.url, target.as_json) == ("127.0.0.1:9876", "http://127.0.0.1:8000", False)


def test_an_address_that_is_none_is_refused(run_command: Glassmq) -> None:
    done = run_command("--namesrv", "here", "topics")
    assert done.code == 2 and "'here' is not an address; write host:port" in done.err

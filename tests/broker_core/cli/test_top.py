"""The page of ``glassmq top``."""

import io
import re
import signal
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from broker_core.cli.errors import FAILED, UNREACHABLE, CommandError
from broker_core.cli.top import NO_BREAK, page, rate, rows_that_fit, watch
from tests.broker_core.cli.conftest import Glassmq, Web
from tests.broker_core.cli.test_waiting import HOLD

NOW_MS = 1_700_000_001_000
BOUNDS = [10, 100, 1000]


def snapshot(**more: Any) -> dict[str, Any]:
    counters = {
        "messages_stored": 10,
        "messages_delivered": 5,
        "pulls_received": 0,
        "woken_arrival": 3,
        "woken_timeout": 1,
    }
    return {
        "broker": "broker-a",
        "epoch": 1,
        "wall_ms": NOW_MS,
        "long_polling_enable": True,
        "problem": "",
        "holds_total": 1,
        "holds": [HOLD],
        "queues_total": 1,
        "queues": [queue(0, 10)],
        "counters": counters,
        "wakeup_us": {"bounds": BOUNDS, "counts": [0, 3, 0, 0]},
        "groups": [group("g", "ok")],
    } | more


def queue(queue_id: int, end: int) -> dict[str, Any]:
    return {
        "topic": "orders",
        "queue_id": queue_id,
        "min_offset": 2,
        "max_offset": end,
        "last_store_time_ms": None,
        "holds": 0,
    }


def group(name: str, state: str, lag: int | None = 0, severity: str | None = None, *problems: str) -> dict[str, Any]:
    progress = {"group": name, "state": state, "lag": lag, "members": 1, "holds": 0, "unknown_queues": 0, "retrying": 0}
    return progress | {"severity": severity, "problems": problems}


def text(shown: Any, width: int = 100) -> list[str]:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(shown)
    return [line.replace(NO_BREAK, " ").rstrip() for line in captured.get().splitlines()]


def test_rates_are_between_two_looks() -> None:
    before = snapshot()
    after = snapshot(
        wall_ms=NOW_MS + 2000,
        counters=before["counters"] | {"messages_stored": 210, "woken_arrival": 13},
        queues=[queue(0, 110)],
        wakeup_us={"bounds": BOUNDS, "counts": [9, 3, 0, 0]},
    )
    first, second = text(page(before, None, 100, rows=9)), text(page(after, before, 100, rows=9))
    assert first[1] == "in -/s   out -/s   wake-ups -/s   pulls -/s   wake-up p50 < 100 µs"
    assert second[1] == "in 100/s   out 0/s   wake-ups 5/s   pulls 0/s   wake-up p50 < 10 µs"
    (row,) = (line for line in second if line.startswith("orders"))
    assert row.split() == ["orders", "0", "50/s", "110", "108", "0"]


def test_a_restart_between_two_looks_gives_no_rate() -> None:
    assert rate(snapshot(epoch=2, wall_ms=NOW_MS + 1), snapshot(), lambda one: 1) is None
    assert rate(snapshot(), snapshot(), lambda one: 1) is None


def test_the_worst_groups_come_first() -> None:
    groups = [group("a", "ok"), group("b", "stalled", 5), group("c", "a new state"), group("d", "stalled", None)]
    lines = text(page(snapshot(groups=groups), None, 100, rows=12))
    shown = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in "abcd"]
    assert shown == ["b", "c", "d", "a"]


def test_what_is_wrong_beside_the_progress_is_shown_first() -> None:
    groups = [
        group("fine", "ok", 900),
        group("mixed", "ok", 1, "error", "subscriptions_disagree", "lag_unknown"),
        group("missing", "unknown", 0, "warning", "topic_missing"),
        group("blocked", "stalled", 0, "error", "listener_blocked"),
        group("behind", "falling behind", 5, "warning", "falling_behind"),
        group("done", "stopped"),
        group("gone", "stopped", 3, "error", "no_member"),
        group("may wait", "stopped") | {"unknown_queues": 1},
        group("retries", "stopped") | {"retrying": 2},
        group("not counted", "stopped") | {"retrying": None},
    ]
    lines = text(page(snapshot(groups=groups), None, 100, rows=30))
    begin = next(number for number, line in enumerate(lines) if line.startswith("GROUP")) + 1
    assert [re.split(r"  +", line)[:2] for line in lines[begin : begin + len(groups)]] == [
        ["blocked", "stalled"],
        ["gone", "stopped"],
        ["may wait", "stopped"],
        ["not counted", "stopped"],
        ["retries", "stopped"],
        ["mixed", "subscriptions disagree"],
        ["behind", "falling behind"],
        ["missing", "topic missing"],
        ["done", "stopped"],
        ["fine", "ok"],
    ]


def test_what_does_not_fit_is_counted() -> None:
    groups = [group(f"g{number:02}", "ok") for number in range(40)]
    shown = snapshot(groups=groups, holds_total=5000, queues_total=20_000)
    lines = text(page(shown, None, 60, rows=rows_that_fit(24)), 60)
    assert len(lines) <= 24
    assert {"and 37 more groups", "and 19,999 more queues with messages", "and 4,999 more held pulls"} <= {
        line.strip() for line in lines
    }
    assert max(map(len, lines)) <= 60


def test_an_empty_broker_and_one_with_a_problem() -> None:
    empty = text(page(snapshot(groups=[], queues=[], holds=[], holds_total=0, queues_total=0), None, 100, rows=9))
    assert {"no groups", "no queues with messages", "no held pulls"} <= set(empty)
    broken = text(page(snapshot(problem="the disk is full\x1b", long_polling_enable=False), None, 100, rows=9))
    assert broken[0] == "No message is accepted: the disk is full\\x1b"
    assert broken[1].endswith("long polling is off")


def test_what_an_attached_broker_does_not_report_is_not_shown_as_none() -> None:
    queues, groups = [queue(0, 10) | {"holds": None}], [group("g", "ok") | {"holds": None}]
    lines = text(page(snapshot(queues=queues, groups=groups, holds=[], holds_total=0), None, 100, rows=9))
    assert "held pulls -" in lines[0] and lines[1] == "in -/s   attached: pulls and wake-ups are not known"
    assert not any("no held pulls" in line or "HELD PULL OF" in line for line in lines)


def test_long_names_leave_room_for_the_figures() -> None:
    long = snapshot(
        groups=[group("g" * 120, "stalled", 1234)],
        queues=[queue(0, 10) | {"topic": "t" * 127}],
        holds=[HOLD | {"group": "g" * 120, "client_id": "c" * 200, "topic": "t" * 127}],
    )
    for width in (60, 100):
        lines = text(page(long, None, width, rows=9), width)
        (shown,) = (line for line in lines if "stalled" in line)
        assert shown.split()[1:] == ["stalled", "1", "1,234", "0"]
        assert any(re.search(r"t… +0  -/s   10       8      0$", line) for line in lines), lines
        assert any(re.search(r"t… +2    12  1\.0 s  14\.0 s$", line) for line in lines), lines


def test_queues_without_messages_are_left_out() -> None:
    lines = text(page(snapshot(queues=[queue(0, 0), queue(1, 3)], queues_total=2), None, 100, rows=9))
    assert [line.split()[1] for line in lines if line.startswith("orders")] == ["1"]
    assert not any("more queues" in line for line in lines)


class Stop(Exception):
    pass


def test_a_broker_that_is_away_leaves_its_last_page(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([CommandError("nobody answers", UNREACHABLE), snapshot(broker="broker-b"), Stop()])
    pages: list[list[str]] = []

    def look() -> dict[str, Any]:
        outcome = next(looks)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    live = Live(console=Console(width=100, height=40))
    monkeypatch.setattr(live, "update", lambda shown, refresh: pages.append(text(shown)))
    monkeypatch.setattr("broker_core.cli.top.time.sleep", lambda _: None)
    with pytest.raises(Stop):
        watch(look, snapshot(), live, 1)
    assert [shown[0].split()[0] for shown in pages] == ["broker-a", "nobody", "broker-b"]
    assert pages[1][1].startswith("broker-a")


def test_a_refusal_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> dict[str, Any]:
        raise CommandError("the token is wrong", FAILED)

    monkeypatch.setattr("broker_core.cli.top.time.sleep", lambda _: None)
    with pytest.raises(CommandError, match="the token is wrong"):
        watch(refuse, snapshot(), Live(console=Console(width=100, height=40)), 1)


def test_one_page_is_printed_where_there_is_no_terminal(run_command: Glassmq, web: Web) -> None:
    web.answers["/api/v1/snapshot"] = (200, {name: value for name, value in snapshot().items() if name != "groups"})
    web.answers["/api/v1/groups"] = (200, {"groups": [group("g", "stalled")]})
    done = run_command("--url", web.url, "top")
    assert done.code == 0 and done.out.startswith("broker-a")
    assert run_command("--url", web.url, "top", "--json").json["groups"][0]["state"] == "stalled"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_alternate_screen(
    run_command: Glassmq, web: Web, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    web.answers["/api/v1/snapshot"] = (200, {name: value for name, value in snapshot().items() if name != "groups"})
    web.answers["/api/v1/groups"] = (200, {"groups": []})
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, force_interactive=True, width=100, height=40, _environ={})
    monkeypatch.setattr("broker_core.cli.top.Console", lambda **_: terminal)
    monkeypatch.setattr("broker_core.cli.top.watch", lambda *_: signal.raise_signal(number))
    handler = signal.signal(number, signal.SIG_IGN)  # without the mend, the test fails and does not end pytest
    try:
        with pytest.raises(SystemExit) as ended:
            run_command("--url", web.url, "top")
    finally:
        signal.signal(number, handler)
    assert ended.value.code == 128 + number
    assert "\x1b[?1049l" in screen.getvalue()

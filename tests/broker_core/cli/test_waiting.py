"""``glassmq holds``, ``why`` and ``timeline``: the API's answers as text and as JSON."""

from tests.broker_core.cli.conftest import Glassmq, Web

HOLD = {
    "broker": "broker-a",
    "id": 7,
    "topic": "orders",
    "queue_id": 2,
    "group": "g",
    "client_id": "c\x1b",
    "protocol": "remoting",
    "pull_from_offset": 12,
    "queue_max_offset": 12,
    "suspended_at_ms": 1_700_000_000_000,
    "deadline_ms": 1_700_000_015_000,
    "filter": "*",
}
VERDICTS = {
    "group": "g",
    "state": "stalled",
    "verdicts": [
        {"id": "x", "severity": "error", "sentence": "It waits\x1b.", "evidence": {}, "advice": "Do this."},
        {"id": "y", "severity": "new kind", "sentence": "It rests.", "evidence": {}, "advice": "Wait."},
        {"id": "z", "severity": "ok", "sentence": "It keeps up.", "evidence": {}, "advice": "Nothing."},
    ],
}
TIMELINE = {
    "broker": "broker-a",
    "message_id": "ID",
    "topic": "orders",
    "queue_id": 2,
    "queue_offset": 5,
    "store_time_ms": 1_700_000_000_000,
    "complete": False,
    "events": [{"seq": 1, "wall_ms": 1_700_000_000_000, "mono_ns": 2, "type": "messages_stored", "size": 9, "tag": ""}],
    "journal": [
        {"at_ms": 1_699_999_999_000, "kind": "answered_at_once", "group": "g", "messages": 2, "wake_us": -1},
        {"at_ms": 1_700_000_000_001, "kind": "committed", "group": "g"},
    ],
}


def test_holds(run_command: Glassmq, web: Web) -> None:
    web.answers["/api/v1/holds"] = (200, {"holds": [HOLD], "total": 2, "unavailable": ["b"]})
    web.answers["/api/v1/attached"] = (200, {"brokers": []})
    done = run_command("--url", web.url, "holds", "--group", "g", "--limit", "1")
    assert web.asked[0][1] == "/api/v1/holds?group=g&limit=1"
    assert run_command("--url", web.url, "holds", "--broker", "b").out.splitlines()[-1].startswith("2 held pulls")
    assert "/api/v1/holds?limit=1000&broker=b" in [asked[1] for asked in web.asked]
    header, row, total = done.out.splitlines()
    assert header.split()[:4] == ["ID", "BROKER", "TOPIC", "QUEUE"]
    assert row.split()[:8] == ["7", "broker-a", "orders", "2", "g", "c\\x1b", "12", "12"]
    assert total == "1 of 2 held pulls, without b, which did not answer"


def test_the_holds_of_an_attached_broker_are_not_known(run_command: Glassmq, web: Web) -> None:
    web.answers["/api/v1/holds"] = (200, {"holds": [], "total": 0})
    web.answers["/api/v1/attached"] = (200, {"brokers": [{"broker": "broker-a"}]})
    sentence = (
        "Attached: broker-a. These are pulls of the copy. Which pulls are held at the broker that is copied is not "
    )
    assert run_command("--url", web.url, "holds").out.splitlines()[-1].startswith(sentence)
    assert "Attached" not in run_command("--url", web.url, "holds", "--broker", "broker-b").out


def test_why(run_command: Glassmq, web: Web) -> None:
    web.answers["/api/v1/groups/g/verdicts"] = (200, VERDICTS)
    done = run_command("--url", web.url, "why", "g", "--patience", "1.5")
    assert web.asked[0][1].endswith("?patience_ms=1500")
    assert done.out.splitlines() == [
        "g: stalled",
        "  error   It waits\\x1b.",
        "          Do this.",
        "  new kind It rests.",
        "          Wait.",
        "  ok      It keeps up.",
    ]
    web.answers["/api/v1/groups/g/verdicts"] = (200, VERDICTS | {"state": "ok"})
    assert run_command("--url", web.url, "why", "g").out.splitlines()[0] == "g: error (its progress is ok)"
    web.answers["/api/v1/groups/g/verdicts"] = (200, VERDICTS)
    assert run_command("--url", web.url, "why", "g", "--json", "--broker", "b").json == VERDICTS
    assert web.asked[-1][1].endswith("?broker=b")


def test_timeline(run_command: Glassmq, web: Web) -> None:
    web.answers["/api/v1/messages/ID/timeline"] = (200, TIMELINE)
    done = run_command("--url", web.url, "timeline", "ID")
    head, _, older, event, more = done.out.splitlines()
    assert head.startswith("ID: orders broker-a:2@5, stored ")
    assert event.endswith("  messages_stored   size=9")
    assert older.endswith("  answered_at_once  group=g messages=2"), "of what the events have, too, nothing is repeated"
    assert more.startswith("Older events of this message are not kept any more")


def test_an_unknown_group_is_not_found(run_command: Glassmq, web: Web) -> None:
    assert run_command("--url", web.url, "why", "nobody").code == 4


def test_a_hint_names_the_option_and_not_the_parameter_of_the_api(run_command: Glassmq, web: Web) -> None:
    web.answers["/api/v1/snapshot"] = (400, {"title": "Bad", "detail": "choose one of a, b with ?broker="})
    done = run_command("--url", web.url, "top", "--once")
    assert (done.code, done.err) == (1, "glassmq: choose one of a, b with --broker\n")

"""``glassmq message`` and ``glassmq logdump``."""

from pathlib import Path

import pytest

from broker_core.formats.commit_log_record import encode
from tests.broker_core.cli.conftest import Glassmq, Web


def test_a_message_is_found_by_both_ids(glassmq: Glassmq) -> None:
    sent = glassmq("produce", "searched", "--body", "a\tb\nc\x1b", "--tag", "T", "--key", "k", "--json").json
    by_offset = glassmq("message", sent["offset_message_id"], "--json").json
    by_id = glassmq("message", sent["message_id"], "--topic", "searched", "--json").json
    assert by_offset == by_id and by_id["message_id"] == sent["message_id"]
    out = glassmq("message", sent["offset_message_id"]).out
    assert "tag                T\n" in out and "keys               ['k']\n" in out
    assert out.endswith("\n\na\tb\nc\\x1b\n")


def test_an_id_of_a_producer_needs_the_topic_or_the_http_api(run_command: Glassmq, glassmq: Glassmq, web: Web) -> None:
    sent = glassmq("produce", "by-api", "--body", "x", "--json").json
    without = glassmq("message", sent["message_id"])
    assert without.code == 3 and "With --topic, RocketMQ's protocol finds it" in without.err
    web.answers[f"/api/v1/messages/{sent['message_id']}"] = (200, {"message_id": sent["message_id"], "body": "x"})
    assert glassmq("message", sent["message_id"], "--url", web.url, "--json").json["body"] == "x"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("message", "abc"), 2, "'abc' is no message id"),
        (("message", "7F000001" * 4, "--topic", "TBW102"), 4, "no broker has a message"),
        (("message", "7F000001" * 4, "--topic", "no-topic"), 4, "no-topic"),
    ],
)
def test_a_message_that_does_not_exist(glassmq: Glassmq, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = glassmq(*arguments)
    assert done.code == code and words in done.err


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with three records in two files."""
    (tmp_path / "commitlog").mkdir()
    log = bytearray()
    for number, topic in enumerate("aba"):
        log += encode(topic=topic, queue_id=0, queue_offset=number, physical_offset=len(log), body=b"m%d" % number)
        if number == 1:
            (tmp_path / "commitlog" / f"{0:020}").write_bytes(log)
            first = len(log)
    (tmp_path / "commitlog" / f"{first:020}").write_bytes(log[first:])
    return tmp_path


def bodies(done: object) -> list[str]:
    return [line["body"] for line in done.json_lines]  # type: ignore[attr-defined]


def test_logdump_of_a_store_and_of_one_file(run_command: Glassmq, store: Path) -> None:
    files = sorted((store / "commitlog").iterdir())
    assert bodies(run_command("logdump", str(store), "--json")) == ["m0", "m1", "m2"]
    assert bodies(run_command("logdump", str(store), "--topic", "a", "--json")) == ["m0", "m2"]
    assert bodies(run_command("logdump", str(store), "--count", "1", "--json")) == ["m0"]
    assert bodies(run_command("logdump", str(store), "--from", files[1].name.lstrip("0"), "--json")) == ["m2"]
    assert bodies(run_command("logdump", str(files[0]), "--json")) == ["m0", "m1"]
    assert bodies(run_command("logdump", str(files[1]), "--json")) == ["m2"]
    line = run_command("logdump", str(files[1])).out
    assert line.split()[0] == files[1].name.lstrip("0") and line.endswith(" a -:0@2 - - m2\n")


def test_logdump_names_the_place_of_damage(run_command: Glassmq, store: Path) -> None:
    first, second = sorted((store / "commitlog").iterdir())
    whole = run_command("logdump", str(store), "--json")
    assert whole.err == ""
    with second.open("r+b") as file:
        file.truncate(second.stat().st_size + 100)  # zeros, as in a file that is not full
    assert run_command("logdump", str(store), "--json") == whole
    with second.open("r+b") as file:
        file.seek(4)
        file.write(b"damage")
    done = run_command("logdump", str(store), "--json")
    assert (done.code, bodies(done)) == (0, ["m0", "m1"])
    assert f"the log ends at physical offset {int(second.name)}, where no valid record begins" in done.err
    assert run_command("logdump", str(first)).err == ""


def test_logdump_follows_the_log(run_command: Glassmq, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = sorted((store / "commitlog").iterdir())[1]

    def write(_: float) -> None:
        end = int(last.name) + last.stat().st_size
        with last.open("ab") as file:
            file.write(encode(topic="a", queue_id=0, queue_offset=3, physical_offset=end, body=b"new"))

    monkeypatch.setattr("broker_core.cli.messages.time.sleep", write)
    done = run_command("logdump", str(store), "--follow", "--count", "4", "--json")
    assert bodies(done) == ["m0", "m1", "m2", "new"]


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("", (), "it has no commitlog folder"),
        ("commitlog/file", (), "is not a file of a commit log"),
        ("nowhere", (), "does not exist"),
        (f"commitlog/{0:020}", ("--follow",), "--follow needs the folder"),
    ],
)
def test_what_is_no_log(
    run_command: Glassmq, store: Path, tmp_path: Path, name: str, more: tuple[str, ...], words: str
) -> None:
    (store / "commitlog" / "file").touch()
    done = run_command("logdump", str(store / name) if name else str(store / "commitlog"), *more)
    assert done.code == 2 and words in done.err

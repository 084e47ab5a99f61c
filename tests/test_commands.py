"""The commands people type, as real processes on ports and folders of their own."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.management.commands import broker as broker_command
from bridge.port import UnavailableError, commands
from broker_core.codes import RequestCode
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand
from tests.conftest import PROJECT, Manage
from tests.fakes.fake_port import FakePort

PATIENCE_S = 120
WITH_CHILDREN = 4
"""Processes of a whole broker: web, engine, report worker, scheduler."""


class Site:
    """The web side of a started broker."""

    def __init__(self, process: subprocess.Popen[str], manage: Manage, **environment: str) -> None:
        self.process = process
        port = environment.get("GLASSMQ_WEB_PORT") or manage.environment["GLASSMQ_WEB_PORT"]
        self.address = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def publish(self, topic: str, body: str, token: str = "") -> Any:
        request = urllib.request.Request(
            f"{self.address}/api/v1/topics/{topic}/messages",
            method="POST",
            data=json.dumps({"body": body, "queue_id": 0}).encode(),
            headers={"content-type": "application/json", "authorization": f"Bearer {token}"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def is_ready(self) -> bool:
        try:
            self.get("/readyz")
        except OSError:  # nobody listens yet, or 503
            assert self.process.poll() is None, self.process.communicate()[0]
            return False
        return True

    def announced(self) -> str:
        """What it wrote up to and with the lines that say where it is, which come a moment after it is ready."""
        assert self.process.stdout is not None
        said = ""
        while "Ctrl-C" not in said:
            line = self.process.stdout.readline()
            assert line, f"it ended before it said where it is:\n{said}"
            said += line
        return said

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; (exit code, all it wrote)."""
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, output


def ask(port: int, code: int, ext_fields: dict[str, str]) -> RemotingCommand:
    """What a server of RocketMQ's protocol answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        client.sendall(RemotingCommand.request(code, ext_fields, opaque=7).encode())
        decoder, answers = FrameDecoder(), []
        while not answers:
            answers = decoder.feed(client.recv(65536))
    [answer] = answers
    return answer


def wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def processes_of(folder: str) -> list[int]:
    """Processes that were started with this data folder, whoever their parent is now."""
    shown = subprocess.run(["ps", "-axeww", "-o", "pid=,stat=,command="], capture_output=True, text=True, check=True)
    return [
        int(line.split()[0])
        for line in shown.stdout.splitlines()
        if f"GLASSMQ_DATA_DIR={folder} " in f"{line} " and not line.split()[1].startswith("Z")
    ]


def state_of(pid: int) -> str:
    """``ps``'s letter: T is stopped."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return shown[:1]


@pytest.fixture
def start(manage: Manage) -> Callable[..., Site]:
    """Starts ``manage.py broker`` and waits until a message can be published."""

    def starting(*arguments: str, **environment: str) -> Site:
        site = Site(manage.start("broker", *arguments, **environment), manage, **environment)
        wait_until(site.is_ready)
        return site

    return starting


def test_make_run_ends_with_code_0_at_a_signal_and_messages_survive(start: Callable[..., Site]) -> None:
    first = start("--no-schedules")
    said = first.announced()
    assert f"dashboard   {first.address}/" in said
    assert first.publish("orders", "kept")["messages"][0]["queue_offset"] == 0
    code, output = first.end(signal.SIGINT)
    assert code == 0, output
    assert "Traceback" not in said + output
    second = start("--no-schedules")
    pulled = second.get("/api/v1/topics/orders/queues/0/messages?offset=0&wait_ms=0")
    assert [message["body"] for message in pulled["messages"]] == ["kept"]
    code, output = second.end(signal.SIGHUP)  # SIGTERM ends most brokers below
    assert code == 0, output
    assert "Traceback" not in output


def test_a_store_of_another_broker_is_announced_as_read_only(manage: Manage, tmp_path: Path) -> None:
    with tarfile.open(PROJECT / "tests" / "golden" / "rocketmq-5.4.0-store.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    [commitlog] = tmp_path.glob("rocketmq-*/clean-shutdown/**/commitlog")
    site = Site(manage.start("broker", "--no-schedules", GLASSMQ_STORE_DIR=str(commitlog.parent)), manage)
    said = site.announced()
    assert "read-only" in said
    assert "make demo" not in said
    assert site.get("/readyz") == {"status": "ok", "mode": "read-only"}
    assert manage.run("engine_ready", GLASSMQ_ENGINE="child") == (0, "ready, read-only\n")
    assert site.end(signal.SIGTERM)[0] == 0


def test_a_held_pull_is_answered_when_the_broker_ends(start: Callable[..., Site]) -> None:
    site = start("--no-schedules")
    site.publish("orders", "first")
    answers: list[Any] = []
    pull = threading.Thread(
        target=lambda: answers.append(site.get("/api/v1/topics/orders/queues/0/messages?offset=1&wait_ms=30000"))
    )
    pull.start()
    wait_until(lambda: site.get("/api/v1/holds")["holds"])
    assert site.end(signal.SIGTERM)[0] == 0
    pull.join(PATIENCE_S)
    assert answers[0]["hold"]["wake_cause"] == "shutdown"


def test_its_children_end_when_the_broker_ends(start: Callable[..., Site], manage: Manage) -> None:
    folder = manage.environment["GLASSMQ_DATA_DIR"]
    site = start()
    wait_until(lambda: len(processes_of(folder)) == WITH_CHILDREN)
    code, output = site.end(signal.SIGTERM)
    assert code == 0, output
    assert processes_of(folder) == []


def test_its_children_end_when_the_broker_is_killed(start: Callable[..., Site], manage: Manage) -> None:
    folder = manage.environment["GLASSMQ_DATA_DIR"]
    site = start()
    wait_until(lambda: len(processes_of(folder)) == WITH_CHILDREN)
    site.process.kill()
    wait_until(lambda: processes_of(folder) == [])


def test_a_second_ctrl_c_ends_it_at_once(start: Callable[..., Site], manage: Manage) -> None:
    folder = manage.environment["GLASSMQ_DATA_DIR"]
    site = start()
    wait_until(lambda: len(processes_of(folder)) == WITH_CHILDREN)
    children = [pid for pid in processes_of(folder) if pid != site.process.pid]
    for child in children:
        os.kill(child, signal.SIGSTOP)  # so that an orderly end would wait for it
    wait_until(lambda: all(state_of(child) == "T" for child in children))
    site.process.send_signal(signal.SIGINT)
    assert site.process.stdout is not None
    wait_until(lambda: "Stopping" in site.process.stdout.readline())
    assert site.end(signal.SIGINT)[0] == 1
    wait_until(lambda: processes_of(folder) == [])


def test_an_engine_beside_is_started_again_and_ends_with_the_rest(start: Callable[..., Site], manage: Manage) -> None:
    folder = manage.environment["GLASSMQ_DATA_DIR"]
    site = start("--no-schedules", GLASSMQ_ENGINE="child")
    site.publish("orders", "before")
    [engine] = [pid for pid in processes_of(folder) if pid != site.process.pid]
    assert manage.run("engine_ready", GLASSMQ_ENGINE="child") == (0, "ready\n")
    os.kill(engine, signal.SIGKILL)
    wait_until(lambda: [pid for pid in processes_of(folder) if pid not in (engine, site.process.pid)])
    wait_until(site.is_ready)
    assert site.publish("orders", "after")["messages"][0]["queue_offset"] == 1
    code, output = site.end(signal.SIGTERM)
    assert code == 0, output
    assert "The engine ended with code -9; restarting it" in output
    assert processes_of(folder) == []


@pytest.fixture
def redis_url(free_ports: list[int], tmp_path: Path) -> Iterator[str]:
    """A Redis server of this test's own."""
    port = str(free_ports[7])
    server = subprocess.Popen(
        ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path],
        stdout=subprocess.DEVNULL,
    )
    yield f"redis://127.0.0.1:{port}/0"
    server.terminate()
    server.wait(PATIENCE_S)


def test_the_commands_of_docker_compose_make_a_broker(manage: Manage, redis_url: str) -> None:
    services = yaml.safe_load((PROJECT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]

    def of(service: str) -> list[str]:
        command = services[service]["command"]
        assert command[:2] == ["python", "manage.py"]
        return list(command[2:])

    token = "only-for-this-test-0123456789"
    environment = {"GLASSMQ_REDIS_URL": redis_url, "GLASSMQ_API_TOKEN": token}
    code, output = manage.run(*of("migrate"), **environment)
    assert code == 0, output
    engine = Site(manage.start(*of("engine"), **environment), manage)
    web = Site(manage.start(*of("web"), **environment), manage)
    wait_until(web.is_ready)
    assert web.publish("orders", "through Redis", token)["messages"][0]["queue_offset"] == 0
    assert manage.run(*services["engine"]["healthcheck"]["test"][3:], **environment) == (0, "ready\n")
    for service in ("worker", "beat"):
        check = services[service]["healthcheck"]["test"][1:]
        subprocess.run([sys.executable, *check[1:]], cwd=PROJECT, env=manage.environment | environment, check=True)
    code, output = engine.end(signal.SIGTERM)
    assert code == 0, output
    code, output = web.end(signal.SIGTERM)
    assert code == 0, output


@pytest.mark.parametrize(("engine", "sentence"), [("embedded", "/readyz"), ("child", "has not answered yet")])
def test_engine_ready_without_an_engine_beside(manage: Manage, engine: str, sentence: str) -> None:
    code, output = manage.run("engine_ready", GLASSMQ_ENGINE=engine)
    assert code == 1
    assert sentence in output


def test_a_taken_port_is_named_with_the_variable_that_changes_it(manage: Manage) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(manage.environment["GLASSMQ_WEB_PORT"])))
        other.listen()
        code, output = manage.run("broker", "--no-schedules")
    assert code == 1
    assert manage.environment["GLASSMQ_WEB_PORT"] in output
    assert "GLASSMQ_WEB_PORT" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("engine", ["embedded", "child"])
def test_rocketmq_clients_are_served_by_the_broker_that_the_name_server_names(
    start: Callable[..., Site], manage: Manage, engine: str
) -> None:
    site = start("--no-schedules", GLASSMQ_ENGINE=engine)
    said = site.announced()
    site.publish("orders", "first")
    broker, namesrv = (int(manage.environment[f"GLASSMQ_{name}_PORT"]) for name in ("BROKER", "NAMESRV"))
    answer = ask(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    assert json.loads(answer.body)["brokerDatas"][0]["brokerAddrs"] == {"0": f"127.0.0.1:{broker}"}
    answer = ask(broker, RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
    assert (answer.code, answer.opaque, answer.ext_fields) == (0, 7, {"offset": "1"})
    code, output = site.end(signal.SIGTERM)
    assert code == 0, output
    assert f"RocketMQ    127.0.0.1:{broker}\n" in said
    assert f"name server 127.0.0.1:{namesrv}\n" in said
    assert "Traceback" not in said + output


@pytest.mark.parametrize("engine", ["embedded", "child"])
def test_a_taken_port_of_rocketmq_clients_is_named(manage: Manage, engine: str) -> None:
    port = manage.environment["GLASSMQ_BROKER_PORT"]
    with socket.create_server(("127.0.0.1", int(port))):
        code, output = manage.run("broker", "--no-schedules", GLASSMQ_ENGINE=engine)
    assert code == 1
    assert f"Port {port} of 127.0.0.1 is taken" in output
    assert "GLASSMQ_BROKER_PORT" in output
    assert "Traceback" not in output
    assert "is up" not in output


async def test_a_broker_is_announced_only_after_its_engine_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_command, "PROBE_PAUSE_S", 0)
    late, never, there = FakePort(), FakePort(), FakePort()
    refusals = iter([UnavailableError("the broker's engine has not answered yet")] * 3)
    late.replies[commands.GetBroker] = lambda _: next(refusals, commands.Done())
    never.replies[commands.GetBroker] = UnavailableError("nobody listens")
    there.replies[commands.GetBroker] = commands.Done()
    assert await broker_command.engine_state({"a": there, "b": late}, 60) == ""
    assert len(late.commands) == 4
    assert await broker_command.engine_state({"a": there, "b": never}, 0) == (
        "b is not reachable at the moment: nobody listens"
    )


def test_a_second_broker_on_the_same_store_is_refused(
    start: Callable[..., Site], manage: Manage, free_ports: list[int]
) -> None:
    first = start("--no-schedules")
    code, output = manage.run(
        "broker",
        "--no-schedules",
        GLASSMQ_WEB_PORT=str(free_ports[4]),
        GLASSMQ_BROKER_PORT=str(free_ports[5]),
        GLASSMQ_NAMESRV_PORT=str(free_ports[6]),
    )
    assert code == 1
    assert manage.environment["GLASSMQ_DATA_DIR"] in output
    assert "is up" not in output
    assert "Traceback" not in output
    assert first.is_ready()


def test_a_folder_that_cannot_be_written_to_is_named(manage: Manage, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, output = manage.run("broker", GLASSMQ_DATA_DIR=str(tmp_path / "file" / "data"))
    assert code == 1
    assert "GLASSMQ_DATA_DIR" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("engine", ["embedded", "child"])
def test_a_store_that_cannot_be_made_is_named(manage: Manage, tmp_path: Path, engine: str) -> None:
    (tmp_path / "file").write_text("in the way")
    code, output = manage.run(
        "broker", "--no-schedules", GLASSMQ_STORE_DIR=str(tmp_path / "file" / "store"), GLASSMQ_ENGINE=engine
    )
    assert code == 1
    assert "GLASSMQ_STORE_DIR" in output
    assert "Traceback" not in output


def test_a_public_address_needs_a_token_or_an_explicit_setting(manage: Manage) -> None:
    code, output = manage.run("broker", GLASSMQ_HOST="0.0.0.0")
    assert code == 1
    assert "GLASSMQ_API_TOKEN" in output
    assert "Traceback" not in output


def test_requests_without_the_token_are_refused(start: Callable[..., Site]) -> None:
    site = start("--no-schedules", GLASSMQ_API_TOKEN="only-for-this-test-0123456789")
    with pytest.raises(urllib.error.HTTPError) as refused:
        site.get("/api/v1/topics")
    assert refused.value.code == 401


def test_options_of_broker_conf_that_mean_nothing_here_are_pointed_out(
    start: Callable[..., Site], tmp_path: Path
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=orders\nsendMessageThreadPoolNums=4\n")
    site = start("--no-schedules", GLASSMQ_BROKER_CONF=str(conf))
    output = site.announced() + site.end(signal.SIGTERM)[1]
    assert "sendMessageThreadPoolNums" in output
    assert "is up: orders" in output
    assert re.search(r"GLASSMQ_WEB_PORT=\d+ make demo", output)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [["report", "list"], ["lake", "--help"], ["help"]])
def test_a_command_whose_reader_has_enough_ends_without_a_word(command: list[str], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=PROJECT,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_make_lists_what_it_can_do() -> None:
    listed = subprocess.run(["make"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    for target in ("setup", "run", "test", "check"):
        assert f"make {target} " in listed


def test_make_run_starts_the_broker() -> None:
    shown = subprocess.run(["make", "--dry-run", "run"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert "manage.py broker" in shown


def test_ci_runs_what_people_run() -> None:
    script = (PROJECT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.index("make check") < script.index("make test")
    subprocess.run(["bash", "-n", ".ci/run"], cwd=PROJECT, check=True)

"""The name server alone, as a real process."""

import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_core.client.remoting_client import RemotingClient
from broker_core.codes import RequestCode
from tests.conftest import Manage

KEY = {"namespace": "n", "key": "k", "value": "v"}


@pytest.fixture
def start(manage: Manage) -> Callable[[], tuple[subprocess.Popen[str], RemotingClient]]:
    """Starts it and waits until it says that it is up."""

    def starter() -> tuple[subprocess.Popen[str], RemotingClient]:
        process = manage.start("namesrv")
        port = manage.environment["GLASSMQ_NAMESRV_PORT"]
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("The name server of GlassMQ") and line.endswith(f"is up: 127.0.0.1:{port}\n"), line
        return process, RemotingClient("127.0.0.1", int(port))

    return starter


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_namesrv_serves_until_a_signal_and_keeps_its_configuration(
    start: Callable[[], tuple[subprocess.Popen[str], RemotingClient]], number: signal.Signals
) -> None:
    process, client = start()
    assert (await client.invoke(RequestCode.PUT_KV_CONFIG, KEY, timeout_s=60)).code == 0
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "")
    await client.close()
    process, client = start()
    answer = await client.invoke(RequestCode.GET_KV_CONFIG, KEY, timeout_s=60)
    assert answer.ext_fields == {"value": "v"}
    await client.close()


def test_a_taken_port_ends_the_command_with_a_sentence(manage: Manage) -> None:
    with socket.create_server(("127.0.0.1", int(manage.environment["GLASSMQ_NAMESRV_PORT"]))):
        code, output = manage.run("namesrv")
    assert code == 1 and "GLASSMQ_NAMESRV_PORT" in output and "Traceback" not in output


def test_port_0_ends_the_command_with_a_sentence(manage: Manage) -> None:
    code, output = manage.run("namesrv", GLASSMQ_NAMESRV_PORT="0")
    assert code == 1 and "GLASSMQ_NAMESRV_PORT=0" in output and "Traceback" not in output


def test_a_folder_that_cannot_be_created_ends_the_command_with_a_sentence(manage: Manage, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "namesrv").write_text("in the way")
    code, output = manage.run("namesrv")
    assert code == 1 and str(tmp_path / "data" / "namesrv") in output and "Traceback" not in output

"""A real standalone Spark cluster for tests: a master and its workers, each a process of its own."""

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from spark_jobs.spark.java import find_java_home
from spark_jobs.spark.session import current_java_home

PATIENCE_S = 120
EXECUTOR = "CoarseGrainedExecutorBackend"
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Options for many small queries, which take longer to compile than to run."""


class SparkCluster:
    """Starts and kills its processes. Executors take 512 MiB, so that each worker has room for one."""

    def __init__(self, folder: Path) -> None:
        self.url = ""
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._said: dict[str, list[str]] = {}
        conf = folder / "conf"
        conf.mkdir(parents=True)
        options = INTERPRETED | {"spark.executor.memory": "512m", "spark.task.maxFailures": "8"}
        (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
        self.environment = {
            "JAVA_HOME": str(find_java_home(current_java_home(), folder)),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_HOME": str(Path(find_spec("pyspark").origin).parent),  # type: ignore[union-attr, arg-type]
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "512m",
        }
        """What processes that use the cluster need in their environment."""

    def start_master(self) -> None:
        """Start the master and wait until it listens; ``url`` is then where."""
        said = self._start(
            "master",
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0",
            until=r"Starting Spark master at (spark://\S+)",
        )
        self.url = said[1]

    def start_worker(self, name: str) -> None:
        """Start a worker with one core and wait until the master has it."""
        self._start(
            name,
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            "--cores",
            "1",
            "--memory",
            "600m",
            "--work-dir",
            str(self._folder / name),
            self.url,
            until="Successfully registered with master",
        )

    def start_connect(self, master: str, port: int, token: str) -> None:
        """Start a Spark Connect server, which runs jobs on ``master`` for who has the token; wait until it listens."""
        self._start(
            "connect",
            "org.apache.spark.deploy.SparkSubmit",
            "--master",
            master,
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
            "--conf",
            "spark.connect.grpc.binding.address=127.0.0.1",
            "--conf",
            f"spark.connect.grpc.binding.port={port}",
            "--conf",
            "spark.connect.progress.reportInterval=100ms",
            "--conf",
            "spark.ui.enabled=false",
            "--conf",
            f"spark.connect.authenticate.token={token}",
            "spark-internal",
            until="Spark Connect server started",
        )

    def executors(self, worker: str) -> list[int]:
        """Process ids of a worker's executors."""
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        mine = str(self._processes[worker].pid)
        return [int(pid) for pid, parent, command in rows if parent == mine and EXECUTOR in command]

    def kill(self, name: str) -> None:
        """End the master or a worker, with everything that it started, at once."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_all(self) -> None:
        for name in list(self._processes):
            self.kill(name)

    def _start(self, name: str, *command: str, until: str) -> re.Match[str]:
        program = Path(self.environment["SPARK_HOME"]) / "bin" / "spark-class"
        process = subprocess.Popen(
            [str(program), *command],
            env=os.environ | self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._processes[name] = process
        found: list[re.Match[str]] = []
        seen = threading.Event()
        said = self._said[name] = []

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                match = re.search(until, line)
                if match and not found:
                    found.append(match)
                    seen.set()
            seen.set()

        threading.Thread(target=read, name=name, daemon=True).start()
        seen.wait(PATIENCE_S)
        if not found:
            pytest.fail(f"{name} did not start:\n{''.join(said)}")
        return found[0]

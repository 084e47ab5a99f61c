"""Checks whether this environment has Spark, and installs it in the background.

pyspark alone is half a gigabyte, so it is not part of ``make setup``. The report worker installs it when it starts, by
the hashes of ``requirements/spark.txt``. It writes the progress to the database, for the pages.
"""

import fcntl
import logging
import shutil
import subprocess
import sys
import threading
from datetime import timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db import connection
from django.utils import timezone

from spark_jobs.errors import NoJavaError, NoSparkError
from spark_jobs.models import SparkEnvironment, SparkState
from spark_jobs.spark.java import find_java_home
from spark_jobs.spark.session import current_java_home, is_connect, require_packages

logger = logging.getLogger(__name__)

REQUIREMENTS = Path(__file__).resolve().parent.parent.parent / "requirements" / "spark.txt"
SIGN_OF_LIFE_S = 15.0
SILENCE = timedelta(minutes=2)
"""An installation without a sign of life for so long has ended."""
INSTALLING = "Installing Spark and its packages: a download of about 630 MB, which takes some minutes."


class Environment(NamedTuple):
    """The state, and a sentence about it."""

    state: SparkState
    text: str


def read_environment() -> Environment:
    """What the report worker last wrote about its Spark."""
    row = SparkEnvironment.objects.filter(pk=SparkEnvironment.ROW).first()
    if row is None:
        return Environment(SparkState.ABSENT, "No report worker has started yet.")
    if row.state == SparkState.INSTALLING and timezone.now() - row.updated > SILENCE:
        return Environment(
            SparkState.FAILED,
            "The installation of Spark ended without a result. It begins again when the report worker starts.",
        )
    return Environment(SparkState(row.state), row.text)


def write_environment(state: SparkState, text: str) -> None:
    """Replace the state and its sentence."""
    SparkEnvironment.objects.update_or_create(
        pk=SparkEnvironment.ROW, defaults={"state": state, "text": text[:2000], "updated": timezone.now()}
    )


def scratch_folder() -> Path:
    """The folder for Spark's temporary files."""
    return Path(settings.GLASSMQ_DATA_DIR) / "spark"


def problem() -> str:
    """Why reports cannot run in this environment, as a sentence; empty if they can."""
    try:
        require_packages(settings.GLASSMQ_SPARK_MASTER)
        if not is_connect(settings.GLASSMQ_SPARK_MASTER):  # a Connect server has its own Java
            find_java_home(current_java_home(), scratch_folder())
    except (NoSparkError, NoJavaError) as error:
        return str(error)
    return ""


def is_ready() -> bool:
    """Whether a report may run now."""
    return read_environment().state == SparkState.READY and not problem()


def begin() -> threading.Thread | None:
    """Write whether Spark is installed. If it is not, start a thread that installs it, and return the thread."""
    if not problem():
        write_ready()
        return None
    write_environment(SparkState.INSTALLING, INSTALLING)
    logger.info("%s It runs in the background; the page /reports shows when it is done.", INSTALLING)
    thread = threading.Thread(target=set_up, name="spark set-up", daemon=True)
    thread.start()
    return thread


def write_ready() -> str:
    """Write that Spark can be used from now on. Returns the sentence that says so."""
    text = f"Spark {version('pyspark')} is ready."
    write_environment(SparkState.READY, text)
    return text


def set_up() -> None:
    """Install what is missing, and write the outcome. If two workers do this, the second waits for the first."""
    scratch_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with open(scratch_folder() / "setup.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            failure = problem() and install(install_command(), lock.fileno())
        failure = failure or problem()
        if failure:
            logger.error("Spark cannot be set up: %s", failure)
            write_environment(SparkState.FAILED, failure)
        else:
            logger.info("%s", write_ready())
    except Exception:
        logger.exception("Setting Spark up failed.")
        write_environment(SparkState.FAILED, "Setting Spark up failed; the report worker's log says why.")
    finally:
        connection.close()


def install_command() -> list[str]:
    """The installation command; empty if there is neither pip nor uv."""
    requirements = ["--require-hashes", "--requirement", str(REQUIREMENTS)]
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-input", "--progress-bar", "off", *requirements]
    uv = shutil.which("uv")
    return [uv, "pip", "install", "--python", sys.executable, *requirements] if uv else []


def install(command: list[str], lock: int) -> str:
    """Install the requirements. Returns why this failed, or an empty text.

    The program inherits the file descriptor ``lock``, so that the lock holds even when this process dies. The next try
    completes an installation that was killed half-way, because packages are installed by name and hash.
    """
    if not command:
        return "Spark cannot be installed here, since this environment has neither pip nor uv."
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=(lock,),
    )
    while True:
        try:
            output, _ = process.communicate(timeout=SIGN_OF_LIFE_S)
            break
        except subprocess.TimeoutExpired:  # pip may be silent for minutes
            SparkEnvironment.objects.filter(pk=SparkEnvironment.ROW).update(updated=timezone.now())
    if process.returncode:
        lines = output.strip().splitlines() or ["no output"]
        return f"Spark could not be installed ({lines[-1][:300]}). The report worker tries again when it starts."
    return ""

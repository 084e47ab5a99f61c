"""Gets Spark into this environment while everything else already works.

pyspark alone is half a gigabyte, so it is not part of ``make setup``: the report worker installs it, and what goes with
it, when it starts, in the background, from ``requirements/spark.txt`` and nothing that is not in there by its hash.
"""

import fcntl
import logging
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from django.conf import settings
from django.db import connection

from spark_jobs.errors import NoJavaError, NoSparkError
from spark_jobs.hosting.environment import read_environment, touch_environment, write_environment
from spark_jobs.models import SparkState
from spark_jobs.spark.connect import is_connect
from spark_jobs.spark.java import find_java_home
from spark_jobs.spark.session import current_java_home, require_packages

logger = logging.getLogger(__name__)

REQUIREMENTS = Path(__file__).resolve().parent.parent.parent / "requirements" / "spark.txt"
SIGN_OF_LIFE_S = 15.0
INSTALLING = "Installing Spark and its packages: a download of about 690 MB, which takes some minutes."


def scratch_folder() -> Path:
    """Where Spark keeps what it needs while it runs."""
    return Path(settings.GLASSMQ_DATA_DIR) / "spark"


def problem() -> str:
    """Why reports cannot run in this environment, as a sentence; empty when they can."""
    try:
        require_packages(settings.GLASSMQ_SPARK_MASTER)
        if not is_connect(settings.GLASSMQ_SPARK_MASTER):  # whose server has the Java
            find_java_home(current_java_home(), scratch_folder())
    except (NoSparkError, NoJavaError) as error:
        return str(error)
    return ""


def begin() -> threading.Thread | None:
    """Find out how it stands, and start to install what is missing; the thread that does so, if one is needed."""
    missing = problem()
    if not missing:
        say_ready()
        return None
    write_environment(SparkState.INSTALLING, INSTALLING)
    logger.info("%s It runs in the background; the page /reports shows when it is done.", INSTALLING)
    thread = threading.Thread(target=_install_and_say, name="spark set-up", daemon=True)
    thread.start()
    return thread


def say_ready() -> str:
    """Spark can be used from now on. Returns the sentence that says so."""
    text = f"Spark {version('pyspark')} is ready."
    write_environment(SparkState.READY, text)
    return text


def _install_and_say() -> None:
    try:
        with signs_of_life(), only_one(scratch_folder()) as lock:
            failure = problem() and install(lock=lock)
            failure = failure or problem()
        if failure:
            logger.error("Spark cannot be set up: %s", failure)
            write_environment(SparkState.FAILED, failure)
        else:
            logger.info("%s", say_ready())
    except Exception:
        logger.exception("Setting Spark up failed.")
        write_environment(SparkState.FAILED, "Setting Spark up failed; the report worker's log says why.")
    finally:
        connection.close()


@contextmanager
def signs_of_life() -> Iterator[None]:
    """While something is installed, say every few seconds that it goes on: pip may be silent for minutes."""
    over = threading.Event()

    def say_so() -> None:
        try:
            while not over.wait(SIGN_OF_LIFE_S):
                touch_environment()
        except Exception:
            logger.exception("The set-up of Spark goes on, but cannot say so.")
        finally:
            connection.close()

    thread = threading.Thread(target=say_so, name="spark set-up is alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def only_one(folder: Path) -> Iterator[int]:
    """Two workers that start together install once: the second waits, then finds it done.

    Yields the lock's file descriptor. The installing program inherits it, so that it counts even when its worker
    died.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / "setup.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def install_command() -> list[str]:
    """The program that installs, empty when there is none."""
    requirements = ["--require-hashes", "--requirement", str(REQUIREMENTS)]
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-input", "--progress-bar", "off", *requirements]
    uv = shutil.which("uv")
    return [uv, "pip", "install", "--python", sys.executable, *requirements] if uv else []


def install(command: list[str] | None = None, lock: int | None = None) -> str:
    """Install the requirements. Why it failed, or empty.

    The next try completes an installation that was killed half-way: packages are installed by name and hash.
    """
    command = install_command() if command is None else command
    if not command:
        return "Spark cannot be installed here, since this environment has neither pip nor uv."
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=() if lock is None else (lock,),
        check=False,
    )
    if done.returncode:
        lines = done.stdout.strip().splitlines() or ["no output"]
        return f"Spark could not be installed ({lines[-1][:300]}). The report worker tries again when it starts."
    return ""


def is_ready() -> bool:
    """Whether a report may run now."""
    return read_environment().state == SparkState.READY and not problem()

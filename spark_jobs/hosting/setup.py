"""Gets Spark into this environment while everything else already works.

pyspark alone is half a gigabyte, so it is not part of ``make setup``: the report worker installs it, and what goes with
it, when it starts, in the background, from ``requirements/spark.txt`` and nothing that is not in there by its hash.
"""

import fcntl
import logging
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
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
RAW_PROGRESS_SINCE = (24, 1)
"""The pip from which on progress can be read line by line."""
SIGN_OF_LIFE_S = 15.0
GETTING = "Getting Spark and what goes with it: about 640 MB, some minutes."
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_TELLING = re.compile(r"(Collecting|Downloading|Using cached|Building wheel|Installing|Preparing|Successfully)\b.*")
_MIB = 1024 * 1024

Say = Callable[[str], None]


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
    write_environment(SparkState.INSTALLING, GETTING)
    logger.info("%s It goes on in the background; the page /reports says how far it is.", GETTING)
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
            failure = problem() and install(lambda text: write_environment(SparkState.INSTALLING, text), lock=lock)
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
    chosen = ["--require-hashes", "--requirement", str(REQUIREMENTS)]
    try:
        has_raw = tuple(int(part) for part in version("pip").split(".")[:2]) >= RAW_PROGRESS_SINCE
    except PackageNotFoundError:
        uv = shutil.which("uv")
        return [uv, "pip", "install", "--python", sys.executable, *chosen] if uv else []
    return [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar",
        "raw" if has_raw else "off",
        *chosen,
    ]


def install(say: Say, command: list[str] | None = None, lock: int | None = None) -> str:
    """Install the requirements, telling ``say`` how far it is. Why it failed, or empty.

    A program that was killed half-way is made good by the next try: it installs by name and hash, whatever lies there.
    """
    command = install_command() if command is None else command
    if not command:
        return "Spark cannot be installed here, since this environment has neither pip nor uv."
    last = ""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=() if lock is None else (lock,),
    ) as process:
        assert process.stdout is not None
        what, said = "", ""
        for line in process.stdout:
            last = line.strip() or last
            what, text = told(line, what)
            if text and text != said:
                said = text
                say(text)
    if process.returncode:
        return f"Spark could not be installed ({last[:300]}). It is tried again when the report worker starts."
    return ""


def told(line: str, what: str) -> tuple[str, str]:
    """(what is being done, what to show) after one more line of pip's; nothing to show for most lines."""
    progress = _PROGRESS.match(line)
    if progress:
        done, total = int(progress[1]), max(1, int(progress[2]))
        return what, f"{what}: {done // _MIB} of {total // _MIB} MiB" if total > 10 * _MIB else ""
    telling = _TELLING.search(line.strip())
    if telling is None:
        return what, ""
    words = telling[0].split(" --hash")[0][:160]
    return words.split(" (")[0], words


def is_ready() -> bool:
    """Whether a report may run now."""
    return read_environment().state == SparkState.READY and not problem()

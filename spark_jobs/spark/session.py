"""One Spark session per process, made when it is first needed and made again when its Java has died.

Never call this in the parent of a prefork worker: a session does not survive a fork.
"""

import glob
import io
import logging
import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast
from zipfile import ZipFile

from spark_jobs.errors import NoSparkError, PassingError
from spark_jobs.spark import connect
from spark_jobs.spark.cluster import is_local, named, parallelism, reach_master, require_workers
from spark_jobs.spark.cluster_workers import PACKAGES
from spark_jobs.spark.code_version import PROJECT, SENT_TO_TASKS, digest, sources
from spark_jobs.spark.java import find_java_home
from spark_jobs.spark.leftovers import take_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_PLAN_LETTERS = 64 * 1024
"""Spark keeps a text of each plan. That of a report may have hundreds of MB, and filled a driver of 1 GB."""
JAVA_OPTIONS = (
    "-XX:+ExitOnOutOfMemoryError "  # otherwise a thread ends, and whoever waits for its result waits for ever
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times later than usual does Java optimise its code to the full: reports are short, and the planning of queries,
of which each method is called some thousand times, would be optimised for longer than it runs. Long loops still are."""

LOGGING = Path(__file__).parent.parent / "assets" / "log4j2.properties"
JAVA_GRACE_S = 4.0
OWN_PACKAGES = ("pyspark", "deltalake")
"""Packages that the driver needs beside those of its tasks."""


def require_packages(master: str) -> None:
    """NoSparkError unless all that a session on ``master`` needs can be imported; sees what was installed just now."""
    invalidate_caches()
    for package in (*OWN_PACKAGES, *PACKAGES, *connect.PACKAGES * connect.is_connect(master)):
        if find_spec(package) is None:
            raise NoSparkError(
                f"{package} is not installed here. A broker that runs installs it in the background, "
                f"and says on its Reports page how far that is; without one, `{sys.executable} -m pip install "
                "--require-hashes -r requirements/base.txt -r requirements/spark.txt` does."
            )


def get_session(master: str, scratch: Path) -> "SparkSession":
    """This process's session on ``master``; ``scratch`` is a folder for what Spark leaves behind.

    A ReportError, with a sentence, when there can be none: no Spark, no Java, no cluster.
    """
    require_packages(master)
    from pyspark.sql import SparkSession

    if connect.is_connect(master):
        session = connect.current_session()
    else:
        session = SparkSession.getActiveSession() if is_alive() else None
    if session is None:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        address = reach_master(master)
        session = connect.open_session(master) if connect.is_connect(master) else start(master, address, scratch)
        try:
            prepare(session, master, scratch)
        except BaseException as error:
            stop_session()
            if connect.grpc_status(cast("Exception", error)) == "UNAVAILABLE":
                raise PassingError(
                    f"{named(master)} answers, but not as a Spark Connect server does. With "
                    "use_ssl=true, or a token and another host than localhost, it is spoken to by TLS."
                ) from error
            raise
    return session


def current_java_home() -> str:
    """The environment's JAVA_HOME, which pyspark would use."""
    return os.environ.get("JAVA_HOME", "")  # noqa: TID251


def is_alive() -> bool:
    """Whether this process has a session whose Java still answers; forgets one whose Java is gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None:
        return False
    try:
        if not context._jsc.sc().isStopped():
            return True
    except Exception:
        # Its Java is gone. There is no public way to say so to pyspark: stop() would ask that Java.
        if context._gateway is not None:
            context._gateway.shutdown_callback_server()
        SparkContext._gateway = None
        SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    return False


def is_not_py4js(record: logging.LogRecord) -> bool:
    """py4j gives one of its stack traces to the root logger, not to its own."""
    return Path(record.pathname).parent.name != "py4j"


def start(master: str, address: str, scratch: Path) -> "SparkSession":
    """A new session of a Spark whose driver is this process, and found by executors at ``address``, if there is one."""
    # It tells of every connection that it closes and, when Java ends, has a stack trace for each; errors it raises too.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(is_not_py4js)
    # pyspark hands this process's environment on to Java and to its Python workers; there is no other way to tell it.
    environment = os.environ  # noqa: TID251
    environment["JAVA_HOME"] = str(find_java_home(current_java_home(), scratch))
    if is_local(master):
        paths = [str(PROJECT), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif address:  # without it Spark would trust the machine's name
        environment.setdefault("SPARK_LOCAL_IP", address)
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .appName("GlassMQ reports")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.maxPlanStringLength", str(MAX_PLAN_LETTERS))
        .config("spark.sql.ui.retainedExecutions", "20")
        .config("spark.driver.defaultJavaOptions", java_options(environment.get("SPARK_CONF_DIR")))
        .config("spark.local.dir", str(local_folder(scratch / "local")))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        # Where in Python each step of a query was taken is for errors alone, and costs three calls to Java for each.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
    )
    if is_local(master):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    return builder.getOrCreate()


def prepare(session: "SparkSession", master: str, scratch: Path) -> None:
    """Set a new session up, send it what its tasks need, and look whether they can run."""
    from spark_jobs.sources.commit_log_source import CommitLogSource
    from spark_jobs.sources.poll_journal_source import PollJournalSource

    if connect.is_connect(master):
        session.addArtifacts(str(pack_sources(scratch)), pyfile=True)
    elif not is_local(master):  # tasks of a local master import the project's own modules, which Numba has cached
        session.sparkContext.addPyFile(str(pack_sources(scratch)))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.execution.pyspark.udf.faulthandler.enabled", "true")
    if not is_local(master):
        require_workers(session, master)
    session.conf.set("spark.sql.shuffle.partitions", str(max(4 if is_local(master) else 8, parallelism(session))))
    for source in (CommitLogSource, PollJournalSource):
        session.dataSource.register(source)


def java_options(conf: str | None) -> str:
    """Java's options; where the folder ``conf`` does not configure what Java says, it says errors alone."""
    if conf and any(Path(conf).glob("log4j2*")):
        return JAVA_OPTIONS
    return f"{JAVA_OPTIONS} -Dlog4j2.configurationFile={LOGGING.as_uri()}"


def local_folder(parent: Path) -> Path:
    """This process's own folder below ``parent``; removes those that killed processes of this machine left."""
    host = socket.gethostname()
    for folder in parent.glob(f"{glob.escape(host)}-*"):
        process = folder.name.rpartition("-")[2]
        if process.isdigit() and not is_running(int(process)):
            shutil.rmtree(folder, ignore_errors=True)
    return parent / f"{host}-{os.getpid()}"


def is_running(process: int) -> bool:
    """Whether there is a process of that id."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def pack_sources(scratch: Path) -> Path:
    """A zip file of the modules that tasks import, so that a cluster's machines need no checkout.

    It must lie there as long as tasks may start, so it is named by its content and left there, for a month at least.
    """
    path = scratch / f"glassmq_sources_{digest(SENT_TO_TASKS)}.zip"
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}.new")
        with ZipFile(draft, "w") as archive:
            for source in sources(SENT_TO_TASKS):
                archive.write(source, source.relative_to(PROJECT))
        draft.replace(path)
    take_up(path, "glassmq_sources_*")
    return path


def stop_session() -> None:
    """End the session, if there is one; its Java stays until the process ends."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    connect.close_session()
    if SparkContext._active_spark_context is not None:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


def end_spark() -> None:
    """End what the process has of Spark: its session at a server, or its Java, in order, so that it removes its files.

    At once if it takes too long. For a process that ends.
    """
    connect.leave()
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    java = getattr(SparkContext._gateway, "proc", None)
    sys.stderr = io.StringIO()  # pyspark's own server says a traceback about the Java that it misses
    if java is not None:
        with suppress(OSError):
            java.stdin.close()
        try:
            java.wait(JAVA_GRACE_S)
        except subprocess.TimeoutExpired:
            java.kill()

"""The process's Spark session: local, on a cluster, or at a Spark Connect server, as GLASSMQ_SPARK_MASTER says.

Never start one in the parent of a prefork worker, because a session does not survive a fork.
"""

import atexit
import fcntl
import hashlib
import io
import logging
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib import invalidate_caches
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zipfile import ZipFile

import broker_core
import spark_jobs
from spark_jobs.errors import NoSparkError, PassingError
from spark_jobs.spark.class_archive import ClassArchive
from spark_jobs.spark.failures import is_passing, sentence
from spark_jobs.spark.installed import lack_of
from spark_jobs.spark.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).resolve().parent.parent.parent
INSTALL_LOCK, INSTALL_LOG = Path(sys.prefix, "install.lock"), Path(sys.prefix, "spark-install.log")
SENT_TO_TASKS = (broker_core, spark_jobs)
PACKAGES = ("pyspark", "deltalake", "pyarrow", "numpy", "pandas", "msgspec")
CONNECT_PACKAGES = ("grpc", "grpc_status")
CONNECT_RETRIES = 4
"""How often pyspark repeats a call that a Connect server refuses: 5 s in all. By default it goes on for minutes."""
MOST_TASKS = 10_000
MAX_PLAN_LETTERS = 64 * 1024
"""Spark keeps a text of each plan. That of a report may have hundreds of MB, and filled a driver of 1 GB."""
JAVA_OPTIONS = "-XX:+ExitOnOutOfMemoryError -XX:+IgnoreUnrecognizedVMOptions"
"""Java exits when it runs out of memory. Otherwise one thread would end, and its callers would wait for ever."""
FOR_LITTLE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
FOR_MUCH = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""How Java optimizes its code: ten times later than by default, and for small stores not beyond its first compiler.

Most of a report's time goes into planning queries, in methods that run a few thousand times. Optimizing those takes
longer than running them. With its first compiler alone, Java has room for 48 MB of code. All reports in one session
need more, and without room Java compiles nothing any more. So it gets the 240 MB that both compilers have."""
PLAN_BYTES = "64k"
"""Rows that Python gives to Spark are in the plan if they are smaller. Each rule of the planner goes through them."""
JAVA_GRACE_S = 4.0
SHARING = "-Xshare:"
"""Java's option for archives of classes. Whoever sets it in JDK_JAVA_OPTIONS decides, so there is none of ours."""
_archives: list[ClassArchive] = []
"""The archive of the Java that this process has started."""
LOGGING = Path(__file__).parent.parent / "assets" / "log4j2.properties"


def is_connect(master: str) -> bool:
    """Whether ``master`` is the URL of a Spark Connect server."""
    return master.startswith("sc://")


def is_local(master: str) -> bool:
    """Whether Spark's tasks run in processes of this machine that need no code sent to them."""
    return master.startswith("local")


def without_parameters(master: str) -> str:
    """The URL as it may be shown: the parameters of a Connect URL may contain a token."""
    return "sc://" + master.removeprefix("sc://").partition("/")[0] if is_connect(master) else master


def current_java_home() -> str:
    """The environment's JAVA_HOME, which pyspark would use."""
    return os.environ.get("JAVA_HOME", "")  # noqa: TID251


def require_packages(master: str) -> None:
    """NoSparkError unless all packages for a session on ``master`` are installed, if only a moment ago."""
    if is_installing():  # packages may be there without all of their files
        raise NoSparkError(
            f"Packages are being installed here. If Spark is among them, {INSTALL_LOG} shows the progress."
        )
    invalidate_caches()
    for package in (*PACKAGES, *CONNECT_PACKAGES * is_connect(master)):
        if lack := lack_of(package):
            raise NoSparkError(
                f"{package} {lack} here. In a checkout `make run` installs Spark in the background, and "
                f"{INSTALL_LOG} shows the progress. This command installs it, too: `{sys.executable} -m pip install "
                f"--require-hashes -r {PROJECT / 'requirements' / 'spark.txt'}`."
            )


def is_installing() -> bool:
    """Whether ``scripts/pip-install.sh`` is installing packages into this environment: it holds a lock then."""
    try:
        with open(INSTALL_LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def get_session(master: str, scratch: Path, reads_little: bool = False) -> "SparkSession":
    """This process's session, started on ``master`` if there is none. ``scratch`` is a folder for Spark's files.

    ``reads_little``: Java is started for small stores. Returns the same session later, also for larger ones.
    Returns when a first task has run. Errors are a ReportError with a sentence, PassingError where another try may
    succeed, or Spark's own.
    """
    require_packages(master)
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        return session
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    atexit.register(end_spark)
    try:
        session = connect(master) if is_connect(master) else start(master, scratch, reads_little)
        prepare(session, master, scratch)
    except Exception as error:
        stop_session()
        if is_passing(error):
            raise PassingError(
                f"Spark did not start on {without_parameters(master)} (GLASSMQ_SPARK_MASTER): {sentence(error)}"
            ) from error
        raise
    return session


def is_not_py4js(record: logging.LogRecord) -> bool:
    """Whether a record is not py4j's, which gives some of its stack traces to the root logger."""
    return Path(record.pathname).parent.name != "py4j"


def start(master: str, scratch: Path, reads_little: bool) -> "SparkSession":
    """A new session whose driver is a Java that this process starts."""
    # py4j logs each connection that it closes, and a stack trace for each of them when Java ends or Ctrl-C is pressed.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(is_not_py4js)
    # pyspark passes this process's environment on to Java and to its Python workers; it has no other way.
    environment = os.environ  # noqa: TID251
    java_home, own = find_java_home(current_java_home(), scratch), local_folder(scratch / "local")
    environment["JAVA_HOME"] = str(java_home)
    own.mkdir(parents=True, exist_ok=True)
    archive = ClassArchive(java_home, scratch.resolve(), own.resolve())
    options = java_options(environment.get("SPARK_CONF_DIR"), reads_little)
    if SHARING not in environment.get("JDK_JAVA_OPTIONS", ""):
        options = f"{options} {archive.options()}"
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .appName("GlassMQ reports")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.maxPlanStringLength", str(MAX_PLAN_LETTERS))
        .config("spark.sql.ui.explainMode", "simple")  # longer texts take a tenth of a short query's time
        .config("spark.sql.ui.retainedExecutions", "20")
        .config("spark.driver.defaultJavaOptions", options)
        .config("spark.local.dir", str(own))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        # Without it pyspark records for errors where each step of a query was called: three calls to Java for each.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
    )
    if is_local(master):  # its tasks import the project's own modules
        paths = [str(PROJECT), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    try:
        session = builder.getOrCreate()
    except Exception:
        if SparkContext._gateway is None:  # Java did not even start, as with a damaged archive
            archive.file.unlink(missing_ok=True)
        raise
    if (jvm := session.sparkContext._jvm) is not None:
        archive.note_class_path(str(jvm.java.lang.System.getProperty("java.class.path")))
    _archives[:] = [archive]
    return session


def connect(url: str) -> "SparkSession":
    """A new session at a Spark Connect server."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session = SparkSession.builder.remote(url).getOrCreate()
    cast("Any", session).client.set_retry_policies([DefaultPolicy(max_retries=CONNECT_RETRIES)])
    return session


def prepare(session: "SparkSession", master: str, scratch: Path) -> None:
    """Send a new session the modules that its tasks import, set it up, and run a first task."""
    from spark_jobs.sources.commit_log_source import CommitLogSource
    from spark_jobs.sources.poll_journal_source import PollJournalSource

    if is_connect(master):
        session.addArtifacts(str(pack_sources(scratch)), pyfile=True)
    elif not is_local(master):
        session.sparkContext.addPyFile(str(pack_sources(scratch)))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.execution.pyspark.udf.faulthandler.enabled", "true")
    session.conf.set("spark.sql.execution.arrow.localRelationThreshold", PLAN_BYTES)
    if not is_local(master):
        session.range(1).count()  # ends when there is an executor: before that nobody knows what can run at once
    session.conf.set("spark.sql.shuffle.partitions", str(max(4 if is_local(master) else 8, parallelism(session))))
    for source in (CommitLogSource, PollJournalSource):
        session.dataSource.register(source)


def is_connect_session(session: "SparkSession") -> bool:
    """Whether the session is at a Connect server: it has no ``sparkContext``."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def parallelism(session: "SparkSession") -> int:
    """Tasks that run at once, with the executors that there are now."""
    if not is_connect_session(session):
        return session.sparkContext.defaultParallelism
    from pyspark.sql import functions as F

    parts = session.range(MOST_TASKS).select(F.spark_partition_id().alias("part"))
    last: int = parts.agg(F.max("part")).collect()[0][0]
    return last + 1


def java_options(conf: str | None, reads_little: bool) -> str:
    """Java's options. Java logs as the folder ``conf`` configures it, by default errors alone."""
    options = f"{JAVA_OPTIONS} {FOR_LITTLE if reads_little else FOR_MUCH}"
    if conf and any(Path(conf).glob("log4j2*")):
        return options
    return f"{options} -Dlog4j2.configurationFile={LOGGING.as_uri()}"


def local_folder(parent: Path) -> Path:
    """This process's own folder below ``parent``. Removes the folders of processes that were killed."""
    for folder in parent.glob("*"):
        process = folder.name.rpartition("-")[2]
        if process.isdigit() and not is_running(int(process)):
            shutil.rmtree(folder, ignore_errors=True)
    return parent / str(os.getpid())


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
    """A zip file of the project's packages that tasks import, in the folder ``scratch``.

    It is named by its content, because machines of a cluster keep files, and drivers read them as they run.
    """
    draft = scratch / f"glassmq_sources.{os.getpid()}.new"
    with ZipFile(draft, "w", strict_timestamps=False) as archive:
        for package in SENT_TO_TASKS:
            folder = Path(package.__path__[0])
            for source in sorted(folder.rglob("*.py")):
                archive.write(source, source.relative_to(folder.parent))
    digest = hashlib.sha256(draft.read_bytes()).hexdigest()[:12]
    return draft.replace(scratch / f"glassmq_sources_{digest}.zip")


def stop_session() -> None:
    """End the session, if there is one. Its Java stays until the process ends."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


def end_spark() -> None:
    """End the session at a Connect server, or this process's Java. For the process's end."""
    if not end_java():
        stop_session()


def end_java() -> bool:
    """End this process's Java, if it has one, and wait until it has removed its files. Returns whether it had one.

    Nothing is printed to standard error from then on.
    """
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    java = getattr(SparkContext._gateway, "proc", None)
    if java is None:
        return False
    sys.stderr = io.StringIO()  # pyspark's accumulator server prints a traceback when Java closes its connection
    with suppress(OSError):
        java.stdin.close()
    with suppress(subprocess.TimeoutExpired, OSError):
        java.wait(JAVA_GRACE_S)
        for archive in _archives:
            archive.keep_list()
    return True

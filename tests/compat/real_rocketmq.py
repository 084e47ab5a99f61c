"""Apache RocketMQ itself, to check expectations against the original: name server and broker as real processes.

The jars come from Maven once and stay in a cache folder, ``~/.cache/glassmq/rocketmq-5.4.0`` unless
``GLASSMQ_COMPAT_CACHE`` names another place for ``~/.cache/glassmq``. The processes listen on free ports of 127.0.0.1,
have small heaps and files, and keep everything in a folder that the caller gives. By hand:

    python -m tests.compat.real_rocketmq          # starts both, prints their addresses, ends them on Ctrl-C
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tests.fakes.ports import unused_broker_port, unused_ports

VERSION = "5.4.0"
OLD_VERSION = "4.9.8"
"""The last release of RocketMQ 4: its clients are still in use."""
PROXY = f"proxy-{VERSION}"
"""RocketMQ's proxy, which serves gRPC clients. It needs jars that the others do not need."""
GRPC_CLIENT = "client-java-5.2.0"
"""The gRPC client for Java."""
ARTIFACTS = {
    VERSION: ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-client", "rocketmq-tools"),
    OLD_VERSION: ("rocketmq-client", "rocketmq-tools"),  # Maven has no brokers of it
    PROXY: ("rocketmq-proxy",),
    GRPC_CLIENT: ("rocketmq-client-java",),
}
START_SECONDS = 120
STOP_SECONDS = 30

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>glassmq.compat</groupId><artifactId>real-rocketmq</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{}
</dependencies></project>
"""
DEPENDENCY = (
    "<dependency><groupId>org.apache.rocketmq</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)

STOCK_CONF = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "brokerIP1": "127.0.0.1",
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
}
"""What every broker gets. All else is RocketMQ's default."""

BROKER_CONF = STOCK_CONF | {
    # small files: the default ones are made for servers
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 30_000),
    "mappedFileSizeTimerLog": str(1024 * 1024),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
    "enablePropertyFilter": "true",  # as GlassMQ's default
    "recallMessageEnable": "true",  # as GlassMQ's default
    # a busy machine makes requests wait; that is not what is being compared
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
}
"""What brokers of tests get. Behaviour is RocketMQ's default except for sizes, patience, SQL92 filters and recalls."""

SMALL_JVM = ("-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=1g")
"""Each of the broker's threads that stores messages keeps a direct buffer of 4 MiB, and there are more than 60."""
STOCK_JVM = (
    "-server",
    "-Xms1g",
    "-Xmx1g",
    "-XX:+UseG1GC",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30",
    "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+AlwaysPreTouch",
    "-XX:MaxDirectMemorySize=1g",
    "-XX:-UseLargePages",
)
"""What RocketMQ's runbroker.sh gives a broker, with less memory (there 8 GiB): that is for machines which do nothing
else."""


class CannotRun(Exception):
    """RocketMQ cannot be had or does not start; the text says why."""


def cache_folder() -> Path:
    """Where programs that tests build or fetch stay from one run to the next."""
    return Path(os.environ.get("GLASSMQ_COMPAT_CACHE") or Path.home() / ".cache" / "glassmq")


def missing_java_tools() -> list[str]:
    """Programs that are needed and not on the PATH."""
    return [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]


@contextlib.contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Test processes side by side take turns."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def maven(*arguments: str, folder: Path) -> None:
    """Run Maven in a folder; CannotRun with the end of what it said when it fails."""
    done = subprocess.run(
        ["mvn", "-B", "-q", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise CannotRun(f"mvn {' '.join(arguments)} failed:\n{done.stdout[-3000:]}")


def jars(version: str = VERSION) -> Path:
    """The folder with the jars of a release of RocketMQ and those they need, fetched if they are not there yet.

    ``version`` is a key of ``ARTIFACTS``.
    """
    missing = missing_java_tools()
    if missing:
        raise CannotRun(f"not on the PATH: {', '.join(missing)}")
    folder = cache_folder() / f"rocketmq-{version}"
    with only_one(folder.with_suffix(".lock")):
        if not (folder / "lib").is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(folder / "part", ignore_errors=True)
            release = version.rpartition("-")[2]
            dependencies = "\n".join(DEPENDENCY.format(name, release) for name in ARTIFACTS[version])
            (folder / "pom.xml").write_text(POM.format(dependencies))
            maven(
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={folder / 'part'}",
                folder=folder,
            )
            (folder / "part").rename(folder / "lib")  # there at once and whole, or not at all
    return folder / "lib"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def brokers_of(namesrv_port: int, topic: str, *, tls: bool = False) -> list[str]:
    """Names of the brokers where a name server says that the topic is: GET_ROUTEINFO_BY_TOPIC, and its answer."""
    request = json.dumps(
        {"code": 105, "language": "OTHER", "version": 493, "opaque": 1, "flag": 0, "extFields": {"topic": topic}}
    ).encode()
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", namesrv_port), timeout=10))
        if tls:
            connection = stack.enter_context(ssl._create_unverified_context().wrap_socket(connection))
        connection.sendall(struct.pack(">II", 4 + len(request), len(request)) + request)
        stream = connection.makefile("rb")
        length, header_length = struct.unpack(">II", stream.read(8))
        if json.loads(stream.read(header_length))["code"]:
            return []
        route = json.loads(stream.read(length - 4 - header_length))
        return sorted(broker["brokerName"] for broker in route["brokerDatas"])


class Server:
    """One Java process. ``log`` has what it printed; its own log files are below ``folder``."""

    def __init__(
        self, folder: Path, main_class: str, jvm: Iterable[str], port: int, arguments: Iterable[str], lib: Path
    ) -> None:
        self.folder = folder
        self.port = port
        self.log = folder / "out.log"
        folder.mkdir(parents=True, exist_ok=True)
        self._main_class = main_class
        self._command = ["java", *jvm, f"-Duser.home={folder}", "-cp", f"{lib}/*", main_class, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; ``wait_ready`` tells when it serves."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=os.environ | {"ROCKETMQ_HOME": str(self.folder)},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, is_ready: Callable[[int], bool] = is_open) -> None:
        """Return when it takes connections; CannotRun when it ends instead."""
        assert self._process is not None
        until = time.monotonic() + START_SECONDS
        while not is_ready(self.port):
            if self._process.poll() is not None:
                raise CannotRun(f"{self._main_class} ended at its start:\n{self.log.read_text()[-3000:]}")
            if time.monotonic() > until:
                raise CannotRun(f"{self._main_class} does not serve after {START_SECONDS} s; see {self.log}")
            time.sleep(0.1)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait for that; SIGKILL is a crash."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _server(folder: Path, main_class: str, jvm: Iterable[str], conf: Mapping[str, str]) -> Server:
    """One that takes its settings from a file of lines."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "server.conf"
    file.write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
    return Server(folder, main_class, jvm, int(conf["listenPort"]), ("-c", str(file)), jars())


def name_server(folder: Path, port: int | None = None, **conf: str) -> Server:
    """RocketMQ's name server, not started yet. ``conf`` has settings beside its port."""
    return _server(
        folder,
        "org.apache.rocketmq.namesrv.NamesrvStartup",
        ("-Xms128m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=128m"),
        {"listenPort": str(port or unused_ports(1)[0])} | conf,
    )


def broker(folder: Path, namesrv: str, port: int | None = None, *, stock: bool = False, **conf: str) -> Server:
    """RocketMQ's broker, not started yet; a second start finds the same store.

    ``conf`` goes over ``BROKER_CONF``, or with ``stock``, for benchmarks, over ``STOCK_CONF``.
    """
    jvm, beginning = (STOCK_JVM, STOCK_CONF) if stock else (SMALL_JVM, BROKER_CONF)
    return _server(
        folder,
        "org.apache.rocketmq.broker.BrokerStartup",
        jvm,
        beginning
        | {
            "namesrvAddr": namesrv,
            "listenPort": str(port or unused_broker_port()),
            "storePathRootDir": str(folder / "store"),
            "storePathCommitLog": str(folder / "store" / "commitlog"),
        }
        | conf,
    )


def proxy(folder: Path, namesrv: str) -> Server:
    """RocketMQ's proxy in cluster mode, not started yet, for the cluster of a name server. gRPC clients use its port.

    Topics have to be there before it is asked for them: it remembers for 20 s that one is not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, remoting_port = unused_ports(2)
    file = folder / "rmq-proxy.json"
    file.write_text(
        json.dumps(
            {
                "rocketMQClusterName": "DefaultCluster",
                "proxyMode": "cluster",
                "namesrvAddr": namesrv,
                "localServeAddr": "127.0.0.1",
                "grpcServerPort": port,
                "remotingListenPort": remoting_port,
            }
        )
    )
    jvm = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=512m")
    return Server(folder, "org.apache.rocketmq.proxy.ProxyStartup", jvm, port, ("-pc", str(file)), jars(PROXY))


class RealRocketMQ:
    """A name server and a broker that is registered there."""

    def __init__(self, folder: Path, *, stock: bool = False, **conf: str) -> None:
        self.namesrv = name_server(folder / "namesrv")
        self.broker = broker(folder / "broker", self.namesrv.address, stock=stock, **conf)

    def start(self) -> None:
        self.namesrv.start()
        self.namesrv.wait_ready()
        self.broker.start()
        self.broker.wait_ready()
        # topics of its own are registered some seconds after it has said that it is up
        self.broker.wait_ready(lambda port: bool(brokers_of(self.namesrv.port, "TBW102")))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.broker.stop(how)
        self.namesrv.stop(how)


@contextlib.contextmanager
def real_rocketmq(*, stock: bool = False, **conf: str) -> Iterator[RealRocketMQ]:
    """Both, running, in a folder that goes away with them."""
    with tempfile.TemporaryDirectory(prefix="glassmq-real-rocketmq-", ignore_cleanup_errors=True) as folder:
        servers = RealRocketMQ(Path(folder), stock=stock, **conf)
        try:
            servers.start()
            yield servers
        finally:
            servers.stop()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with real_rocketmq() as servers, contextlib.suppress(KeyboardInterrupt):
        print(
            f"name server {servers.namesrv.address}\nbroker {servers.broker.address}\n"
            f"folder {servers.broker.folder.parent}",
            flush=True,
        )
        signal.pause()


if __name__ == "__main__":
    main()

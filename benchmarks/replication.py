"""What waiting for a slave costs a sender: each broker alone, and as SYNC_MASTER of a stock slave.

    python -m benchmarks.replication [--rounds 7] [--messages 400] [--warmup 3000] [--only glassmq|rocketmq]

One sender with a blocking socket sends messages of about 400 stored bytes, one after the other, to the four brokers in
turn: so many messages, then the next broker, so whatever else the machine does reaches all of them. Both slaves are
Apache RocketMQ 5.4.0, ``inSyncReplicas`` is 2, the flush is asynchronous. Goal: the p50 of GlassMQ with a slave is at
most 2.0 times that without. RocketMQ's own ratio is the yardstick.
"""

import argparse
import json
import signal
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from common import percentile, title

from broker_core.codes import RequestCode
from broker_core.remoting.remoting_command import RemotingCommand
from tests.compat.glassmq_broker import PATIENT, GlassMQ
from tests.compat.real_rocketmq import broker, name_server
from tests.fakes.ports import unused_ports

BODY = bytes(300)
TOPIC = "replication-benchmark"
SEGMENT = str(64 << 20)
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "5000"}
BUSY_MACHINE = {"waitTimeMillsInSendQueue": "10000", "osPageCacheBusyTimeOutMills": "10000"}
"""With these, RocketMQ refuses no send while other work keeps the machine busy. GlassMQ has the first one too."""
SLAVE_SECONDS = 60
ALONE, WITH_SLAVE = "without a slave", "SYNC_MASTER with a slave"


class Sender:
    """One connection to a broker, over which one message is under way at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fields = {
            "producerGroup": "replication-benchmark", "topic": TOPIC, "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "0", "flag": "0", "properties": "",
            "bornTimestamp": str(time.time_ns() // 1_000_000), "reconsumeTimes": "0", "unitMode": "false",
            "batch": "false",
        }  # fmt: skip
        self._frame = RemotingCommand.request(RequestCode.SEND_MESSAGE, fields, BODY, opaque=1).encode()

    def send(self) -> int:
        """Send a message, and return the code of the answer."""
        self._socket.sendall(self._frame)
        length, header_length = struct.unpack(">II", self._receive(8))
        answer = self._receive(length - 4)
        return int(json.loads(answer[: header_length & 0xFFFFFF])["code"])

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise RuntimeError("the broker has closed the connection")
            data += more
        return data

    def measure(self, messages: int) -> list[float]:
        """Milliseconds of each of so many sends. RuntimeError if one is not acknowledged."""
        took = []
        for _ in range(messages):
            began = time.perf_counter_ns()
            code = self.send()
            took.append((time.perf_counter_ns() - began) / 1e6)
            if code:
                raise RuntimeError(f"a send was answered {code}")
        return took

    def close(self) -> None:
        self._socket.close()


@contextmanager
def rocketmq(folder: Path, namesrv: str, **conf: str) -> Iterator[int]:
    """Apache RocketMQ as a broker of this role; its port."""
    conf |= {"brokerIP2": "127.0.0.1", "mappedFileSizeCommitLog": SEGMENT} | BUSY_MACHINE
    server = broker(folder, namesrv, None, stock=True, **conf)
    try:
        server.start()
        server.wait_ready()
        yield server.port
    finally:
        server.stop()


@contextmanager
def glassmq(folder: Path, namesrv: str, **conf: str) -> Iterator[int]:
    """GlassMQ as a broker of this role; its port."""
    folder.mkdir()
    lines = {"namesrvAddr": namesrv, "mappedFileSizeCommitLog": SEGMENT} | conf
    server = GlassMQ(folder, options=(*PATIENT, *(f"{name}={value}" for name, value in lines.items())))
    try:
        server.start()
        yield int(server.address.broker.rpartition(":")[2])
    finally:
        server.stop()


def start(stack: ExitStack, folder: Path, product: str) -> dict[str, Sender]:
    """A broker alone, and one with a slave that has its log, each with a sender."""
    servers = name_server(folder / "namesrv")
    stack.callback(servers.stop)
    servers.start()
    servers.wait_ready()
    run: Callable[..., AbstractContextManager[int]] = glassmq if product == "GlassMQ" else rocketmq
    alone = stack.enter_context(run(folder / "alone", servers.address, brokerName="alone"))
    ha_port = str(unused_ports(1)[0])
    port = stack.enter_context(run(folder / "master", servers.address, brokerName="pair", haListenPort=ha_port, **SYNC))
    slave = {"brokerRole": "SLAVE", "brokerId": "1", "brokerName": "pair", "haSendHeartbeatInterval": "1000"}
    stack.enter_context(rocketmq(folder / "slave", servers.address, **slave))
    senders = {ALONE: Sender(alone), WITH_SLAVE: Sender(port)}
    for sender in senders.values():
        stack.callback(sender.close)
    until = time.monotonic() + SLAVE_SECONDS
    while senders[WITH_SLAVE].send():
        if time.monotonic() > until:
            raise RuntimeError(f"no send was acknowledged by the slave within {SLAVE_SECONDS} s")
    return senders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("rounds", 7), ("messages", 400), ("warmup", 3000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--only", choices=("glassmq", "rocketmq"))
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the brokers, too
    title("Sends of one sender, one after the other")
    products = [name for name in ("GlassMQ", "Apache RocketMQ 5.4.0") if name.lower().find(given.only or "") >= 0]
    with tempfile.TemporaryDirectory(prefix="glassmq-bench-") as folder, ExitStack() as stack:
        found: dict[tuple[str, str], Sender] = {}
        for product in products:
            for role, sender in start(stack, Path(folder) / product.split()[0], product).items():
                found[product, role] = sender
        for sender in found.values():
            sender.measure(given.warmup)
        rounds = [
            {which: sender.measure(given.messages) for which, sender in found.items()} for _ in range(given.rounds)
        ]
    for product in products:
        for part in (0.5, 0.99):
            each = [[percentile(took[product, role], part) for took in rounds] for role in (ALONE, WITH_SLAVE)]
            ratios = [after / before for before, after in zip(*each, strict=True)]
            print(
                f"  {product}, p{100 * part:.0f}: {ALONE} {statistics.median(each[0]):.3f} ms, {WITH_SLAVE} "
                f"{statistics.median(each[1]):.3f} ms; ratio {statistics.median(ratios):.2f} "
                f"(of each round: {', '.join(f'{ratio:.2f}' for ratio in ratios)})",
                flush=True,
            )


if __name__ == "__main__":
    main()

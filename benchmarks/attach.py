"""Following another broker's log: how fast it is dispatched, when a page shows a message, what the broker pays.

    python -m benchmarks.attach dispatch [--records 200000] [--runs 5]
    python -m benchmarks.attach cluster [--messages 300] [--windows 6]

``dispatch`` gives a log of records of about 400 bytes to a follower on the real disk, in the parts in which a master
sends it, and divides by the processor time: decoding, checks, append, queues and index. Goal: 50,000 records/s.

``cluster`` starts Apache RocketMQ 5.4.0 and ``manage.py attach`` beside it. It measures from before a message is sent
to the frame with which a page shows it (goal: 300 ms or less; RocketMQ's own part is up to 100 ms), and the share of a
core that the idle broker uses in its quietest 10 s, without and with the follower (goal: 1 % more or less).
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

sys.path.insert(0, str(Path(__file__).resolve().parent))

from common import ROOT, engine, free_port, median_of, spread, title, wait_ready

from broker_core import commands as c
from broker_core.client import DefaultMQProducer, Message
from broker_core.clock import SystemClock
from broker_core.engine import Engine
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.formats.message_properties import encode
from broker_core.options import Options
from broker_core.remoting.ha_transfer import TRANSFER, HaSlave
from broker_core.store.files import RealFiles
from tests.compat.real_rocketmq import Server, real_rocketmq

SEGMENT = 256 << 20
TRANSFER_BYTES = 32 << 10
BODY = bytes(190)
"""Makes a record of about 400 bytes with its properties."""
BATCH = 200
TOPIC = "attach-benchmark"
WINDOW_S = 10.0
PAUSE_S = 0.05


# --- Dispatch ------------------------------------------------------------------------------------------------------


def master_log(records: int) -> bytes:
    """A log of so many records in 4 queues, as GlassMQ writes it: RocketMQ's bytes."""
    clock = SystemClock()
    with engine(mapped_file_size_commit_log=SEGMENT) as master:
        for first in range(0, records, BATCH):
            batch = [
                c.SendMessage(
                    topic=TOPIC,
                    messages=[
                        c.OutgoingMessage(
                            body=BODY,
                            queue_id=number % 4,
                            properties=encode({"TAGS": "paid", "KEYS": f"order-{number}"}),
                        )
                    ],
                )
                for number in range(first, min(first + BATCH, records))
            ]
            out = master.handle_batch([("c", number, one) for number, one in enumerate(batch, 1)], clock.now())
            failed = [reply for _, _, reply in out.replies if isinstance(reply, c.Failed)]
            if failed:
                raise RuntimeError(failed[0].remark)
            master.tick(clock.now())
        view = master.handle_batch([("c", 1, c.GetBroker())], clock.now()).replies[0][2]
        assert isinstance(view, c.BrokerView)
        end = view.positions.appended
        folder = Path(view.store_path) / "commitlog"
        return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))[:end]


def follow(log: bytes) -> float:
    """Processor seconds that a follower needs for this log."""
    clock, options = SystemClock(), Options(mapped_file_size_commit_log=SEGMENT)
    keys = UniqKeyGenerator("127.0.0.1", os.getpid(), random.Random(1))
    with tempfile.TemporaryDirectory(prefix="glassmq-bench-") as folder:
        follower = Engine.open(Path(folder) / "store", options, RealFiles(), clock, keys.next, follows=True)
        slave, position = HaSlave(0, SEGMENT), 1
        began = time.process_time()
        while position < len(log):
            part = log[position : min(position + TRANSFER_BYTES, position - position % SEGMENT + SEGMENT)]
            for block in slave.feed(TRANSFER.pack(position, len(part)) + part):
                command = c.AppendToCommitLog(
                    offset=block.offset, data=block.data, store_timestamp=block.store_timestamp
                )
                follower.handle_batch([("c", 1, command)], clock.now())
                while (due := follower.next_deadline()) is not None and due <= clock.mono_ns():
                    follower.tick(clock.now())
            position += len(part)
        took = time.process_time() - began
        if slave.confirmed != len(log):
            raise RuntimeError(f"the follower confirmed {slave.confirmed} of {len(log)} bytes")
        follower.close(clock.now())
    return took


def dispatch(records: int, runs: int) -> None:
    title(f"Dispatch of a followed log of {records:,} records")
    log = master_log(records)
    print(f"  {len(log) / records:,.0f} bytes a record", flush=True)
    median_of("records a second of one core", [records / follow(log) for _ in range(runs)], "records/s")


# --- A real cluster ------------------------------------------------------------------------------------------------


def used_s(server: Server) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_shares(server: Server, windows: int) -> list[float]:
    """Percent of a core in each window."""
    shares = []
    for _ in range(windows):
        before, began = used_s(server), time.perf_counter()
        time.sleep(WINDOW_S)
        shares.append(100 * (used_s(server) - before) / (time.perf_counter() - began))
    return shares


async def shown(namesrv: str, port: int, messages: int) -> list[float]:
    """Milliseconds from before each message is sent to the frame of the page's stream that has it."""
    sent: dict[int, float] = {}
    took: dict[int, float] = {}
    async with (
        connect(f"ws://127.0.0.1:{port}/ws/v1/events", max_size=None) as events,
        DefaultMQProducer("attach-benchmark", namesrv_addr=namesrv, send_msg_timeout=20_000) as producer,
    ):
        first = await producer.send(Message(TOPIC, BODY))
        queue = first.message_queue

        async def watch() -> None:
            async for text in events:
                now = time.perf_counter()
                queues = json.loads(text).get("queues") or {}
                for row in queues.get("changed", ()) if isinstance(queues, dict) else queues:
                    if (row["topic"], row["queue_id"]) == (TOPIC, queue.queue_id):
                        for offset in [known for known in sent if known < row["max_offset"] and known not in took]:
                            took[offset] = now - sent[offset]

        watching = asyncio.ensure_future(watch())
        for _ in range(messages):
            began = time.perf_counter()
            result = await producer.send(Message(TOPIC, BODY), queue=queue)
            sent[result.queue_offset] = began
            await asyncio.sleep(random.uniform(0, 2 * PAUSE_S))
        async with asyncio.timeout(20):
            while len(took) < messages:
                await asyncio.sleep(PAUSE_S)
        watching.cancel()
    return [1000 * seconds for seconds in took.values()]


def cluster(messages: int, windows: int) -> None:
    title("Apache RocketMQ 5.4.0 and a follower beside it")
    with real_rocketmq(stock=True, brokerIP2="127.0.0.1") as servers, tempfile.TemporaryDirectory() as folder:
        asyncio.run(first_message(servers.namesrv.address))
        alone = idle_shares(servers.broker, windows)
        port, log = free_port(), Path(folder) / "attach.log"
        settings = {"GLASSMQ_DATA_DIR": folder, "GLASSMQ_WEB_PORT": str(port)}
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "attach", servers.namesrv.address, "--no-schedules"],
                env=os.environ | settings,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_ready(port, process, log)
            spread("send to page", asyncio.run(shown(servers.namesrv.address, port, messages)), "ms")
            followed = idle_shares(servers.broker, windows)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    spread("idle broker alone", alone, "% of a core")
    spread("idle broker with a follower", followed, "% of a core")
    print(f"  the quietest windows differ by {min(followed) - min(alone):.2f} % of a core", flush=True)


async def first_message(namesrv: str) -> None:
    """Creates the topic."""
    async with DefaultMQProducer("attach-benchmark", namesrv_addr=namesrv, send_msg_timeout=20_000) as producer:
        await producer.send(Message(TOPIC, BODY))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("dispatch", "cluster"))
    for name, value in (("records", 200_000), ("runs", 5), ("messages", 300), ("windows", 6)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given: Any = parser.parse_args()
    if given.what == "dispatch":
        dispatch(given.records, given.runs)
    else:
        cluster(given.messages, given.windows)


if __name__ == "__main__":
    main()

"""A query by key over 10 million indexed messages, warm: RocketMQ's QUERY_MESSAGE, and GET /api/v1/messages?key=.

    python benchmarks/key_query.py [messages=10000000] [queries=1000] [folder=/tmp/glassmq-key-query]

The store is made in the folder first (some 3 minutes and 4 GB for 10 million messages) and used again by the next run.
All messages are in one topic; two of three have a key, each another. The queries ask for keys of the whole store,
chosen at random; each is asked once before it is timed. Goal: under 50 ms.
"""

import http.client
import json
import random
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import broker, free_port, percentile, spread, title
from make_store import make_store

from broker_core.codes import RequestCode
from broker_core.options import Options
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand

WANTED_MS = 50
TOPIC = "shop-00"
BODY = 16
KEPT_HOURS = 24 * 365
"""fileReservedTime: the broker deletes nothing of a store that was made some days ago."""


def arguments() -> dict[str, str]:
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    default = {"messages": "10000000", "queries": "1000", "folder": f"{tempfile.gettempdir()}/glassmq-key-query"}
    return default | given


def make(folder: Path, messages: int) -> int:
    """Make the store in ``folder/store``, unless it is there. Returns how many messages it has."""
    made = folder / "made.json"
    if made.exists() and json.loads(made.read_text())["wanted"] == messages:
        count: int = json.loads(made.read_text())["messages"]
        print(f"  the store of {count:,} messages in {folder} is used again", flush=True)
        return count
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began, used = time.perf_counter(), time.process_time()
    count = make_store(folder / "store", 1 << 62, body=(BODY, BODY), topics=1, options=Options(), messages=messages)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    print(f"  made {count:,} messages in {seconds:.0f} s, {used:.0f} s of processor time: {folder}", flush=True)
    made.write_text(json.dumps({"wanted": messages, "messages": count}))
    return count


class Remoting:
    """A connection that queries as RocketMQ's clients do."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._decoder = FrameDecoder()

    def query(self, key: str) -> int:
        """The bytes of the messages with the key."""
        fields = {"topic": TOPIC, "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(1 << 62)}
        self._socket.sendall(RemotingCommand.request(RequestCode.QUERY_MESSAGE, fields, opaque=1).encode())
        answers: list[RemotingCommand] = []
        while not answers:
            answers = self._decoder.feed(self._socket.recv(1 << 20))
        if answers[0].code:
            raise RuntimeError(f"{key}: {answers[0].code} {answers[0].remark}")
        return len(answers[0].body)


class Http:
    """A connection to the API."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def query(self, key: str) -> int:
        """The number of messages with the key."""
        self._connection.request("GET", f"/api/v1/messages?topic={TOPIC}&key={key}")
        answer = self._connection.getresponse()
        body: Any = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{key}: {answer.status} {body}")
        return len(body["messages"])


def measure(name: str, keys: list[str], query: Callable[[str], int]) -> None:
    """Ask for each key twice, and print how long the second answers took."""
    cold: list[float] = []
    warm: list[float] = []
    for times in (cold, warm):
        for key in keys:
            began = time.perf_counter()
            found = query(key)
            times.append((time.perf_counter() - began) * 1000)
            if not found:
                raise RuntimeError(f"{key} was not found")
    spread(f"{name}, asked the first time", cold, "ms")
    spread(f"{name}, warm", warm, "ms")
    verdict = "reached" if percentile(warm, 0.99) < WANTED_MS else "missed"
    print(f"    wanted: p99 under {WANTED_MS} ms: {verdict}", flush=True)


def main() -> None:
    given = arguments()
    folder, chance = Path(given["folder"]), random.Random(1)
    title(f"A query by key over {int(given['messages']):,} indexed messages")
    count = make(folder, int(given["messages"]))
    keys = [f"order-{3 * chance.randrange(count // 3) + 1}" for _ in range(int(given["queries"]))]
    conf, port = folder / "broker.conf", free_port()
    conf.write_text(f"fileReservedTime={KEPT_HOURS}\n")
    with broker(data=folder, GLASSMQ_BROKER_CONF=str(conf), GLASSMQ_BROKER_PORT=str(port)) as (web, _):
        measure("QUERY_MESSAGE", keys, Remoting(port).query)
        measure("GET /api/v1/messages?key=", keys, Http(web).query)


if __name__ == "__main__":
    main()

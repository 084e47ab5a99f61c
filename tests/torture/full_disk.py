"""A disk that others fill, on ext4 and on tmpfs: ``python -m tests.torture.full_disk --fillings 20``. It needs root.

The broker's data folder is a small file system of its own. While messages are published and read, another file takes
all of its space and grows with whatever the broker frees. The broker must refuse messages and serve reads. When the
file is removed, the broker must accept messages again by itself. Every fifth time it is killed and started on the full
disk.

Each acknowledged message must be stored at the queue offset with which it was acknowledged, unless retention removed
its segment: above 85 % the oldest segments go whatever their age, as RocketMQ's do. How many went is a figure.
"""

import argparse
import asyncio
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import httpx

from tests.compat.glassmq_broker import PATIENT, GlassMQ
from tests.torture.proof import Proof, http_client, parser

TOPIC, PADDING = "filled", "x" * 4000
SIZE_MIB = 192
RESTART_EVERY = 5
REFUSED_SECONDS, ACCEPTED_SECONDS = 120, 120
OPTIONS = (
    *PATIENT,
    f"mappedFileSizeCommitLog={4 << 20}",
    "mappedFileSizeConsumeQueue=100000",
    "maxHashSlotNum=5000",
    "maxIndexNum=20000",
    f"pollJournalFileSize={1 << 20}",
    f"pollJournalMaxBytes={4 << 20}",
    "cleanResourceInterval=1000",
)


class CannotMount(Exception):
    """The file system cannot be mounted here; the text says why."""


@contextmanager
def mounted(kind: str, folder: Path) -> Iterator[None]:
    """A file system of ``SIZE_MIB`` at ``folder``."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "glassmq-torture", str(folder)]
    try:
        if kind == "ext4":
            image = folder.with_name("image")
            with image.open("wb") as file:
                file.truncate(SIZE_MIB << 20)
            subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
            command = ["mount", "-o", "loop", str(image), str(folder)]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotMount(f"{kind}: {error}") from error
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Ballast:
    """A file that takes all free space."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ballast"

    def fill(self) -> None:
        """Take what is free now."""
        with self._path.open("ab", buffering=0) as file:
            for piece in (1 << 20, 4096):
                with suppress(OSError):
                    while file.write(b"\1" * piece) == piece:
                        pass
            try:
                os.fsync(file.fileno())
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def remove(self) -> None:
        self._path.unlink()


class Clients:
    """A publisher and a reader; the queue offset of a message is its number."""

    def __init__(self, broker: GlassMQ, proof: Proof, chance: Random) -> None:
        self.acknowledged = 0
        self.reads: Counter[str] = Counter()
        self.refusal = ""
        """Why the last publish was refused; empty when it was accepted."""
        self.away = False
        """Whether the broker is being restarted."""
        self._broker, self._proof, self._chance = broker, proof, chance

    async def publish(self) -> None:
        async with http_client(self._broker) as client:
            while True:
                body = {"body": f"{self.acknowledged}:{PADDING}", "queue_id": 0}
                try:
                    answer = await client.post(f"/api/v1/topics/{TOPIC}/messages", json=body)
                except httpx.TransportError as error:
                    self._proof.check(self.away, f"a publish failed: {error!r}")
                    await asyncio.sleep(0.1)
                    continue
                if answer.status_code == httpx.codes.CREATED:
                    offset = answer.json()["messages"][0]["queue_offset"]
                    self._proof.check(offset == self.acknowledged, f"message {self.acknowledged} got offset {offset}")
                    self.acknowledged, self.refusal = offset + 1, ""
                    await asyncio.sleep(0.002)
                else:
                    self.refusal = answer.text
                    await asyncio.sleep(0.05)

    async def read(self) -> None:
        """Read somewhere, all the time; each read must be answered with the right messages."""
        async with http_client(self._broker) as client:
            while True:
                known = self.acknowledged
                offset = self._chance.randrange(max(0, known - 2000), known) if known else 0
                try:
                    await self.read_at(client, offset, "refused" if self.refusal else "accepted")
                except (httpx.TransportError, httpx.HTTPStatusError) as error:
                    self._proof.check(self.away, f"a read failed: {error!r}")
                await asyncio.sleep(0.02)

    async def read_at(self, client: httpx.AsyncClient, offset: int, when: str) -> int:
        """Pull from an offset on; returns the offset of the next pull."""
        path = f"/api/v1/topics/{TOPIC}/queues/0/messages"
        answer = (await client.get(path, params={"offset": offset, "wait_ms": 0})).raise_for_status().json()
        self.reads[f"{when} {answer['status']}"] += 1
        for message in answer["messages"]:
            number = message["body"].partition(":")[0]
            self._proof.check(number == str(message["queue_offset"]), f"offset {message['queue_offset']} has {number}")
        return int(answer["next_offset"])

    async def read_all(self) -> int:
        """Every message that retention left; returns the offset of the first one."""
        async with http_client(self._broker) as client:
            path = f"/api/v1/topics/{TOPIC}/queues/0/messages"
            first = (await client.get(path, params={"offset": 0, "wait_ms": 0})).raise_for_status().json()["min_offset"]
            at, end = first, self.acknowledged
            while at < end:
                after = await self.read_at(client, at, "at the end")
                self._proof.check(after > at, f"acknowledged messages from {at} to {end} are lost")
                if after <= at:
                    break
                at = after
            return int(first)


async def until_refused(clients: Clients, ballast: Ballast) -> float:
    """Fill the disk until a message is refused; returns how long that took, in seconds."""
    began = time.monotonic()
    while not clients.refusal:
        await asyncio.to_thread(ballast.fill)
        await asyncio.sleep(0.2)
        if time.monotonic() - began > REFUSED_SECONDS:
            raise AssertionError(f"no message is refused after {REFUSED_SECONDS} s on a full disk")
    return time.monotonic() - began


async def until_accepted(clients: Clients, count: int = 1) -> float:
    """Wait until so many more messages are accepted; returns how long that took, in seconds."""
    began, before = time.monotonic(), clients.acknowledged
    while clients.acknowledged < before + count:
        await asyncio.sleep(0.05)
        if time.monotonic() - began > ACCEPTED_SECONDS:
            raise AssertionError(f"{ACCEPTED_SECONDS} s after there is room, messages are refused: {clients.refusal}")
    return time.monotonic() - began


async def fill_often(proof: Proof, kind: str, fillings: int, seed: int) -> None:
    with tempfile.TemporaryDirectory(prefix="glassmq-torture-") as name:
        folder = Path(name)
        with mounted(kind, folder / "data"):
            broker = GlassMQ(folder, options=OPTIONS)
            try:
                await asyncio.to_thread(broker.start)
                proof.figures[kind] = await fill_and_empty(proof, broker, folder / "data", fillings, seed)
            finally:
                broker.stop()
        proof.check_log(broker)


async def fill_and_empty(
    proof: Proof, broker: GlassMQ, disk: Path, fillings: int, seed: int
) -> dict[str, float | dict[str, int]]:
    """Fill the disk and empty it again so many times; the figures of it."""
    chance, ballast = Random(seed), Ballast(disk)
    clients = Clients(broker, proof, chance)
    async with http_client(broker) as client:
        (await client.put(f"/api/v1/topics/{TOPIC}", json={"queues": 1})).raise_for_status()
    tasks = [asyncio.create_task(clients.publish()), asyncio.create_task(clients.read())]
    longest = 0.0
    try:
        for number in range(fillings):
            await until_accepted(clients, chance.choice((20, 200, 600)))
            await until_refused(clients, ballast)
            for _ in range(5):  # retention looks once a second
                await asyncio.sleep(0.6)
                await asyncio.to_thread(ballast.fill)
            if number % RESTART_EVERY == RESTART_EVERY - 1:
                clients.away = True
                await asyncio.to_thread(broker.stop, signal.SIGKILL)
                broker.launch()
                await until_read(clients, broker)
                clients.away = False
            ballast.remove()
            longest = max(longest, await until_accepted(clients))
            print(f"{number + 1} fillings, {clients.acknowledged} acknowledged", file=sys.stderr, flush=True)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    first = await clients.read_all()
    return {
        "fillings": fillings,
        "acknowledged": clients.acknowledged,
        "removed_by_retention": first,
        "accepted_again_after_at_most_s": round(longest, 1),
        "reads": dict(clients.reads),
    }


async def until_read(clients: Clients, broker: GlassMQ) -> None:
    """Wait until the started broker serves a read, on a disk that is full."""
    end = time.monotonic() + ACCEPTED_SECONDS
    async with http_client(broker) as client:
        while True:
            with suppress(httpx.TransportError, httpx.HTTPStatusError):
                await clients.read_at(client, max(0, clients.acknowledged - 1), "after a start")
                return
            if time.monotonic() > end:
                raise AssertionError(f"a start on a full disk serves no reads:\n{broker.output[-2000:]}")
            await asyncio.sleep(0.1)


def run(arguments: argparse.Namespace) -> Proof:
    """Half of the fillings on each file system. CannotMount where that is not possible."""
    proof = Proof("full_disk", arguments)
    for kind in ("ext4", "tmpfs"):
        try:
            asyncio.run(fill_often(proof, kind, arguments.fillings // 2, arguments.seed))
        except (AssertionError, httpx.HTTPError) as error:
            proof.check(False, f"{kind}: {error!r}")
    return proof


def main() -> int:
    try:
        return run(parser(__doc__ or "", fillings=20).parse_args()).finish()
    except CannotMount as error:
        print(f"No file system can be mounted here (root is needed): {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

"""SIGKILL under load: of the whole tree, of the engine and of the parent in turn, in both flush modes.

    python -m tests.torture.kills --cycles 500

Four publishers over HTTP and, where Java is there, four lanes of a stock Java client send to one queue each and go on
whatever happens. Two publishers repeat a call with the same Idempotency-Key until it is answered; all others send no
message twice. After each restart every queue is read on, and at the end from its beginning: each acknowledged message
is there, none twice, in the order in which it was sent. Every sixth start of the tree is killed while it recovers.
"""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import httpx

from tests.compat import java_program
from tests.compat.glassmq_broker import PATIENT, GlassMQ
from tests.compat.real_rocketmq import CannotRun
from tests.torture.proof import Proof, http_client, parser, running

if TYPE_CHECKING:
    from tests.compat.program import Program

TOPIC, HTTP_QUEUES, JAVA_QUEUES = "killed", 4, 4
BACK_SECONDS = 120
MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")
VICTIMS = ("tree", "engine", "parent")
RECOVERIES_KILLED = 1 / 6
PAUSE_SECONDS = 0.02
"""From an answer to the next call of a publisher: what is published has to be read as well."""
OPTIONS = (*PATIENT, "maxTransferCountOnMessageInMemory=1024", "maxTransferCountOnMessageInDisk=1024")


class Lane:
    """One queue: what was acknowledged and what was read. Messages are known by their numbers."""

    def __init__(self, queue: int, *, keyed: bool = False) -> None:
        self.queue = queue
        self.keyed = keyed
        """Whether calls have an Idempotency-Key and are repeated."""
        self.acknowledged = 0
        self.stored: list[int] = []
        """By queue offset, as far as it was read."""
        self._stored: set[int] = set()
        self._unchecked: set[int] = set()
        self._last = -1

    def acknowledge(self, numbers: range) -> None:
        """Those that were acknowledged before are passed over; numbers only grow."""
        new = range(max(numbers.start, self._last + 1), numbers.stop)
        if new:
            self.acknowledged += len(new)
            self._unchecked.update(new)
            self._last = new[-1]

    def take_unchecked(self) -> set[int]:
        """The numbers that were acknowledged since the last call."""
        unchecked, self._unchecked = self._unchecked, set()
        return unchecked

    def violations(self, messages: list[int], acknowledged: set[int]) -> list[str]:
        """Take in what was read behind ``stored``; returns what is wrong. ``acknowledged`` must be stored by now."""
        wrong = []
        for number in messages:
            if number in self._stored:
                wrong.append(f"queue {self.queue}: message {number} is stored twice")
            elif self.stored and number < self.stored[-1]:
                wrong.append(f"queue {self.queue}: message {number} is behind {self.stored[-1]}")
            elif self.keyed and number != len(self.stored):
                wrong.append(f"queue {self.queue}: message {number} has offset {len(self.stored)}")
            self.stored.append(number)
            self._stored.add(number)
        if lost := acknowledged - self._stored:
            wrong.append(f"queue {self.queue}: {len(lost)} acknowledged messages are lost, such as {min(lost)}")
        return wrong


class Load:
    """The publishers and the readers of one broker."""

    def __init__(self, broker: GlassMQ, seed: int) -> None:
        self.lanes = [Lane(queue, keyed=queue % 2 == 0) for queue in range(HTTP_QUEUES)]
        self.java_lanes: list[Lane] = []
        self.java: Program | None = None
        self.ending = False
        self.problems: list[str] = []
        self._broker = broker
        self._seed = seed

    @property
    def acknowledged(self) -> int:
        return sum(lane.acknowledged for lane in (*self.lanes, *self.java_lanes))

    async def publish(self, lane: Lane) -> None:
        chance = Random(f"{self._seed} {lane.queue}")
        number = 0
        async with http_client(self._broker) as client:
            while not self.ending:
                count = chance.choice((1, 1, 4, 32))
                body = {
                    "messages": [{"body": f"{lane.queue}:{number + n}", "queue_id": lane.queue} for n in range(count)]
                }
                headers = {"Idempotency-Key": f"{lane.queue}-{number}"} if lane.keyed else {}
                while not self.ending:
                    status = 0
                    try:
                        answer = await client.post(f"/api/v1/topics/{TOPIC}/messages", json=body, headers=headers)
                        status = answer.status_code
                    except httpx.TransportError:
                        await asyncio.sleep(0.02)
                    if status == httpx.codes.CREATED:
                        lane.acknowledge(range(number, number + count))
                    elif 400 <= status < 500 and status != httpx.codes.TOO_MANY_REQUESTS:
                        self.problems.append(f"a publish was answered {status}: {answer.text[:300]}")
                        return
                    if status == httpx.codes.CREATED or not lane.keyed:
                        break
                number += count
                await asyncio.sleep(PAUSE_SECONDS)

    def ask_java(self) -> None:
        """Let the Java client say what was acknowledged."""
        if self.java is None:
            return
        self.java.write_line("")
        for lane, ranges in zip(self.java_lanes, self.java.line()["acknowledged"], strict=True):
            for first, last in zip(ranges[::2], ranges[1::2], strict=True):
                lane.acknowledge(range(first, last + 1))

    async def check(self, proof: Proof, when: str) -> None:
        """What is acknowledged now must be stored. Every queue is read from where it was read to before."""
        await asyncio.to_thread(self.ask_java)
        lanes = (*self.lanes, *self.java_lanes)
        acknowledged = [lane.take_unchecked() for lane in lanes]
        async with http_client(self._broker) as client:
            for lane, numbers in zip(lanes, acknowledged, strict=True):
                messages = await read_from(client, lane.queue, len(lane.stored))
                for violation in lane.violations(messages, numbers):
                    proof.check(False, f"{when}: {violation}")
        for problem in self.problems:
            proof.check(False, f"{when}: {problem}")

    async def read_again(self, proof: Proof) -> None:
        """From the beginning, every queue has what it had before."""
        async with http_client(self._broker) as client:
            for lane in (*self.lanes, *self.java_lanes):
                again = await read_from(client, lane.queue, 0)
                proof.check(again == lane.stored, f"queue {lane.queue} has changed since it was read first")


async def read_from(client: httpx.AsyncClient, queue: int, offset: int) -> list[int]:
    """The numbers of all messages from an offset on that the queue has now."""
    numbers: list[int] = []
    end = offset + 1
    while offset + len(numbers) < end:
        path = f"/api/v1/topics/{TOPIC}/queues/{queue}/messages"
        at = offset + len(numbers)
        answer = (await client.get(path, params={"offset": at, "wait_ms": 0, "limit": 1024})).raise_for_status().json()
        messages = answer["messages"]
        end = answer["max_offset"] if end == offset + 1 else end
        if [message["queue_offset"] for message in messages] != list(range(at, at + len(messages))):
            raise AssertionError(f"queue {queue}: offsets from {at} on have a hole")
        if not messages and at < end:
            raise AssertionError(f"queue {queue} ends at {at}, not at its max offset {end}: {answer['status']}")
        numbers += [int(message["body"].removeprefix(f"{queue}:")) for message in messages]
    return numbers


async def until(condition: Any, what: str) -> None:
    """Wait for it; AssertionError after ``BACK_SECONDS``."""
    end = time.monotonic() + BACK_SECONDS
    while not await condition():
        if time.monotonic() > end:
            raise AssertionError(f"not in {BACK_SECONDS} s: {what}")
        await asyncio.sleep(0.02)


def has_ended(pid: int) -> bool:
    """Whether there is no such process (a zombie is none)."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


class Cycles:
    """Kills, restarts and what is counted about them."""

    def __init__(self, broker: GlassMQ, load: Load, seed: int) -> None:
        self.kills: Counter[str] = Counter()
        self.mode = MODES[0]
        self._broker, self._load = broker, load
        self._chance = Random(seed)

    async def run(self, number: int) -> None:
        """Kill one process, or all, while messages are being acknowledged; return when it serves again."""
        before = self._load.acknowledged
        await asyncio.to_thread(self._load.ask_java)

        async def acknowledged() -> bool:
            return self._load.acknowledged > before

        await until(acknowledged, "a message is acknowledged")
        await asyncio.sleep(self._chance.uniform(0, 0.4))
        victim = VICTIMS[number % 3]
        self.kills[f"{victim} {self.mode}"] += 1
        pids = self._broker.processes
        if victim == "engine":
            os.kill(pids[1], signal.SIGKILL)
            await until(self._serves_again, "the engine serves again")
            return
        if victim == "parent":
            os.kill(pids[0], signal.SIGKILL)
        else:
            self._broker.stop(signal.SIGKILL)
        await self._until_ended(pids)
        self.mode = MODES[number // 6 % 2]
        self._broker.set_options(*OPTIONS, f"flushDiskType={self.mode}")
        if self._chance.random() < RECOVERIES_KILLED:
            self._broker.launch()
            await asyncio.sleep(self._chance.uniform(0.5, 3))
            self.kills[f"start {self.mode}"] += 1
            pids = self._broker.processes
            self._broker.stop(signal.SIGKILL)
            await self._until_ended(pids)
        await asyncio.to_thread(self._broker.start)

    async def _until_ended(self, pids: list[int]) -> None:
        async def ended() -> bool:
            return all(map(has_ended, pids))

        self._broker.reap()
        await until(ended, "the processes end with their parent")

    async def _serves_again(self) -> bool:
        async with http_client(self._broker) as client:
            try:
                return (await client.get("/readyz")).is_success
            except httpx.TransportError:
                return False


async def kill_often(
    proof: Proof, broker: GlassMQ, *, cycles: int, minutes: float, seed: int, with_java: bool = True
) -> None:
    """So many cycles, or as many as fit into the minutes, under the load of all publishers."""
    load = Load(broker, seed)
    done = Cycles(broker, load, seed)
    async with AsyncExitStack() as stack:
        async with http_client(broker) as client:
            queues = {"queues": HTTP_QUEUES + JAVA_QUEUES}
            (await client.put(f"/api/v1/topics/{TOPIC}", json=queues)).raise_for_status()
        if with_java:
            start_java(load, broker, stack)
        publishers = [asyncio.create_task(load.publish(lane)) for lane in load.lanes]
        end, number = time.monotonic() + minutes * 60, 0
        while number < cycles and time.monotonic() < end and not proof.violations:
            await done.run(number)
            await load.check(proof, f"cycle {number} of seed {seed}")
            number += 1
            print(f"{number} cycles, {load.acknowledged} acknowledged", file=sys.stderr, flush=True)
        load.ending = True
        await asyncio.gather(*publishers)
        await load.check(proof, "at the end")
    load.java = None  # it went on until now; nothing is stored any more
    await load.check(proof, "after the end")
    await load.read_again(proof)
    proof.check_log(broker)
    proof.figures |= {
        "cycles_done": number,
        "kills": sum(done.kills.values()),
        "kills_by_victim": dict(sorted(done.kills.items())),
        "acknowledged": load.acknowledged,
        "acknowledged_by_java": sum(lane.acknowledged for lane in load.java_lanes),
        "stored": sum(len(lane.stored) for lane in (*load.lanes, *load.java_lanes)),
        "java": bool(load.java_lanes),
    }


def start_java(load: Load, broker: GlassMQ, stack: AsyncExitStack) -> None:
    """Start the stock client, if there is a JDK and Maven for it."""
    words = ("--namesrv", broker.address.namesrv, "--topic", TOPIC)
    words += ("--first-queue", str(HTTP_QUEUES), "--queues", str(JAVA_QUEUES))
    try:
        load.java = stack.enter_context(java_program.start_program("steady", *words, seconds=24 * 3600))
    except CannotRun as error:
        print(f"without a Java client: {error}", file=sys.stderr)
        return
    load.java_lanes = [Lane(queue) for queue in range(HTTP_QUEUES, HTTP_QUEUES + JAVA_QUEUES)]


def main() -> int:
    arguments = parser(__doc__ or "", cycles=500, minutes=24 * 60.0).parse_args()
    proof = Proof("kills", arguments)
    with running(*OPTIONS, f"flushDiskType={MODES[0]}") as (broker, _):
        asyncio.run(kill_often(proof, broker, **vars(arguments)))
    return proof.finish()


if __name__ == "__main__":
    sys.exit(main())

"""An engine in memory with a clock that the test moves, and a client that records its replies."""

import random
from pathlib import Path
from typing import Any

from broker_core.clock import Now
from broker_core.commands import (
    Command,
    DeleteTopic,
    Held,
    OutgoingMessage,
    Pulled,
    PullMessage,
    Reply,
    SendMessage,
    Sent,
)
from broker_core.engine import Engine, Out
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.formats.message_properties import encode
from broker_core.options import Options
from broker_core.processors.context import Context
from tests.fakes.clock import VirtualClock
from tests.fakes.simulated_files import SimulatedFiles

ROOT = Path("/store")
SMALL = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "mapped_file_size_consume_queue_ext": 1 << 16,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
    "mapped_file_size_timer_log": 1 << 16,
}


def context_of(engine: Engine) -> Context:
    """The parts of an engine. Only tests access them."""
    return engine._context


class Bench:
    """One engine, its clock and files. ``replies[(connection, request id)]`` are all replies in order."""

    def __init__(
        self,
        *,
        files: SimulatedFiles | None = None,
        clock: VirtualClock | None = None,
        seed: int = 1,
        adopt: bool = False,
        follows: bool = False,
        **options: Any,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.files = files or SimulatedFiles(random.Random(seed))
        self.options = Options(**(SMALL | options))
        keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(seed))
        self.engine = Engine.open(ROOT, self.options, self.files, self.clock, keys.next, adopt=adopt, follows=follows)
        self.replies: dict[tuple[Any, int], list[Reply]] = {}
        self._request_id = 0

    @property
    def context(self) -> Context:
        return context_of(self.engine)

    def take(self, out: Out) -> None:
        for connection, request_id, reply in out.replies:
            self.replies.setdefault((connection, request_id), []).append(reply)

    def submit(self, *commands: Command, connection: Any = "c") -> list[int]:
        """Handle commands as one batch; returns their request ids."""
        ids = list(range(self._request_id + 1, self._request_id + 1 + len(commands)))
        self._request_id += len(commands)
        batch = [(connection, request_id, command) for request_id, command in zip(ids, commands, strict=True)]
        self.take(self.engine.handle_batch(batch, self.clock.now()))
        return ids

    def call(self, command: Command, connection: Any = "c") -> Reply:
        """Handle a command that is answered at once, or a deletion, which waits for the disk; returns its one reply."""
        (request_id,) = self.submit(command, connection=connection)
        if isinstance(command, DeleteTopic) and (connection, request_id) not in self.replies:
            self.flush()
            self.file_work()
            while (connection, request_id) not in self.replies:  # many offsets are copied in several turns
                self.take(self.engine.tick(self.clock.now()))
                if self.context.check_points.log_end > self.context.store.flushed_offset:
                    self.clock.advance(1000)
                    self.flush()
                self.file_work()
        (reply,) = self.replies[connection, request_id]
        return reply

    def final(self, request_id: int, connection: Any = "c") -> Reply | None:
        """The answer to a request; None while there is none."""
        answers = [reply for reply in self.replies.get((connection, request_id), []) if not isinstance(reply, Held)]
        assert len(answers) <= 1, answers
        return answers[0] if answers else None

    def tick(self, ms: float = 0) -> Now:
        """Let time pass, and run the engine until nothing is due."""
        now = self.clock.advance(ms)
        while (due := self.engine.next_deadline()) is not None and due <= now.mono_ns:
            self.take(self.engine.tick(now))
        return now

    def flush(self) -> bool:
        """Run the flush that is due, as the runner would; False if none is due."""
        flush = self.engine.next_flush(self.clock.now())
        if flush is None:
            return False
        flush.run()
        self.take(self.engine.flushed(flush, 0, self.clock.now()))
        return True

    def file_work(self) -> None:
        """Write the tables that are due and delete expired files, as the runner would."""
        while (work := self.engine.next_file_work(self.clock.now())) is not None:
            work.run()
            self.take(self.engine.file_work_done(work, self.clock.now()))

    def send(self, topic: str, *bodies: bytes, queue_id: int = 0, tag: str = "", **more: Any) -> Sent:
        reply = self.call(send(topic, *bodies, queue_id=queue_id, tag=tag, **more))
        assert isinstance(reply, Sent), reply
        return reply

    def pull(self, topic: str, offset: int, connection: Any = "c", **more: Any) -> int:
        """Pull from queue 0, with a hold of up to 15 s; returns the request id."""
        fields: dict[str, Any] = {"queue_id": 0, "suspend_timeout_ms": 15_000, "consumer_group": "g"}
        (request_id,) = self.submit(
            PullMessage(topic=topic, queue_offset=offset, **(fields | more)), connection=connection
        )
        return request_id

    def pulled(self, request_id: int, connection: Any = "c") -> Pulled:
        reply = self.final(request_id, connection)
        assert isinstance(reply, Pulled), reply
        return reply


def send(
    topic: str, *bodies: bytes, queue_id: int = 0, tag: str = "", properties: str = "", **more: Any
) -> SendMessage:
    text = properties + (encode({"TAGS": tag}) if tag else "")
    return SendMessage(
        topic=topic,
        messages=[OutgoingMessage(body=body, properties=text, queue_id=queue_id) for body in bodies],
        **more,
    )


def bodies(pulled: Pulled) -> list[bytes]:
    return [record.body for record in records(pulled)]


def records(pulled: Pulled) -> list[CommitLogRecord]:
    return decode_all(pulled.records)

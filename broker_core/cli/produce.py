"""``glassmq produce``: sends messages from arguments, JSON lines, or lines of text."""

import asyncio
import sys
from base64 import b64decode
from binascii import Error as Base64Error
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import IO, Annotated, Any, Literal

import click
import msgspec
from msgspec import Meta

from broker_core.cli.default_mq_admin_ext import DefaultMQAdminExt
from broker_core.cli.errors import FAILED, CommandError, OutputError, client_errors
from broker_core.cli.output import UNKNOWN, print_json, print_line, printable
from broker_core.cli.target import Command, Target, pass_target, topic_argument
from broker_core.client import DefaultMQProducer, Message, MQClientException, SendResult
from broker_core.client.message import RESERVED
from broker_core.formats.message_properties import IDEMPOTENCY_KEY, TRANSACTION_CHECK_TIMES, TRANSACTION_ID
from broker_core.tasks import start_task

PRODUCER_GROUP = "glassmq-cli"
MAX_LINE = 32 << 20
"""Bytes of one line of input. A body of 4 MiB may have six times as many in JSON."""
IN_FLIGHT = 64

IGNORED = frozenset(
    (
        "broker",
        "message_id",
        "offset_message_id",
        "topic",
        "queue_id",
        "queue_offset",
        "physical_offset",
        "born_time_ms",
        "store_time_ms",
        "born_host",
        "store_host",
        "reconsume_times",
        "size",
    )
)
"""What ``consume --json`` prints in addition, so that its output can be sent again."""
GIVEN = RESERVED | {"MSG_REGION", "TRACE_ON", "CLUSTER", TRANSACTION_ID, TRANSACTION_CHECK_TIMES, IDEMPOTENCY_KEY}
"""Properties that clients and brokers gave a message that was consumed. The copy gets its own, and is not delayed."""


class MessageLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message of a file: a line of JSON, with the names of the HTTP API."""

    body: Any
    body_encoding: Literal["utf8", "base64", "json"] = "utf8"
    tag: str = ""
    keys: list[str] = []
    key: str = ""
    properties: dict[str, str] = {}
    delay_level: Annotated[int, Meta(ge=0, le=18)] = 0
    deliver_at_ms: Annotated[int, Meta(ge=0)] = 0
    delay_ms: Annotated[int, Meta(ge=0)] = 0

    def body_bytes(self) -> bytes:
        """The body as it is stored. ValueError if it does not fit its encoding."""
        if self.body_encoding == "json":
            return msgspec.json.encode(self.body)
        if not isinstance(self.body, str):
            raise ValueError('body must be text; for any other value write "body_encoding":"json"')
        return self.body.encode() if self.body_encoding == "utf8" else b64decode(self.body, validate=True)


@click.command(cls=Command)
@topic_argument
@click.option("--body", help="The body of one message, as text.")
@click.option("--file", "file_name", type=click.Path(exists=True, dir_okay=False), help="Messages as JSON lines.")
@click.option("--tag", default="", help="The tag of messages that have none of their own.")
@click.option("--key", "keys", multiple=True, help="A key of messages that have none; may be repeated.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property; may be repeated.")
@click.option("--delay-level", type=click.IntRange(0, 18), default=0, help="Deliver later: 1 is 1 s, 18 is 2 h.")
@click.option("--delay-ms", type=click.IntRange(0), default=0, help="Deliver so many milliseconds later.")
@click.option(
    "--format", "form", type=click.Choice(["auto", "jsonl", "text"]), default="auto", help="Format of the input."
)
@click.option("--in-flight", type=click.IntRange(1, 1024), default=IN_FLIGHT, help="Sends at once; 1 keeps the order.")
@pass_target
def produce(
    target: Target,
    topic: str,
    body: str | None,
    file_name: str | None,
    tag: str,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    delay_level: int,
    delay_ms: int,
    form: Literal["auto", "jsonl", "text"],
    in_flight: int,
) -> None:
    """Send messages to TOPIC, and return when the broker has stored them.

    The messages come from --body, from a --file of JSON lines, or from standard input. There, "auto" reads JSON lines
    if the first line is an object with a "body", else each line of text is a message. Each JSON line is an object:
    {"body": "text", "tag": "TagA", "keys": ["k"], "properties": {"a": "b"}, "delay_level": 0, "delay_ms": 0,
    "deliver_at_ms": 0}, of which only the body is required; "body_encoding" is utf8, base64 or json.
    """
    if body is not None and file_name is not None:
        raise click.UsageError("--body and --file exclude each other")
    if body == "":
        raise click.UsageError("--body is empty; a message needs one byte at least")
    defaults = MessageLine("", "utf8", tag, list(keys), "", read_properties(properties), delay_level, delay_ms=delay_ms)
    if body is not None:
        lines: Iterator[Message] = iter([make_message(topic, msgspec.structs.replace(defaults, body=body), defaults)])
    elif file_name is not None:
        file = open(file_name, "rb")  # noqa: SIM115  # the process ends with it
        lines = read_messages(topic, file, "jsonl" if form == "auto" else form, defaults)
    else:
        lines = read_messages(topic, sys.stdin.buffer, form, defaults)
    with client_errors():
        asyncio.run(_send_all(target, lines, in_flight))


def read_properties(texts: tuple[str, ...]) -> dict[str, str]:
    """Properties from ``name=value``. UsageError for another form."""
    properties = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--property must be NAME=VALUE, not {text!r}")
        properties[name] = value
    return properties


def read_messages(
    topic: str, file: IO[bytes], form: Literal["auto", "jsonl", "text"], defaults: MessageLine
) -> Iterator[Message]:
    """The messages of a file, line by line; empty lines are skipped. CommandError names the line that is wrong."""
    lines = _lines(file)
    first = next(lines, None)
    if first is None:
        return
    if form == "auto":
        form = "jsonl" if _is_message_line(first[1]) else "text"
    for number, line in chain([first], lines):
        try:
            yield make_message(topic, read_line(line, form, defaults), defaults)
        except (ValueError, Base64Error, MQClientException, msgspec.MsgspecError) as error:
            raise CommandError(f"line {number} is not a message: {error}") from error


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """(number, line) of all lines that are not empty."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise CommandError(f"line {number} is longer than {MAX_LINE >> 20} MiB")
        stripped = line.rstrip(b"\r\n")
        if stripped:
            yield number, stripped


def _is_message_line(line: bytes) -> bool:
    try:
        value = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "body" in value


def read_line(line: bytes, form: Literal["auto", "jsonl", "text"], defaults: MessageLine) -> MessageLine:
    """A line as a message. ValueError or MsgspecError if it is none."""
    if form == "text":
        return msgspec.structs.replace(defaults, body=line.decode("utf-8"))
    value = msgspec.json.decode(line)
    if isinstance(value, dict):
        if "offset_message_id" in value and isinstance(value.get("properties"), dict):
            value["properties"] = {name: text for name, text in value["properties"].items() if name not in GIVEN}
        value = {name: entry for name, entry in value.items() if name not in IGNORED}
    return msgspec.convert(value, MessageLine)


def make_message(topic: str, line: MessageLine, defaults: MessageLine) -> Message:
    """The message of a line; what the line does not have is taken from ``defaults``."""
    keys = line.keys + ([line.key] if line.key else []) or defaults.keys
    delayed = line if line.delay_level or line.deliver_at_ms or line.delay_ms else defaults
    try:
        return Message(
            topic,
            line.body_bytes(),
            line.tag or defaults.tag,
            keys,
            delay_level=delayed.delay_level,
            deliver_time_ms=delayed.deliver_at_ms,
            delay_time_ms=delayed.delay_ms,
            properties=defaults.properties | line.properties,
        )
    except MQClientException as error:
        raise CommandError(str(error)) from error


async def _send_all(target: Target, messages: Iterator[Message], in_flight: int) -> None:
    """Send the messages, ``in_flight`` at once, and print the results in their order.

    The input is read in a thread, since it may be a terminal or a slow program.
    """
    async with DefaultMQAdminExt(target.namesrv) as admin:
        await target.check_name_server(admin)
    results = Results(as_json=target.as_json)
    waiting: deque[asyncio.Task[SendResult]] = deque()
    async with DefaultMQProducer(PRODUCER_GROUP, namesrv_addr=target.namesrv) as producer:
        try:
            while (message := await asyncio.to_thread(next, messages, None)) is not None:
                send = producer.send(message)
                waiting.append(start_task(send, "send a message", expected=(MQClientException,)))
                while waiting and (len(waiting) >= in_flight or waiting[0].done()):
                    results.put(await waiting[0])
                    waiting.popleft()
            while waiting:
                results.put(await waiting[0])
                waiting.popleft()
        except (CommandError, MQClientException) as error:
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, SendResult):
                    results.put(outcome)
            failed = sum(isinstance(outcome, Exception) for outcome in outcomes)
            text = error.message if isinstance(error, CommandError) else str(error)
            code = error.exit_code if isinstance(error, CommandError) else FAILED
            if results.sent or failed > 1:
                text += f" ({results.sent} messages were sent, {failed} were not, and the rest was not tried)"
            raise CommandError(text, code) from error
    results.check()


class Results:
    """Prints the results of sends. If standard output cannot be written to, the messages are sent nevertheless."""

    def __init__(self, *, as_json: bool) -> None:
        self.sent = 0
        self._as_json = as_json
        self._problem: OutputError | None = None

    def put(self, result: SendResult) -> None:
        self.sent += 1
        if self._problem is None:
            try:
                _print_result(result, as_json=self._as_json)
            except OutputError as error:
                self._problem = error

    def check(self) -> None:
        """Raise what ended the output."""
        if self._problem is not None:
            raise self._problem.with_note(f" ({self.sent} messages were sent)")


def _print_result(result: SendResult, *, as_json: bool) -> None:
    queue = result.message_queue
    if as_json:
        print_json(
            {
                "send_status": result.send_status,
                "message_id": result.msg_id,
                "offset_message_id": result.offset_msg_id,
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue_id": queue.queue_id,
                "queue_offset": result.queue_offset,
            }
            | ({"recall_handle": result.recall_handle} if result.recall_handle else {})
        )
    else:
        place = f"{queue.broker_name}:{queue.queue_id}@{result.queue_offset}"
        print_line(f"{result.send_status} {printable(place)} {result.msg_id or UNKNOWN}")

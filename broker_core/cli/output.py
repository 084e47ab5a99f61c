"""What the commands print: tables for people, JSON for programs, text that a terminal cannot misread."""

import logging
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from broker_core.cli.errors import OutputError
from broker_core.client import MessageExt
from broker_core.formats.message_body import BodyError
from broker_core.formats.message_properties import KEYS, TAGS, UNIQ_KEY, WAIT, split_keys

UNKNOWN = "-"
log_handler = logging.StreamHandler()
"""Prints warnings of the client to standard error. ``main`` connects it."""
log_handler.setFormatter(logging.Formatter("glassmq: %(message)s"))
_OWN_PROPERTIES = frozenset((TAGS, KEYS, UNIQ_KEY, WAIT))
_CELL_CHARACTERS = 200


def printable(text: str) -> str:
    """The text, with all characters escaped that a terminal does not show or that change what it shows."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def number(value: int | None) -> str:
    """A number with thousands separated; ``-`` if it is not known."""
    return UNKNOWN if value is None else f"{value:,}"


def local_time(ms: int | None) -> str:
    """A time in this machine's zone; ``-`` if it is not known."""
    if ms is None or ms <= 0:
        return UNKNOWN
    try:
        when = datetime.fromtimestamp(ms / 1000).astimezone()
    except (OverflowError, ValueError, OSError):
        return UNKNOWN
    return f"{when:%Y-%m-%d %H:%M:%S}.{ms % 1000:03}{when:%z}"


def with_local_times(text: str) -> str:
    """A sentence of the API, with its times (2026-11-23T17:04:10Z) in this machine's zone."""

    def local(found: re.Match[str]) -> str:
        try:
            return f"{datetime.fromisoformat(found[0]).astimezone():%Y-%m-%d %H:%M:%S%z}"
        except (OverflowError, ValueError, OSError):
            return found[0]  # part of a name

    return re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", local, text)


def print_json(value: Any) -> None:
    """One JSON document on one line. OutputError as for ``print_line``."""
    print_line(msgspec.json.encode(value).decode())


def print_line(text: str) -> None:
    """One line, which the caller has made ``printable``. It is flushed, so that a reader of a pipe sees it at once.

    Colours are left out where there is no terminal. OutputError if standard output is closed or cannot be written to.
    """
    with output_errors():
        click.echo(text)


@contextmanager
def output_errors() -> Iterator[None]:
    """Turns the errors of writing to standard output into OutputError."""
    if sys.stdout is None:
        raise OutputError("it is closed")
    try:
        yield
    except OSError as error:
        raise OutputError(error) from error


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; columns whose name begins with ``#`` are aligned to the right, without the ``#`` in their heading."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        right = column.startswith("#")
        table.add_column(column.removeprefix("#"), justify="right" if right else "left", no_wrap=right)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(_cell(cell)) for cell in row))
    return table


def _cell(value: object) -> str:
    text = printable(str(value))
    return text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…"


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: as wide as a terminal, and in a pipe as wide as its rows need."""
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=10_000)
    table = make_table(columns, rows)
    with output_errors(), console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print_line(line.rstrip())


def message_view(message: MessageExt) -> dict[str, Any]:
    """A message in the shape of the HTTP API. A body that cannot be decompressed is null, with a ``problem``."""
    record = message.record
    view: dict[str, Any] = {
        "broker": message.broker_name,
        "message_id": _valid(message.msg_id),
        "offset_message_id": message.offset_msg_id,
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": record.physical_offset,
        "tag": _valid(message.tags),
        "keys": split_keys(_valid(message.keys)),
        "properties": {
            _valid(name): _valid(text) for name, text in message.properties.items() if name not in _OWN_PROPERTIES
        },
        "born_time_ms": message.born_timestamp,
        "store_time_ms": message.store_timestamp,
        "born_host": f"{record.born_host}:{record.born_port}",
        "store_host": f"{record.store_host}:{record.store_port}",
        "reconsume_times": message.reconsume_times,
        "size": record.size,
    }
    try:
        return view | body_view(message.body)
    except BodyError as error:
        return view | {"body": None, "body_encoding": "utf8", "problem": str(error)}


def _valid(text: str) -> str:
    """The text, with a replacement character for bytes that are no UTF-8 (read as lone surrogates)."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def body_view(body: bytes) -> dict[str, str]:
    """``body`` as text where its bytes are UTF-8, else in base64, and the ``body_encoding``."""
    try:
        return {"body": body.decode("utf-8"), "body_encoding": "utf8"}
    except UnicodeDecodeError:
        return {"body": b64encode(body).decode("ascii"), "body_encoding": "base64"}


def body_text(body: bytes) -> str:
    """A body for people: its text with control characters escaped, or its bytes in Python's notation."""
    try:
        return printable(body.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(body)[2:-1]


def message_line(message: MessageExt) -> str:
    """A message on one line: ``orders broker-a:2@17 TagA order-7 hello``, with ``-`` for no tag or no key."""
    try:
        body = body_text(message.body)
    except BodyError as error:
        body = f"(the body cannot be read: {printable(str(error))})"
    place = f"{message.broker_name}:{message.queue_id}@{message.queue_offset}"
    parts = (message.topic, place, message.tags or UNKNOWN, ",".join(split_keys(message.keys)) or UNKNOWN)
    return f"{' '.join(map(printable, parts))} {body}"

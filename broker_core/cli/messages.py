"""``glassmq message`` and ``glassmq logdump``: single messages, from a broker or from its files."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from broker_core.cli.default_mq_admin_ext import DefaultMQAdminExt
from broker_core.cli.errors import NOT_FOUND, USAGE, CommandError
from broker_core.cli.output import UNKNOWN, local_time, message_line, message_view, print_json, print_line, printable
from broker_core.cli.target import Command, Target, pass_target
from broker_core.client import MessageExt, MQBrokerException
from broker_core.codes import ResponseCode
from broker_core.formats.commit_log_files import FOLDER, read_records
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError
from broker_core.formats.message_id import MessageIdError

LOOK_SECONDS = 0.2


@click.command(cls=Command)
@click.argument("message_id", metavar="ID")
@click.option("--topic", default="", help="The message's topic, in which it is found by its message id.")
@pass_target
def message(target: Target, message_id: str, topic: str) -> None:
    """Show one message by its id.

    GlassMQ (--url) finds a message by its message id or its offset message id. Other brokers find it by the offset
    message id, and with --topic also by the message id.
    """

    found = target.run_admin(lambda admin: find_message(admin, message_id, topic))
    if found is not None:
        view = message_view(found)
    elif topic:
        raise CommandError(f"no broker has a message {message_id!r} in {topic!r}", NOT_FOUND)
    else:
        view = _ask_api(target, message_id)
    if target.as_json:
        print_json(view)
        return
    for name, value in view.items():
        if name != "body" and value not in ("", [], {}):
            shown = local_time(value) if name.endswith("_time_ms") else value
            print_line(f"{name.removesuffix('_ms').replace('_', ' '):18} {printable(str(shown))}")
    print_line("")
    print_line(printable_lines(view["body"] or ""))


async def find_message(admin: DefaultMQAdminExt, message_id: str, topic: str) -> MessageExt | None:
    """The message with this id by RocketMQ's protocol; None if that does not find one."""
    if topic:
        found = await admin.query_message(topic, message_id, unique=True)
        if found:
            return found[-1]
    try:
        return await admin.view_message(message_id)
    except MessageIdError as error:
        raise CommandError(f"{message_id!r} is no message id: {error}", USAGE) from error
    except MQBrokerException as error:
        if error.response_code in (ResponseCode.SYSTEM_ERROR, ResponseCode.QUERY_NOT_FOUND):
            return None
        raise


def _ask_api(target: Target, message_id: str) -> Any:
    try:
        return target.api.get("/api/v1/messages/{}", message_id)
    except CommandError as error:
        raise CommandError(
            f"{error.message}\nIt is not the offset message id of a message. With --topic, RocketMQ's protocol finds "
            "it by its message id.",
            error.exit_code,
        ) from error


def printable_lines(text: str) -> str:
    """``printable``, but with line breaks and tabs."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--from", "offset", type=click.IntRange(min=0), default=0, help="Physical offset of the first record.")
@click.option("--topic", default="", help="Only the records of this topic.")
@click.option("--count", type=click.IntRange(min=1), help="End after this many records.")
@click.option("--follow", is_flag=True, help="Print new records too, until Ctrl-C.")
@pass_target
def logdump(target: Target, file: Path, offset: int, topic: str, count: int | None, follow: bool) -> None:
    """Print the records of a commit log: FILE is one of its files, or the folder of a store.

    The store is only read: nothing is locked, and a broker may be writing to it. GlassMQ's and RocketMQ's stores have
    the same format.
    """
    store, end = find_store(file)
    if end is not None:
        offset = max(offset, int(file.name))
        if follow:
            raise click.UsageError("--follow needs the folder of the store, since the log goes on in other files")
    printed = 0
    try:
        for record in _records(store, offset, end, follow=follow):
            if topic in ("", record.topic):
                _print_record(target, record)
                printed += 1
                if printed == count:
                    return
    except RecordError as error:
        raise CommandError(f"{store}: {error}") from error


def find_store(path: Path) -> tuple[Path, int | None]:
    """The store's folder, and the physical offset at which the named file of its log ends. UsageError if it is none."""
    if path.is_dir():
        if not (path / FOLDER).is_dir():
            raise click.UsageError(f"{path} is not a store: it has no {FOLDER} folder")
        return path, None
    path = path.absolute()
    if path.parent.name != FOLDER or not path.name.isdigit():
        raise click.UsageError(f"{path} is not a file of a commit log: its folder is not named {FOLDER}")
    return path.parent.parent, int(path.name) + path.stat().st_size


def _records(store: Path, offset: int, end: int | None, *, follow: bool) -> Iterator[CommitLogRecord]:
    """The records of the log up to ``end``; with ``follow`` also those that are written later."""

    def warn(place: int) -> None:
        if end is None or place < end:
            click.echo(
                f"glassmq: the log ends at physical offset {place}, where no valid record begins, although bytes are "
                "written there: it is damaged, or a broker is writing to it",
                err=True,
            )

    while True:
        for record in read_records(store, offset, None if follow else warn):
            if end is not None and record.physical_offset >= end:
                return
            offset = record.physical_offset + record.size
            yield record
        if not follow:
            return
        time.sleep(LOOK_SECONDS)


def _print_record(target: Target, record: CommitLogRecord) -> None:
    found = MessageExt(record, UNKNOWN)
    if target.as_json:
        print_json(message_view(found) | {"broker": None})
    else:
        print_line(f"{record.physical_offset} {local_time(record.store_timestamp)} {message_line(found)}")

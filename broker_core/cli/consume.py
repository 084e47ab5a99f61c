"""``glassmq consume`` and ``glassmq tail``: messages as they come, one line each."""

import asyncio
import logging
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from broker_core.cli.default_mq_admin_ext import DefaultMQAdminExt
from broker_core.cli.errors import FAILED, NOT_FOUND, CommandError, OutputError, client_errors
from broker_core.cli.output import log_handler, message_line, message_view, print_json, print_line, printable
from broker_core.cli.target import Command, Target, pass_target, read_group, topic_argument
from broker_core.client import (
    DefaultMQPushConsumer,
    MessageExt,
    MessageSelector,
    MQBrokerException,
    MQClientException,
    MQClientInstance,
)
from broker_core.client.consumer.message_selector import TAG
from broker_core.client.message import decode_messages
from broker_core.codes import ResponseCode
from broker_core.commands import MessageQueue
from broker_core.filters.tags import parse_client_subscription
from broker_core.remoting.requests.headers import read_header
from broker_core.remoting.requests.pull import (
    SUBSCRIPTION,
    SUSPEND,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)
from broker_core.tasks import end_task, start_task

TAIL_GROUP = "TOOLS_CONSUMER"
"""The group of RocketMQ's own tools, which every broker knows. ``tail`` commits nothing in its name."""
SUSPEND_MS, PULL_SECONDS = 15_000, 20.0
PAUSE_AFTER_ERROR_S = 1.0
LOOK_FOR_TOPIC_S = 1.0
"""Pause between two questions for a topic that does not exist. (Clients ask every 20 s, as RocketMQ's do.)"""
AT_ONCE = 32
LAST_CALL_MS = 100
"""How long the end of ``consume`` waits for the listener: the call after the last message does not return."""


def read_start(context: click.Context, parameter: click.Parameter, value: str) -> dict[str, Any]:
    """``first``, ``last``, ms since 1970, or a time in ISO 8601, as the options of a consumer. BadParameter."""
    if value == "first":
        return {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}
    start = {"consume_from_where": "CONSUME_FROM_LAST_OFFSET", "set_zero_if_not_found": False}
    if value == "last":
        return start
    return start | {"consume_from_where": "CONSUME_FROM_TIMESTAMP", "consume_timestamp": read_time_ms(value)}


def read_time_ms(text: str) -> int:
    """ms since 1970 from such a number, or from ISO 8601; in this machine's zone if the text has none. BadParameter."""
    if re.fullmatch(r"\d{1,15}", text):
        return int(text)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r} is not first, last, ms since 1970, or a time such as 2026-11-23T17:00:00+01:00"
        ) from error


def selector_options(command: Callable[..., None]) -> Callable[..., None]:
    """--tag and --sql, which ``read_selector`` reads."""
    command = click.option(
        "--sql",
        metavar="EXPRESSION",
        help="Only messages whose properties satisfy this: \"color = 'red' AND size > 3\".",
    )(command)
    return click.option("--tag", metavar="EXPRESSION", help="Only messages with this tag: A || B.")(command)


def read_selector(tag: str | None, sql: str | None) -> MessageSelector:
    """Which messages --tag or --sql select. UsageError for both."""
    if tag is not None and sql is not None:
        raise click.UsageError("give either --tag or --sql")
    return MessageSelector.by_sql(sql) if sql is not None else MessageSelector.by_tag("*" if tag is None else tag)


class Printer:
    """Prints messages until there are ``count`` of them, or for ever if that is 0. Any thread may print.

    ``finished`` is set after the last one, and when standard output cannot be written to.
    """

    def __init__(self, *, as_json: bool, count: int = 0) -> None:
        self.printed = 0
        self.problem: OutputError | None = None
        self.finished = asyncio.Event()
        self._changed = asyncio.Event()
        self._as_json = as_json
        self._count = count
        self._loop = asyncio.get_running_loop()

    def put(self, message: MessageExt) -> bool:
        """Print a message; False if it was not printed, since the command is finished."""
        if self.problem is not None or self.printed == self._count > 0:
            return False
        try:
            if self._as_json:
                print_json(message_view(message))
            else:
                print_line(message_line(message))
        except OutputError as error:
            self.problem = error
        else:
            self.printed += 1
        self._loop.call_soon_threadsafe(self.notify)
        return self.problem is None

    def notify(self) -> None:
        """Something has changed."""
        self._changed.set()
        if self.problem is not None or self.printed == self._count > 0:
            self.finished.set()

    async def until_finished(self, wait_s: float | None) -> None:
        """Return when it is finished, or when nothing was printed for ``wait_s``."""
        while not self.finished.is_set():
            self._changed.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                return

    def check(self) -> None:
        """Raise what ended the output, or CommandError if messages are missing."""
        if self.problem is not None:
            raise self.problem
        if self.printed < self._count:
            raise CommandError(f"only {self.printed} of {self._count} messages came in time", FAILED)


@click.command(cls=Command)
@topic_argument
@click.option("--group", required=True, callback=read_group, help="The consumer group; its offsets are committed.")
@click.option(
    "--from",
    "start",
    callback=read_start,
    default="last",
    metavar="first|last|TIME",
    help="Where a group without committed offsets begins: last is the end of the queues.",
)
@click.option("--count", type=click.IntRange(min=1), help="End after this many messages.")
@click.option(
    "--wait", type=click.FloatRange(min=0.1), metavar="SECONDS", help="End when no message came for this time."
)
@selector_options
@pass_target
def consume(
    target: Target,
    topic: str,
    group: str,
    start: dict[str, Any],
    count: int | None,
    wait: float | None,
    tag: str | None,
    sql: str | None,
) -> None:
    """Consume TOPIC as a member of a group, and print each message on a line.

    A printed message is committed. With --count, exactly so many are; the next one stays for others. If --wait ends
    the command earlier, the exit code is 1, or 4 if the topic was never found.
    """
    selector = read_selector(tag, sql)
    with client_errors():
        asyncio.run(_consume(target, topic, group, start, count or 0, wait, selector))


async def _consume(
    target: Target,
    topic: str,
    group: str,
    start: dict[str, Any],
    count: int,
    wait_s: float | None,
    selector: MessageSelector,
) -> None:
    exists = True
    async with DefaultMQAdminExt(target.namesrv) as admin:
        await target.check_name_server(admin)
        try:
            await admin.topic_masters(topic)
        except MQBrokerException as error:
            if error.response_code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            exists = False
            click.echo(f"glassmq: topic {printable(topic)!r} does not exist yet; waiting for it", err=True)
    printer = Printer(as_json=target.as_json, count=count)
    never = threading.Event()

    def listener(messages: list[MessageExt], context: object) -> None:
        if not printer.put(messages[0]):
            never.wait()  # it is not consumed, so another member gets it

    consumer = DefaultMQPushConsumer(
        group,
        namesrv_addr=target.namesrv,
        consume_thread_max=1,  # messages are printed in the order in which they come, and none after the last
        await_termination_millis_when_shutdown=LAST_CALL_MS,
        **start,
    )
    consumer.subscribe(topic, selector)
    consumer.register_message_listener(listener)
    with ended_by_sigterm(printer):
        exists = await _consume_with(consumer, printer, topic, wait_s, exists=exists)
    if not exists:
        raise CommandError(f"no topic {topic!r} was found in time", NOT_FOUND)
    printer.check()


async def _consume_with(
    consumer: DefaultMQPushConsumer, printer: Printer, topic: str, wait_s: float | None, *, exists: bool
) -> bool:
    """Consume until the printer is finished; return whether the topic was found meanwhile."""
    async with consumer:
        looking = None if exists else start_task(_look_for_topic(consumer.instance, topic), f"look for {topic}")
        await printer.until_finished(wait_s)
        exists = looking is None or looking.done()
        await end_task(looking)
        log_handler.setLevel(logging.CRITICAL)  # the client warns of the listener that does not return
    return exists


@contextmanager
def ended_by_sigterm(printer: Printer) -> Iterator[None]:
    """SIGTERM finishes the printer. The command then leaves its group, commits what was printed, and exits with 143."""
    loop, received = asyncio.get_running_loop(), []

    def end() -> None:
        received.append(signal.SIGTERM)
        printer.finished.set()
        printer.notify()

    if sys.platform != "win32":
        loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    finally:
        if sys.platform != "win32":
            loop.remove_signal_handler(signal.SIGTERM)
    if received:
        sys.exit(128 + signal.SIGTERM)


async def _look_for_topic(instance: MQClientInstance, topic: str) -> None:
    """Ask for a topic's route until there is one. The client then rebalances at once."""
    while True:
        await asyncio.sleep(LOOK_FOR_TOPIC_S)
        try:
            if await instance.update_topic_route(topic):
                return
        except MQClientException:  # no name server answers; the client itself warns of that
            continue


@click.command(cls=Command)
@topic_argument
@click.option("--count", type=click.IntRange(min=1), help="End after this many messages.")
@click.option(
    "--wait", type=click.FloatRange(min=0.1), metavar="SECONDS", help="End when no message came for this time."
)
@selector_options
@pass_target
def tail(target: Target, topic: str, count: int | None, wait: float | None, tag: str | None, sql: str | None) -> None:
    """Print the messages that are sent to TOPIC from now on.

    It joins no group and commits nothing, so no consumer notices it.
    """
    selector = read_selector(tag, sql)
    target.run_admin(lambda admin: _tail(admin, target, topic, count or 0, wait, selector))


async def _tail(
    admin: DefaultMQAdminExt, target: Target, topic: str, count: int, wait_s: float | None, selector: MessageSelector
) -> None:
    printer = Printer(as_json=target.as_json, count=count)
    masters = await admin.topic_masters(topic)
    queues = await admin.examine_topic_stats(topic)
    if not queues:
        raise CommandError(f"topic {topic!r} has no queues", NOT_FOUND)
    pullers = [
        start_task(
            _pull(admin, masters[queue.broker_name], queue, ends.max_offset, selector, printer),
            f"tail {queue}",
            expected=(OSError, MQClientException),
        )
        for queue, ends in queues.items()
    ]
    waiting = start_task(printer.until_finished(wait_s), "tail")
    await asyncio.wait([waiting, *pullers], return_when=asyncio.FIRST_COMPLETED)
    for task in (waiting, *pullers):
        await end_task(task)
    for puller in pullers:
        if not puller.cancelled() and puller.exception() is not None:
            puller.result()
    printer.check()


async def _pull(
    admin: DefaultMQAdminExt,
    address: str,
    queue: MessageQueue,
    offset: int,
    selector: MessageSelector,
    printer: Printer,
) -> None:
    """Pull a queue from ``offset`` on, for ever. MQBrokerException if the broker refuses that."""
    tags = parse_client_subscription(selector.expression) if selector.expression_type == TAG else None
    while True:
        header = PullMessageRequestHeader(
            consumer_group=TAIL_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=AT_ONCE,
            sys_flag=SUSPEND | SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=SUSPEND_MS,
            sub_version=0,
            subscription=selector.expression,
            expression_type=selector.expression_type,
        )
        try:
            answer = await admin.instance.api.pull_message(address, header, PULL_SECONDS)
        except OSError:  # the broker is away; perhaps it comes back
            await asyncio.sleep(PAUSE_AFTER_ERROR_S)
            continue
        if answer.code == ResponseCode.FLOW_CONTROL:
            await asyncio.sleep(PAUSE_AFTER_ERROR_S)
            continue
        if answer.code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            raise MQBrokerException(answer.code, answer.remark, address)
        begin, offset = offset, read_header(PullMessageResponseHeader, answer.ext_fields).next_begin_offset
        if answer.code != ResponseCode.SUCCESS:
            continue
        for message in decode_messages(answer.body, queue.broker_name):
            if message.queue_offset < begin:
                continue  # the record of a batch begins before the offset that was pulled
            if tags is None or message.tags.encode("utf-8", "surrogateescape") in tags.tags_set:
                printer.put(message)

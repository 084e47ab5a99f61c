"""How messages reach their receivers: by HTTP or e-mail, each with a time limit, several tries, and a bounded queue.

Every channel has a queue and a task of its own, so a receiver that hangs delays nobody else's messages. Nothing here
shows or logs a URL or a secret.
"""

import asyncio
import logging
import smtplib
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.utils.translation import override

from alerts.evaluation import Notice
from alerts.messages import clean, post_for, refusal_in, subject_line, text_of
from alerts.rules import BadRuleError, Channel, check_url, host_of
from bridge.port import start_task

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

SEND_S = 10.0
"""How long one try may take, from the connection to the end of the answer."""
PAUSES_S = (5.0, 30.0, 120.0, 600.0)
"""Between the tries of one message. After the last one it is given up."""
MAX_WAITING = 20
"""Messages that wait for one channel. Further ones are dropped and counted."""
MAX_ANSWER = 16 * 1024
UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""An answer that was compressed all the same is not read: a few bytes of it may be gigabytes."""
MAX_MAIL_THREADS = 4
"""Tries at a mail server that have not ended, although their time is over."""
SMTP_BACKEND = "django.core.mail.backends.smtp.EmailBackend"

log = logging.getLogger(__name__)


class SendError(Exception):
    """A message was not accepted. The message is a sentence without secrets. ``may_retry``: a later try may succeed."""

    def __init__(self, sentence: str, *, may_retry: bool = True) -> None:
        super().__init__(sentence)
        self.may_retry = may_retry


async def send(channel: Channel, notice: Notice) -> None:
    """Send one message, within SEND_S. SendError."""
    try:
        async with asyncio.timeout(SEND_S):
            await (_mail(channel, notice) if channel.kind == "email" else _post(channel, notice))
    except TimeoutError as error:
        raise SendError(f"{_receiver(channel)} did not answer within {SEND_S:.0f} s") from error


def _receiver(channel: Channel) -> str:
    return "the mail server" if channel.kind == "email" else host_of(channel.url)


@lru_cache(1)
def _http() -> "tuple[ModuleType, ssl.SSLContext]":
    """httpx, and the certificates that it trusts. Both take a while to load, and many processes never send anything."""
    import httpx

    return httpx, httpx.create_ssl_context()


async def _post(channel: Channel, notice: Notice) -> None:
    httpx, certificates = await asyncio.to_thread(_http)
    try:
        check_url(channel.url, settings.GLASSMQ_ALERT_HOSTS)
    except BadRuleError as error:
        raise SendError(str(error), may_retry=False) from error
    with override(settings.LANGUAGE_CODE):
        post, receiver = post_for(channel, notice, settings.GLASSMQ_SITE_URL), _receiver(channel)
    try:
        async with (
            httpx.AsyncClient(timeout=SEND_S, follow_redirects=False, verify=certificates) as client,
            client.stream("POST", post.url, content=post.body, headers=post.headers | UNCOMPRESSED) as response,
        ):
            status, answer = response.status_code, b""
            async for part in response.aiter_raw():
                answer += part
                if len(answer) > MAX_ANSWER:
                    break
    except httpx.TimeoutException as error:
        raise SendError(f"{receiver} did not answer within {SEND_S:.0f} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
        raise SendError(f"{receiver} cannot be reached ({type(error).__name__})") from error
    if 300 <= status < 400:
        raise SendError(f"{receiver} answered {status}: redirects are not followed", may_retry=False)
    if not 200 <= status < 300:
        raise SendError(f"{receiver} answered {status}", may_retry=status >= 500 or status in (408, 429))
    if refusal := refusal_in(channel, answer[:MAX_ANSWER]):
        raise SendError(f"{receiver} refused the message: {refusal}")


_mail_threads = threading.Semaphore(MAX_MAIL_THREADS)


async def _mail(channel: Channel, notice: Notice) -> None:
    """Send an e-mail in a thread that may outlive its time limit, since a mail server can hold it for as long."""
    with override(settings.LANGUAGE_CODE):
        subject, text = clean(subject_line(notice)), text_of(notice, settings.GLASSMQ_SITE_URL)
    message = EmailMessage(
        subject,
        text,
        settings.GLASSMQ_MAIL_FROM,
        list(channel.recipients),
        connection=get_connection(SMTP_BACKEND, timeout=SEND_S),
    )
    if not _mail_threads.acquire(blocking=False):
        raise SendError("the mail server still holds earlier messages")
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Exception | None] = loop.create_future()

    def tell(error: Exception | None) -> None:
        if not ended.done():
            ended.set_result(error)

    def work() -> None:
        error: Exception | None = None
        try:
            message.send()
        except Exception as problem:
            error = problem
        finally:
            _mail_threads.release()
        try:
            loop.call_soon_threadsafe(tell, error)
        except RuntimeError:  # the process ends
            return

    threading.Thread(target=work, name="alert mail", daemon=True).start()
    error = await ended
    if isinstance(error, smtplib.SMTPResponseException):
        raise SendError(f"the mail server answered {error.smtp_code}", may_retry=error.smtp_code < 500) from error
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        raise SendError("the mail server refused the recipients", may_retry=False) from error
    if error is not None:
        raise SendError(f"the mail server cannot be reached ({type(error).__name__})") from error


class Outcome(NamedTuple):
    """How a try ended: ``error`` is empty if the message was accepted."""

    channel: Channel
    notice: Notice
    error: str


class Outbox:
    """The messages that wait, by channel. ``on_outcome`` is called after each try."""

    def __init__(
        self,
        on_outcome: Callable[[Outcome], Awaitable[None]],
        *,
        sending: Callable[[Channel, Notice], Awaitable[None]] = send,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._on_outcome = on_outcome
        self._sending = sending
        self._sleep = sleep
        self._waiting: dict[int, deque[tuple[Channel, Notice]]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.dropped: dict[int, int] = {}
        """Messages for which there was no room, by channel."""

    def put(self, channel: Channel, notice: Notice) -> bool:
        """Queue a message for its channel. Returns False if the queue is full and the message was dropped."""
        waiting = self._waiting.setdefault(channel.id, deque())
        if len(waiting) >= MAX_WAITING:
            self.dropped[channel.id] = self.dropped.get(channel.id, 0) + 1
            return False
        waiting.append((channel, notice))
        if channel.id not in self._tasks:
            self._tasks[channel.id] = start_task(self._work(channel.id), f"send over alert channel {channel.id}")
        return True

    async def _work(self, number: int) -> None:
        waiting = self._waiting[number]
        try:
            while waiting:
                await self._deliver(*waiting[0])
                waiting.popleft()
        finally:
            del self._tasks[number], self._waiting[number]

    async def _deliver(self, channel: Channel, notice: Notice) -> None:
        """Try until it is accepted or given up."""
        for pause in (*PAUSES_S, None):
            try:
                await self._sending(channel, notice)
            except SendError as refused:
                log.warning("an alert could not be sent over the channel %s: %s", clean(channel.name), refused)
                await self._on_outcome(Outcome(channel, notice, str(refused)))
                if pause is None or not refused.may_retry:
                    return
                await self._sleep(pause)
            else:
                await self._on_outcome(Outcome(channel, notice, ""))
                return

    def stop(self) -> None:
        """Drop the messages that wait."""
        for task in list(self._tasks.values()):
            task.cancel()

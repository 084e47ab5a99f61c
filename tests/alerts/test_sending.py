"""Messages on their way, to receivers that listen in the test's own event loop."""

import asyncio
import gzip
import json
import logging
import tracemalloc
from typing import Any

import pytest
from django.utils.translation import override

from alerts import sending
from alerts.evaluation import Notice
from alerts.rules import Channel, Rule
from alerts.sending import MAX_WAITING, PAUSES_S, Outbox, Outcome, SendError, send
from tests.alerts.receivers import http_receiver, smtp_receiver
from tests.alerts.test_messages import alert, channel, notice


async def test_a_webhook_is_posted() -> None:
    async with http_receiver() as receiver:
        await send(channel("webhook", receiver.url, "token"), notice(alert()))
        [(line, headers, body)] = receiver.requests
    assert line == "POST /hook/s3cret HTTP/1.1"
    assert headers["authorization"] == "bearer token"
    assert json.loads(body)["alerts"][0]["labels"]["consumer_group"] == "billing"


async def test_a_message_is_in_the_language_of_the_instance(settings: Any) -> None:
    settings.LANGUAGE_CODE = "zh-hans"
    async with http_receiver() as receiver:
        with override("en"):  # the language of whoever sends a test message
            await send(channel("webhook", receiver.url), notice(alert()))
        [(_, _, body)] = receiver.requests
    assert json.loads(body)["commonAnnotations"]["summary"] == "[GlassMQ] 严重: Group stalled (1 个触发)"


@pytest.mark.parametrize(
    ("answer", "sentence", "may_retry"),
    [
        (b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n", "redirects", False),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "answered 404", False),
        (b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n", "answered 429", True),
        (b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", "answered 503", True),
        (b"nonsense\r\n\r\n", "cannot be reached", True),
    ],
)
async def test_a_refusal_is_a_sentence_without_the_url(
    answer: bytes, sentence: str, may_retry: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with http_receiver() as receiver:
            receiver.answer = answer
            with pytest.raises(SendError, match=sentence) as refused:
                await send(channel("webhook", receiver.url), notice(alert()))
            assert len(receiver.requests) == 1
    assert refused.value.may_retry is may_retry
    assert "s3cret" not in str(refused.value)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("alerts")]
    assert not any("s3cret" in line for line in ours)


async def test_a_token_that_no_header_can_carry_is_a_refusal() -> None:
    async with http_receiver() as receiver:
        with pytest.raises(SendError, match="cannot be reached"):  # one that was stored before it was checked
            await send(channel("webhook", receiver.url, "schlüssel"), notice(alert()))


async def test_the_library_does_not_log_urls() -> None:
    assert not logging.getLogger("httpx").isEnabledFor(logging.INFO)


async def test_a_long_answer_is_not_read_to_its_end() -> None:
    async with http_receiver() as receiver:
        receiver.answer = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000
        await send(channel("webhook", receiver.url), notice(alert()))


async def test_a_compressed_answer_is_not_expanded() -> None:
    await asyncio.to_thread(sending._http)
    async with http_receiver() as receiver:
        bomb = gzip.compress(b" " * 16_000_000)
        receiver.answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + bomb
        tracemalloc.start()
        try:
            await send(channel("webhook", receiver.url), notice(alert()))
            assert tracemalloc.get_traced_memory()[1] < 4_000_000
        finally:
            tracemalloc.stop()


async def test_a_robot_that_refuses_in_its_answer_is_heard() -> None:
    async with http_receiver() as receiver:
        text = b'{"errcode":310000,"errmsg":"sign not match"}'
        receiver.answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)
        with pytest.raises(SendError, match="refused the message: it answered errcode 310000"):
            await send(channel("dingtalk", receiver.url, "SEC"), notice(alert()))


async def test_a_receiver_that_hangs_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SEND_S", 0.1)
    async with http_receiver() as receiver:
        receiver.answer = None
        with pytest.raises(SendError, match=r"http://127\.0\.0\.1:\d+ did not answer"):
            await send(channel("webhook", receiver.url), notice(alert()))


async def test_a_host_that_is_not_allowed_any_more_gets_nothing(settings: Any) -> None:
    settings.GLASSMQ_ALERT_HOSTS = ("hooks.example",)
    async with http_receiver() as receiver:
        with pytest.raises(SendError, match="may not be sent to 127") as refused:
            await send(channel("webhook", receiver.url), notice(alert()))
        assert (receiver.requests, refused.value.may_retry) == ([], False)


MAIL = Channel(id=2, name="mail", kind="email", recipients=("a@b.example", "c@d.example"))


async def test_an_email_is_sent(settings: Any) -> None:
    async with smtp_receiver() as receiver:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", receiver.port
        await send(MAIL, notice(alert("bill\r\nX-Evil: 1")))
        [(recipients, mail)] = receiver.mails
    assert len(recipients) == 2
    assert mail["Subject"] == "[GlassMQ] CRITICAL: Group stalled (1 firing)"
    assert "X-Evil" not in mail
    assert "bill X-Evil: 1 at broker-a: stalled" in mail.get_content()


@pytest.mark.parametrize(("refusal", "may_retry"), [("451 later", True), ("550 never", False)])
async def test_a_mail_server_refuses(settings: Any, refusal: str, may_retry: bool) -> None:
    async with smtp_receiver() as receiver:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", receiver.port
        receiver.refusal = refusal
        with pytest.raises(SendError, match=f"answered {refusal[:3]}") as refused:
            await send(MAIL, notice(alert()))
    assert refused.value.may_retry is may_retry


async def test_a_mail_server_that_hangs_holds_few_threads(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with smtp_receiver() as receiver:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", receiver.port
        receiver.is_silent = True
        monkeypatch.setattr(sending, "SEND_S", 600.0)  # what ends them is the receiver
        tasks = [asyncio.create_task(send(MAIL, notice(alert()))) for _ in range(sending.MAX_MAIL_THREADS)]
        await asyncio.sleep(0)
        with pytest.raises(SendError, match="still holds earlier messages"):
            await send(MAIL, notice(alert()))
        receiver.ended.set()
        for task in tasks:
            with pytest.raises(SendError, match="cannot be reached"):
                await task


class Road:
    """A sending function whose tries fail as the test says, and an outbox over it on a clock without waiting."""

    def __init__(self) -> None:
        self.tries: list[int] = []
        self.refusals: list[SendError] = []
        self.paused: list[float] = []
        self.outcomes: list[Outcome] = []
        self.hanging: set[int] = set()
        self.done = asyncio.Event()
        self.outbox = Outbox(self._ended, sending=self._try, sleep=self._sleep)

    async def _try(self, to: Channel, what: Notice) -> None:
        self.tries.append(to.id)
        if to.id in self.hanging:
            await asyncio.Event().wait()
        if self.refusals:
            raise self.refusals.pop(0)

    async def _sleep(self, seconds: float) -> None:
        self.paused.append(seconds)

    async def _ended(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.done.set()

    async def errors(self, count: int) -> list[str]:
        """How the first tries ended, once there were so many."""
        while len(self.outcomes) < count:
            await self.done.wait()
            self.done.clear()
        return [outcome.error for outcome in self.outcomes]


def to(number: int) -> Channel:
    return Channel(id=number, name=f"c{number}", kind="webhook", url="http://x.example/s3cret")


async def test_a_message_is_tried_again_with_growing_pauses() -> None:
    road = Road()
    road.refusals = [SendError("busy"), SendError("busy")]
    road.outbox.put(to(1), notice(alert()))
    assert await road.errors(3) == ["busy", "busy", ""]
    assert (len(road.tries), tuple(road.paused)) == (3, PAUSES_S[:2])


async def test_a_message_is_given_up_after_the_last_pause() -> None:
    road = Road()
    road.refusals = [SendError(f"busy {number}") for number in range(9)]
    road.outbox.put(to(1), notice(alert()))
    assert await road.errors(5) == [f"busy {number}" for number in range(5)]
    assert (len(road.tries), tuple(road.paused)) == (5, PAUSES_S)


async def test_a_message_that_cannot_succeed_is_not_tried_again() -> None:
    road = Road()
    road.refusals = [SendError("answered 404", may_retry=False)]
    road.outbox.put(to(1), notice(alert()))
    assert await road.errors(1) == ["answered 404"]
    road.outbox.put(to(1), notice(alert()))
    assert await road.errors(2) == ["answered 404", ""]
    assert len(road.tries) == 2


async def test_a_channel_that_hangs_delays_no_other_and_its_queue_has_an_end() -> None:
    road = Road()
    road.hanging = {1}
    put = [road.outbox.put(to(1), notice(alert())) for _ in range(MAX_WAITING + 3)]
    assert put == [True] * MAX_WAITING + [False] * 3
    assert road.outbox.dropped == {1: 3}
    road.outbox.put(to(2), Notice(rule=Rule(id=1, name="n", what="lag"), firing=(), resolved=(), wall_ms=0))
    assert await road.errors(1) == [""]
    assert road.outcomes[0].channel.id == 2
    road.outbox.stop()

"""What tests of alerts share: the first rules, and receivers in the test's own event loop."""

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_string, policy
from email.message import EmailMessage

from django.apps import apps


def add_first_rules() -> None:
    """The rules of the migration, which an earlier test may have removed."""
    importlib.import_module("alerts.migrations.0001_initial").add(apps, None)


class HttpReceiver:
    """Keeps what it gets. ``answer`` is the whole next answer; None: it never answers."""

    def __init__(self) -> None:
        self.answer: bytes | None = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.got = asyncio.Event()
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            self.requests.append((head[0], headers, await reader.readexactly(int(headers["content-length"]))))
            self.got.set()
            if self.answer is None:
                await reader.read()
            else:
                writer.write(self.answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def http_receiver() -> AsyncIterator[HttpReceiver]:
    receiver = HttpReceiver()
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook/s3cret"
    try:
        yield receiver
    finally:
        server.close()


class SmtpReceiver:
    """Keeps the mails it gets. ``refusal`` answers the first MAIL command; ``is_silent``: it says nothing at all."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self.refusal = ""
        self.is_silent = False
        self.port = 0
        self.ended = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recipients: list[str] = []
        try:
            if self.is_silent:
                await self.ended.wait()
                return
            writer.write(b"220 test\r\n")
            while line := (await reader.readline()).decode():
                verb = line[:4].upper()
                if verb == "QUIT":
                    return
                if verb == "MAIL" and self.refusal:
                    writer.write(f"{self.refusal}\r\n".encode())
                    continue
                if verb == "RCPT":
                    recipients.append(line.strip())
                if verb == "DATA":
                    writer.write(b"354 go on\r\n")
                    data = (await reader.readuntil(b"\r\n.\r\n")).decode()
                    mail = message_from_string(data, policy=policy.default)
                    assert isinstance(mail, EmailMessage)
                    self.mails.append((recipients, mail))
                writer.write(b"250 ok\r\n")
        finally:
            writer.close()


@asynccontextmanager
async def smtp_receiver() -> AsyncIterator[SmtpReceiver]:
    receiver = SmtpReceiver()
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        receiver.ended.set()
        server.close()

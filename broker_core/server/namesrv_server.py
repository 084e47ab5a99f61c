"""The name server on its port, alone or beside a broker in the same process.

    socket --> RemotingServer --> NamesrvSession --> NamesrvProcessor --> answer
                                       '-- a request that changes a file is answered when the file is written

A broker in the same process is registered directly, without a request. Its changes are registered in the turn of its
engine that made them, before the replies of that turn are sent. So a topic that a client's request created has a route
when the client reads the answer.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from pathlib import Path

from broker_core.clock import Clock
from broker_core.codes import RequestCode, ResponseCode
from broker_core.errors import RequestError
from broker_core.namesrv.namesrv_controller import NamesrvController
from broker_core.namesrv.namesrv_processor import NamesrvProcessor
from broker_core.namesrv.register_broker import Registration
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.server.remoting_channel import Channel
from broker_core.server.remoting_limits import RemotingLimits
from broker_core.server.remoting_server import CannotServe, RemotingServer
from broker_core.server.tls import TlsOptions
from broker_core.store.files import Files, Lock
from broker_core.tasks import start_task

log = logging.getLogger(__name__)

WRITES = frozenset((RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG))
"""Requests that may change a file."""
MAX_UNANSWERED = 1000
"""Such requests that may wait for the disk at once."""
LAST_WRITES = 5.0
"""Seconds to wait for the disk when the server stops."""

Describe = Callable[[Collection[str] | None], Registration]
"""Returns the registration of a broker, with the given topics or with all of them (None)."""


class NameServer:
    """RocketMQ's mqnamesrv. ``folder`` has its configuration; only one name server at a time can use it."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        clock: Clock,
        host: str,
        port: int,
        *,
        port_setting: str = "listenPort",
        tls: TlsOptions | None = None,
        limits: RemotingLimits | None = None,
        allow_foreign_registration: bool = False,
    ) -> None:
        """``port_setting`` names the setting that changes the port.

        ``allow_foreign_registration``: other brokers may register under the name of the broker in this process.
        """
        self.clock = clock
        self.server = RemotingServer(
            self._make_session, host, [port], port_setting=port_setting, tls=tls, limits=limits
        )
        self._folder = folder
        self._files = files
        self._lock: Lock | None = None
        self._unanswered: list[tuple[Channel, RemotingCommand, RemotingCommand]] = []
        self._writing: asyncio.Task[None] | None = None
        self._scan_timer: asyncio.TimerHandle | None = None
        self._describe: Describe | None = None
        self._allow_foreign_registration = allow_foreign_registration

    controller: NamesrvController
    processor: NamesrvProcessor

    async def bind(self) -> None:
        """Take the port and the folder; nobody is served yet. Raises CannotServe."""
        try:
            self._files.make_folders(self._folder)
            self._lock = self._files.lock(self._folder / "lock", shared=False)
            if self._lock is None:
                raise CannotServe(
                    f"Another name server keeps its configuration in {self._folder}: stop that one, or "
                    "give this one another data folder"
                )
            self.controller = NamesrvController(self._folder, self._files, self.server.ports[0])
            self.processor = NamesrvProcessor(self.controller)
            await self.server.bind()
        except OSError as error:
            self._release()
            raise CannotServe(f"The name server cannot keep its configuration in {self._folder}: {error}") from error
        except CannotServe:
            self._release()
            raise

    async def start(self) -> None:
        """Serve, after ``bind``. Raises CannotServe."""
        try:
            await self.server.start()
        except CannotServe:
            self._release()
            raise
        self._schedule_scan()

    async def stop(self) -> None:
        """Close every connection when its last answer is written, and release port and folder."""
        self.server.stop_listening()
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            if self._writing is not None:
                await asyncio.wait([self._writing], timeout=LAST_WRITES)
            await self.server.stop()
            await self._write_all()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- The broker in the same process ---

    def serve_broker(self, describe: Describe) -> None:
        """Register the broker in this process, without expiry. ``topics_changed`` registers its later changes."""
        self._describe = describe
        if not self._allow_foreign_registration:
            self.processor.own_broker = describe(())
        self._register_broker(None)

    def topics_changed(self, topics: Collection[str]) -> None:
        """The broker in this process created, changed or deleted these topics."""
        self._register_broker(topics)

    def _register_broker(self, changed: Collection[str] | None) -> None:
        """Register the broker with its changed topics; with all topics if that is None or it is not registered."""
        if self._describe is None:
            return
        now, routes = self.clock.now(), self.controller.routes
        broker = self._describe(changed)
        if changed is not None and routes.renew_broker(broker.cluster, broker.broker_addr, now) is None:
            changed, broker = None, self._describe(None)  # another broker has registered under its name
        for topic in changed or ():
            if topic not in broker.topics:
                routes.delete_topic_of_broker(topic, broker.broker_name)
        try:
            routes.register_broker(broker, None, now, expires=False)
        except RequestError as error:
            log.error("the name server in this process does not accept its broker: %s", error)

    # --- Inside ---

    def _make_session(self, channel: Channel) -> "NamesrvSession":
        return NamesrvSession(channel, self)

    def answer_when_written(self, channel: Channel, request: RemotingCommand, response: RemotingCommand) -> None:
        """Send ``response`` when the changes of the request are on the disk."""
        self._unanswered.append((channel, request, response))
        if self._writing is None:
            self._writing = start_task(self._write(), "write the changes of name server requests")

    @property
    def is_behind(self) -> bool:
        """Whether too many requests wait for the disk."""
        return len(self._unanswered) >= MAX_UNANSWERED

    async def _write(self) -> None:
        try:
            while self._unanswered:
                written, self._unanswered = self._unanswered, []
                problem = await self._write_all()
                for channel, request, response in written:
                    if problem and response.code == ResponseCode.SUCCESS:
                        response = request.response(ResponseCode.SYSTEM_ERROR, problem)
                    if not request.is_oneway:
                        channel.send(response.encode())
        finally:
            self._writing = None

    async def _write_all(self) -> str:
        """Write all changed files. Returns a sentence about an error, else an empty string."""
        while (write := self.controller.next_write()) is not None:
            try:
                await asyncio.to_thread(write.run)
            except (OSError, ValueError) as error:  # ValueError: text that cannot be encoded
                self.controller.write_failed(write)
                log.error("the name server could not write %s: %s", write.name, error)
                return (
                    f"the change applies, but could not be written and will be lost when the name server stops: {error}"
                )
        return ""

    def _schedule_scan(self) -> None:
        seconds = self.controller.options.scan_not_active_broker_interval / 1000
        self._scan_timer = asyncio.get_running_loop().call_later(seconds, self._scan_brokers)

    def _scan_brokers(self) -> None:
        self._schedule_scan()
        for session in self.controller.routes.scan_not_active_broker(self.clock.now()):
            assert isinstance(session, NamesrvSession)
            log.warning("the broker at %s has sent nothing for too long; its connection is closed", session.channel)
            session.channel.close()
        self._register_broker(())


class NamesrvSession:
    """One connection of a client, an administrator's tool or a broker."""

    def __init__(self, channel: Channel, name_server: NameServer) -> None:
        self.channel = channel
        self._name_server = name_server

    def receive(self, commands: list[RemotingCommand]) -> None:
        """Handle the frames of one read. All immediate answers are one write."""
        name_server = self._name_server
        now = name_server.clock.now()
        for request in commands:
            if request.is_response:
                continue
            writes_file = request.code in WRITES
            if writes_file and name_server.is_behind:
                response = request.response(
                    ResponseCode.SYSTEM_BUSY, "too many changes wait for the disk; try again later"
                )
            else:
                response = name_server.processor.process(request, self, now)
                if writes_file:
                    name_server.answer_when_written(self.channel, request, response)
                    continue
            if not request.is_oneway:
                self.channel.send(_frame(response, request))

    @property
    def ready(self) -> bool:
        """Always True, because every request is handled when it is received."""
        return True

    @property
    def delayed(self) -> bool:
        """Always False, for the same reason."""
        return False

    def closed(self) -> None:
        """The connection has closed: remove the brokers that registered on it."""
        self._name_server.controller.routes.connection_closed(self)


def _frame(response: RemotingCommand, request: RemotingCommand) -> bytes:
    """The bytes of a response. If it does not fit into a frame, those of an error response."""
    try:
        return response.encode()
    except ValueError as error:
        return request.response(ResponseCode.SYSTEM_ERROR, f"the answer cannot be sent: {error}").encode()

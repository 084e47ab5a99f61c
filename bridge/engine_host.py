"""The engine's side of the bridge: takes batches from any transport, answers in batches, never waits for a hold.

There is one per store and process. Each web process that sends a message gets a ``WebProcess``. It is removed, and the
holds of its connections are released, when it says good-bye, loses its connection, does not read, or is silent for too
long.
"""

import asyncio
import logging

from bridge import wire
from bridge.event_fanout import EventFanout
from bridge.limits import Limits
from bridge.port import Delta, EventBatch
from bridge.transport import Link
from bridge.web_process import NO_ROOM, WebProcess
from broker_core.clock import Clock
from broker_core.codes import ResponseCode
from broker_core.commands import (
    ChangeInvisibleTime,
    CloseConnection,
    Failed,
    GetConsumerRunningInfo,
    GetSnapshot,
    PopMessage,
    Popped,
    RelayToConsumer,
)
from broker_core.formats.pop_check_point import POP_ORDER_REVIVE_QUEUE
from broker_core.server.attach.follower import Follower
from broker_core.server.broker_routes import BrokerRoutes
from broker_core.server.broker_session import BrokerSessions
from broker_core.server.consume_message_directly import consume_message_directly
from broker_core.server.consumer_questions import OwnConsumerQuestions
from broker_core.server.engine_runner import EngineRunner
from broker_core.server.ha_server import HAServer
from broker_core.server.remoting_server import CannotServe, RemotingServer
from broker_core.tasks import start_task

log = logging.getLogger(__name__)

MAX_RELAYS = 64
"""Questions of web processes that wait for the answers of RocketMQ's clients."""


class EngineHost:
    """Owns the EngineRunner of one store, and the servers for its RocketMQ clients, routes and slaves, or its follower.

    The four counters are totals since the start.
    """

    fanout: EventFanout

    def __init__(
        self,
        runner: EngineRunner,
        clock: Clock,
        limits: Limits | None = None,
        *,
        remoting: RemotingServer | None = None,
        sessions: BrokerSessions | None = None,
        routes: BrokerRoutes | None = None,
        follower: Follower | None = None,
        ha_server: HAServer | None = None,
    ) -> None:
        """``sessions`` are those of the clients of ``remoting``."""
        self.runner = runner
        self.remoting = remoting
        self.routes = routes
        self._follower = follower
        self._sessions = sessions
        self._clients: Follower | OwnConsumerQuestions | None = follower
        if remoting is not None and sessions is not None:
            self._clients = OwnConsumerQuestions(sessions, clock, remoting.host, remoting.ports[0])
        self._relays = 0
        self._ha_server = ha_server
        self.limits = limits or Limits()
        self.malformed = 0
        self.batches_dropped = 0
        self.replies_dropped = 0
        self.processes_cut_off = 0
        self._clock = clock
        self._processes: dict[str, WebProcess] = {}
        self._silence_timer: asyncio.TimerHandle | None = None
        self._checked_ns = 0
        self._accepting = False
        self._stopping = False

    async def start(self) -> None:
        """Open the store and begin. Raises StoreError and its subclasses, and CannotServe."""
        ports = [port for port in (self.remoting, self.routes) if port is not None]
        try:
            for port in ports:
                await port.bind()  # so that a port in use is reported before the store is opened
            await self.runner.start()
        except BaseException:
            if self.remoting is not None:
                self.remoting.stop_listening()
            if self.routes is not None:
                await self.routes.stop()
            raise
        self.fanout = EventFanout(self.runner.engine, self._clock, self.limits, self._on_observed)
        self._accepting = True
        self._checked_ns = self._clock.mono_ns()
        self._remove_silent_processes()
        if self._follower is not None:
            self._follower.start()
        try:
            if self._ha_server is not None and not self.runner.engine.read_only:
                await self._ha_server.start()
            for port in ports:
                await port.start()
        except CannotServe:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Answer every hold with the cause shutdown, send the last replies, close the store.

        Commands are accepted until the store is closed, so that a broker that waits for its disk can answer that it is
        draining.
        """
        if not self._accepting or self._stopping:
            return  # it was not started, or another call is stopping it
        self._stopping = True
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self.fanout.stop()
        if self._follower is not None:
            await self._follower.stop()
        if self.routes is not None:
            await self.routes.stop()
        if self.remoting is not None:
            self.remoting.stop_listening()
        await self.runner.stop()
        self._accepting = False
        if self._ha_server is not None:
            await self._ha_server.stop()
        if self.remoting is not None:
            await self.remoting.stop()
        processes = list(self._processes.values())
        for process in processes:
            process.leaving = True
            process.answer_heartbeat()
        await asyncio.gather(*(process.pump.finish(self.limits.drain_ms) for process in processes))
        self._processes.clear()

    # --- Messages ---

    def receive(self, data: bytes, link: Link) -> None:
        """Take one message of one web process. Never raises; a message that cannot be read is counted."""
        if not self._accepting:
            return
        try:
            message, unknown = wire.decode_to_engine(data, self.limits.message_bytes)
        except wire.MalformedMessage as error:
            self.count_malformed(error)
            return
        if isinstance(message, wire.Bye):
            self._forget(self._processes.get(message.process))
        elif isinstance(message, wire.Alive):
            process = self._process(message, link, message.number + 1)
            if (process.deltas, process.events) != (message.deltas, message.events):
                process.deltas, process.events = message.deltas, message.events
                self._update_watching()
            process.answer_heartbeat()
        else:
            process = self._process(message, link, message.number)
            for connection, request_id, failed in unknown:
                process.put(connection, request_id, failed)
            if not process.is_repeated(message.number):
                self._submit(process, message)

    def count_malformed(self, error: Exception) -> None:
        """Count bytes that are not a message."""
        self.malformed += 1
        log.warning("a message is ignored, %d so far: %s", self.malformed, error)

    def _process(self, message: wire.Requests | wire.Alive, link: Link, first: int) -> WebProcess:
        process = self._processes.get(message.process)
        if process is not None and (process.link is not link or process.reply_to != message.reply_to):
            self._forget(process)
            process = None
        if process is None:
            process = WebProcess(self, message.process, link, message.reply_to, first)
            self._processes[message.process] = process
        process.heard_ns = self._clock.mono_ns()
        return process

    def _submit(self, process: WebProcess, batch: wire.Requests) -> None:
        submit, too_late_ms = self.runner.submit, self._clock.now().wall_ms - self.limits.clock_grace_ms
        for number, request_id, deadline_ms, command in batch.requests:
            if deadline_ms < too_late_ms:
                process.put(number, request_id, _TOO_LATE)
                continue
            if type(command) is PopMessage and process.is_full:
                process.put(number, request_id, NO_ROOM)
                continue
            if type(command) is GetSnapshot:
                process.snapshot_asked(number, request_id)
            if self._clients is not None and type(command) is GetConsumerRunningInfo:
                start_task(self._ask_consumers(self._clients, process, number, request_id, command), "ask clients")
                continue
            submit(process.connection(number), request_id, command)
        for number in batch.closed:
            connection = process.connections.pop(number, None)
            process.forget_snapshots(number)
            if connection is not None:
                submit(connection, 0, CloseConnection())

    async def _ask_consumers(
        self,
        clients: Follower | OwnConsumerQuestions,
        process: WebProcess,
        number: int,
        request_id: int,
        command: GetConsumerRunningInfo,
    ) -> None:
        """Answer a question that a broker's clients must answer."""
        process.put(number, request_id, await clients.running_info(command))

    def relay(self, process: WebProcess, connection: int, request_id: int, relay: RelayToConsumer) -> None:
        """Have a client consume a message, and answer with its result."""
        if self._relays >= MAX_RELAYS:
            process.put(connection, request_id, _TOO_MANY_RELAYS)
            return
        self._relays += 1
        start_task(self._relay(process, connection, request_id, relay), f"ask client {relay.client_id}")

    async def _relay(self, process: WebProcess, connection: int, request_id: int, relay: RelayToConsumer) -> None:
        try:
            reply = await consume_message_directly(self._sessions, relay)
        finally:
            self._relays -= 1
        process.put(connection, request_id, reply)

    def give_back(self, process: WebProcess, popped: Popped) -> None:
        """Make popped messages visible, because there is no room for the answer."""
        for queue in popped.queues:
            for offset in queue.offsets:
                command = ChangeInvisibleTime(
                    consumer_group=popped.consumer_group,
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    start_offset=queue.start_offset,
                    pop_time_ms=popped.pop_time_ms,
                    offset=offset,
                    invisible_ms=0,
                    unseen=True,
                    order=popped.revive_queue_id == POP_ORDER_REVIVE_QUEUE,
                )
                self.runner.submit(process.connection(wire.PROCESS), 0, command)

    # --- Removing web processes ---

    def link_lost(self, link: Link) -> None:
        """Remove the web processes of a connection that ended."""
        for process in [process for process in self._processes.values() if process.link is link]:
            self._forget(process)

    def cut_off(self, process: WebProcess, reason: str) -> None:
        """Release everything of a web process that does not work correctly, and close its connection."""
        if process.is_gone:
            return
        log.warning("web process %s is cut off: %s", process.name, reason)
        self.processes_cut_off += 1
        self._forget(process)
        process.link.cut()

    def _forget(self, process: WebProcess | None) -> None:
        if process is None or process.is_gone:
            return
        process.is_gone = True
        self._processes.pop(process.name, None)
        for connection in process.connections.values():
            self.runner.submit(connection, 0, CloseConnection())
        process.connections.clear()
        process.forget_snapshots()
        if process.deltas or process.events:
            self._update_watching()

    def _remove_silent_processes(self) -> None:
        """Remove web processes that have sent no message for too long."""
        now_ns = self._clock.mono_ns()
        period_s = self.limits.peer_silence_ms / 5000
        late_ns = now_ns - self._checked_ns - int(period_s * 1e9)
        self._checked_ns = now_ns
        for process in list(self._processes.values()):
            if late_ns > period_s * 1e9:
                process.heard_ns += late_ns  # this process itself was stopped meanwhile, which is not their silence
            if now_ns - process.heard_ns > self.limits.peer_silence_ms * 1_000_000:
                log.warning("web process %s was silent for too long: its connections are closed", process.name)
                self._forget(process)
        self._silence_timer = asyncio.get_running_loop().call_later(period_s, self._remove_silent_processes)

    # --- Observing ---

    def _update_watching(self) -> None:
        if self._accepting and not self._stopping:
            self.fanout.watch(
                deltas=any(process.deltas for process in self._processes.values()),
                events=any(process.events for process in self._processes.values()),
            )

    def _on_observed(self, delta: Delta | None, events: EventBatch | None) -> None:
        raw_delta = None if delta is None else wire.encode_delta(delta)
        raw_events = None if events is None else wire.encode_events(events)
        for process in self._processes.values():
            process.put_observed(raw_delta, raw_events)


_TOO_MANY_RELAYS = Failed(
    code=ResponseCode.SYSTEM_BUSY,
    kind="unavailable",
    retry_after_ms=1000,
    remark=f"{MAX_RELAYS} questions wait for the answers of clients; ask again later",
)
_TOO_LATE = Failed(
    code=ResponseCode.SYSTEM_BUSY,
    kind="unavailable",
    retry_after_ms=1000,
    remark="the engine received this after its deadline and did not execute it: it was away, or the clocks differ",
)

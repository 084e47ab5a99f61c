"""Registration at the name servers in ``namesrvAddr``, which run in other processes and may be RocketMQ's.

Each name server has a task of its own, so one that is away delays no other, and none delays the broker:

    at the start, on a change of topics, every registerNameServerPeriod  -->  REGISTER_BROKER with all topics
    refused, unreachable, connection lost                                -->  again after a pause, longer each time
    at the end                                                           -->  UNREGISTER_BROKER

Every registration contains all topics, while RocketMQ sends only changes. A name server that has lost the broker needs
all of them, and one with deleteTopicWithBrokerRegistration treats missing topics as deleted.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Literal

import msgspec

from broker_core.client.remoting_client import RemotingClient
from broker_core.clock import Clock
from broker_core.codes import RequestCode
from broker_core.namesrv.register_broker import Registration, encode_registration, identity
from broker_core.options import Options
from broker_core.tasks import start_task

log = logging.getLogger(__name__)

LEAST_PERIOD_MS, MOST_PERIOD_MS = 10_000, 60_000
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds to wait after the first failure; doubled after each further one, up to the longest."""
GATHER_SECONDS = 0.1
"""Least seconds between two registrations, so that changes in between share one."""
UNREGISTER_SECONDS = 1.0
"""Seconds that unregistering may take."""


State = Literal["connecting", "registered", "failing"]


class NameServerView(msgspec.Struct, frozen=True, kw_only=True):
    """The registration at one name server. Times in ms since 1970; ``problem`` is empty if there is none."""

    address: str
    state: State
    since_ms: int
    registered_at_ms: int | None
    registrations: int
    failures: int
    problem: str


class RouteRegistration:
    """RocketMQ's BrokerOuterAPI. ``describe``, called before each registration, returns the broker and its topics."""

    def __init__(self, options: Options, describe: Callable[[None], Registration], clock: Clock) -> None:
        self.period = min(max(options.register_name_server_period, LEAST_PERIOD_MS), MOST_PERIOD_MS) / 1000
        self.timeout = options.register_broker_timeout_mills / 1000
        self.clock = clock
        self._describe = describe
        self._started_ms = clock.now().wall_ms
        self._encoded: tuple[Registration, dict[str, str], bytes] | None = None
        addresses = dict.fromkeys(address for address in options.namesrv_addr.split(";") if address)
        self._name_servers = [_NameServer(self, address) for address in addresses]

    def start(self) -> None:
        """Begin to register. The broker's port must be open, because clients will connect."""
        for name_server in self._name_servers:
            name_server.start()

    def topics_changed(self, topics: Collection[str]) -> None:
        """Register the change at every name server soon."""
        for name_server in self._name_servers:
            name_server.due.set()

    async def stop(self) -> None:
        """Unregister from every name server that is connected."""
        await asyncio.gather(*(name_server.stop() for name_server in self._name_servers))

    def views(self) -> list[NameServerView]:
        """The registration at each name server, in the order of ``namesrvAddr``."""
        return [name_server.view() for name_server in self._name_servers]

    def registration(self) -> tuple[Registration, dict[str, str], bytes]:
        """(broker as it is now, header, body). They are encoded again only after a topic has changed."""
        broker = self._describe(None)
        # A restart makes a new version in any case, because the permissions of the topics may differ.
        version = broker.data_version
        broker.data_version = msgspec.structs.replace(version, timestamp=max(version.timestamp, self._started_ms))
        if self._encoded is None or self._encoded[0].data_version != broker.data_version:
            self._encoded = (broker, *encode_registration(broker))
        return self._encoded


class _NameServer:
    """The registration at one name server, repeated by a task."""

    def __init__(self, owner: RouteRegistration, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.due = asyncio.Event()
        self._owner = owner
        self._address = address
        self._client = RemotingClient(host.strip("[]"), int(port))
        self._task: asyncio.Task[None] | None = None
        self._state: State = "connecting"
        self._since_ms = owner.clock.now().wall_ms
        self._registered_at_ms: int | None = None
        self._registrations = self._failures = 0
        self._problem = ""

    def start(self) -> None:
        self._task = start_task(self._run(), f"register at name server {self._address}")

    def view(self) -> NameServerView:
        return NameServerView(
            address=self._address,
            state=self._state,
            since_ms=self._since_ms,
            registered_at_ms=self._registered_at_ms,
            registrations=self._registrations,
            failures=self._failures,
            problem=self._problem,
        )

    async def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self.due.clear()
            try:
                await self._register()
            except Exception as error:
                self._failed(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            await asyncio.sleep(GATHER_SECONDS)
            if await self._wait_for_change_or_end():
                self._enter("connecting", "the connection ended")  # not worth a warning if it is back soon
                await asyncio.sleep(pause)

    async def _register(self) -> None:
        """Register once. Raises OSError if the name server cannot be reached or refuses."""
        _, fields, body = self._owner.registration()
        answer = await self._client.invoke(RequestCode.REGISTER_BROKER, fields, body, timeout_s=self._owner.timeout)
        if answer.code:
            raise OSError(f"the answer was {answer.code}: {answer.remark}")
        self._registrations += 1
        self._registered_at_ms = self._owner.clock.now().wall_ms
        if self._state != "registered":
            log.info("registered at name server %s", self._address)
            self._enter("registered", "")

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        problem = str(error) or type(error).__name__
        if self._state != "failing":
            log.warning("this broker could not register at name server %s: %s; trying again", self._address, problem)
            self._enter("failing", problem)
        self._problem = problem

    def _enter(self, state: State, problem: str) -> None:
        self._state, self._problem, self._since_ms = state, problem, self._owner.clock.now().wall_ms

    async def _wait_for_change_or_end(self) -> bool:
        """Wait until topics change, the period is over, or the connection ends. Returns whether it ended."""
        lost = start_task(self._client.wait_closed(), f"watch the connection to name server {self._address}")
        due = start_task(self.due.wait(), f"wait for topics to register at {self._address}")
        try:
            await asyncio.wait((lost, due), timeout=self._owner.period, return_when=asyncio.FIRST_COMPLETED)
            return lost.done()
        finally:
            lost.cancel()
            due.cancel()

    async def stop(self) -> None:
        """Unregister and close the connection. A name server also notices the closed connection alone."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._client.connected:
            broker, _, _ = self._owner.registration()
            try:
                await self._client.invoke(RequestCode.UNREGISTER_BROKER, identity(broker), timeout_s=UNREGISTER_SECONDS)
            except OSError as error:
                log.info("this broker could not unregister from name server %s: %s", self._address, error)
        await self._client.close()

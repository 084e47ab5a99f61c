"""Registration at the name servers in ``namesrvAddr``, which run in other processes and may be RocketMQ's.

Each name server has a task of its own, so one that is away delays no other, and none delays the broker:

    at the start, on a change of topics, every registerNameServerPeriod  -->  REGISTER_BROKER with all topics
    refused, unreachable, connection lost                                -->  again after a pause, longer each time
    at the end                                                           -->  UNREGISTER_BROKER

Every registration contains all topics, while RocketMQ sends only changes. A name server that has lost the broker needs
all of them, and one with deleteTopicWithBrokerRegistration treats missing topics as deleted. Two of RocketMQ's options
change this: with enableSplitRegistration a registration is several requests, and with enableSingleTopicRegister each
changed topic is registered by a REGISTER_TOPIC_IN_NAMESRV.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Literal

import msgspec

from broker_core.client.remoting_client import RemotingClient
from broker_core.clock import Clock
from broker_core.codes import RequestCode
from broker_core.namesrv.register_broker import (
    Registration,
    encode_registration,
    encode_topic,
    identity,
    split_registration,
)
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
MAX_SINGLE_TOPICS = 100
"""Changed topics that are registered one by one. More are registered together with all others."""

Fields = dict[str, str]
"""Header fields of a request."""

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
    """RocketMQ's BrokerOuterAPI. ``describe``, called before each registration, returns the broker and its topics.

    Its argument is None for all topics, or the names of some.
    """

    def __init__(
        self, options: Options, describe: Callable[[Collection[str] | None], Registration], clock: Clock
    ) -> None:
        self.period = min(max(options.register_name_server_period, LEAST_PERIOD_MS), MOST_PERIOD_MS) / 1000
        self.timeout = options.register_broker_timeout_mills / 1000
        self.clock = clock
        self.registers_single_topics = options.enable_single_topic_register
        self._split_size = options.split_registration_size if options.enable_split_registration else None
        self._describe = describe
        self._started_ms = clock.now().wall_ms
        self._encoded: tuple[Registration, list[tuple[Fields, bytes]]] | None = None
        addresses = dict.fromkeys(address for address in options.namesrv_addr.split(";") if address)
        self._name_servers = [_NameServer(self, address) for address in addresses]

    def start(self) -> None:
        """Begin to register. The broker's port must be open, because clients will connect."""
        for name_server in self._name_servers:
            name_server.start()

    def topics_changed(self, topics: Collection[str]) -> None:
        """Register the change at every name server soon."""
        for name_server in self._name_servers:
            name_server.topics_changed(topics)

    async def stop(self) -> None:
        """Unregister from every name server that is connected."""
        await asyncio.gather(*(name_server.stop() for name_server in self._name_servers))

    def views(self) -> list[NameServerView]:
        """The registration at each name server, in the order of ``namesrvAddr``."""
        return [name_server.view() for name_server in self._name_servers]

    def broker(self) -> Registration:
        """The broker as it is now, with all topics."""
        return self._describe(None)

    def registrations(self) -> list[tuple[Fields, bytes]]:
        """Header and body of each request of a registration. They are encoded again only after a topic has changed."""
        broker = self.broker()
        # A restart makes a new version in any case, because the permissions of the topics may differ.
        version = broker.data_version
        broker.data_version = msgspec.structs.replace(version, timestamp=max(version.timestamp, self._started_ms))
        if self._encoded is None or self._encoded[0].data_version != broker.data_version:
            parts = [broker] if self._split_size is None else split_registration(broker, self._split_size)
            self._encoded = broker, [encode_registration(part) for part in parts]
        return self._encoded[1]

    def topic_registrations(self, topics: Collection[str]) -> list[tuple[Fields, bytes]]:
        """Header and body of a request for each of these topics that exists."""
        broker = self._describe(topics)
        return [encode_topic(broker, topic) for topic in broker.topics.values()]


class _NameServer:
    """The registration at one name server, repeated by a task."""

    def __init__(self, owner: RouteRegistration, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._due = asyncio.Event()
        self._changed: set[str] | None = None
        """Topics to register one by one. None: all topics are to be registered."""
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

    def topics_changed(self, topics: Collection[str]) -> None:
        if self._changed is not None:
            self._changed.update(topics)
            if len(self._changed) > MAX_SINGLE_TOPICS:
                self._changed = None
        self._due.set()

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
            self._due.clear()
            try:
                await self._register()
            except Exception as error:
                self._changed = None
                self._failed(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            await asyncio.sleep(GATHER_SECONDS)
            if await self._wait_for_change_or_end():
                self._changed = None
                self._enter("connecting", "the connection ended")  # not worth a warning if it is back soon
                await asyncio.sleep(pause)

    async def _register(self) -> None:
        """Register all topics, or the changed ones. Raises OSError if the name server cannot be reached or refuses."""
        owner, changed = self._owner, self._changed
        self._changed = set() if owner.registers_single_topics else None
        if changed and self._client.connected:
            code, requests = RequestCode.REGISTER_TOPIC_IN_NAMESRV, owner.topic_registrations(changed)
        else:
            code, requests = RequestCode.REGISTER_BROKER, owner.registrations()
        for fields, body in requests:
            answer = await self._client.invoke(code, fields, body, timeout_s=owner.timeout)
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
        due = start_task(self._due.wait(), f"wait for topics to register at {self._address}")
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
            fields = identity(self._owner.broker())
            try:
                await self._client.invoke(RequestCode.UNREGISTER_BROKER, fields, timeout_s=UNREGISTER_SECONDS)
            except OSError as error:
                log.info("this broker could not unregister from name server %s: %s", self._address, error)
        await self._client.close()

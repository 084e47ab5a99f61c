"""Follows the commit log of one broker of a running cluster, into the engine of this process.

    name server --> where the broker and its slaves are          (GET_BROKER_CLUSTER_INFO)
    source      --> its configuration, the ends of its log       (GET_BROKER_CONFIG, GET_BROKER_RUNTIME_INFO)
    source      --> are the copy's last messages its own, too?   (VIEW_MESSAGE_BY_ID)
    source      --> the log, from the copy's end on              (its HA port)
    master      --> tables and members, every 5 s                (SlaveSynchronize)

It never asks for an offset outside the source's log. If copy and source cannot be joined, it stops and says why; the
copy stays as it is.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

import msgspec

from broker_core.client.mq_client_exception import MQClientException
from broker_core.clock import Clock
from broker_core.commands import (
    AppendToCommitLog,
    FollowState,
    GetConsumerRunningInfo,
    GetLogEnd,
    LogEnd,
    Reply,
    ReportFollowing,
)
from broker_core.remoting.ha_transfer import Block, TransferError
from broker_core.server.attach.cluster_client import MASTER_ID, BrokerMembers, ClusterClient, Source, candidates
from broker_core.server.attach.engine_calls import EngineCalls, EngineRefused
from broker_core.server.attach.ha_client import HAClient
from broker_core.server.attach.slave_synchronize import PERIOD_S, SlaveSynchronize
from broker_core.server.consumer_questions import ConsumerQuestions
from broker_core.server.engine_runner import EngineRunner
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)

AGAIN_S = 5.0
"""A stock slave waits as long before it connects again."""
REPORT_S = 1.0
DISCOVER_S = 30.0
"""RocketMQ's pollNameServerInterval."""
FULL_DISK_PAUSE_S = 1.0
SLAVE_MAX_BEHIND = 64 << 20
"""A slave that lacks more bytes of its master's log is not chosen."""


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which broker is followed, and how. ``source``: the master, a slave, or a slave if one is close to its master.

    ``begin``: where an empty copy begins, at the beginning of the source's log or of its last segment.
    ``ha_addresses`` replaces the address of the HA port, by broker name.
    """

    namesrv_addr: str
    broker_name: str
    source: Literal["auto", "slave", "master"] = "auto"
    begin: Literal["min", "last-file"] = "last-file"
    max_bytes_per_second: int = 20_000_000
    ha_addresses: Mapping[str, tuple[str, int]] = {}


class CannotFollow(Exception):
    """Copy and source cannot be joined. The message is a sentence that says why and what to do."""


class Follower:
    """Runs from ``start`` to ``stop``, whatever happens to the cluster."""

    def __init__(self, runner: EngineRunner, clock: Clock, options: FollowOptions) -> None:
        """MQClientException if an address is invalid."""
        self._options = options
        self._clock = clock
        self._cluster = ClusterClient(options.namesrv_addr)
        self._engine = EngineCalls(runner)
        self._tables = SlaveSynchronize(self._cluster, self._engine, clock)
        self._questions = ConsumerQuestions(self._cluster, self._engine, clock, options.broker_name)
        self._state: FollowState = "connecting"
        self._problem = self._disk_problem = self._absence = ""
        self._source: Source | None = None
        self._members: BrokerMembers | None = None
        self._discover_ns = 0
        self._master_end: int | None = None
        self._client: HAClient | None = None
        self._bytes_per_second: int | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin. The engine must run."""
        self._tasks = [
            start_task(self._keep_following(), "follow a commit log"),
            start_task(self._keep_reporting(), "report on following"),
            start_task(self._keep_synchronizing(), "synchronize tables"),
        ]

    async def stop(self) -> None:
        """End the connections to the cluster. What has arrived is in the copy."""
        for task in self._tasks:
            await end_task(task)
        await self._cluster.close()

    # --- The log ----------------------------------------------------------------------------------------------

    async def _keep_following(self) -> None:
        while True:
            try:
                await self._follow()
            except (CannotFollow, TransferError) as error:
                self._note("stopped", str(error))
                log.error("%s is not followed any more: %s", self._options.broker_name, error)
                return
            except EngineRefused as error:
                self._note("stopped", str(error))
                log.error("the engine does not accept the log of %s: %s", self._options.broker_name, error)
                return
            except (OSError, MQClientException) as error:
                if str(error) != self._problem:
                    log.warning("%s cannot be followed now: %s", self._options.broker_name, error)
                self._note("waiting", str(error))
            await asyncio.sleep(AGAIN_S)

    def _note(self, state: FollowState, problem: str = "") -> None:
        self._state, self._problem = state, problem

    async def _follow(self) -> None:
        """Connect once and follow until that fails."""
        end: LogEnd = await self._engine.call(GetLogEnd())
        source = await self._choose_source()
        begin = self._begin(source, end)
        for offset, record in end.records:
            await self._compare(source, offset, record)
        self._source, self._master_end = source, source.max_offset
        error: OSError | None = None
        for host, port in self._ha_addresses(source):
            client = self._client = HAClient(
                host, port, self._options.max_bytes_per_second, controller_mode=source.controller_mode
            )
            try:
                await client.follow(begin, end.segment_size, self._on_block)
            except OSError as problem:
                if client.received_bytes:
                    raise
                error = error or problem
            finally:
                self._client = None
        assert error is not None
        raise OSError(f"the HA port of {source.address} cannot be followed: {error}") from error

    async def _choose_source(self) -> Source:
        """The broker to follow. OSError if none can be reached now, CannotFollow if none may be followed."""
        name = self._options.broker_name
        members = self._members = (await self._cluster.brokers()).get(name)
        self._note_discovery()
        if members is None:
            raise OSError(f"the name servers know no broker {name} at the moment")
        reached: list[Source] = []
        problems: list[str] = []
        for broker_id, address in candidates(members, self._options.source):
            try:
                reached.append(await self._cluster.source(address, broker_id))
            except (OSError, MQClientException) as error:
                problems.append(f"{address}: {error}")
        source = choose(reached)
        if source is not None:
            return source
        obstacles = [one.obstacle for one in reached if one.obstacle]
        if obstacles and not problems:
            raise CannotFollow("; ".join(obstacles))
        what = {"auto": "broker", "slave": "slave", "master": "master"}[self._options.source]
        raise OSError(f"no {what} of {name} can be followed: {'; '.join(problems + obstacles) or 'none is registered'}")

    def _begin(self, source: Source, end: LogEnd) -> int:
        """The physical offset to ask for. CannotFollow if the source does not continue the copy."""
        if source.segment_size != end.segment_size:
            raise CannotFollow(
                f"the segments of {source.address} have {source.segment_size} bytes (mappedFileSizeCommitLog), those "
                f"of the copy {end.segment_size}; begin a new copy in another folder"
            )
        if source.max_offset == 0:
            raise OSError(f"the commit log of {source.address} is empty")
        if end.end is None:
            last = source.max_offset - source.max_offset % source.segment_size
            return source.min_offset if self._options.begin == "min" else max(last, source.min_offset)
        if end.end > source.max_offset:
            text = f"the copy ends at {end.end}, but the commit log of {source.address} at {source.max_offset}"
            if source.broker_id != MASTER_ID:
                raise OSError(f"{text}: this slave is behind")
            raise CannotFollow(f"{text}: it was cut or replaced; the copy is kept, begin a new one in another folder")
        if end.end < source.min_offset:
            raise CannotFollow(
                f"the copy ends at {end.end}, but {source.address} has deleted its log up to {source.min_offset}; "
                "the copy is kept, begin a new one in another folder"
            )
        return end.end

    async def _compare(self, source: Source, offset: int, record: bytes) -> None:
        """CannotFollow if the source has something else where the copy has this message."""
        if offset < source.min_offset:
            return
        other = await self._cluster.record(source.address, offset)
        if other != record:
            raise CannotFollow(
                f"the copy and the commit log of {source.address} differ at offset {offset}: it was cut or replaced; "
                "the copy is kept, begin a new one in another folder"
            )

    def _ha_addresses(self, source: Source) -> list[tuple[str, int]]:
        """Where the HA port may be: brokerIP2 is often the address of an inner network."""
        given = self._options.ha_addresses.get(self._options.broker_name)
        if given is not None:
            return [given]
        host, port = source.ha_address
        return list(dict.fromkeys([(host, port), (source.host, port)]))

    async def _on_block(self, block: Block) -> None:
        """Append a block to the copy; while the disk is full, wait with it."""
        command = AppendToCommitLog(offset=block.offset, data=block.data, store_timestamp=block.store_timestamp)
        if self._state != "following":
            self._note("following")
        while True:
            try:
                await self._engine.call(command)
                self._disk_problem = ""
                return
            except EngineRefused as error:
                if error.failed.kind != "unavailable":
                    raise
                self._disk_problem = str(error)
            await asyncio.sleep(FULL_DISK_PAUSE_S)

    # --- Beside the log ---------------------------------------------------------------------------------------

    async def _keep_reporting(self) -> None:
        """Report the follower's state to the engine once a second."""
        seen = 0
        while True:
            client = self._client
            slave = client.slave if client is not None else None
            if slave is not None and slave.has_begun and self._state != "stopped":
                self._note("following")
            total = client.received_bytes if client is not None else 0
            self._bytes_per_second = int(max(0, total - seen) / REPORT_S) if slave is not None else None
            seen = total
            with suppress(EngineRefused):
                await self._engine.call(
                    ReportFollowing(
                        source=self._source.address if self._source is not None else "",
                        state=self._state,
                        received=slave.received if slave is not None else None,
                        master_end=self._master_end,
                        bytes_per_second=self._bytes_per_second,
                        tables_ms=self._tables.tables_ms,
                        members_ms=self._tables.members_ms,
                        problem=self._problem or self._disk_problem or self._absence or self._tables.problem,
                    )
                )
            await asyncio.sleep(REPORT_S)

    async def _keep_synchronizing(self) -> None:
        """Fetch tables from the master, or from the source while there is no master, and the end of the log."""
        while True:
            await asyncio.sleep(PERIOD_S if self._source is not None else REPORT_S)
            source = self._source
            if source is None:
                continue
            with suppress(OSError, MQClientException):
                self._master_end = await self._cluster.max_offset(source.address)
            if self._clock.mono_ns() >= self._discover_ns:
                await self._discover()
            await self._tables.synchronize(self._asked_address)

    @property
    def _asked_address(self) -> str:
        """The broker that knows tables and clients: the master, or the source while there is none; empty without."""
        master = self._members.broker_addrs.get(MASTER_ID) if self._members is not None else None
        return master or (self._source.address if self._source is not None else "")

    async def running_info(self, command: GetConsumerRunningInfo) -> Reply:
        """What the followed broker and its clients answer now: ConsumerRunningInfos or Failed."""
        return await self._questions.answer(self._asked_address, command)

    def _note_discovery(self) -> None:
        self._discover_ns = self._clock.mono_ns() + int(DISCOVER_S * 1e9)

    async def _discover(self) -> None:
        """Ask again where the broker and its slaves are. While no name server answers, they are where they were."""
        self._note_discovery()
        with suppress(OSError, MQClientException):
            members = (await self._cluster.brokers()).get(self._options.broker_name)
            self._members = members or self._members
            self._absence = "" if members else f"the name servers know no broker {self._options.broker_name} any more"


def choose(sources: list[Source]) -> Source | None:
    """The best of the sources that may be followed; None without any. A slave that is far behind is not chosen."""
    possible = [source for source in sources if not source.obstacle]
    end = max((source.max_offset for source in possible), default=0)
    near = [source for source in possible if end - source.max_offset <= SLAVE_MAX_BEHIND]
    return near[0] if near else None

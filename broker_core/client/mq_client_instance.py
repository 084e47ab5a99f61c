"""What the producers and consumers of one client share: connections, routes, heartbeats and timers."""

import asyncio
import logging
import os
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

from broker_core.client.client_events import EventHook, EventListener
from broker_core.client.client_remoting_processor import ClientRemotingProcessor
from broker_core.client.consumer.filter_api import comparable_expression
from broker_core.client.consumer.rebalance_service import RebalanceService
from broker_core.client.mq_admin_impl import MQAdminImpl
from broker_core.client.mq_client_api import MQClientAPI, parse_address
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.producer.request_future_holder import RequestFutureHolder
from broker_core.client.producer.topic_publish_info import TopicPublishInfo, queues_to_read, queues_to_write
from broker_core.clock import Clock, SystemClock
from broker_core.codes import VERSION
from broker_core.commands import HeartBeat, MessageQueue, SubscriptionData
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.namesrv.route_data import MASTER_ID, TopicRouteData
from broker_core.remoting.remoting_command import LANGUAGE
from broker_core.tasks import end_task, start_task
from broker_core.topics import AUTO_CREATE_TOPIC

if TYPE_CHECKING:
    from broker_core.client.consumer.mq_consumer_inner import MQConsumerInner
    from broker_core.client.producer.transaction_mq_producer import TransactionMQProducer

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 30.0
ROUTE_SECONDS = 30.0
PERSIST_SECONDS = 5.0

_number = count(1)


def local_host(towards: tuple[str, int]) -> str:
    """The address of this machine from which a server is reached; no packet is sent."""
    family = socket.AF_INET6 if ":" in towards[0] else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(towards)
            host: str = probe.getsockname()[0]
            return host
    except OSError:
        return "127.0.0.1"


class MQClientInstance:
    """RocketMQ's MQClientInstance. ``namesrv_addr`` is ``host:port``, or several, separated by semicolons.

    Producers and consumers create one each, unless they are given one to share. It ends with the last of them.
    """

    def __init__(
        self,
        namesrv_addr: str,
        *,
        client_id: str = "",
        instance_name: str = "",
        clock: Clock | None = None,
        event_listener: EventListener | None = None,
    ) -> None:
        """``client_id`` is by default the host and ``instance_name``, which is by default another one for each client.

        ``event_listener`` is called with what the client does (``client_events``).

        Raises MQClientException for an invalid address.
        """
        self.clock = clock or SystemClock()
        self.events = EventHook(event_listener)
        self.name_servers = [address for address in namesrv_addr.split(";") if address]
        if not self.name_servers:
            raise MQClientException("no name server is given: set namesrv_addr to its host:port")
        addresses = [parse_address(address) for address in self.name_servers]
        host = local_host(addresses[0])
        self.has_fixed_id = bool(client_id or instance_name)
        """Whether the client has the same id when the program is started again."""
        self.client_id = client_id or f"{host}@{instance_name or f'{os.getpid()}#{next(_number)}'}"
        self.uniq_keys = UniqKeyGenerator(host, os.getpid(), random.Random())
        self.api = MQClientAPI(ClientRemotingProcessor(self).process_request, self._channel_active)
        self.admin = MQAdminImpl(self)
        self.rebalance_service = RebalanceService(self)
        self.request_futures = RequestFutureHolder()
        self.producer_groups: set[str] = set()
        self.transaction_producers: dict[str, TransactionMQProducer] = {}
        """By group: the producers that brokers ask how a transaction ended."""
        self.consumers: dict[str, MQConsumerInner] = {}
        self._starting = 0
        self._routes: dict[str, TopicRouteData] = {}
        self._publish_infos: dict[str, TopicPublishInfo] = {}
        self._addresses: dict[str, dict[int, str]] = {}
        self._lookups: dict[tuple[str, int], asyncio.Task[bool]] = {}
        self._silent: set[str] = set()
        self._reported: dict[str, tuple[int, list[str]]] = {}
        """By address: the connection's epoch and the producer groups of the last heartbeat."""
        self._reporting = asyncio.Lock()
        self._beating: set[str] = set()
        """Addresses to which a heartbeat is on its way."""
        self._registrations: set[asyncio.Task[None]] = set()
        self._disputed: set[str] = set()
        """Groups whose members in other processes have other subscriptions."""
        self._tasks: list[asyncio.Task[None]] = []

    # --- Life -------------------------------------------------------------------------------------------------

    async def register_producer(self, group: str) -> None:
        """Begin to work for a producer. MQClientException if the group has a producer here already."""
        if group in self.producer_groups:
            raise MQClientException(f"this client has a producer of group {group!r} already; use another group")
        self.producer_groups.add(group)
        self._start()

    async def register_consumer(self, group: str, consumer: "MQConsumerInner") -> None:
        """Begin to work for a consumer. MQClientException if the group has a consumer here already."""
        if group in self.consumers:
            raise MQClientException(f"this client has a consumer of group {group!r} already; use another group")
        self.consumers[group] = consumer
        self._start()

    async def unregister(self, *, producer_group: str = "", consumer_group: str = "") -> None:
        """Leave a group at all brokers; close everything when it was the last one."""
        self.producer_groups.discard(producer_group)
        self.consumers.pop(consumer_group, None)
        for address in self._heartbeat_addresses(every=True):
            if self.api.connection(address).connected:
                try:
                    await self.api.unregister_client(
                        address, self.client_id, producer_group=producer_group, consumer_group=consumer_group
                    )
                except (OSError, MQClientException) as error:
                    log.info("%s could not unregister at %s: %s", self.client_id, address, error)
        await self._close_if_unused()

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        """Keep the connections open while a consumer that is not registered yet asks servers."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
            await self._close_if_unused()

    async def _close_if_unused(self) -> None:
        if not (self.producer_groups or self.consumers or self._starting):
            for task in (*self._tasks, *self._lookups.values(), *self._registrations):
                await end_task(task)
            self._tasks.clear()
            await self.api.close()

    def _start(self) -> None:
        if self._tasks:
            return
        self._tasks = [
            self._repeat(1.0, HEARTBEAT_SECONDS, self._refresh_connections, "send heartbeats"),
            self._repeat(ROUTE_SECONDS, ROUTE_SECONDS, self._update_routes, "refresh routes"),
            self._repeat(2 * PERSIST_SECONDS, PERSIST_SECONDS, self._persist_offsets, "persist offsets"),
            start_task(self.rebalance_service.run(), "rebalance"),
        ]

    def _repeat(
        self, first: float, period: float, action: Callable[[], Awaitable[None]], name: str
    ) -> "asyncio.Task[None]":
        async def run() -> None:
            await asyncio.sleep(first)
            while True:
                try:
                    await action()
                except (OSError, MQClientException) as error:
                    log.warning("%s could not %s: %s", self.client_id, name, error)
                except Exception:  # an error of the program; the next round is tried all the same
                    log.exception("%s could not %s", self.client_id, name)
                await asyncio.sleep(period)

        return start_task(run(), name)

    async def _persist_offsets(self) -> None:
        for consumer in list(self.consumers.values()):
            await consumer.persist_offsets()

    # --- Routes -----------------------------------------------------------------------------------------------

    async def update_topic_route(self, topic: str, *, default_queues: int = 0) -> bool:
        """Ask for the route of a topic. Returns whether there is one.

        With ``default_queues``, a topic that does not exist gets the queues that its first message will create: at
        most so many on each broker that creates topics. Raises MQClientException if no name server answers.
        """
        route = await self._ask_name_servers(topic)
        publish_max = None
        if route is None and default_queues:
            route, publish_max = await self._ask_name_servers(AUTO_CREATE_TOPIC), default_queues
        if route is None:
            return False
        has_new = any(broker.broker_name not in self._addresses for broker in route.broker_datas)
        for broker in route.broker_datas:
            self._addresses[broker.broker_name] = broker.broker_addrs
        if has_new and self.consumers:
            await self.send_heartbeats()  # a broker shares queues among those that it knows
        self._put_publish_info(topic, queues_to_write(topic, route, publish_max))
        if publish_max is None:
            changed = self._routes.get(topic) != route
            self._routes[topic] = route
            if changed and any(topic in consumer.subscriptions for consumer in self.consumers.values()):
                self.rebalance_service.wakeup()
        return True

    def _put_publish_info(self, topic: str, queues: list[MessageQueue]) -> None:
        known = self._publish_infos.get(topic)
        if known is None or known.queues != queues:
            self._publish_infos[topic] = TopicPublishInfo(queues, random.randrange(1 << 20))

    async def _ask_name_servers(self, topic: str) -> TopicRouteData | None:
        """The route by the first name server that answers; the others are asked only if it does not."""
        problems = []
        for address in list(self.name_servers):
            try:
                return await self.api.get_topic_route_info(address, topic)
            except (OSError, MQClientException) as error:
                problems.append(f"{address}: {error}")
                self.name_servers.remove(address)
                self.name_servers.append(address)
        raise MQClientException(f"no name server answers for topic {topic!r}: {'; '.join(problems)}")

    async def _update_routes(self) -> None:
        subscribed = {topic for consumer in self.consumers.values() for topic in consumer.subscriptions}
        for topic in sorted({*self._routes, *self._publish_infos, *subscribed}):
            await self.update_topic_route(topic)

    async def find_publish_info(self, topic: str, default_queues: int, timeout_s: float) -> TopicPublishInfo:
        """The queues to send to. MQClientException if the topic has none, or it is not known in time."""
        info = self._publish_infos.get(topic)
        if info is None or not info.queues:
            if not await self._look_up(topic, default_queues, timeout_s):
                raise MQClientException(
                    f"topic {topic!r} has no route: it does not exist, and no broker creates topics. Create it first"
                )
            info = self._publish_infos[topic]
        if not info.queues:
            raise MQClientException(f"topic {topic!r} has no queue that can be written to")
        return info

    async def _look_up(self, topic: str, default_queues: int, timeout_s: float) -> bool:
        """As ``update_topic_route``, once for all that wait for the same route.

        A caller whose time is over stops waiting. The lookup goes on to the next name servers, for the next send.
        """
        key = topic, default_queues
        lookup = self._lookups.get(key)
        if lookup is None:
            work = self.update_topic_route(topic, default_queues=default_queues)
            lookup = start_task(work, f"find the route of {topic}", expected=(OSError, MQClientException))
            self._lookups[key] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(key))
        await asyncio.wait([lookup], timeout=timeout_s)
        if not lookup.done():
            raise MQClientException(
                f"no name server of {', '.join(self.name_servers)} has answered for topic {topic!r} in time; "
                "nothing was sent"
            )
        if lookup.cancelled():
            raise MQClientException("the client was shut down while the route of its message was looked up")
        return lookup.result()

    def subscribed_queues(self, topic: str) -> list[MessageQueue] | None:
        """The queues of a topic for consumers; None if its route is not known."""
        route = self._routes.get(topic)
        return None if route is None else queues_to_read(topic, route)

    def broker_address(self, broker_name: str) -> str:
        """The address of a broker's master. MQClientException if it is not known."""
        address = self._addresses.get(broker_name, {}).get(MASTER_ID)
        if address is None:
            raise MQClientException(f"no name server has reported a master of broker {broker_name!r}")
        return address

    def _broker_names(self, topic: str) -> Iterable[str]:
        route = self._routes.get(topic)
        return [broker.broker_name for broker in route.broker_datas] if route else ()

    async def check_client_in_broker(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Ask a broker of each topic whether it supports the filter, unless it is one of tags.

        MQClientException if it does not, or does not answer.
        """
        for subscription in subscriptions:
            names = list(self._broker_names(subscription.topic)) if subscription.expression_type != "TAG" else []
            if names:
                address = self.broker_address(names[0])
                try:
                    await self.api.check_client_in_broker(address, group, self.client_id, subscription)
                except OSError as error:
                    raise MQClientException(f"{address} cannot be asked whether it supports SQL92: {error}") from error

    # --- Heartbeats -------------------------------------------------------------------------------------------

    def _heartbeat_addresses(self, *, every: bool = False) -> list[str]:
        """Sorted. Producers register at masters only, consumers at slaves too."""
        return sorted(
            {
                address
                for addresses in self._addresses.values()
                for broker_id, address in addresses.items()
                if every or self.consumers or broker_id == MASTER_ID
            }
        )

    async def send_heartbeats(self) -> None:
        """Report all groups to all brokers. A broker that does not answer is logged once until it does again."""
        await self._send_heartbeats(self._heartbeat_addresses())

    async def report_producers(self) -> None:
        """Send a heartbeat to the brokers that do not know all producers yet, on the connections that there are now.

        Only then do they pass replies on. A broker that does not answer is not asked again before the next heartbeats.
        """
        if self._unreported():
            async with self._reporting:  # the other requests wait for the same heartbeats
                await self._send_heartbeats(self._unreported())

    def _unreported(self) -> list[str]:
        groups = sorted(self.producer_groups)
        return [
            address
            for address in self._heartbeat_addresses()
            if self._reported.get(address) != (self.api.connection(address).epoch, groups)
        ]

    async def _send_heartbeats(self, addresses: list[str]) -> None:
        heartbeat = HeartBeat(
            client_id=self.client_id,
            protocol="remoting",
            language=LANGUAGE,
            version=VERSION,
            producer_groups=sorted(self.producer_groups),
            consumers=[consumer.consumer_data() for consumer in self.consumers.values()],
        )
        await asyncio.gather(*(self._send_heartbeat(address, heartbeat) for address in addresses))

    def _channel_active(self, address: str) -> None:
        """RocketMQ's onChannelActive: a broker knows nobody on a new connection, least of all after its restart.

        Until it does, it lists this client in no group and asks it nothing.
        """
        has_groups = self.producer_groups or self.consumers
        if has_groups and address not in self._beating and address in self._heartbeat_addresses():
            task = start_task(self._send_heartbeats([address]), f"register at {address}")
            self._registrations.add(task)
            task.add_done_callback(self._registrations.discard)

    async def _send_heartbeat(self, address: str, heartbeat: HeartBeat) -> None:
        self._beating.add(address)
        try:
            await self.api.send_heartbeat(address, heartbeat)
        except (OSError, MQClientException) as error:
            if address not in self._silent:
                self._silent.add(address)
                log.warning("%s sent a heartbeat to %s that was not accepted: %s", self.client_id, address, error)
        else:
            self._silent.discard(address)
        finally:
            self._beating.discard(address)
        self._reported[address] = self.api.connection(address).epoch, heartbeat.producer_groups

    async def _refresh_connections(self) -> None:
        """Forget brokers that are in no route any more, and send heartbeats to the others."""
        known = {broker.broker_name for route in self._routes.values() for broker in route.broker_datas}
        if known:
            known |= {queue.broker_name for info in self._publish_infos.values() for queue in info.queues}
            for name in self._addresses.keys() - known:
                for address in self._addresses.pop(name).values():
                    self._reported.pop(address, None)
            await self.api.close_others({*self._heartbeat_addresses(every=True), *self.name_servers})
        await self.send_heartbeats()
        for consumer in list(self.consumers.values()):
            await self._compare_subscriptions(consumer)

    async def _compare_subscriptions(self, consumer: "MQConsumerInner") -> None:
        """Warn if another process subscribes with this group to something else: brokers keep the newest only."""
        data = consumer.consumer_data()
        topics = [subscription.topic for subscription in data.subscriptions]
        name = next((name for topic in topics for name in self._broker_names(topic)), "")
        if not name or data.consume_type == "CONSUME_ACTIVELY":
            return
        try:
            theirs = await self.api.get_subscriptions(self.broker_address(name), consumer.group)
        except (OSError, MQClientException):
            return  # the broker does not say; heartbeats are what matters
        own = {one.topic: comparable_expression(one.expression_type, one.sub_string) for one in data.subscriptions}
        if own == {topic: comparable_expression(*expression) for topic, expression in theirs.items()}:
            self._disputed.discard(consumer.group)
        elif consumer.group not in self._disputed:
            self._disputed.add(consumer.group)
            log.warning(
                "group %s has a member elsewhere with other subscriptions, and both miss messages: here %s, at %s %s",
                consumer.group,
                own,
                name,
                theirs,
            )

    # --- Groups -----------------------------------------------------------------------------------------------

    async def find_consumer_id_list(self, topic: str, group: str) -> list[str]:
        """Sorted ids of the group's members, by the first broker of the topic that answers.

        Raises MQClientException if none does.
        """
        problems = []
        for broker_name in self._broker_names(topic):
            try:
                return sorted(set(await self.api.get_consumer_id_list(self.broker_address(broker_name), group)))
            except (OSError, MQClientException) as error:
                problems.append(f"{broker_name}: {error}")
        raise MQClientException(f"no broker of {topic!r} reports the members of {group!r}: {'; '.join(problems)}")

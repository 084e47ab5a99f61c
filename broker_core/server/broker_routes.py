"""Tells name servers, the one in this process and others, where a running broker and its topics are."""

import logging
from collections.abc import Collection

from broker_core.clock import Clock
from broker_core.commands import MessageQueue
from broker_core.namesrv.register_broker import Registration, describe_broker
from broker_core.options import Options
from broker_core.server.engine_runner import EngineRunner
from broker_core.server.namesrv_server import NameServer
from broker_core.server.route_registration import NameServerView, RouteRegistration
from broker_core.topics import PERM_READ

log = logging.getLogger(__name__)


class BrokerRoutes:
    """Registers the engine of ``runner`` at name servers, from ``start`` to ``stop``.

    Call ``bind`` before the engine is opened, ``start`` when it runs and its port is open, ``stop`` before they end.

    A broker with a read-only store shows the store of another broker, often with that broker's ``broker.conf``: other
    name servers know its name already. It registers there only with ``register_read_only``, which a person has set.
    """

    def __init__(
        self,
        runner: EngineRunner,
        options: Options,
        clock: Clock,
        name_server: NameServer | None,
        *,
        register_read_only: bool = True,
    ) -> None:
        self._runner = runner
        self._register_read_only = register_read_only
        self._name_server = name_server
        self._is_only_name_server = name_server is not None and not options.namesrv_addr
        self._registration = RouteRegistration(options, self._describe, clock)

    async def bind(self) -> None:
        """Take the name server's port and folder. Raises CannotServe."""
        if self._name_server is not None:
            await self._name_server.bind()

    async def start(self) -> None:
        """Register the broker and serve the name server's clients. Raises CannotServe."""
        if self._name_server is not None:
            self._name_server.serve_broker(self._describe)
            await self._name_server.start()
            self._runner.topic_listeners.append(self._name_server.topics_changed)
        if self._is_only_name_server:
            self._runner.engine.find_queues_with(self._find_queues)
        if self._runner.engine.read_only and not self._register_read_only:
            if self._registration.views():
                log.warning(
                    "this broker's store is read-only: it does not register at the name servers of "
                    "namesrvAddr, where another broker may have its name; set GLASSMQ_NAMESRV_ADDR to register it"
                )
            return
        self._registration.start()
        self._runner.topic_listeners.append(self._registration.topics_changed)

    async def stop(self) -> None:
        """Unregister from other name servers, and end the one in this process."""
        self._runner.topic_listeners.clear()
        await self._registration.stop()
        if self._name_server is not None:
            await self._name_server.stop()

    def name_servers(self) -> list[NameServerView]:
        """The state of the registration at each other name server."""
        return self._registration.views()

    def _describe(self, only: Collection[str] | None) -> Registration:
        engine = self._runner.engine
        return describe_broker(engine.options, engine.topics, read_only=engine.read_only, only=only)

    def _find_queues(self, topic: str) -> list[MessageQueue] | None:
        """A topic's queues on all brokers that are registered at the name server in this process."""
        assert self._name_server is not None
        route = self._name_server.controller.routes.pick_topic_route(topic)
        return (
            None
            if route is None
            else [
                MessageQueue(topic=topic, broker_name=queues.broker_name, queue_id=queue_id)
                for queues in route.queue_datas
                if queues.perm & PERM_READ
                for queue_id in range(queues.read_queue_nums)
            ]
        )

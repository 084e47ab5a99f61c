"""How clients learn where a running broker and its topics are: by the name server beside it, by others, or both."""

from collections.abc import Collection

from broker_core.clock import Clock
from broker_core.namesrv.register_broker import Registration, describe_broker
from broker_core.options import Options
from broker_core.server.engine_runner import EngineRunner
from broker_core.server.namesrv_server import NameServer
from broker_core.server.route_registration import NameServerView, RouteRegistration


class BrokerRoutes:
    """Tells name servers of the engine of ``runner``, from ``start`` to ``stop``.

    ``bind`` comes before the engine is opened, ``start`` when it runs and its port is open, ``stop`` before they end.
    """

    def __init__(self, runner: EngineRunner, options: Options, clock: Clock, name_server: NameServer | None) -> None:
        self._runner = runner
        self._name_server = name_server
        self._registration = RouteRegistration(options, self._describe, clock)

    async def bind(self) -> None:
        """Have the name server's port and folder. Raises CannotServe."""
        if self._name_server is not None:
            await self._name_server.bind()

    async def start(self) -> None:
        """Say where the broker is, and serve who asks. Raises CannotServe."""
        if self._name_server is not None:
            self._name_server.serve_broker(self._describe)
            await self._name_server.start()
            self._runner.topic_listeners.append(self._name_server.topics_changed)
        self._registration.start()
        self._runner.topic_listeners.append(self._registration.topics_changed)

    async def stop(self) -> None:
        """Take leave of name servers elsewhere, and end the one here."""
        self._runner.topic_listeners.clear()
        await self._registration.stop()
        if self._name_server is not None:
            await self._name_server.stop()

    def name_servers(self) -> list[NameServerView]:
        """How the broker stands with the name servers elsewhere."""
        return self._registration.views()

    def _describe(self, only: Collection[str] | None) -> Registration:
        context = self._runner.engine.context
        return describe_broker(context.options, context.topics, read_only=context.store.read_only, only=only)

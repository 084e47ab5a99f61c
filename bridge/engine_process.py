"""A process with only an engine: ``manage.py runworker broker-engine``, over the layer or a socket."""

import asyncio
import logging
import signal
from pathlib import Path
from typing import Any

from channels.exceptions import ChannelFull

from bridge.channel_port import Backoff, engine_channel
from bridge.engine_host import EngineHost
from bridge.engine_worker import EngineWorker
from bridge.processes import report_serving
from bridge.socket_port import EngineSocket
from broker_core.errors import StoreError
from broker_core.server.garbage_collection import freeze
from broker_core.server.remoting_server import CannotServe

log = logging.getLogger(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class CannotStart(Exception):
    """The engine cannot start. The message is a sentence: why, and what to do."""


async def serve_layer(host: EngineHost, layer: Any, broker_name: str) -> None:
    """Serve the engine on a channel layer until a signal, then drain. Raises CannotStart."""
    await reach(layer, engine_channel(broker_name), host)
    stopped = catch_signals()
    await open_store(host)
    worker = EngineWorker(host, layer, broker_name)
    worker.start()
    log.info("the engine of %s serves channel %s", broker_name, engine_channel(broker_name))
    await stopped.wait()
    await worker.stop()
    await host.stop()


async def serve_socket(host: EngineHost, path: Path) -> None:
    """Serve the engine on a Unix socket until a signal, then drain. Raises CannotStart."""
    stopped = catch_signals()
    await open_store(host)
    server = EngineSocket(host, path)
    try:
        await server.start()
    except OSError as error:
        await host.stop()
        raise CannotStart(f"The engine cannot listen on {path}: {error.strerror or error}.") from error
    report_serving()
    log.info("the engine serves %s", path)
    await stopped.wait()
    server.stop_listening()
    await host.stop()
    await server.stop()


def catch_signals() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets. The second one ends the process at once."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()

    def on_signal() -> None:
        stopped.set()
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    return stopped


async def open_store(host: EngineHost) -> None:
    """``host.start``, with its errors turned into CannotStart. The process does nothing yet, so it can ``freeze``."""
    try:
        await host.start()
        freeze()
    except StoreError as error:
        raise CannotStart(f"{error.remark}") from error
    except CannotServe as error:
        raise CannotStart(f"{error}.") from error
    except OSError as error:
        raise CannotStart(
            f"The store cannot be opened ({error}): set GLASSMQ_STORE_DIR or GLASSMQ_DATA_DIR to a folder that this "
            "user can write to."
        ) from error


async def reach(layer: Any, channel: str, host: EngineHost) -> None:
    """Wait until the layer accepts a message. CannotStart if it does not within ``connect_ms``."""
    backoff = Backoff(host.limits)
    error: Exception | None = None
    try:
        async with asyncio.timeout(host.limits.connect_ms / 1000):
            while True:
                try:
                    await layer.send(channel, {"type": "engine.probe"})
                    return
                except ChannelFull:
                    return  # it can be reached, and commands are waiting
                except Exception as failure:
                    error = failure
                    await backoff.pause()
    except TimeoutError:
        raise CannotStart(
            f"The channel layer cannot be reached ({error or 'it does not answer'}): is the Redis of "
            "GLASSMQ_REDIS_URL running?"
        ) from error

"""``manage.py broker``: starts a whole broker by one command; ``make run`` calls it.

    1. the database is brought up to date
    2. Daphne listens, in this process
    3. the engine starts: in this process, as a child, or elsewhere (GLASSMQ_ENGINE)
    4. a Celery worker and its beat start as children

Ctrl-C or SIGTERM stops it in an order that loses nothing: no new connection is accepted, held pulls are answered, the
store is flushed and closed, the children end, and the process ends with 0. A second Ctrl-C ends everything at once;
the store recovers from that as from a power cut.
"""

import asyncio
import errno
import logging
import os
import shutil
import signal
import socket
import sys
import time
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from daphne.http_protocol import WebRequest
from django.conf import settings
from django.core.management import BaseCommand, CommandError, call_command
from django.db import DatabaseError
from twisted.internet import reactor as _reactor

from bridge.cluster import BrokerPlace, cluster, lone_broker
from bridge.connect import make_ports
from bridge.daphne_limits import LimitedServer
from bridge.history.recorder import Recorders
from bridge.open_files import most_connections, open_files_warning, raise_open_files_limit
from bridge.port import BrokerError, EnginePort, commands, set_ports
from bridge.processes import ChildProcess
from broker_core.clock import SystemClock
from broker_core.errors import StoreError
from broker_core.server.garbage_collection import freeze
from broker_core.server.remoting_server import CannotServe
from broker_core.tasks import end_task, start_task

logger = logging.getLogger(__name__)
reactor: Any = _reactor  # Twisted replaces this module by an object that is chosen at run time

LISTEN_BACKLOG = 4096
WEBSOCKET_MAX_BYTES = 8 * 1024 * 1024
"""The largest WebSocket message that is accepted: a body of 4 MiB as base64 in JSON, with room for its properties."""
LAST_ANSWERS_S = 1.0
"""How long writing may take after the engine has stopped: first the answers to held pulls, then the close frames of
WebSockets."""
LOOK_AGAIN_S = 0.02
JOINING_S = 30.0
"""Time between two looks for brokers that joined a followed cluster."""
ENGINE_GRACE_S = 15.0
"""How long the engine may take to answer and flush. Recovery reads what is not flushed then from the log."""
CHILD_GRACE_S = 6.0
FIRST_ANSWER_MS = 5000
ENGINE_PATIENCE_S = 60.0
"""How long an engine that starts with this process may take to answer, because it recovers its store first. The broker
is reported as started only then. An engine elsewhere may start at any time."""
ORPHAN_PATIENCE_S = 3.0
"""How long the engine of a killed broker may take to notice that and to end."""
PROBE_PAUSE_S = 0.1
DEFAULT_WEB_PORT = 8000
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

MIGRATION_BYTES = 1 << 20
"""With less free space than this, a database that cannot be migrated is taken for one on a full disk."""

ENGINE_PLACES = {
    "embedded": "in this process",
    "child": "in a child process",
    "remote": "elsewhere, through Redis (manage.py runworker broker-engine)",
}


class Command(BaseCommand):
    """The command; ``BrokerProcess`` does the work."""

    help = "Start a broker: web, engine and schedules, until Ctrl-C."
    requires_system_checks = ()
    attaches = False
    """Whether this is ``manage.py attach``, which GLASSMQ_ATTACH starts in the place of a broker of our own."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--no-schedules", action="store_true", help="leave out the Celery worker and beat: no scheduled reports"
        )
        parser.add_argument(
            "--cluster",
            action="store_true",
            help="start as many brokers as GLASSMQ_BROKERS says, under one name server",
        )
        parser.add_argument(
            "--no-migrate", action="store_true", help="leave the database as it is (where another process migrates it)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.GLASSMQ_ATTACH and not self.attaches:
            call_command("attach", **{name: options[name] for name in ("no_migrate", "no_schedules")})
            return
        for warning in settings.GLASSMQ_WARNINGS:
            self.stderr.write(f"Warning: {warning}")
        self.serve(self.places(clustered=options["cluster"]), options)

    def serve(self, places: list[BrokerPlace], options: dict[str, Any]) -> None:
        """Run these brokers until a signal ends them. CommandError if they cannot run."""
        try:
            check_port_is_free(settings.GLASSMQ_HOST, settings.GLASSMQ_WEB_PORT, "GLASSMQ_WEB_PORT")
            if settings.GLASSMQ_ENGINE == "child":
                own = settings.GLASSMQ_SOCKET
                # A broker's engine and those of attached brokers have sockets of different names.
                for path in {place.socket for place in places}.union(own.parent.glob(f"{own.stem}*{own.suffix}")):
                    check_folder_is_free(path, ORPHAN_PATIENCE_S)
            raise_open_files_limit()
            if warning := open_files_warning(settings.GLASSMQ_MAX_CONNECTIONS):
                self.stderr.write(f"Warning: {warning}")
            if not options["no_migrate"]:
                self._migrate()
            process = BrokerProcess(places, schedules=not options["no_schedules"], joined_places=self.joined_places)
            process.run(announce=lambda state: self.stdout.write(banner(places, state)))
        except KeyboardInterrupt:
            sys.exit(130)
        if process.problem:
            raise CommandError(process.problem)

    def places(self, *, clustered: bool) -> list[BrokerPlace]:
        """The brokers to start. CommandError if they cannot be started."""
        return places_of_brokers(clustered=clustered)

    async def joined_places(self) -> list[BrokerPlace] | None:
        """Brokers that are to be started beside the others now; None if there will be none."""
        return None

    def _migrate(self) -> None:
        """Bring the database up to date. A full disk must not keep the broker from serving its messages."""
        try:
            call_command("migrate", interactive=False, verbosity=0)
        except DatabaseError as error:
            folder = Path(settings.GLASSMQ_DATA_DIR)
            if not has_no_space(folder):
                raise CommandError(
                    f"The database cannot be brought up to date: {str(error).strip()}. See GLASSMQ_DATABASE_URL, or "
                    f"the file in {folder}."
                ) from error
            self.stderr.write(
                f"Warning: the disk of {folder} is full, so the database cannot be brought up to date ({error}). "
                "Messages can be read; users and reports may not work. Free some space and start again."
            )


def has_no_space(folder: Path) -> bool:
    """Whether the file system of a folder is full."""
    try:
        return shutil.disk_usage(folder).free < MIGRATION_BYTES
    except OSError:
        return False


class BrokerProcess:
    """All parts of a broker, from the first listening socket to the last flush.

    ``problem`` is empty after a clean end, otherwise a sentence about why the broker could not run.
    """

    def __init__(
        self,
        places: Sequence[BrokerPlace],
        *,
        schedules: bool,
        joined_places: Callable[[], Awaitable[list[BrokerPlace] | None]],
    ) -> None:
        """``joined_places`` is asked every 30 s for brokers to add, until it returns None."""
        self.problem = ""
        self._joined_places = joined_places
        self._adding: asyncio.Task[None] | None = None
        self._ports = make_ports(settings, places)
        self._recorders = Recorders(self._ports, settings.GLASSMQ_DATA_DIR / "history", SystemClock())
        self._children = children(places, schedules=schedules, on_refusal=self._give_up)
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._server: Any = None

    def run(self, announce: Callable[[str], None]) -> None:
        """Serve until a signal or a problem ends it.

        ``announce`` is called once it serves, with the reason why no message can be published, or "" if one can.
        """
        from config.asgi import application, close_websockets, start_alerts, stop_alerts

        self._close_websockets = close_websockets
        self._start_alerts, self._stop_alerts = start_alerts, stop_alerts
        self._announce = announce
        host = settings.GLASSMQ_HOST.replace(":", "\\:")
        self._server = LimitedServer(
            application,
            endpoints=[f"tcp:port={settings.GLASSMQ_WEB_PORT}:interface={host}:backlog={LISTEN_BACKLOG}"],
            signal_handlers=False,
            websocket_max_message_size=WEBSOCKET_MAX_BYTES,
            websocket_max_frame_size=WEBSOCKET_MAX_BYTES,
            server_name="GlassMQ",
            verbosity=0,
            max_body=settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
            max_connections=most_connections(settings.GLASSMQ_MAX_CONNECTIONS),
        )
        reactor.callWhenRunning(lambda: asyncio.get_event_loop().call_soon(self._begin))
        self._server.run()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        self._starting = start_task(self._start(), "start the broker")

    async def _start(self) -> None:
        try:
            set_ports(self._ports)
            for child in self._children:
                await child.start()
            for port in self._ports.values():
                await port.start()
            patience_s = 0.0 if settings.GLASSMQ_ENGINE == "remote" else ENGINE_PATIENCE_S
            freeze()
            self._recorders.start()
            self._announce(await engine_state(self._ports, patience_s))
            self._start_alerts()
            self._adding = start_task(self._keep_adding(), "add brokers")
        except StoreError as error:
            self._give_up(f"{error.remark}. GLASSMQ_STORE_DIR or GLASSMQ_DATA_DIR names another place for the store.")
        except BrokerError as error:
            self._give_up(error.remark)
        except CannotServe as error:
            self._give_up(f"{error}.")
        except OSError as error:
            self._give_up(
                f"The broker cannot start: {error}. Its store is {settings.GLASSMQ_STORE_DIR} (GLASSMQ_STORE_DIR)."
            )
        except Exception:
            logger.exception("The broker cannot start.")
            self._give_up("The broker cannot start; the error above says why.")

    async def _keep_adding(self) -> None:
        """Start the brokers that join. One that cannot be started does not disturb the others."""
        while (places := await self._joined_places()) is not None:
            for place in places:
                try:
                    await self._add(place)
                except OSError:
                    logger.exception("The engine of %s cannot be started.", place.name)
            await asyncio.sleep(JOINING_S)

    async def _add(self, place: BrokerPlace) -> None:
        (port,) = make_ports(settings, [place]).values()
        for child in children([place], schedules=False, on_refusal=logger.error):
            self._children.append(child)
            await child.start()
        self._ports[place.name] = port
        await port.start()
        self._recorders.add(place.name, port)
        set_ports(self._ports)
        logger.warning("%s joined the cluster and is followed.", place.name)

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        self._stop_once()

    def _on_signal(self) -> None:
        if self._stopping is not None:
            for child in self._children:
                child.kill()
            os._exit(1)
        self._stop_once()
        with suppress(OSError):  # nobody may read the terminal any more
            sys.stderr.write(
                "Stopping: answering held pulls and flushing the store. A second Ctrl-C ends it at once.\n"
            )

    def _stop_once(self) -> None:
        if self._stopping is None:
            self._stopping = start_task(self._stop(), "stop the broker")

    async def _stop(self) -> None:
        """Stop all parts in order. Each step is tried, even if the previous one failed."""
        if self._starting is not None and not self._starting.done() and not self.problem:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await end_task(self._adding)
        self._stop_listening()
        await self._recorders.stop()
        if not self.problem:
            await self._stop_alerts()
        ending = [start_task(child.stop(CHILD_GRACE_S), f"stop {child.name}") for child in self._children]
        if not self.problem:  # otherwise it was never started
            try:
                async with asyncio.timeout(ENGINE_GRACE_S):
                    await asyncio.gather(*(port.stop() for port in self._ports.values()))
            except Exception:
                logger.exception("The engine could not be stopped cleanly.")
        await self._close_websockets()
        await self._last_answers()
        await asyncio.gather(*ending, return_exceptions=True)
        reactor.stop()

    def _stop_listening(self) -> None:
        for listener in self._server.listeners:
            listener.addCallback(lambda port: port.stopListening())

    async def _last_answers(self) -> None:
        """Wait until no HTTP request is unanswered, and until WebSockets have been told that they are closed."""
        answering = [
            details["application_instance"]
            for protocol, details in self._server.connections.items()
            if isinstance(protocol, WebRequest) and "application_instance" in details
        ]
        if answering:
            await asyncio.wait(answering, timeout=LAST_ANSWERS_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ANSWERS_S):
                while self._server.open_websockets():  # noqa: ASYNC110  # for a moment, at the very end
                    await asyncio.sleep(LOOK_AGAIN_S)


async def engine_state(ports: Mapping[str, EnginePort], patience_s: float) -> str:
    """Why no message can be published now, in words; empty if one can. Waits ``patience_s`` for engines to answer."""
    give_up_at = asyncio.get_running_loop().time() + patience_s
    states = {name: await _state_of(port, give_up_at) for name, port in ports.items()}
    return "; ".join(f"{name} is {state}" if len(ports) > 1 else state for name, state in states.items() if state)


async def _state_of(port: EnginePort, give_up_at: float) -> str:
    while True:
        try:
            view = await port.call(commands.GetBroker(), timeout_ms=FIRST_ANSWER_MS)
            break
        except BrokerError as error:
            if asyncio.get_running_loop().time() >= give_up_at:
                return f"not reachable at the moment: {error.remark}"
            await asyncio.sleep(PROBE_PAUSE_S)
    if isinstance(view, commands.BrokerView) and view.read_only:
        return "read-only: the store was written by another broker; set GLASSMQ_STORE_ADOPT=1 to take it over"
    return ""


def places_of_brokers(*, clustered: bool) -> list[BrokerPlace]:
    """The places of this command's brokers. CommandError if a cluster is not possible."""
    if not clustered:
        return [lone_broker(settings)]
    if settings.GLASSMQ_ENGINE != "child":
        raise CommandError(
            f"A cluster's engines are child processes; GLASSMQ_ENGINE={settings.GLASSMQ_ENGINE} contradicts "
            "that. Behind Redis, start an engine for each broker and name them all in GLASSMQ_BROKER_NAMES."
        )
    try:
        return cluster(settings, settings.GLASSMQ_BROKERS)
    except ValueError as error:
        raise CommandError(f"{error}: choose a lower GLASSMQ_BROKER_PORT.") from error


def children(
    places: Sequence[BrokerPlace], *, schedules: bool, on_refusal: Callable[[str], None]
) -> list[ChildProcess]:
    """The child processes: engines, a cluster's name server, and Celery's worker and beat."""
    wanted = []
    if len(places) > 1 and settings.GLASSMQ_NAMESRV_PORT and not any(place.attached for place in places):
        wanted.append(
            ChildProcess(
                "The name server",
                ["manage.py", "namesrv"],
                on_refusal=partial(on_refusal, "The name server cannot start; the sentence above says why."),
            )
        )
    for place in places if settings.GLASSMQ_ENGINE == "child" else ():
        name = f"The engine of {place.name}" if len(places) > 1 else "The engine"
        store = place.environment.get("GLASSMQ_STORE_DIR", settings.GLASSMQ_STORE_DIR)
        wanted.append(
            ChildProcess(
                name,
                ["manage.py", "runworker", "broker-engine", "--socket", str(place.socket)],
                environment=place.environment,
                on_refusal=partial(
                    on_refusal,
                    f"{name} cannot start; the sentence above says why. Its store is {store} (GLASSMQ_STORE_DIR).",
                ),
            )
        )
    if schedules:
        celery = ["-m", "celery", "--app", "config.celery", "--quiet"]
        wanted.append(
            ChildProcess(
                "The report worker",
                [
                    *celery,
                    "worker",
                    "--pool",
                    "solo",
                    "--loglevel",
                    "WARNING",
                    "--without-gossip",
                    "--without-mingle",
                    "--without-heartbeat",
                ],
                environment={"GLASSMQ_ATTACH": settings.GLASSMQ_ATTACH},  # it may be an argument of manage.py attach
            )
        )
        wanted.append(ChildProcess("The scheduler", [*celery, "beat", "--loglevel", "WARNING", "--pidfile="]))
    return wanted


def check_port_is_free(host: str, port: int, variable: str) -> None:
    """Raise CommandError if ``port`` is taken; Daphne would only log that."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandError(
                f"Port {port} of {host} is taken, by another GlassMQ perhaps: stop that, or choose another port "
                f"with {variable}, as in {variable}={port + 1}."
            ) from error
        raise CommandError(
            f"Nothing can listen on {host}:{port} ({error.strerror}): see GLASSMQ_HOST and {variable}."
        ) from error


def check_folder_is_free(path: Path, patience_s: float) -> None:
    """Raise CommandError if another broker's engine still listens at ``path`` after ``patience_s``.

    Without this check the web process would connect to that engine, and report the broker as started before its own
    engine was refused.
    """
    for pause_s in [PROBE_PAUSE_S] * round(patience_s / PROBE_PAUSE_S):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(os.fspath(path))
            except OSError:
                return
        time.sleep(pause_s)
    raise CommandError(
        f"Another broker runs in the data folder {path.parent}: stop that one, or choose another folder with "
        "GLASSMQ_DATA_DIR."
    )


def banner(places: Sequence[BrokerPlace], state: str) -> str:
    """The text that is printed once the broker runs. ``state`` is the result of ``engine_state``."""
    site = f"http://{address(settings.GLASSMQ_HOST, settings.GLASSMQ_WEB_PORT)}"
    port = "" if settings.GLASSMQ_WEB_PORT == DEFAULT_WEB_PORT else f"GLASSMQ_WEB_PORT={settings.GLASSMQ_WEB_PORT} "
    attached = [place for place in places if place.attached]
    store = settings.GLASSMQ_DATA_DIR / "attached" if attached else settings.GLASSMQ_STORE_DIR
    has_demo = (
        not state and not attached and (settings.BASE_DIR / "Makefile").is_file()
    )  # an installed glassmq has no Makefile
    demo = f"  To see something move:  {port}make demo   (in another terminal)\n" if has_demo else ""
    return "\n".join(
        [
            "",
            f"GlassMQ {settings.GLASSMQ_VERSION} is up: {', '.join(place.name for place in places)}",
            "",
            f"  dashboard   {site}/",
            f"  API         {site}/api/docs",
            *rocketmq_lines(places),
            f"  store       {store}",
            f"  engine      {ENGINE_PLACES[settings.GLASSMQ_ENGINE]}{state and '; '}{state}",
            "",
            f"{demo}  To stop:                Ctrl-C",
            "",
        ]
    )


def rocketmq_lines(places: Sequence[BrokerPlace]) -> list[str]:
    """The addresses for RocketMQ's clients, if this command starts the engines."""
    is_attached = any(place.attached for place in places)
    if settings.GLASSMQ_ENGINE == "remote" or not settings.GLASSMQ_BROKER_PORT or is_attached:
        return []
    ports = [place.environment.get("GLASSMQ_BROKER_PORT", settings.GLASSMQ_BROKER_PORT) for place in places]
    lines = [f"  RocketMQ    {', '.join(address(settings.GLASSMQ_BROKER_HOST, port) for port in ports)}"]
    if settings.GLASSMQ_NAMESRV_PORT:
        lines.append(f"  name server {address(settings.GLASSMQ_BROKER_HOST, settings.GLASSMQ_NAMESRV_PORT)}")
    return lines


def address(host: str, port: int | str) -> str:
    """``host:port`` as it must be written on this machine."""
    if host in {"0.0.0.0", "::"}:
        host = "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

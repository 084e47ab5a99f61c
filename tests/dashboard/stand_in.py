"""Serves the pages over a simulated broker: ``python tests/dashboard/stand_in.py --port 8123 --scenario busy``.

The real templates, views and static files, with the parts of the API that the pages use. ``POST /stand-in`` with
``{"scenario": "..."}`` changes the scenario. idle, working, attached (a copy of another broker), busy (1,000 holds),
broken (groups with problems) and hostile restart the broker; refusing, failing, away, gap, silent, joined, newcomer (a
broker), down and up change the running scenario.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import django  # noqa: E402
from django.conf import settings  # noqa: E402

settings.configure(
    GLASSMQ_API_TOKEN="",
    GLASSMQ_ATTACH="",
    SECRET_KEY="only for the stand-in",
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF="stand_in_urls",
    INSTALLED_APPS=["django.contrib.staticfiles", "dashboard"],
    STATIC_URL="static/",
    STATICFILES_DIRS=[ROOT / "static"],
    LOGGING_CONFIG=None,
    LANGUAGES=[("en", "English"), ("zh-hans", "简体中文")],
    LANGUAGE_CODE="en",
    LANGUAGE_COOKIE_NAME="glassmq_language",
    LOCALE_PATHS=[ROOT / "dashboard" / "locale"],
    MIDDLEWARE=[
        "stand_in_headers.middleware",
        "django.middleware.locale.LocaleMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "DIRS": [ROOT / "templates"],
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
        }
    ],
)
django.setup()

import fake_groups  # noqa: E402
import fake_reports  # noqa: E402
from daphne.server import Server  # noqa: E402
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402
from fake_broker import FakeBroker, Hold  # noqa: E402


def attached_view() -> dict[str, Any]:
    """How a copy is doing whose master stored a message a second ago."""
    now_ms = int(time.time() * 1000)
    offsets = {"min": "0", "received": "9000", "confirmed": "9000", "unindexed": "0", "lag_bytes": "0"}
    times = {name: str(now_ms - 1000) for name in ("since_ms", "min_ms", "confirmed_ms", "tables_ms", "members_ms")}
    return {
        "broker": "broker-a",
        "cluster": "C",
        "source": "10.0.0.2:10911",
        "state": "following",
        "lag_ms": "0",
        "bytes_per_second": "100",
        "problem": "",
        **offsets,
        **times,
    }


def running_info(query: dict[str, list[str]]) -> dict[str, Any]:
    """What two members answer of whom one does not consume; with ``client``, that one alone."""
    now_ms = int(time.time() * 1000)
    blocked = {"topic": "orders", "queue_id": 0, "offset": "912", "cached": 205, "locked": False}
    idle = {"topic": "orders", "queue_id": 1, "offset": "912", "cached": 0, "locked": True}
    clients: list[dict[str, Any]] = [
        {
            "client_id": "10.0.4.21@731",
            "problem": "",
            "properties": {
                "PROP_CLIENT_VERSION": "V5_4_0",
                "PROP_CONSUMER_START_TIMESTAMP": str(now_ms - 7_200_000),
                "PROP_THREADPOOL_CORE_SIZE": "20",
            },
            "queues": [
                blocked | {"pulled_ms": str(now_ms - 523_000), "consumed_ms": str(now_ms - 522_000)},
                idle | {"pulled_ms": str(now_ms - 3_000), "consumed_ms": None},
            ],
            "stacks": None,
        },
        {"client_id": "10.0.4.22@90", "problem": "10.0.0.2:10911 answered 207: it did not answer within 5 s"}
        | {"properties": {}, "queues": [], "stacks": None},
    ]
    wanted = query.get("client")
    if wanted:
        clients = [client for client in clients if [client["client_id"]] == wanted]
        stack = "\n".join(
            f"  com.example.orders.OrderListener.step{depth}(OrderListener.java:{depth})" for depth in range(40)
        )
        clients = [client | {"stacks": f"TID: 57 STATE: WAITING\n{stack}\n"} for client in clients]
    queues = [{"topic": "orders", "queue_id": 0, "offset": "707", "pull_offset": "912", "max_offset": "912"}]
    broker = {"broker": "broker-a", "group": "billing", "source": "10.0.0.2:10911", "asked_ms": str(now_ms)}
    return {"brokers": [broker | {"members": 2, "clients": clients, "queues": queues, "queues_total": 1}]}


HOSTILE_NAME = "<img src=x onerror=\"document.title='owned'\">\u202egpj"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202egpj"


HELD_FOR_A_PAGE_MS = 600_000
"""How long a pull of a page is held, whatever it asks for: no test is so slow that the hold ends by itself."""


class Scenarios:
    """The scenarios of the simulated broker."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.groups = fake_groups.empty()
        self.reports, self.lake = fake_reports.empty()
        self.down = False
        self.past: dict[str, Any] = {}
        self.boards: list[dict[str, int]] = []
        self.brokers: list[dict[str, Any]] = []
        self.playing: set[asyncio.Task[None]] = set()

    def begin(self, name: str) -> None:
        broker = self.broker
        if name in ("idle", "working", "busy", "broken", "hostile", "cluster", "attached"):
            for task in self.playing:
                task.cancel()
            self.playing.clear()
            broker.reset()
            self.down = False
            settings.GLASSMQ_ATTACH = ""
            self.reports, self.lake = fake_reports.empty()
            self.brokers = [{"broker": "broker-a", "available": True}]
            getattr(self, name)()
            self.keep_past_board()
            broker.client_events = self.groups.events
            broker.seq += 100  # after all events so far
            broker.told_seq = broker.seq
            broker._forget_changes()
            broker.say(broker.snapshot())
        elif name == "refusing":
            broker.problem = "The disk of the store is over 95 % full, so nothing more is stored until there is room."
            broker.seq += 1
        elif name == "failing":
            self.groups.failing = "The broker's engine did not answer within 10000 ms."
        elif name == "joined":
            broker.happen(
                {
                    "type": "group_member_joined",
                    "group": "billing",
                    "client_id": "late-comer",
                    "protocol": "remoting",
                    "remote": "10.0.4.99:1",
                    "members": 5,
                }
            )
        elif name == "newcomer":
            self.brokers.append({"broker": f"broker-{'abc'[len(self.brokers)]}", "available": True})
        elif name == "away":
            broker.quiet = True
            broker.say({"type": "lost", "reason": "the broker's engine is restarting"})
        elif name == "gap":
            broker.tell(gap=7)
        elif name in ("silent", "up"):
            broker.quiet = name == "silent"
            self.groups.failing = ""
            self.down = False
        elif name == "down":
            self.down = True
            for watcher in broker.watchers:
                watcher.put_nowait(None)

    def keep_past_board(self) -> None:
        """The board of five minutes ago, without holds; the idle broker has none."""
        self.past = self.broker.snapshot() | {"holds": [], "holds_total": 0}
        self.past["wall_ms"] -= 300_000
        self.boards = [{"at_ms": self.past["wall_ms"], "holds_total": 0}] if self.playing else []

    def idle(self) -> None:
        self.groups = fake_groups.empty()

    def cluster(self) -> None:
        """Three brokers; one of them is unavailable."""
        self.working()
        self.brokers = [{"broker": f"broker-{letter}", "available": letter != "c"} for letter in "abc"]

    def broken(self) -> None:
        self.groups = fake_groups.broken()
        self.reports, self.lake = fake_reports.broken()

    def hostile(self) -> None:
        self.groups = fake_groups.hostile(HOSTILE_NAME)
        self.broker.create_topic("hostile", 1)
        self.play(self.consumer("hostile", 0, HOSTILE, HOSTILE, "websocket", HOSTILE, first_wait=600_000))
        self.broker.problem = HOSTILE

    def attached(self) -> None:
        """A copy of a broker of another cluster."""
        settings.GLASSMQ_ATTACH = "10.0.0.1:9876"
        self.working()

    def working(self) -> None:
        """A few consumers without problems."""
        self.groups = fake_groups.busy()
        self.broker.create_topic("debian-packages", 4, begin=18_200)
        self.broker.create_topic("orders", 2, begin=912)
        self.broker.create_topic("RMQ_SYS_TRACE_TOPIC", 1)
        self.broker.create_topic("%RETRY%billing", 1)
        for queue_id in range(4):
            self.play(self.consumer("debian-packages", queue_id, "mirror-sync", "10.0.4.17@8812", "remoting", "*"))
        for queue_id in range(2):
            self.play(self.consumer("orders", queue_id, "billing", "10.0.4.21@731", "remoting", "TagA || TagB"))
            self.play(self.consumer("orders", queue_id, "audit", "audit-7f3c", "http", "*"))
        self.play(self.producer(["debian-packages"], 0.35))
        self.play(self.producer(["orders"], 1.7, tags=("TagA", "TagC", "TagC")))

    def busy(self) -> None:
        """1,000 holds on 40 queues, and a constant flow of messages."""
        self.groups = fake_groups.busy()
        topics = [f"shipments-{name}" for name in ("eu", "us", "apac", "returns", "priority")]
        for number, topic in enumerate(topics):
            self.broker.create_topic(topic, 8, begin=1_204_000 + 77_777 * number)
        for number in range(1000):
            topic = topics[number % 5]
            self.play(
                self.consumer(
                    topic,
                    number // 5 % 8,
                    f"group-{number % 13}",
                    f"10.0.{number // 250}.{number % 250}@{4000 + number}",
                    ("remoting", "websocket", "http")[number % 3],
                    "*" if number % 4 else "TagA",
                )
            )
        self.play(self.producer(topics, 0.1, tags=("TagA", "TagB", "")))

    def play(self, part: Any) -> None:
        self.playing.add(asyncio.get_running_loop().create_task(part))

    async def consumer(
        self,
        topic: str,
        queue_id: int,
        group: str,
        client: str,
        protocol: str,
        tags: str,
        *,
        first_wait: int | None = None,
    ) -> None:
        """Pulls again and again. Without ``first_wait``, a chance decides how long the first pull is held."""
        offset = self.broker.queues[topic, queue_id].max_offset
        wait_ms = random.randint(1_000, 15_000) if first_wait is None else first_wait
        while True:
            hold, answer = self.broker.pull(
                topic,
                queue_id,
                offset,
                wait_ms=wait_ms,
                group=group,
                client_id=client,
                protocol=protocol,
                expression=tags,
            )
            answer = await hold.ended if hold else answer
            assert answer is not None
            offset = int(answer["next_offset"])
            wait_ms = 15_000
            await asyncio.sleep(0.01)

    async def producer(self, topics: list[str], pause: float, tags: tuple[str, ...] = ("",)) -> None:
        while True:
            await asyncio.sleep(random.uniform(0.3, 1.7) * pause)
            self.broker.publish(random.choice(topics), "a parcel moved on", tag=random.choice(tags))


class StandIn:
    """The ASGI application: Django's pages, and the part of the API that the pages use."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.scenarios = Scenarios(self.broker)
        self.pages = ASGIStaticFilesHandler(get_asgi_application())

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        path = scope["path"]
        if scope["type"] == "websocket":
            asked = parse_qs(scope["query_string"].decode()).get("broker", ["broker-a"])[0]
            await self.websocket(path, asked, receive, send)
        elif path == "/stand-in":
            self.scenarios.begin(json.loads(await read_body(receive))["scenario"])
            await answer(send, 200, {})
        elif path == "/readyz":
            await answer(send, 200, {"status": "ok"})
        elif path.startswith("/api/v1/"):
            body = await read_body(receive)
            parts = [unquote(part) for part in path.removeprefix("/api/v1/").split("/")]
            if parts[-1] == "running-info":
                await answer(send, 200, running_info(parse_qs(scope["query_string"].decode())))
                return
            await answer(send, *self.api(scope["method"], parts, json.loads(body) if body else None))
        else:
            await self.pages(scope, receive, send)

    def api(self, method: str, parts: list[str], body: Any) -> tuple[int, dict[str, Any]]:
        broker = self.broker
        match method, parts:
            case "GET", ["brokers"]:
                return 200, {"brokers": self.scenarios.brokers}
            case "GET", ["attached"]:
                return 200, {"brokers": [attached_view()] if settings.GLASSMQ_ATTACH else []}
            case "GET", ["broker"]:
                return 200, {
                    "broker": "broker-a",
                    "epoch": broker.epoch,
                    "started_at_ms": str(broker.started_at_ms),
                    "version": "0.1.0",
                    "store_path": "data/store",
                }
            case "GET", ["reports"]:
                return 200, self.scenarios.reports
            case "GET", ["reports", _, "runs"]:
                return 200, {"runs": fake_reports.earlier()}
            case "GET", ["lake"]:
                return 200, self.scenarios.lake
            case "GET", ["groups" | "clients", *_] if self.scenarios.groups.failing:
                return problem(504, self.scenarios.groups.failing, "SYSTEM_ERROR")
            case "GET", ["groups"]:
                return 200, self.scenarios.groups.groups(
                    [line["broker"] for line in self.scenarios.brokers if line["available"]]
                )
            case "GET", ["clients"]:
                return 200, self.scenarios.groups.clients()
            case "GET", ["groups", group, *verdicts]:
                found = self.scenarios.groups.details.get(group)
                return (
                    (200, fake_groups.verdicts(found) if verdicts else found)
                    if found
                    else problem(404, f"the group {group} is not known here", "SUBSCRIPTION_GROUP_NOT_EXIST")
                )
            case "PATCH", ["broker", "config"]:
                return self.change_config(body)
            case "GET", ["history", "boards"]:
                return 200, {"broker": "broker-a", "boards": self.scenarios.boards}
            case "GET", ["history", "boards", _]:
                return 200, self.scenarios.past
            case "GET", ["history", "lags"]:
                return 200, {"from_ms": 0, "groups": []}
            case "GET", ["history"]:
                return 200, self.history()
            case "GET", ["topics"]:
                return 200, {"seq": "1", "topics": [{"topic": name} for name in {name for name, _ in broker.queues}]}
            case "PUT", ["topics", topic]:
                broker.create_topic(topic, body["queues"])
                return 200, {"topic": topic}
            case "GET", ["topics", topic, "queues"]:
                queues = [{**queue.view(), "max_offset": str(queue.max_offset)} for queue in broker.topic_queues(topic)]
                return (
                    (200, {"queues": queues, "seq": "1"})
                    if queues
                    else problem(404, f"There is no topic {topic}.", "TOPIC_NOT_EXIST")
                )
            case "GET", ["topics", topic, "groups"] if broker.topic_queues(topic):
                return 200, {"topic": topic, "groups": [], "total": 0}
            case "POST", ["topics", topic, "messages"]:
                if broker.problem:
                    return problem(503, broker.problem, "SERVICE_NOT_AVAILABLE")
                stored = broker.publish(topic, body["body"], tag=body.get("tag", ""), keys=tuple(body.get("keys", ())))
                return 201, {"messages": [{**stored, "queue_offset": str(stored["queue_offset"])}]}
        return problem(404, "There is nothing at this address.", "")

    def history(self) -> dict[str, Any]:
        """Half an hour of an hour, with a gap. The idle broker has none."""
        now_s = self.broker.snapshot()["wall_ms"] // 10_000 * 10 if self.scenarios.playing else 0
        values = [None if i < 180 or 240 < i < 260 else 20 + i % 37 for i in range(360)]
        names = ("stored_tps", "delivered_tps", "woken_tps", "holds", "wake_p99_us", "lag")
        return {
            "from_ms": (now_s - 3600) * 1000 if now_s else 0,
            "step_ms": 10_000,
            "kept_from_ms": (now_s - 1800) * 1000 if now_s else None,
            "problem": "",
            "left_out": 0,
            "metrics": [{"name": name, "values": values if now_s else [None] * 360} for name in names],
        }

    def change_config(self, body: Any) -> tuple[int, dict[str, Any]]:
        if self.broker.refuse_config:
            return problem(403, "This token may not change the configuration.", "NO_PERMISSION")
        self.broker.long_polling_enable = body["longPollingEnable"]
        self.broker.seq += 1
        return 200, {}

    # --- WebSockets ----------------------------------------------------------------------------------------------

    async def websocket(self, path: str, asked: str, receive: Any, send: Any) -> None:
        await receive()
        if self.scenarios.down:
            await send({"type": "websocket.close"})
            return
        if path == "/ws/v1/events":
            await send({"type": "websocket.accept"})
            await (self.events(receive, send) if asked == "broker-a" else self.other_broker(asked, receive, send))
        else:
            await send({"type": "websocket.accept", "subprotocol": "rmq.v1.json"})
            await PlayedConsumer(self.broker, receive, send).run()

    async def events(self, receive: Any, send: Any) -> None:
        frames: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.broker.watchers.add(frames)
        if not self.broker.quiet:
            frames.put_nowait(self.broker.snapshot())
        sender = asyncio.create_task(self.send_frames(frames, send))
        try:
            while (event := await receive())["type"] != "websocket.disconnect":
                if json.loads(event["text"])["type"] == "snapshot" and not self.broker.quiet:
                    frames.put_nowait(self.broker.snapshot())
        finally:
            self.broker.watchers.discard(frames)
            sender.cancel()

    async def other_broker(self, name: str, receive: Any, send: Any) -> None:
        """The other available broker sends its past events, and no new ones."""
        line = next(line for line in self.scenarios.brokers if line["broker"] == name)
        frame = {"type": "lost", "reason": f"{name} is away"}
        if line["available"]:
            frame = self.broker.snapshot() | {
                "broker": name,
                "client_events": [
                    {
                        "type": "group_member_joined",
                        "group": "billing",
                        "client_id": f"member-at-{name}",
                        "seq": 1,
                        "wall_ms": self.broker.snapshot()["wall_ms"],
                        "protocol": "remoting",
                        "remote": "",
                        "members": 1,
                    }
                ],
            }
        await send({"type": "websocket.send", "text": json.dumps(frame)})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    @staticmethod
    async def send_frames(frames: "asyncio.Queue[dict[str, Any] | None]", send: Any) -> None:
        while (frame := await frames.get()) is not None:
            await send({"type": "websocket.send", "text": json.dumps(frame)})
        await send({"type": "websocket.close"})

    async def run(self, scenario: str) -> None:
        self.scenarios.begin(scenario)
        while True:
            await asyncio.sleep(0.1)
            self.broker.tick()
            self.broker.tell()


class PlayedConsumer:
    """One page's /ws/v1/consumer."""

    def __init__(self, broker: FakeBroker, receive: Any, send: Any) -> None:
        self.broker, self.receive, self._send = broker, receive, send
        self.client_id = ""
        self.holds: set[Hold] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    async def send(self, **frame: Any) -> None:
        await self._send({"type": "websocket.send", "text": json.dumps(frame)})

    async def run(self) -> None:
        while (event := await self.receive())["type"] != "websocket.disconnect":
            frame = json.loads(event["text"])
            if frame["type"] == "hello":
                self.client_id = frame["client_id"]
                await self.send(type="welcome", limits={})
            elif frame["type"] == "pull":
                await self.pull(frame)
        for task in self.tasks:
            task.cancel()
        for hold in self.holds:
            self.broker.end(hold, "channel_gone")

    async def pull(self, frame: dict[str, Any]) -> None:
        hold, answered = self.broker.pull(
            frame["topic"],
            frame["queue_id"],
            frame["offset"],
            wait_ms=HELD_FOR_A_PAGE_MS,
            group=frame["group"],
            client_id=self.client_id,
            expression=frame["filter"],
        )
        if hold is None:
            await self.send(type="pulled", id=frame["id"], **(answered or {}))
            return
        self.holds.add(hold)
        await self.send(type="held", id=frame["id"], hold_id=hold.id, deadline_ms=hold.deadline_ms)
        self.tasks.add(asyncio.create_task(self.answer(frame["id"], hold)))

    async def answer(self, pull_id: str, hold: Hold) -> None:
        result = await hold.ended
        self.holds.discard(hold)
        await self.send(type="woken", id=pull_id, cause=result["hold"]["wake_cause"], held_ms=result["hold"]["held_ms"])
        await self.send(type="pulled", id=pull_id, **result)


def problem(status: int, detail: str, code: str) -> tuple[int, dict[str, Any]]:
    return status, {"type": "about:blank", "title": detail, "status": status, "detail": detail, "code": code}


async def read_body(receive: Any) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            return body


async def answer(send: Any, status: int, body: dict[str, Any]) -> None:
    kind = b"application/json" if status < 400 else b"application/problem+json"
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8123, help="0 takes a free one; it is printed")
    parser.add_argument("--scenario", default="working")
    arguments = parser.parse_args()
    application = StandIn()
    server = Server(
        application,
        endpoints=[f"tcp:port={arguments.port}:interface=127.0.0.1"],
        ready_callable=lambda: print(f"listening on {server.listening_addresses[0][1]}", flush=True),
    )
    from twisted.internet import reactor

    running: list[asyncio.Future[None]] = []
    reactor.callWhenRunning(
        lambda: running.append(
            asyncio.ensure_future(application.run(arguments.scenario), loop=reactor._asyncioEventloop)
        )
    )
    server.run()


if __name__ == "__main__":
    main()

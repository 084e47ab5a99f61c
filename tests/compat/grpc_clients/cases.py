"""What the stock Python gRPC client does through Apache's proxy: each case holds for RocketMQ itself.

It runs in an environment of its own, which has rocketmq-python-client. Each case uses the topic and the group of
``resources_of``. The caller creates both before the proxy starts, because the proxy remembers for 20 s that a topic
does not exist.

    cases.py resources                    prints {"topic": .., "type": .., "group": .., "ordered": .., "retries": ..}
                                          for each case
    cases.py run ENDPOINTS WEB [WORD..]   prints {"name": .., "ok": .., "seconds": .., "detail": ..} for each case, or
                                          for those whose name has one of the words. WEB: GlassMQ's API, - for RocketMQ
    cases.py outage ENDPOINTS             prints {} when a producer and a push consumer run. Then restart the broker,
                                          and write a line: it prints {"sent": .., "failed": ..}, numbers of messages,
                                          when it can send again and all that it sent have come
"""

import contextlib
import json
import os
import sys
import threading
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

PATIENCE_S = 90
"""What comes late on a busy machine still comes."""
INVISIBLE_S = 10
"""The shortest invisible time of a receive that the proxy accepts."""
AWAIT_S = 5
"""How long a receive is held; the proxy holds none for less."""
REQUEST_S = 15
PARALLEL = 6
INVALID_RECEIPT_HANDLE = 40013
OUTAGE = "grpc.push.outage"
NO_ROUTE = "failed to fetch topic"
NO_SETTINGS = '"settings" is null'

T = TypeVar("T")
CASES: dict[str, Callable[["World"], None]] = {}


def case(name: str) -> Callable[[Callable[["World"], None]], Callable[["World"], None]]:
    """Add a case of this name."""

    def add(function: Callable[["World"], None]) -> Callable[["World"], None]:
        CASES[name] = function
        return function

    return add


def resources_of(name: str) -> dict[str, Any]:
    """The topic and the group of a case, which the caller creates."""
    topic, kind = name.replace(".", "-"), name.split(".")[1]
    return {
        "topic": topic,
        "type": kind.upper() if kind in ("fifo", "delay", "transaction") else "NORMAL",
        "group": f"{topic}-group",
        "ordered": kind == "fifo",
        "retries": 1 if "dead_letter" in name else 16,
    }


def wait_for(what: str, question: Callable[[], T]) -> T:
    """What the question returns as soon as that is something; AssertionError after ``PATIENCE_S``."""
    until = time.monotonic() + PATIENCE_S
    while not (answer := question()):
        assert time.monotonic() < until, f"not seen: {what}"
        time.sleep(0.05)
    return answer


class Listener(MessageListener):
    """Notes the messages that a push consumer gives to it. ``answer`` says whether one was consumed."""

    def __init__(self, answer: Callable[[Message], bool] = lambda message: True) -> None:
        self.messages: list[Message] = []
        self._answer = answer
        self._lock = threading.Lock()

    def consume(self, message: Message) -> ConsumeResult:
        with self._lock:
            self.messages.append(message)
        return ConsumeResult.SUCCESS if self._answer(message) else ConsumeResult.FAILURE

    def bodies(self) -> list[str]:
        with self._lock:
            return [message.body.decode() for message in self.messages]


class Checker(TransactionChecker):
    """Commits what the broker asks for, and notes it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, message: Message) -> Any:
        self.asked.append(message.body.decode())
        return TransactionResolution.COMMIT


class World:
    """The clients of one case, which end with it."""

    def __init__(self, endpoints: str, web: str, name: str) -> None:
        self.web = web
        resources = resources_of(name)
        self.topic, self.group = resources["topic"], resources["group"]
        self._conf = ClientConfiguration(endpoints, Credentials(), request_timeout=REQUEST_S)
        self._started = contextlib.ExitStack()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *error: object) -> None:
        self._started.close()

    def _start(self, client: Any) -> Any:
        client.startup()
        self._started.callback(client.shutdown)
        return client

    def producer(self, checker: Checker | None = None) -> Any:
        return self._start(Producer(self._conf, [self.topic], checker))

    def simple(self, expression: FilterExpression | None = None, await_s: int = AWAIT_S) -> Any:
        return self._simple(self.group, self.topic, expression or FilterExpression(), await_s)

    def dead_letters(self) -> Any:
        """A consumer of another group. For the same one, the proxy would make dead letters of them again."""
        return self._simple(f"{self.group}-dead", f"%DLQ%{self.group}", FilterExpression(), AWAIT_S)

    def _simple(self, group: str, topic: str, expression: FilterExpression, await_s: int) -> Any:
        return self._start(SimpleConsumer(self._conf, group, {topic: expression}, await_duration=await_s))

    def push(self, listener: Listener) -> Any:
        return self._start(PushConsumer(self._conf, self.group, listener, {self.topic: FilterExpression()}))

    def message(self, body: str, **fields: Any) -> Message:
        message = Message()
        message.topic = self.topic
        message.body = body.encode()
        for name, value in fields.items():
            setattr(message, name, value)
        return message

    def send(self, producer: Any, *bodies: str, **fields: Any) -> list[Any]:
        return [producer.send(self.message(body, **fields)) for body in bodies]

    def receive(self, consumer: Any, wanted: int, invisible_s: int = 60) -> list[Message]:
        """So many messages; none is acknowledged."""
        got: list[Message] = []
        wait_for(f"{wanted} messages", lambda: got.extend(take(consumer, 32, invisible_s)) or len(got) >= wanted)
        assert len(got) == wanted, [message.body for message in got]
        return got

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(self.web + path, timeout=30) as answer:
            return json.load(answer)


def take(consumer: Any, n: int, invisible_s: int = 60) -> list[Message]:
    """The messages of one receive. The proxy refuses it until the client's settings have come, which are still on their
    way when the client has started."""

    def answer() -> list[list[Message]]:
        try:
            return [consumer.receive(n, invisible_s)]
        except Exception as error:
            if NO_SETTINGS not in str(error):
                raise
            return []

    return wait_for("an answer to the receive", answer)[0]


def bodies_of(messages: list[Message]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


def refusal(action: Callable[[], object]) -> Any:
    """The exception that the action ends with; AssertionError if it ends with none."""
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("this was not refused")


@case("grpc.simple.properties")
def properties(world: World) -> None:
    """Tag, keys and properties of a message arrive. It comes once, and not again after its acknowledgement."""
    consumer, producer = world.simple(), world.producer()
    message = world.message("text €", tag="blue")
    message.keys = "order-7"
    message.add_property("kind", "a b")
    sent = producer.send(message)
    (got,) = world.receive(consumer, 1, INVISIBLE_S)
    assert (got.body.decode(), got.tag, set(got.keys)) == ("text €", "blue", {"order-7"})
    assert (got.properties["kind"], got.message_id, got.delivery_attempt) == ("a b", sent.message_id, 1)
    assert got.message_type == 1 and not got.corrupted
    consumer.ack(got)
    until = time.monotonic() + INVISIBLE_S + 5
    while time.monotonic() < until:
        assert take(consumer, 32, INVISIBLE_S) == []


@case("grpc.simple.comes_back")
def comes_back(world: World) -> None:
    """A message without an acknowledgement comes again when its invisible time is over. The old handle is refused."""
    consumer, producer = world.simple(), world.producer()
    world.send(producer, "a")
    (first,) = world.receive(consumer, 1, INVISIBLE_S)
    (second,) = world.receive(consumer, 1)
    assert (first.delivery_attempt, second.delivery_attempt) == (1, 2)
    assert first.message_id == second.message_id
    assert refusal(lambda: consumer.ack(first)).code == INVALID_RECEIPT_HANDLE
    consumer.ack(second)


@case("grpc.simple.change_invisible_duration")
def change_invisible_duration(world: World) -> None:
    """A message comes again when its changed invisible time is over."""
    consumer, producer = world.simple(), world.producer()
    world.send(producer, "a")
    (first,) = world.receive(consumer, 1, 600)
    old = first.receipt_handle
    consumer.change_invisible_duration(first, 1)
    assert first.receipt_handle != old
    (second,) = world.receive(consumer, 1)
    assert (second.message_id, second.delivery_attempt) == (first.message_id, 2)
    consumer.ack(second)


@case("grpc.simple.tags")
def tags(world: World) -> None:
    consumer, producer = world.simple(FilterExpression("red || blue")), world.producer()
    for tag in ("red", "green", "blue"):
        world.send(producer, tag, tag=tag)
    got = world.receive(consumer, 2)
    assert bodies_of(got) == ["blue", "red"]


@case("grpc.simple.sql92")
def sql92(world: World) -> None:
    consumer, producer = world.simple(FilterExpression("size > 5 AND TAGS = 'a'", FilterType.SQL)), world.producer()
    for size, tag in ((3, "a"), (6, "a"), (7, "b"), (8, "a")):
        message = world.message(f"{size}{tag}", tag=tag)
        message.add_property("size", str(size))
        producer.send(message)
    assert bodies_of(world.receive(consumer, 2)) == ["6a", "8a"]


@case("grpc.simple.held")
def held(world: World) -> None:
    """A receive that waits is answered by an arrival. GlassMQ shows it meanwhile, and afterwards why it ended."""
    consumer, producer = world.simple(await_s=20), world.producer()
    with ThreadPoolExecutor() as threads:
        receiving = threads.submit(world.receive, consumer, 1)
        if world.web:
            path = f"/api/v1/holds?topic={world.topic}&group={world.group}"
            (hold,) = wait_for("the hold", lambda: world.ask(path)["holds"])
            assert (hold["topic"], hold["queue_id"], hold["filter"]) == (world.topic, -1, "*"), hold
        else:
            time.sleep(2)
        world.send(producer, "a")
        assert bodies_of(receiving.result()) == ["a"]
    if world.web:
        events = world.ask(f"/api/v1/holds/{hold['id']}/timeline")["events"]
        assert "arrival" in [event.get("cause") for event in events], events


@case("grpc.push.two_members")
def two_members(world: World) -> None:
    """Each message comes to one of two members, and each member gets some."""
    listeners = Listener(), Listener()
    for listener in listeners:
        world.push(listener)
    producer, sent = world.producer(), []

    def send_more() -> bool:
        """A message goes to whoever waits. One of the members may begin later."""
        more = [f"{n:04}" for n in range(len(sent), len(sent) + 50)]
        world.send(producer, *more)
        sent.extend(more)
        return all(listener.bodies() for listener in listeners)

    wait_for("messages for each of the members", send_more)
    wait_for("all messages", lambda: sum(len(listener.bodies()) for listener in listeners) >= len(sent))
    got = Counter(body for listener in listeners for body in listener.bodies())
    assert got == Counter(sent), [body for body in got if got[body] > 1]


@case("grpc.push.retry")
def retry(world: World) -> None:
    """A message that fails twice comes a third time."""
    listener = Listener(lambda message: message.delivery_attempt == 3)
    world.push(listener)
    world.send(world.producer(), "a")
    wait_for("the third attempt", lambda: len(listener.messages) >= 3)
    assert [message.delivery_attempt for message in listener.messages] == [1, 2, 3]
    assert listener.bodies() == ["a"] * 3


@case("grpc.push.dead_letter")
def dead_letter(world: World) -> None:
    """The group allows one retry. A message that fails always is then in the dead letter queue."""
    listener = Listener(lambda message: False)
    world.push(listener)
    world.send(world.producer(), "a")
    wait_for("the second attempt", lambda: len(listener.messages) >= 2)
    dead = receive_dead(world)
    assert (dead.body.decode(), len(listener.messages)) == ("a", 2)


def receive_dead(world: World) -> Message:
    """The first dead letter of the group."""

    def one() -> list[Message]:
        try:
            return take(world.dead_letters(), 1)
        except Exception as error:
            if NO_ROUTE not in str(error):
                raise
            return []  # the topic does not exist yet, or the proxy does not know it yet

    return wait_for("a dead letter", one)[0]


@case("grpc.push.long_work")
def long_work(world: World) -> None:
    """The work on a message takes longer than the proxy's invisible time of 60 s; the proxy renews it."""
    listener = Listener(lambda message: time.sleep(70) is None)
    world.push(listener)
    world.push(listener)
    world.send(world.producer(), "a")
    wait_for("the message", listener.bodies)
    time.sleep(80)
    assert listener.bodies() == ["a"]


@case("grpc.fifo.order")
def order(world: World) -> None:
    """Messages of a message group come in their order, although two members consume and some fail at first."""
    failed: set[str] = set()

    def answer(message: Message) -> bool:
        body = message.body.decode()
        if body.endswith("3") and body not in failed:
            failed.add(body)
            return False
        done.append(body)
        return True

    done: list[str] = []
    members = Listener(answer), Listener(answer)
    for member in members:
        world.push(member)
    producer = world.producer()
    groups = ["red", "green", "blue"]
    for n in range(6):
        for group in groups:
            world.send(producer, f"{group}{n}", message_group=group)
    wait_for("all messages", lambda: len(done) >= 18)
    for group in groups:
        assert [body for body in done if body.startswith(group)] == [f"{group}{n}" for n in range(6)], done
    assert {message.message_group for member in members for message in member.messages} == set(groups)


@case("grpc.fifo.simple")
def fifo_simple(world: World) -> None:
    """A simple consumer of a group in order gets the next message when the first ones are acknowledged."""
    consumer, producer = world.simple(), world.producer()
    world.send(producer, "a", "b", message_group="one")
    for body in (b"a", b"b"):
        (message,) = wait_for("a message", lambda: take(consumer, 1))
        assert message.body == body and take(consumer, 1) == []
        consumer.ack(message)


@case("grpc.fifo.dead_letter")
def fifo_dead_letter(world: World) -> None:
    """The client asks the proxy to move a message that failed too often, and the next one follows."""
    listener = Listener(lambda message: message.body != b"bad")
    world.push(listener)
    world.send(world.producer(), "bad", "good", message_group="one")
    wait_for("the message after it", lambda: "good" in listener.bodies())
    assert listener.bodies() == ["bad", "bad", "good"]
    assert receive_dead(world).body == b"bad"


@case("grpc.delay.time")
def delay(world: World) -> None:
    consumer, producer = world.simple(), world.producer()
    due = int(time.time()) + 8
    world.send(producer, "later", delivery_timestamp=due)
    (got,) = world.receive(consumer, 1)
    assert got.body == b"later" and time.time() >= due - 1, "timerPrecisionMs is 1000"


@case("grpc.delay.recall")
def recall(world: World) -> None:
    consumer, producer = world.simple(), world.producer()
    due = int(time.time()) + 30
    gone, _ = world.send(producer, "gone", "kept", delivery_timestamp=due)
    assert producer.recall_message(world.topic, gone.recall_handle) == gone.message_id
    assert bodies_of(world.receive(consumer, 1)) == ["kept"]
    until = time.monotonic() + 5
    while time.monotonic() < until:
        assert take(consumer, 32) == []


@case("grpc.transaction.ends")
def transaction_ends(world: World) -> None:
    """The message of a committed transaction comes, and that of one that was rolled back does not."""
    checker = Checker()
    consumer, producer = world.simple(), world.producer(checker)
    for body, commit in (("rolled back", False), ("committed", True)):
        transaction = producer.begin_transaction()
        producer.send(world.message(body), transaction)
        transaction.commit() if commit else transaction.rollback()
    (got,) = world.receive(consumer, 1)
    assert (got.body, got.message_type) == (b"committed", 4)
    until = time.monotonic() + 15
    while time.monotonic() < until:
        assert take(consumer, 32) == []
    assert checker.asked == []


@case("grpc.transaction.check")
def transaction_check(world: World) -> None:
    """The broker asks about a transaction that nobody ended."""
    checker = Checker()
    consumer, producer = world.simple(), world.producer(checker)
    producer.send(world.message("orphan"), producer.begin_transaction())
    assert bodies_of(world.receive(consumer, 1)) == ["orphan"]
    assert set(checker.asked) == {"orphan"}


@case("grpc.refused.unknown_topic")
def unknown_topic(world: World) -> None:
    producer = world.producer()
    message = world.message("a")
    message.topic = "grpc-unknown"
    error = refusal(lambda: producer.send(message))
    assert NO_ROUTE in str(error), repr(error)


@case("grpc.refused.type")
def wrong_type(world: World) -> None:
    """A topic without message.type=FIFO takes no message with a message group."""
    producer = world.producer()
    error = refusal(lambda: producer.send(world.message("a", message_group="one")))
    assert "not match" in str(error), repr(error)


def run(endpoints: str, web: str, name: str) -> None:
    begin, detail = time.monotonic(), ""
    try:
        with World(endpoints, web, name) as world:
            CASES[name](world)
    except Exception:
        detail = traceback.format_exc()
    row = {"name": name, "ok": not detail, "seconds": time.monotonic() - begin, "detail": detail}
    print(json.dumps(row), flush=True)


def outage(endpoints: str) -> None:
    """Send and consume while the broker goes away and comes back."""
    with World(endpoints, "", OUTAGE) as world:
        listener = Listener()
        world.push(listener)
        producer, sent, failed = world.producer(), [], 0
        is_back = threading.Event()

        def send_one() -> bool:
            nonlocal failed
            body = f"{len(sent) + failed:06}"
            try:
                world.send(producer, body)
            except Exception:
                failed += 1
                return False
            sent.append(body)
            return True

        wait_for("the first message", lambda: send_one() and listener.messages)
        print("{}", flush=True)
        threading.Thread(target=lambda: sys.stdin.readline() and is_back.set(), daemon=True).start()
        while not is_back.wait(0.05):
            send_one()
        wait_for("a broker that takes messages", send_one)
        wait_for("all messages", lambda: set(sent) <= set(listener.bodies()))
        print(json.dumps({"sent": len(sent), "failed": failed}), flush=True)


def main(what: str, endpoints: str = "", web: str = "", *words: str) -> None:
    if what == "resources":
        for name in (*CASES, OUTAGE):
            print(json.dumps(resources_of(name)))
        return
    if what == "outage":
        outage(endpoints)
        os._exit(0)
    names = [name for name in CASES if not words or any(word in name for word in words)]
    with ThreadPoolExecutor(PARALLEL) as threads:
        for name in names:
            threads.submit(run, endpoints, "" if web == "-" else web, name)
    sys.stdout.flush()
    os._exit(0)  # the client leaves threads behind, which wait for ever


if __name__ == "__main__":
    main(*sys.argv[1:])

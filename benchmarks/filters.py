"""What a filter costs for each message that it passes over: SQL92 beside tags, in the engine alone.

    python benchmarks/filters.py [--messages N]

One message in 1,000 matches. A consumer reads the whole queue by pulls, as often with each filter. Goal: SQL92 takes at
most 3 times as long as a tag filter. Each SQL92 filter is measured twice: with bitmaps (enableCalcFilterBitMap and
enableConsumeQueueExt, the default) and without.

Below is what bitmaps cost when messages are sent: the processor time of a send to a topic that a group filters, less
that of a send to a topic that nobody filters.
"""

import argparse
import gc
import time
from collections.abc import Sequence

from common import engine, title

from broker_core.clock import SystemClock
from broker_core.commands import (
    ConsumerData,
    HeartBeat,
    OpenConnection,
    OutgoingMessage,
    Pulled,
    PullMessage,
    SendMessage,
    SubscriptionData,
    UpdateAndCreateTopic,
)
from broker_core.engine import Engine
from broker_core.formats.commit_log_record import decode_all

CLOCK = SystemClock()
RUNS = 15
GOAL = 3
BATCH = 500
SINGLE = 200
"""Messages of a round that are sent one by one."""
BODY = b"x" * 256
FILTERS = {
    "tags": ("TAG", "rare"),
    "tags, two of them": ("TAG", "rare || never"),
    "SQL92, one comparison": ("SQL92", "size > 1000"),
    "SQL92, a text": ("SQL92", "section = 'rare'"),
    "SQL92, two with AND": ("SQL92", "size > 1000 AND section = 'rare'"),
    "SQL92, three with OR": ("SQL92", "size > 1000 OR section = 'rare' OR section IS NULL"),
    "SQL92, BETWEEN and IN": ("SQL92", "size BETWEEN 1001 AND 2000 AND section IN ('rare', 'never')"),
}
"""Each of them selects the same messages. Each has a topic of its own, and a group that subscribes to it."""

TOPICS = {name: f"topic-{number}" for number, name in enumerate(FILTERS)}


def message(number: int) -> OutgoingMessage:
    """A message with the properties that the stock Java client sends, and two more."""
    rare = number % 1000 == 999
    properties = {
        "KEYS": f"order-{number}",
        "UNIQ_KEY": f"7F000001{number:024X}",
        "size": "1500" if rare else str(number % 1000),
        "section": "rare" if rare else "common",
        "CLUSTER": "DefaultCluster",
        "WAIT": "true",
        "TAGS": "rare" if rare else "common",
    }
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return OutgoingMessage(body=BODY, properties=text, queue_id=0)


def subscribe(broker: Engine) -> None:
    """Create the topics, and have a group subscribe to each."""
    broker.handle_batch([("c", 0, OpenConnection(client_id="", protocol="remoting", remote="c"))], CLOCK.now())
    for topic in TOPICS.values():
        created = UpdateAndCreateTopic(topic=topic, read_queues=1, write_queues=1)
        broker.handle_batch([("p", 0, created)], CLOCK.now())
    consumers = [
        ConsumerData(
            group=TOPICS[name],
            subscriptions=[
                SubscriptionData(topic=TOPICS[name], sub_string=expression, expression_type=kind, sub_version=1)
            ],
        )
        for name, (kind, expression) in FILTERS.items()
    ]
    broker.handle_batch([("c", 0, HeartBeat(client_id="c", protocol="remoting", consumers=consumers))], CLOCK.now())


def send(broker: Engine, topic: str, messages: list[OutgoingMessage]) -> float:
    """Send messages as one request; returns the processor time in ns."""
    command, now = SendMessage(topic=topic, messages=messages), CLOCK.now()
    began = time.thread_time_ns()
    broker.handle_batch([("p", 0, command)], now)
    return time.thread_time_ns() - began


def fill(brokers: dict[bool, Engine], count: int) -> dict[bool, tuple[dict[str, float], dict[str, float]]]:
    """Fill the topics of both brokers side by side, so that whatever else the machine does concerns both.

    Returns the processor time for each message (ns), by filter: in the fastest batch, and in the fastest round of
    messages that were sent one by one.
    """
    fastest = {bitmaps: (dict.fromkeys(TOPICS, 1e9), dict.fromkeys(TOPICS, 1e9)) for bitmaps in brokers}
    for start in range(0, count, BATCH):
        messages = [message(number) for number in range(start, min(start + BATCH, count))]
        for name, topic in TOPICS.items():
            for bitmaps, broker in brokers.items():
                batches, singles = fastest[bitmaps]
                if start % (10 * BATCH) == 0:
                    one_by_one, messages_left = messages[:SINGLE], messages[SINGLE:]
                    taken = sum(send(broker, topic, [each]) for each in one_by_one)
                    singles[name] = min(singles[name], taken / len(one_by_one))
                    if messages_left:
                        send(broker, topic, messages_left)
                else:
                    batches[name] = min(batches[name], send(broker, topic, messages) / len(messages))
                broker.tick(CLOCK.now())
    return fastest


def read_all(broker: Engine, name: str, count: int) -> tuple[float, int, int]:
    """Pull the whole queue: (processor time for each message passed over in ns, how many matched, pulls)."""
    offset = pulls = 0
    kind, expression = FILTERS[name]
    records: list[bytes] = []
    gc.collect()
    began = time.thread_time_ns()
    while offset < count:
        command = PullMessage(
            topic=TOPICS[name],
            queue_id=0,
            queue_offset=offset,
            consumer_group=TOPICS[name],
            subscription=expression,
            expression_type=kind,
            protocol="remoting",
        )
        [(_, _, reply)] = broker.handle_batch([("c", 1, command)], CLOCK.now()).replies
        assert isinstance(reply, Pulled), reply
        records.append(reply.records)
        pulls += 1
        offset = reply.next_begin_offset
    taken = time.thread_time_ns() - began
    matched = sum(len(decode_all(each)) for each in records if each)
    return taken / (count - matched), matched, pulls


def fastest_of(name: str, runs: Sequence[float], unit: str) -> float:
    """Print the fastest run, which other work on the machine has disturbed least, and each run; return the fastest."""
    each = ", ".join(f"{value:,.0f}" for value in runs)
    print(f"  {name}: {min(runs):,.0f} {unit}  (fastest of {each})", flush=True)
    return min(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=60_000)
    count = parser.parse_args().messages
    title(f"Filters that select one of 1,000 of {count:,} messages")
    measure(count)


def measure(count: int) -> None:
    """Fill two brokers, one with bitmaps and one without, read all their queues, and print the costs."""
    runs: dict[tuple[str, bool], list[float]] = {}
    pulls: dict[tuple[str, bool], int] = {}
    with engine() as with_bitmaps, engine(enable_calc_filter_bit_map=False) as without:
        subscribe(with_bitmaps)
        subscribe(without)
        sent = fill({True: with_bitmaps, False: without}, count)
        for _ in range(RUNS):  # in turn, so that whatever else the machine does concerns all of them
            for name in FILTERS:
                for broker, bitmaps in ((with_bitmaps, True), (without, False)):
                    taken, matched, pulls[name, bitmaps] = read_all(broker, name, count)
                    assert matched == count // 1000, f"{name} selected {matched} messages"
                    runs.setdefault((name, bitmaps), []).append(taken)
        assert with_bitmaps.counters.messages_passed_over_by_bitmap > 0
        assert without.counters.messages_passed_over_by_bitmap == 0
    report_reading(runs, pulls)
    report_sending(sent)


def report_reading(runs: dict[tuple[str, bool], list[float]], pulls: dict[tuple[str, bool], int]) -> None:
    """Print what each filter costs for a message that a pull passes over."""
    by_tag = min(runs["tags", True])
    for (name, bitmaps), each in runs.items():
        if FILTERS[name][0] == "TAG" and not bitmaps:
            continue
        how = ("" if FILTERS[name][0] == "TAG" else ", bitmaps" if bitmaps else ", no bitmaps") + ","
        fastest = fastest_of(f"{name}{how} {pulls[name, bitmaps]} pulls", each, "ns for each message passed over")
        if FILTERS[name][0] == "SQL92":
            goal = f"; goal: {GOAL}" if bitmaps else ""
            print(f"    {fastest / by_tag:.2f} times the tag filter{goal}", flush=True)


def report_sending(sent: dict[bool, tuple[dict[str, float], dict[str, float]]]) -> None:
    """Print what the bitmaps for each filter cost when a message is sent."""
    print("\nSending, processor time for each message:")
    for kind, number in (("batches of 500", 0), ("one by one", 1)):
        base = sent[True][number]["tags"]
        print(
            f"  {kind}, topic without SQL92 filters: {base:,.0f} ns (bitmaps off: {sent[False][number]['tags']:,.0f})"
        )
        for name, (filter_type, _) in FILTERS.items():
            if filter_type == "SQL92":
                print(f"    {name}: {sent[True][number][name] - base:,.0f} ns more", flush=True)


if __name__ == "__main__":
    main()

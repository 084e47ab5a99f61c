"""Wake-up of a held pull with the stock Java client on both ends: from just before send() to the listener.

    python benchmarks/remoting_wakeup.py [--compare] [rounds=5] [messages=2000] [warmup=1000]

One queue, one push consumer, a message of 128 bytes every 20 ms. Each round has a new JVM, which is warmed up. Goal:
the median of the rounds' p50 is at most that of RocketMQ.
"""

from collections import defaultdict

from common import percentile
from stock_clients import brokers, compare, headline, in_turn, number


def main() -> None:
    headline("Wake-up, stock Java client on both ends")
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    arguments = ["--messages", str(number("messages", 2000)), "--warmup", str(number("warmup", 1000))]
    with brokers() as found:
        for broker, counts in in_turn(found, number("rounds", 5)):
            with broker.awake():
                result = broker.run("wakeup", *arguments)
            for what, values in (("send to listener", result["took_ns"]), ("send()", result["sent_ns"])):
                for name, part in (("p50", 0.5), ("p99", 0.99)):
                    if counts:
                        figures[f"{what}, {name}"][broker.name].append(percentile(values, part) / 1000)
    for what, by_broker in figures.items():
        compare(what, by_broker, "us")


main()

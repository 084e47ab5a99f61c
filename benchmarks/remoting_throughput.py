"""Messages a second with the stock Java client: sending in several ways, and consuming.

    python benchmarks/remoting_throughput.py [--compare] [rounds=3] [seconds=5] [warmup=5] [messages=500000]

128 bytes, 4 queues. Each figure has its own JVM, which is warmed up, except for the consumer, which starts at once.
"""

from collections import defaultdict

from stock_clients import brokers, compare, headline, in_turn, number

WAYS = {
    "send, 1 thread": ("--mode", "sync", "--threads", "1"),
    "send, 8 threads": ("--mode", "sync", "--threads", "8"),
    "send without waiting, 1024 under way": ("--mode", "async"),
    "send batches of 32": ("--mode", "batch"),
    "push consumer": ("--mode", "push"),
}


def main() -> None:
    headline("Messages a second, stock Java client")
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    arguments = [
        "--seconds",
        str(number("seconds", 5)),
        "--warmup",
        str(number("warmup", 5)),
        "--messages",
        str(number("messages", 500_000)),
    ]
    with brokers() as found:
        for broker, counts in in_turn(found, number("rounds", 3)):
            for way, words in WAYS.items():
                with broker.awake():
                    result = broker.run("throughput", *words, *arguments)
                if result["refused"]:
                    print(f"  {broker.name} refused {result['refused']:,} calls: {way}", flush=True)
                if counts:
                    figures[way][broker.name].append(result["messages"] / result["seconds"])
    for way, by_broker in figures.items():
        compare(way, by_broker, "messages/s")


main()

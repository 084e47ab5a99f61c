"""Messages a second with the stock Java client: sending in several ways, and consuming.

    python benchmarks/remoting_throughput.py [--compare] [rounds=3] [seconds=5] [warmup=5] [messages=500000]

128 bytes, 4 queues. Each figure has its own JVM, which is warmed up, except for the consumer, which starts at once.
"""

from stock_clients import headline, number, throughput

WAYS = {
    "send, 1 thread": ("--mode", "sync", "--threads", "1"),
    "send, 8 threads": ("--mode", "sync", "--threads", "8"),
    "send without waiting, 1024 under way": ("--mode", "async"),
    "send batches of 32": ("--mode", "batch"),
    "push consumer": ("--mode", "push"),
}


def main() -> None:
    headline("Messages a second, stock Java client")
    arguments = (
        *("--seconds", str(number("seconds", 5))),
        *("--warmup", str(number("warmup", 5))),
        *("--messages", str(number("messages", 500_000))),
    )
    throughput("throughput", {way: (*words, *arguments) for way, words in WAYS.items()})


main()

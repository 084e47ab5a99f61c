"""Transactions a second with the stock Java client: half message, commit, delivered to a push consumer.

    python benchmarks/transactions.py [--compare] [rounds=3] [seconds=5] [warmup=5]

128 bytes, 4 queues, producer and consumer in one JVM, at most 1024 transactions under way. Goal with 8 threads: 0.5 or
more of RocketMQ's.
"""

from stock_clients import headline, number, throughput

WANTED = 0.5


def main() -> None:
    headline("Transactions a second, stock Java client")
    times = ("--seconds", str(number("seconds", 5)), "--warmup", str(number("warmup", 5)))
    ways = {"transactions, 8 threads": ("--threads", "8", *times)}
    throughput("transaction-throughput", ways, WANTED)


if __name__ == "__main__":
    main()

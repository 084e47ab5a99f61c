"""Messages a second that the stock Java client pops and acknowledges: 8 push consumers with clientRebalance=false.

    python benchmarks/pop.py [--compare] [rounds=3] [messages=120000] [consumers=8]

128 bytes, 8 queues. The messages are there before the consumers start, and each is acknowledged in a request of its
own. The first quarter is for warming up. Goal: 0.8 or more of RocketMQ's.
"""

from stock_clients import headline, number, throughput

WANTED = 0.8


def main() -> None:
    headline("Messages a second popped and acknowledged, stock Java client")
    consumers = number("consumers", 8)
    arguments = ("--messages", str(number("messages", 120_000)), "--consumers", str(consumers))
    throughput("pop-throughput", {f"pop and acknowledge, {consumers} consumers": arguments}, WANTED)


if __name__ == "__main__":
    main()

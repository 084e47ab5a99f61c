"""Wake-ups lost between reading and holding, with stock Java clients: messages are sent around that moment.

    python benchmarks/lost_wakeups.py [--compare] [messages=100000] [lanes=4] [jitter=1500]

Each message is sent 0 to ``jitter`` us after the previous one, while the client's next pull is under way (RocketMQ's
issue 7358). Goals: none of 100,000 takes longer than 1 s, and GlassMQ's periodic check finds none (missed_arrival 0).
"""

from stock_clients import GLASSMQ, Broker, brokers, headline, number

MISSED = ("glassmq_pulls_woken_total", 'cause="missed_arrival"')


def measure(broker: Broker) -> None:
    with broker.awake():
        result = broker.run(
            "race",
            "--messages",
            str(number("messages", 100_000)),
            "--lanes",
            str(number("lanes", 4)),
            "--jitter-us",
            str(number("jitter", 1500)),
        )
        missed = f"; missed_arrival {broker.metric(*MISSED):.0f}" if broker.name == GLASSMQ else ""
    slow = result["slow_ns"]
    print(f"  {broker.name}: {len(slow)} of {result['messages']:,} messages took longer than 1 s{missed}")
    print(
        f"    p50 {result['p50_ns'] / 1e6:.2f}  p99 {result['p99_ns'] / 1e6:.2f}  p99.9 {result['p999_ns'] / 1e6:.2f}  "
        f"max {result['max_ns'] / 1e6:,.1f} ms, in {result['seconds']:.0f} s"
    )
    if slow:
        print("    the slow ones, s: " + ", ".join(f"{value / 1e9:.1f}" for value in slow[:50]), flush=True)


def main() -> None:
    headline("Messages sent around the moment in which a pull is held")
    with brokers() as found:
        for broker in found:
            measure(broker)


main()

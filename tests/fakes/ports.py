"""Ports for the servers that tests start.

They are below the ports that systems assign to outgoing connections. Such a port may be free when it is chosen, but
taken when the server listens on it, or listens again after a restart. Parallel test processes do not choose the same
ones either: each takes its ports from blocks of its own.
"""

import os
import socket
from collections.abc import Iterator
from itertools import count

FIRST, LAST, BLOCK = 12_000, 32_000, 500


def _ports_of_own_blocks() -> Iterator[int]:
    """Ports, without end. The process has the first port of their block, so no other process takes the block."""
    for number in count(os.getpid()):
        first = FIRST + number * BLOCK % (LAST - FIRST)
        with socket.socket() as claim:
            try:
                claim.bind(("127.0.0.1", first))
            except OSError:
                continue
            yield from range(first + 1, first + BLOCK)


_ports = _ports_of_own_blocks()


def unused_broker_port(brokers: int = 1) -> int:
    """A port for a broker. It needs the port lower by two as well, and RocketMQ's broker the next higher one.

    With several ``brokers``, this is the port of the first; their ports are ten apart.
    """
    number = 4 + 10 * (brokers - 1)
    while True:
        ports = unused_ports(number)
        if ports[-1] - ports[0] == number - 1:
            return ports[2]


def unused_ports(number: int) -> list[int]:
    """Unused ports of 127.0.0.1. This process does not get the same ones again for a long time."""
    found: list[int] = []
    while len(found) < number:
        port = next(_ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found

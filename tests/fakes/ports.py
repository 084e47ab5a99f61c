"""Ports for the servers that tests start.

They are below the ports that systems assign to outgoing connections. Such a port may be free when it is chosen, but
taken when the server listens on it, or listens again after a restart. Each process begins at a different port, so that
parallel test processes do not choose the same ones.
"""

import os
import socket
from itertools import count

FIRST, LAST = 12_000, 32_000
_next = count(os.getpid() * 2_503)


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
        port = FIRST + next(_next) % (LAST - FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found

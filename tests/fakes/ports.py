"""Ports for the servers that tests start.

They lie below those that systems give to outgoing connections: a port of those, free when asked for, may be anybody's
when the server at last listens on it, or when it does so again after a restart. Each process begins at a place of its
own, so that test processes side by side do not find the same one free.
"""

import os
import socket
from itertools import count

FIRST, LAST = 12_000, 32_000
_next = count(os.getpid() * 2_503)


def unused_broker_port(brokers: int = 1) -> int:
    """A port for a broker, which needs the one two below it as well, and RocketMQ's the one above it; in a cluster the
    port of the first of ``brokers``, which are ten apart."""
    number = 4 + 10 * (brokers - 1)
    while True:
        ports = unused_ports(number)
        if ports[-1] - ports[0] == number - 1:
            return ports[2]


def unused_ports(number: int) -> list[int]:
    """So many ports of 127.0.0.1 that nobody listens on; this process is not given the same ones again for long."""
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

"""Failed logins by client address: after some failures the address must wait before its next attempt.

A wrong token counts, whether it was sent by the login page or as a bearer token.

The table is in the memory of one web process, so several processes allow as many times the attempts.
"""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

FREE_FAILURES: Final = 3
FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 3600.0
MAX_ADDRESSES: Final = 1000
"""Bound of the table: the address with the oldest failure is dropped first."""


class FailedLogins:
    """Times are seconds of one monotonic clock, passed by the caller."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_seconds(self, address: str, now: float) -> float:
        """Seconds until ``address`` may try again; 0 if it may now."""
        if not self._failures:
            return 0.0
        failures, last = self._failures.get(_network(address), (0, 0.0))
        return max(0.0, last + _wait_after(failures) - now)

    def add(self, address: str, now: float) -> int:
        """Counts a failure; returns how many the address had without an hour's pause."""
        network = _network(address)
        failures, last = self._failures.pop(network, (0, now))
        failures = 1 if now - last > FORGET_SECONDS else failures + 1
        self._failures[network] = (failures, now)
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
        return failures

    def clear(self, address: str) -> None:
        """Forgets the failures of ``address``, after a successful login."""
        if self._failures:
            self._failures.pop(_network(address), None)


def _wait_after(failures: int) -> float:
    if failures < FREE_FAILURES:
        return 0.0
    return min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(failures - FREE_FAILURES, 30))


def _network(address: str) -> str:
    """The address; of IPv6 its /64 network, because one client usually has all of it."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped) if parsed.ipv4_mapped else parsed.exploded[:19]
    return str(parsed)

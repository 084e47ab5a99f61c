"""Pulls and pops that the broker refused, by group, until one succeeds."""

from collections import OrderedDict
from collections.abc import Iterator
from ipaddress import ip_address

import msgspec

from broker_core.consumers.pull_offset_table import PullOffsetTable

MAX_GROUPS = 1000
MAX_A_GROUP = 16
"""Refusals kept for one group; the oldest is dropped. So all groups have at most 16,000, about 10 MB."""
REMEMBER_NS = 60 * 1_000_000_000
"""Clients repeat a refused pull within 3 s; one that does not repeat it is of no interest after this time."""
MAX_LENGTH = 255
MAX_REASON = 500


def is_named(client_id: str) -> bool:
    """Whether a client said who it is. Until then its id is empty, or its address, such as ``10.0.0.9:53211``, which is
    new with each connection."""
    host, colon, _ = client_id.rpartition(":")
    if not colon:
        return bool(client_id)
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return True
    return False


class Refusal(msgspec.Struct, gc=False):
    """``count`` pulls were refused for the same ``reason``, the last one from ``queue_id``. There were more unless they
    are all ``counted``."""

    client_id: str
    topic: str
    code: int
    reason: str
    queue_id: int
    count: int
    since_ms: int
    last_ms: int
    last_ns: int
    counted: bool = True


class RefusedPulls:
    """The newest refusals of each group."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, OrderedDict[tuple[str, str, int], Refusal]] = OrderedDict()

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def note(
        self,
        group: str,
        client_id: str,
        topic: str,
        queue_id: int,
        code: int,
        reason: str,
        now_ms: int,
        now_ns: int,
    ) -> None:
        """A pull was refused. Names are cut at 255 characters, because clients choose them."""
        group, client_id, topic = group[:MAX_LENGTH], client_id[:MAX_LENGTH], topic[:MAX_LENGTH]
        refusals = self._groups.pop(group, None)
        if refusals is None:
            refusals = OrderedDict()
            if len(self._groups) >= MAX_GROUPS:
                self._groups.popitem(last=False)
        self._groups[group] = refusals
        key = (client_id, topic, code)
        refusal = refusals.pop(key, None)
        if refusal is None or now_ns - refusal.last_ns > REMEMBER_NS:
            refusal = Refusal(client_id, topic, code, "", queue_id, 0, now_ms, now_ms, now_ns)
        refusals[key] = refusal
        if len(refusals) > MAX_A_GROUP:
            _, dropped = refusals.popitem(last=False)
            if now_ns - dropped.last_ns <= REMEMBER_NS:
                for other in refusals.values():
                    other.counted &= other.code != dropped.code
        refusal.reason, refusal.queue_id = reason[:MAX_REASON], queue_id
        refusal.count += 1
        refusal.last_ms, refusal.last_ns = now_ms, now_ns

    def present(self, group: str, pulls: PullOffsetTable, now_ns: int) -> Iterator[Refusal]:
        """Refusals of the last minute after which nobody has pulled from the queue with success.

        If the refused client said who it is, only its own success counts.
        """
        for refusal in self._groups.get(group, {}).values():
            if now_ns - refusal.last_ns > REMEMBER_NS:
                continue
            row = pulls.last_pull(group, refusal.topic, refusal.queue_id)
            if (
                row is None
                or row.mono_ns <= refusal.last_ns
                or (row.client_id != refusal.client_id and is_named(refusal.client_id))
            ):
                yield refusal

    def pop_succeeded(self, group: str, client_id: str, topic: str) -> None:
        """A client popped from the topic with success: forget its refusals, and those of clients without a name."""
        refusals = self._groups.get(group)
        if refusals is None:
            return
        of_client = client_id[:MAX_LENGTH]
        for key, one in list(refusals.items()):
            if one.topic == topic and (one.client_id == of_client or not is_named(one.client_id)):
                del refusals[key]
        if not refusals:
            del self._groups[group]

    def remove_group(self, group: str) -> None:
        """Forget a group's refusals."""
        self._groups.pop(group, None)

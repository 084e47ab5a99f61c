"""Pulls and pops that the broker refused, by group, until one succeeds."""

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from broker_core.consumers.pull_offset_table import PullOffsetTable

MAX_GROUPS = 1000
MAX_A_GROUP = 16
"""Refusals kept for one group; the oldest is dropped. So all groups have at most 16,000, about 10 MB."""
REMEMBER_NS = 60 * 1_000_000_000
"""Clients repeat a refused pull within 3 s; one that does not repeat it is of no interest after this time."""
MAX_LENGTH = 255
MAX_REASON = 500


class Refusal(msgspec.Struct, gc=False):
    """``count`` pulls were refused for the same ``reason``, the last one from ``queue_id``."""

    client_id: str
    topic: str
    code: int
    reason: str
    queue_id: int
    count: int
    since_ms: int
    last_ms: int
    last_ns: int


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
            if len(refusals) >= MAX_A_GROUP:
                refusals.popitem(last=False)
            refusal = Refusal(client_id, topic, code, "", queue_id, 0, now_ms, now_ms, now_ns)
        refusals[key] = refusal
        refusal.reason, refusal.queue_id = reason[:MAX_REASON], queue_id
        refusal.count += 1
        refusal.last_ms, refusal.last_ns = now_ms, now_ns

    def present(self, group: str, pulls: PullOffsetTable, now_ns: int) -> Iterator[Refusal]:
        """Refusals of the last minute after which the client has not pulled from the topic with success."""
        for refusal in self._groups.get(group, {}).values():
            if now_ns - refusal.last_ns > REMEMBER_NS:
                continue
            row = pulls.last_pull(group, refusal.topic, refusal.queue_id)
            if row is None or row.client_id != refusal.client_id or row.mono_ns <= refusal.last_ns:
                yield refusal

    def pop_succeeded(self, group: str, client_id: str, topic: str) -> None:
        """Forget the refusals of a client that popped from the topic with success."""
        refusals = self._groups.get(group)
        if refusals is None:
            return
        for key in [key for key in refusals if key[:2] == (client_id[:MAX_LENGTH], topic)]:
            del refusals[key]
        if not refusals:
            del self._groups[group]

    def remove_group(self, group: str) -> None:
        """Forget a group's refusals."""
        self._groups.pop(group, None)

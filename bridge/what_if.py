"""What if: the same waits of consumers under long polling, short polling, and the loops of stock RocketMQ.

A wait is the time from which a consumer asks a queue until messages come: one pull that was held, or several pulls, one
after the other, the first ones without messages. Each wait is replayed alone, in virtual time, from the moment at which
it began. What the replay assumes:

- Messages arrive when they arrived, and a consumer asks again at once after an answer without messages.
- Once messages are there, an answer takes as long as the broker's did (``wake_us``), by whatever method.
- A wait begins when it began. An answer that comes later delays no other wait and gathers no more messages.
- Long polling holds a pull as long as it was granted, and answers at that moment.
- Short polling asks at 0, i, 2i ... of the interval i, and stops when it finds messages.
- Stock RocketMQ finds an arrival in its next round of 1 ms, and ends holds whose time is over at its check every 5 s.
  It misses no arrival.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from broker_core.formats.poll_journal import ENTRY, JournalEntry, decode_entry

REPUT_US = 1000
HOLD_CHECK_US = 5_000_000
NEXT_PULL_US = 1_000_000
"""A consumer that asks later than this after its last answer was away in between."""
SUSPEND_US = 15_000_000
"""How long pulls are held that were recorded under short polling: RocketMQ's brokerSuspendMaxTimeMillis."""


class Wait(NamedTuple):
    """One wait, in us since 1970. ``waited_us`` is until the answer with messages, or until the wait was given up.

    ``granted_us``: how long each pull may be held. ``found``: messages came. ``wake_us`` is from their arrival to the
    answer; None if that is not known.
    """

    begin_us: int
    waited_us: int
    granted_us: int
    found: bool
    wake_us: int | None

    @property
    def until_us(self) -> int:
        """How long messages were awaited: until they arrived, if that is known."""
        return max(0, self.waited_us - (self.wake_us or 0))


class Outcome(NamedTuple):
    """A wait under some method: requests, those answered without messages, and the time from arrival to answer."""

    requests: int
    empty: int
    delay_us: int | None


class Totals(NamedTuple):
    """All waits under one method. The delays are those of ``samples`` waits, None without any."""

    method: str
    requests: int
    empty: int
    samples: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None


def decode_pulls(strings: list[str], entries: bytes) -> list[JournalEntry]:
    """The ends of pulls in a ``Pulls`` reply."""
    return [decode_entry(fields, strings) for fields in ENTRY.iter_unpack(entries)]


# --- From pulls to waits ---------------------------------------------------------------------------------------------


def waits_of(pulls: Iterable[JournalEntry]) -> Iterator[Wait]:
    """The waits of all consumers. ``pulls`` are in the order in which they ended.

    A pull that was not to be held is no wait: it takes one request by any method.
    """
    chains: dict[tuple[str, str, int], list[JournalEntry]] = {}
    for pull in pulls:
        chains.setdefault((pull.group, pull.client_id, pull.queue_id), []).append(pull)
    for chain in chains.values():
        yield from _waits_of_one(chain)


def _waits_of_one(chain: Sequence[JournalEntry]) -> Iterator[Wait]:
    """The waits of one consumer at one queue."""
    run: list[JournalEntry] = []
    for pull in chain:
        if pull.granted_ms <= 0:
            continue
        if run and _begin_us(pull) - run[-1].at_ms * 1000 > NEXT_PULL_US:
            yield _wait(run)
            run = []
        run.append(pull)
        if pull.messages > 0 or pull.kind == "released":
            yield _wait(run)
            run = []
    if run:
        yield _wait(run)


def _begin_us(pull: JournalEntry) -> int:
    return pull.at_ms * 1000 - max(0, pull.held_us)


def _wait(run: Sequence[JournalEntry]) -> Wait:
    last = run[-1]
    found = last.messages > 0
    is_short = any(pull.cause == "short_poll" for pull in run)
    return Wait(
        begin_us=_begin_us(run[0]),
        waited_us=sum(max(0, pull.held_us) for pull in run),
        granted_us=SUSPEND_US if is_short else last.granted_ms * 1000,
        found=found,
        wake_us=last.wake_us if found and last.wake_us >= 0 and last.kind == "woken" else None,
    )


# --- The methods -----------------------------------------------------------------------------------------------------


def poll_long(wait: Wait) -> Outcome:
    """Each pull is held until messages arrive, or for as long as it was granted."""
    if not wait.found:
        empty = max(1, _ceil(wait.waited_us, wait.granted_us))
        return Outcome(empty, empty, None)
    empty = max(0, _ceil(wait.until_us, wait.granted_us) - 1)
    return Outcome(empty + 1, empty, wait.wake_us)


def poll_short(wait: Wait, interval_us: int) -> Outcome:
    """The consumer asks again after each ``interval_us``."""
    if not wait.found:
        empty = max(1, _ceil(wait.waited_us, interval_us))
        return Outcome(empty, empty, None)
    empty = _ceil(wait.until_us, interval_us)
    delay = None if wait.wake_us is None else empty * interval_us - wait.until_us + wait.wake_us
    return Outcome(empty + 1, empty, delay)


def poll_stock(wait: Wait) -> Outcome:
    """As long polling, but arrivals are found in rounds of 1 ms, and holds end at checks every 5 s."""
    arrived_us = wait.begin_us + wait.until_us
    seen_us = _ceil(arrived_us, REPUT_US) * REPUT_US if wait.found else arrived_us
    held_us, empty = wait.begin_us, 0
    while (check_us := _ceil(held_us + wait.granted_us, HOLD_CHECK_US) * HOLD_CHECK_US) < seen_us:
        held_us = check_us
        empty += 1
    if not wait.found:
        return Outcome(empty + 1, empty + 1, None)
    return Outcome(empty + 1, empty, None if wait.wake_us is None else seen_us - arrived_us + wait.wake_us)


def _ceil(value: int, by: int) -> int:
    return -(-value // by)


def compare_polling(waits: Sequence[Wait], interval_ms: int) -> list[Totals]:
    """All waits under each method. ``interval_ms`` is that of short polling."""
    interval_us = interval_ms * 1000
    methods: dict[str, Callable[[Wait], Outcome]] = {
        "long_polling": poll_long,
        "short_polling": lambda wait: poll_short(wait, interval_us),
        "stock_rocketmq": poll_stock,
    }
    return [_totals(method, [poll(wait) for wait in waits]) for method, poll in methods.items()]


def _totals(method: str, outcomes: Sequence[Outcome]) -> Totals:
    delays = sorted(outcome.delay_us for outcome in outcomes if outcome.delay_us is not None)
    return Totals(
        method=method,
        requests=sum(outcome.requests for outcome in outcomes),
        empty=sum(outcome.empty for outcome in outcomes),
        samples=len(delays),
        p50_us=_percentile(delays, 50),
        p99_us=_percentile(delays, 99),
        max_us=delays[-1] if delays else None,
    )


def _percentile(delays: Sequence[int], percent: int) -> int | None:
    """The smallest delay that so many percent of all do not exceed."""
    return delays[_ceil(len(delays) * percent, 100) - 1] if delays else None

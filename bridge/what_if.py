"""What if: the same waits of consumers under long polling, short polling, and the loops of stock RocketMQ.

A wait is the time from which a consumer asks a queue until messages come: one pull that was held, or several pulls, one
after the other, the first ones without messages. Each wait is replayed in virtual time. What the replay assumes:

- Messages arrive when they arrived, and a consumer asks again at once after an answer.
- Once messages are there, an answer takes as long as the broker's did (``wake_us``), by whatever method.
- Long polling is what happened. Of waits that were recorded under short polling, each pull is held for 15 s at most.
- Short polling asks again after each interval without messages. An answer has all that arrived until then, up to
  PULL_BATCH_SIZE messages, so one answer may end several waits.
- Stock RocketMQ finds an arrival in its next round of 1 ms, and ends holds whose time is over at its check every 5 s.
  It misses no arrival. A wait begins when it began, and no hold ends because the filter has passed messages over.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker_core.formats.poll_journal import ENTRY, JournalEntry, decode_entry

REPUT_US = 1000
HOLD_CHECK_US = 5_000_000
NEXT_PULL_US = 1_000_000
"""A consumer that asks later than this after its last answer was away in between."""
SUSPEND_US = 15_000_000
"""How long pulls are held that were recorded under short polling: RocketMQ's brokerSuspendMaxTimeMillis."""
PULL_BATCH_SIZE = 32
"""Messages of an answer under short polling: the default of RocketMQ's push consumers."""
LEAST_FOR_PERCENTILES = 20
"""With fewer delays, percentiles say nothing."""


class Wait(NamedTuple):
    """One wait, in us since 1970. ``waited_us`` is until the answer with messages, or until the wait was given up.

    ``granted_us``: how long each pull may be held. ``messages``: those that came, 0 if it was given up. ``wake_us`` is
    from their arrival to the answer; None if that is not known. ``pulls``: how many made the wait, None if they were
    short polls.
    """

    begin_us: int
    waited_us: int
    granted_us: int
    messages: int
    wake_us: int | None
    pulls: int | None = None

    @property
    def found(self) -> bool:
        return self.messages > 0

    @property
    def until_us(self) -> int:
        """How long messages were awaited: until they arrived, if that is known."""
        return max(0, self.waited_us - (self.wake_us or 0))

    @property
    def arrived_us(self) -> int:
        """When messages arrived, or the wait was given up."""
        return self.begin_us + self.until_us


class Outcome(NamedTuple):
    """A wait under some method: requests, those answered without messages, and the time from arrival to answer."""

    requests: int
    empty: int
    delay_us: int | None


class Totals(NamedTuple):
    """All waits under one method. The delays are those of ``samples`` waits, None without any.

    ``delays_us`` has each of them, in order, if they are fewer than LEAST_FOR_PERCENTILES; it is empty otherwise.
    """

    method: str
    requests: int
    empty: int
    samples: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None
    delays_us: list[int]


def decode_pulls(strings: list[str], entries: bytes) -> list[JournalEntry]:
    """The ends of pulls in a ``Pulls`` reply."""
    return [decode_entry(fields, strings) for fields in ENTRY.iter_unpack(entries)]


# --- From pulls to waits ---------------------------------------------------------------------------------------------


def waits_of(pulls: Iterable[JournalEntry]) -> list[list[Wait]]:
    """The waits of each consumer at each queue, in order. ``pulls`` are in the order in which they ended.

    A pull that was not to be held is no wait: it takes one request by any method.
    """
    chains: dict[tuple[str, str, int], list[JournalEntry]] = {}
    for pull in pulls:
        chains.setdefault((pull.group, pull.client_id, pull.queue_id), []).append(pull)
    return [list(_waits_of_one(chain)) for chain in chains.values()]


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
    messages = max(0, last.messages)
    is_short = any(pull.cause == "short_poll" for pull in run)
    return Wait(
        begin_us=_begin_us(run[0]),
        waited_us=sum(max(0, pull.held_us) for pull in run),
        granted_us=SUSPEND_US if is_short else last.granted_ms * 1000,
        messages=messages,
        wake_us=last.wake_us if messages and last.wake_us >= 0 and last.kind == "woken" else None,
        pulls=None if is_short else len(run),
    )


# --- The methods -----------------------------------------------------------------------------------------------------


def poll_long(wait: Wait) -> Outcome:
    """What happened; after short polls, each pull is held until messages arrive, or for as long as it was granted."""
    if wait.pulls is not None:
        return Outcome(wait.pulls, wait.pulls - wait.found, wait.wake_us)
    if not wait.found:
        empty = max(1, _ceil(wait.waited_us, wait.granted_us))
        return Outcome(empty, empty, None)
    empty = max(0, _ceil(wait.until_us, wait.granted_us) - 1)
    return Outcome(empty + 1, empty, wait.wake_us)


def poll_short(waits: Iterable[Wait], interval_us: int) -> Iterator[Outcome]:
    """One consumer at one queue asks again ``interval_us`` after each answer without messages."""
    answered_us, room = -1, 0
    for wait in waits:
        requests, empty = 1, 0
        if wait.arrived_us >= answered_us:
            begin_us = max(wait.begin_us, answered_us)
            empty = _ceil(wait.arrived_us - begin_us, interval_us)
            if wait.found:
                answered_us = begin_us + empty * interval_us
                requests += empty
            else:
                requests = empty = max(1, empty)
        elif not wait.found or wait.messages <= room:  # the last answer has them
            requests = 0
        if requests and wait.found:
            room = PULL_BATCH_SIZE
        room -= wait.messages
        yield Outcome(requests, empty, None if wait.wake_us is None else answered_us - wait.arrived_us + wait.wake_us)


def poll_stock(wait: Wait) -> Outcome:
    """As long polling, but arrivals are found in rounds of 1 ms, and holds end at checks every 5 s."""
    arrived_us = wait.arrived_us
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


def compare_polling(consumers: Sequence[Sequence[Wait]], interval_ms: int) -> list[Totals]:
    """The waits of all consumers under each method. ``interval_ms`` is that of short polling."""
    waits = list(itertools.chain.from_iterable(consumers))
    short = itertools.chain.from_iterable(poll_short(of_one, interval_ms * 1000) for of_one in consumers)
    return [
        _totals("long_polling", [poll_long(wait) for wait in waits]),
        _totals("short_polling", list(short)),
        _totals("stock_rocketmq", [poll_stock(wait) for wait in waits]),
    ]


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
        delays_us=delays if len(delays) < LEAST_FOR_PERCENTILES else [],
    )


def _percentile(delays: Sequence[int], percent: int) -> int | None:
    """The smallest delay that so many percent of all do not exceed."""
    return delays[_ceil(len(delays) * percent, 100) - 1] if delays else None

"""Evaluates the rules every 15 s or less often, in one web process of an installation, and sends what is due.

While the database fails, the rules that were read last stay in force, and messages are sent. Only the history then
lacks what happened.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from uuid import uuid4

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError

from alerts import records
from alerts.evaluation import Alert, Changes, Moment, NewEvents, RuleState
from alerts.facts import Watch
from alerts.reports import REPORTS_SUBJECT, read_reports
from alerts.rules import Channel, Rule, Silence
from alerts.sending import Outbox, Outcome
from bridge.port import Clock, EnginePort, PortUnavailable, SystemClock, get_ports, start_task

EVERY_S = 15.0
SHARE = 20
"""The questions of a round take a twentieth of the time at most, in short turns: slow rounds are further apart."""
FORGET_EVERY = 240
"""Rounds between two cuts of the history, about an hour."""
STOP_S = 2.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class AlertService:
    """One web process's part: it evaluates while it has the turn, and waits otherwise."""

    def __init__(
        self,
        *,
        ports: Callable[[], Mapping[str, EnginePort]] | None = None,
        clock: Clock | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self._ports = ports or get_ports
        self._clock = clock or SystemClock()
        self.outbox = outbox or Outbox(self._on_outcome)
        self._holder = f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid4().hex[:8]}"
        self._has_turn = False
        self._declared: records.Declared | None = None
        self._states: dict[int, RuleState] = {}
        self._lacks_writes = False
        """A write failed, so the history is not what fires."""
        self._dead, self._missed = NewEvents(), NewEvents()
        self._rounds = 0
        self._due_ms = 0
        """On the monotonic clock: when the rules are evaluated again."""
        self._soon = asyncio.Event()
        self._is_database_failing = False

    def now(self) -> Moment:
        reading = self._clock.now()
        return Moment(reading.wall_ms, reading.mono_ns // 1_000_000)

    async def run(self) -> None:
        """Evaluate again and again, until it is cancelled."""
        while True:
            self._soon.clear()
            try:
                await self.round()
            except Exception:
                log.exception("The alert rules could not be evaluated; the next round tries again.")
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._soon.wait()
            except TimeoutError:
                continue

    def evaluate_soon(self) -> None:
        """A rule, channel or silence has changed: do not wait for the next round."""
        self._due_ms = 0
        self._soon.set()

    async def round(self) -> None:
        """Evaluate all rules once, if it is this process's turn. If the last time took long, only those about engines
        that do not answer, because their question costs nothing.

        The turn is kept in any case: with two processes taking turns, no pending alert would ever fire.
        """
        now = self.now()
        if not await self._take_turn(now) or self._declared is None:
            return
        rules, silences, channels = self._declared
        self._states = {rule.id: self._states.get(rule.id) or RuleState() for rule in rules}
        is_pause = now.mono_ms < self._due_ms
        due = [rule for rule in rules if rule.what == "engine_down"] if is_pause else rules
        if is_pause and not due:
            return
        watch = Watch([(rule, self._states[rule.id]) for rule in due], self._dead, self._missed, now)
        try:
            await watch.look(self._ports())
        except PortUnavailable:  # the process is starting
            return
        await self._read_reports(watch)
        if not is_pause:
            pause_s = SHARE * watch.spent_s
            self._due_ms = now.mono_ms + int(pause_s * 1000) if pause_s > EVERY_S else 0
        changed: list[tuple[Rule, Changes]] = []
        for rule in due:
            state = self._states[rule.id]
            changes = state.step(rule, watch.readings[rule.id], now)
            if changes.fired or changes.resolved:
                changed.append((rule, changes))
            if state.left_out:
                watch.problems.append(f"{rule.name}: {state.left_out:,} more alerts are only counted.")
        await self._write(rules, changed, None if is_pause else watch.problems, now)
        self._send(due, silences, channels, now)

    def _send(
        self, rules: list[Rule], silences: Sequence[Silence], channels: Mapping[int, Channel], now: Moment
    ) -> None:
        """Put what is due to be sent about these rules into the outbox."""
        for rule in rules:
            notice = self._states[rule.id].notice(rule, silences, now)
            for number in rule.channels if notice is not None else ():
                if number in channels and notice is not None:
                    self.outbox.put(channels[number], notice)

    async def _take_turn(self, now: Moment) -> bool:
        """Whether it is this process's turn. A database that fails changes nothing about that."""

        def ask() -> tuple[bool, records.Declared | None, dict[int, list[Alert]]]:
            if not records.take_turn(self._holder, now.wall_ms):
                return False, None, {}
            return True, records.declared(now.wall_ms), {} if self._has_turn else records.firing_alerts(now)

        try:
            had_turn, (self._has_turn, declared, firing) = self._has_turn, await in_database(ask)
        except DatabaseError as error:
            self._note_database(error)
            return self._has_turn
        self._note_database(None)
        if declared is not None:
            self._declared = declared
        if self._has_turn and not had_turn:
            self._states = {number: RuleState() for number in firing}
            for number, alerts in firing.items():
                self._states[number].restore(alerts)
        return self._has_turn

    async def _read_reports(self, watch: Watch) -> None:
        """The figures of reports. If the database fails, they are unknown, and their alerts stay as they are."""
        rules = [rule for rule in watch.rules if rule.what == "report"]
        if not rules:
            return
        try:
            watch.problems += await in_database(lambda: read_reports(rules, watch.readings))
        except DatabaseError as error:
            self._note_database(error)
            for rule in rules:
                watch.readings[rule.id].add_unknown(REPORTS_SUBJECT)

    async def _write(
        self, rules: list[Rule], changed: list[tuple[Rule, Changes]], problems: list[str] | None, now: Moment
    ) -> None:
        """Write what a round changed. ``problems`` is None unless it evaluated all rules."""
        self._rounds += 1

        def write() -> None:
            if self._lacks_writes:
                records.repair([(rule, self._states[rule.id].firing) for rule in rules], now.wall_ms)
            else:
                records.write(changed, [rule.id for rule in rules], now.wall_ms)
            if problems is not None:
                records.note_round(now.wall_ms, problems)
            if self._rounds % FORGET_EVERY == 1:
                records.forget_old(now.wall_ms)

        try:
            await in_database(write)
        except DatabaseError as error:
            self._note_database(error)
            self._lacks_writes = True
        else:
            self._lacks_writes = False

    def _note_database(self, error: DatabaseError | None) -> None:
        if error is not None and not self._is_database_failing:
            log.error("The database fails, so the history of alerts has a gap: %s", error)
        self._is_database_failing = error is not None

    async def _on_outcome(self, outcome: Outcome) -> None:
        try:
            await in_database(lambda: records.note_outcome(outcome, self.now().wall_ms))
        except DatabaseError as error:
            self._note_database(error)

    async def stop(self) -> None:
        """Let another process take over. What waits to be sent is given up."""
        self.outbox.stop()
        if self._has_turn:
            try:
                async with asyncio.timeout(STOP_S):
                    await in_database(lambda: records.give_up_turn(self._holder))
            except (TimeoutError, DatabaseError):
                return  # the lease ends by itself


async def in_database(work: Callable[[], T]) -> T:
    """The result of ``work``, called in Django's thread."""
    result: T = await database_sync_to_async(work)()
    return result


_service: AlertService | None = None
_task: "asyncio.Task[None] | None" = None


def start_alerts() -> None:
    """Begin to evaluate the rules in this process."""
    global _service, _task
    _service = AlertService()
    _task = start_task(_service.run(), "evaluate the alert rules")


async def stop_alerts() -> None:
    """Stop evaluating."""
    global _service, _task
    service, task, _service, _task = _service, _task, None, None
    if task is not None:
        task.cancel()
    if service is not None:
        await service.stop()


def evaluate_soon() -> None:
    """Do not wait for the next round, if this process evaluates the rules."""
    if _service is not None:
        _service.evaluate_soon()

"""What the rules ask about: groups, disks and engines, through the questions that the API and the metrics page ask.

All rules are answered in one pass over the groups, page by page, so that a broker with 10,000 groups is asked in short
turns, and this process never holds more than one page.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TypeVar, get_args

from django.utils.translation import gettext_noop

from alerts.evaluation import Moment, NewEvents, Readings, RuleState
from alerts.rules import Rule, Subject, VerdictSeverity, matches
from alerts.sentence import VERDICTS, Sentence
from bridge.port import BrokerError, EnginePort, PortTimeout, PortUnavailable, commands

GROUPS_OF_PAGE = 1000
MAX_PAGES = 64
"""Pages of one broker in a round: 64,000 groups."""
GROUPS_AT_ONCE = 20
"""Groups that are evaluated before other tasks of the process have their turn."""
TIMEOUT_MS = 10_000
GROUPS_S = 40.0
"""Seconds after which no further page of a broker is asked for, so that a slow broker does not hold up the others."""
ABOUT_GROUPS = ("group_state", "group_verdict", "lag", "oldest", "dead_letters")

R = TypeVar("R", bound=commands.Reply)


class Watch:
    """One round over all brokers. ``readings`` by rule; ``problems`` are sentences about what is not known."""

    def __init__(
        self, states: Iterable[tuple[Rule, RuleState]], dead: NewEvents, missed: NewEvents, now: Moment
    ) -> None:
        states = list(states)
        self.rules = [rule for rule, _ in states]
        self.readings = {rule.id: Readings(state.alerts) for rule, state in states}
        self.problems: list[str] = []
        self.spent_s = 0.0
        """How long the pages of the slowest broker took. The wait for an answer that never came is not counted."""
        self._dead = dead
        self._missed = missed
        self._now = now
        self._alone = False

    def _asks(self, *kinds: str) -> bool:
        return any(rule.what in kinds for rule in self.rules)

    async def look(self, ports: Mapping[str, EnginePort]) -> None:
        """Ask every broker that has a port."""
        self._alone = len(ports) == 1  # otherwise members also have queues at the other brokers
        await asyncio.gather(*(self._broker(name, port) for name, port in ports.items()))

    async def _broker(self, broker: str, port: EnginePort) -> None:
        answers = await self._is_up(broker, port)
        if not answers or not await self._groups(broker, port):
            self._unknown(broker, *ABOUT_GROUPS, "disk_used")
        if not answers or not await self._counters(broker, port):
            self._unknown(broker, "missed_arrivals")

    def _unknown(self, broker: str, *kinds: str) -> None:
        for rule in self.rules:
            if rule.what in kinds:
                self.readings[rule.id].unknown_brokers.add(broker)

    async def _is_up(self, broker: str, port: EnginePort) -> bool:
        """Whether the engine answers; one that is only too busy does."""
        try:
            await _ask(port, commands.GetBroker(), commands.BrokerView)
        except (PortTimeout, PortUnavailable) as error:
            self._hold(
                "engine_down", Subject(broker), Sentence(gettext_noop("the engine does not answer: {0}"), error.remark)
            )
            self.problems.append(f"{broker} does not answer, so what began there since is not known: {error.remark}.")
            return False
        except BrokerError as error:
            self.problems.append(f"{broker} gave no answer: {error.remark}.")
            return False
        return True

    def _hold(self, what: str, subject: Subject, text: str) -> None:
        for rule in self.rules:
            if rule.what == what:
                self.readings[rule.id].add(subject, text)

    async def _counters(self, broker: str, port: EnginePort) -> bool:
        if not self._asks("missed_arrivals"):
            return True
        try:
            snapshot = await _ask(port, commands.GetSnapshot(max_holds=1, max_queues=1), commands.Snapshot)
        except BrokerError as error:
            self.problems.append(f"{broker} did not answer for its counters: {error.remark}.")
            return False
        subject = Subject(broker)
        new = self._missed.count(subject, snapshot.counters.get("woken_missed_arrival", 0), self._now)
        for rule in self.rules:
            if rule.what == "missed_arrivals" and new > rule.threshold:
                self.readings[rule.id].add(
                    subject,
                    _by_number(
                        new,
                        gettext_noop("{0} held pull was woken too late"),
                        gettext_noop("{0} held pulls were woken too late"),
                    ),
                )
        return True

    async def _groups(self, broker: str, port: EnginePort) -> bool:
        """Ask for all groups, or only for the disk. Returns whether all was answered."""
        if not self._asks(*ABOUT_GROUPS, "disk_used"):
            return True
        limit = GROUPS_OF_PAGE if self._asks(*ABOUT_GROUPS) else 0
        after: str | None = ""
        seen: dict[Subject, None] = {}
        loop = asyncio.get_running_loop()
        began = loop.time()
        for page_number in range(MAX_PAGES):
            try:
                command = commands.GetMetrics(after=after, max_groups=limit, alone=self._alone, sentences=True)
                page = await _ask(port, command, commands.BrokerMetrics)
            except BrokerError as error:
                self.problems.append(f"{broker} did not answer for its groups: {error.remark}.")
                return False
            if page_number == 0:
                self._disk(broker, page.disk_used_percent)
            await self._page(broker, page)
            seen |= dict.fromkeys(Subject(broker, group.group) for group in page.groups)
            after, took = page.next, loop.time() - began
            self.spent_s = max(self.spent_s, took)
            if after is None:
                if limit:
                    self._dead.forget_others(seen, broker)
                return True
            if took > GROUPS_S:
                self.problems.append(f"{broker} took longer than {GROUPS_S:.0f} s; its other groups are not known.")
                return False
        self.problems.append(f"{broker} has more than {MAX_PAGES * GROUPS_OF_PAGE:,} groups; the others are not known.")
        return False

    async def _page(self, broker: str, page: commands.BrokerMetrics) -> None:
        for number, group in enumerate(page.groups, 1):
            self._group(broker, group, is_cut=page.topics_left_out > 0)
            if number % GROUPS_AT_ONCE == 0:
                await asyncio.sleep(0)
        if page.topics_left_out:
            self.problems.append(f"{page.topics_left_out:,} topics of groups at {broker} were not looked at.")

    def _disk(self, broker: str, percent: float) -> None:
        for rule in self.rules:
            if rule.what == "disk_used" and percent > rule.threshold:
                self.readings[rule.id].add(
                    Subject(broker), Sentence(gettext_noop("the disk is {0} % full"), f"{percent:.1f}")
                )

    def _group(self, broker: str, group: commands.GroupMetrics, *, is_cut: bool) -> None:
        subject = Subject(broker, group.group)
        new_dead = self._dead.count(subject, group.dead_lettered, self._now)
        for rule in self.rules:
            if rule.what not in ABOUT_GROUPS or not matches(rule.group, group.group):
                continue
            readings = self.readings[rule.id]
            if rule.what == "group_state":
                if group.state in rule.states:
                    readings.add(subject, _state_text(group))
                elif group.state == "unknown":
                    readings.add_unknown(subject)
            elif rule.what == "group_verdict":
                found = next((one for one in group.verdicts if _is_asked_for(rule, one)), None)
                if found is not None:
                    readings.add(subject, Sentence("{0}: {1}", Sentence(VERDICTS[found.id]), found.sentence))
            elif rule.what == "dead_letters":
                if new_dead > rule.threshold:
                    readings.add(subject, _dead_letters_text(new_dead, group.dead_letters))
            else:
                _read_topics(rule, readings, broker, group, is_cut=is_cut)


def _state_text(group: commands.GroupMetrics) -> Sentence:
    """The state, and the sentence of the worst verdict."""
    state = Sentence(group.state)
    return Sentence("{0}: {1}", state, group.verdicts[0].sentence) if group.verdicts else state


def _is_asked_for(rule: Rule, verdict: commands.VerdictLine) -> bool:
    """Whether a rule on group_verdict fires for this verdict."""
    return (
        verdict.id in VERDICTS
        and verdict.severity in (rule.verdict_severities or get_args(VerdictSeverity))
        and (not rule.verdicts or verdict.id in rule.verdicts)
    )


def _read_topics(rule: Rule, readings: Readings, broker: str, group: commands.GroupMetrics, *, is_cut: bool) -> None:
    if is_cut:
        readings.unknown_groups.add((broker, group.group))
    for topic in group.topics:
        if matches(rule.topic, topic.topic):
            _read_topic(rule, readings, Subject(broker, group.group, topic.topic), topic)


def _read_topic(rule: Rule, readings: Readings, subject: Subject, topic: commands.TopicMetrics) -> None:
    """The lag, or the age of its oldest message. With unknown queues, both may be more than what is known."""
    value = topic.lag if rule.what == "lag" else topic.oldest_ms
    if value is not None and value > rule.threshold:
        readings.add(
            subject,
            _by_number(value, gettext_noop("{0} message waits"), gettext_noop("{0} messages wait"))
            if rule.what == "lag"
            else Sentence(gettext_noop("a message has waited {0}"), duration_text(value)),
        )
    elif value is None or topic.unknown_queues:
        readings.add_unknown(subject)


def _dead_letters_text(new: int, stored: int) -> Sentence:
    one, many = gettext_noop("{0} new dead letter, {1} stored"), gettext_noop("{0} new dead letters, {1} stored")
    return _by_number(new, one, many, f"{stored:,}")


def _by_number(number: int, one: str, many: str, *others: str) -> Sentence:
    """``1 message waits``, ``1,204 messages wait``: one of two templates, in which {0} is the number."""
    return Sentence(one if number == 1 else many, f"{number:,}", *others)


_UNITS = (
    (gettext_noop("{0} d"), 86_400),
    (gettext_noop("{0} h"), 3600),
    (gettext_noop("{0} min"), 60),
    (gettext_noop("{0} s"), 1),
)


def duration_text(ms: int) -> Sentence:
    """A duration in its two largest units: ``3 d 4 h``, ``12 min 5 s``."""
    rest = max(0, ms) // 1000
    parts: list[Sentence] = []
    for template, seconds in _UNITS:
        count, rest = divmod(rest, seconds)
        if count or (seconds == 1 and not parts):
            parts.append(Sentence(template, str(count)))
    return Sentence("{0} {1}", *parts[:2]) if len(parts) > 1 else parts[0]


async def _ask(port: EnginePort, command: commands.Command, expected: type[R]) -> R:
    """The engine's answer. BrokerError."""
    reply = await port.call(command, timeout_ms=TIMEOUT_MS)
    if not isinstance(reply, expected):
        raise BrokerError(f"it answered {type(reply).__name__} where {expected.__name__} was expected")
    return reply

"""The life of an alert, on a clock that the test moves."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from alerts import evaluation
from alerts.evaluation import GROUP_INTERVAL_MS, Alert, Changes, Moment, NewEvents, Notice, Readings, RuleState
from alerts.rules import Rule, Silence, Subject

STALLED = Rule(id=1, name="stalled", what="group_state", states=("stalled",), for_s=60, repeat_s=3600, channels=(5,))
G, H = Subject("broker-a", "g"), Subject("broker-a", "h")
MINUTE = 60_000


class Bench:
    """One rule, its state, and a clock. The wall clock is an hour ahead of the monotonic one."""

    def __init__(self, declared: Rule = STALLED) -> None:
        self.rule = declared
        self.state = RuleState()
        self.silences: list[Silence] = []
        self.mono_ms = 1_000_000

    @property
    def now(self) -> Moment:
        return Moment(self.mono_ms + 3_600_000, self.mono_ms)

    def step(self, *holding: Subject, unknown: tuple[Subject, ...] = (), after_ms: int = 0) -> Changes:
        self.mono_ms += after_ms
        readings = Readings(self.state.alerts)
        for subject in holding:
            readings.add(subject, "stalled")
        for subject in unknown:
            readings.add_unknown(subject)
        return self.state.step(self.rule, readings, self.now)

    def notice(self, after_ms: int = 0) -> Notice | None:
        self.mono_ms += after_ms
        return self.state.notice(self.rule, self.silences, self.now)

    def sent(self, after_ms: int = 0) -> tuple[list[str], list[str]]:
        """The groups that a message says fire, and those that ended; empty lists without a message."""
        notice = self.notice(after_ms)
        if notice is None:
            return [], []
        return [one.subject.group for one in notice.firing], [one.subject.group for one in notice.resolved]


def test_a_condition_fires_after_it_held_long_enough_and_not_before() -> None:
    bench = Bench()
    assert bench.step(G) == ([], [])
    assert bench.step(G, after_ms=59_999) == ([], [])
    assert bench.sent() == ([], [])
    assert [alert.subject for alert in bench.step(G, after_ms=1).fired] == [G]
    assert bench.sent() == (["g"], [])
    assert [alert.subject for alert in bench.step(after_ms=MINUTE).resolved] == [G]
    assert bench.sent() == ([], ["g"])
    assert not bench.state.alerts


def test_a_condition_that_ends_in_between_begins_anew() -> None:
    bench = Bench()
    bench.step(G)
    bench.step(after_ms=30_000)
    bench.step(G, after_ms=30_000)
    assert bench.step(G, after_ms=59_999).fired == []
    assert len(bench.step(G, after_ms=1).fired) == 1


def test_an_unknown_value_changes_nothing() -> None:
    bench = Bench()
    bench.step(G)
    assert bench.step(unknown=(G,), after_ms=MINUTE) == ([], [])
    assert len(bench.step(G, after_ms=1).fired) == 1
    assert bench.step(unknown=(G,), after_ms=MINUTE) == ([], [])
    assert bench.state.firing
    readings = Readings(bench.state.alerts)
    readings.unknown_brokers.add("broker-a")
    assert bench.state.step(bench.rule, readings, bench.now) == ([], [])
    assert bench.state.firing


def test_fifty_groups_are_one_message_and_late_ones_wait_for_the_next() -> None:
    bench = Bench(Rule(id=1, name="n", what="lag", channels=(5,)))
    many = [Subject("broker-a", f"g{number}") for number in range(50)]
    bench.step(*many)
    assert len(bench.sent()[0]) == 50
    bench.step(*many, G, after_ms=1000)
    assert bench.sent() == ([], [])
    assert bench.sent(after_ms=GROUP_INTERVAL_MS) == (["g"], [])


def test_an_alert_that_flaps_within_the_interval_is_not_sent_again() -> None:
    bench = Bench(Rule(id=1, name="n", what="lag", channels=(5,)))
    bench.step(G)
    assert bench.sent() == (["g"], [])
    for _ in range(5):
        bench.step(after_ms=1000)
        bench.step(G, after_ms=1000)
    assert bench.sent(after_ms=GROUP_INTERVAL_MS) == ([], [])


def test_a_firing_alert_is_repeated() -> None:
    bench = Bench(Rule(id=1, name="n", what="lag", channels=(5,), repeat_s=3600))
    bench.step(G)
    assert bench.sent() == (["g"], [])
    assert bench.sent(after_ms=3_599_999) == ([], [])
    assert bench.sent(after_ms=1) == (["g"], [])


def test_a_silence_holds_messages_back_until_it_ends() -> None:
    bench = Bench(Rule(id=1, name="n", what="lag", channels=(5,)))
    until = bench.now.wall_ms + 10 * MINUTE
    bench.silences = [Silence(id=1, rule=None, group="g", from_ms=0, to_ms=until, comment="")]
    bench.step(G, H)
    assert bench.sent() == (["h"], [])
    bench.step(G, after_ms=2 * MINUTE)
    assert bench.sent() == ([], ["h"])
    assert bench.sent(after_ms=8 * MINUTE) == (["g"], [])


def test_the_end_of_an_unsent_alert_is_not_sent() -> None:
    bench = Bench(Rule(id=1, name="n", what="lag", channels=(5,)))
    bench.silences = [Silence(id=1, rule=1, group="*", from_ms=0, to_ms=1 << 60, comment="")]
    bench.step(G)
    assert bench.sent() == ([], [])
    bench.silences = []
    bench.step(after_ms=2 * MINUTE)
    assert bench.sent() == ([], [])


def test_ends_are_sent_only_if_the_rule_says_so() -> None:
    bench = Bench(Rule(id=1, name="n", what="lag", channels=(5,), send_resolved=False))
    bench.step(G)
    bench.sent()
    bench.step(after_ms=2 * MINUTE)
    assert bench.sent() == ([], [])


def test_a_rule_without_channels_sends_nothing() -> None:
    bench = Bench(Rule(id=1, name="n", what="lag"))
    assert len(bench.step(G).fired) == 1
    assert bench.notice() is None


def test_alerts_of_an_earlier_process_go_on() -> None:
    bench = Bench(Rule(id=1, name="n", what="lag", channels=(5,), repeat_s=3600))
    fired = Moment(0, bench.mono_ms - MINUTE)
    bench.state.restore([Alert(subject=G, text="t", since=fired, fired=fired, notified_mono=fired.mono_ms, record=3)])
    assert bench.step(G) == ([], [])
    assert bench.sent() == ([], [])
    assert [alert.record for alert in bench.step().resolved] == [3]
    assert bench.sent() == ([], ["g"])


def test_the_alerts_of_a_rule_are_limited_and_the_others_counted(monkeypatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_ALERTS", 10)
    bench = Bench(Rule(id=1, name="n", what="lag", channels=(5,)))
    bench.step(*(Subject("b", f"g{number}") for number in range(35)))
    assert len(bench.state.alerts) == 10
    assert bench.state.left_out == 25


def test_new_events_count_until_there_were_none_for_a_while() -> None:
    new_events, quiet = NewEvents(), NewEvents.QUIET_MS
    new = [new_events.count(G, total, Moment(0, at)) for at, total in [(0, 7), (1, 9), (2, 10), (2 + quiet - 1, 10)]]
    assert new == [0, 2, 3, 3]
    assert new_events.count(G, 10, Moment(0, 2 + quiet)) == 0
    assert new_events.count(G, 3, Moment(0, 3 + quiet)) == 0  # its process was restarted
    assert new_events.count(G, 4, Moment(0, 4 + quiet)) == 1
    new_events.forget_others({}, "broker-a")
    assert new_events.count(G, 99, Moment(0, 5 + quiet)) == 0


class AlertLife(RuleBasedStateMachine):
    """Random facts, silences and clocks, compared with what a reader of the messages must conclude."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.held_since: dict[Subject, int] = {}
        self.heard_firing: set[str] = set()
        self.last_sent: int | None = None

    @rule(holding=st.sets(st.sampled_from([G, H])), after_s=st.integers(0, 90))
    def facts(self, holding: set[Subject], after_s: int) -> None:
        before = {alert.subject for alert in self.bench.state.firing}
        changes = self.bench.step(*holding, after_ms=after_s * 1000)
        now = self.bench.mono_ms
        self.held_since = {subject: self.held_since.get(subject, now) for subject in holding}
        expected = {subject for subject, since in self.held_since.items() if now - since >= 60_000}
        firing = {alert.subject for alert in self.bench.state.firing}
        assert firing == expected
        assert {alert.subject for alert in changes.fired} == firing - before
        assert {alert.subject for alert in changes.resolved} == before - firing

    @rule(after_s=st.integers(0, 90))
    def unknown(self, after_s: int) -> None:
        before = set(self.bench.state.alerts)
        assert self.bench.step(unknown=(G, H), after_ms=after_s * 1000) == ([], [])
        assert set(self.bench.state.alerts) == before

    @precondition(lambda self: not self.bench.silences)
    @rule(after_s=st.integers(0, 90))
    def message(self, after_s: int) -> None:
        notice = self.bench.notice(after_s * 1000)
        if notice is None:
            return
        assert self.last_sent is None or self.bench.mono_ms - self.last_sent >= GROUP_INTERVAL_MS
        self.last_sent = self.bench.mono_ms
        for alert in notice.resolved:
            assert alert.subject.group in self.heard_firing
            self.heard_firing.discard(alert.subject.group)
        self.heard_firing |= {alert.subject.group for alert in notice.firing}
        assert self.heard_firing == {alert.subject.group for alert in self.bench.state.firing}

    @invariant()
    def nobody_heard_of_what_is_pending(self) -> None:
        for alert in self.bench.state.alerts.values():
            assert alert.fired is not None or alert.notified_mono is None


AlertLife.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestAlertLife = AlertLife.TestCase

"""What the rules find at a scripted broker."""

from typing import Any, Literal

import pytest

from alerts import facts
from alerts.evaluation import Moment, NewEvents, Readings, RuleState
from alerts.facts import Watch, duration_text
from alerts.rules import Rule, Subject, What
from bridge.port import OverloadedError, PortTimeout, commands
from tests.fakes.fake_port import FakePort, broker_metrics, group_metrics, snapshot, topic_metrics

A = "broker-a"


class Bench:
    """A broker, and what keeps from round to round."""

    def __init__(self) -> None:
        self.port = FakePort()
        self.dead, self.missed = NewEvents(), NewEvents()
        self.problems: list[str] = []

    async def look(self, *rules: Rule, known: tuple[Subject, ...] = ()) -> list[Readings]:
        states = [(rule, RuleState()) for rule in rules]
        for _, state in states:
            state.alerts = dict.fromkeys(known)  # type: ignore[assignment]
        watch = Watch(states, self.dead, self.missed, Moment(0, 0))
        await watch.look({A: self.port})
        self.problems = watch.problems
        return [watch.readings[rule.id] for rule in rules]

    async def found(self, what: What, **fields: Any) -> dict[Subject, str]:
        [readings] = await self.look(Rule(id=1, name="n", what=what, **fields))
        return readings.holding


async def test_states_lags_and_ages_are_found_where_the_patterns_fit() -> None:
    bench = Bench()
    bench.port.replies[commands.GetMetrics] = broker_metrics(
        group_metrics("billing", topic_metrics("orders", lag=1204, oldest_ms=725_000), topic_metrics("%RETRY%billing")),
        group_metrics("idle", topic_metrics("orders", lag=0, oldest_ms=0), state="ok"),
        disk_used_percent=80.5,
    )
    assert await bench.found("group_state", states=("stalled",)) == {
        Subject(A, "billing"): "stalled: billing stands still: 2 messages."
    }
    assert await bench.found("group_state", states=("stalled",), group="i*") == {}
    assert await bench.found("lag", threshold=1000) == {Subject(A, "billing", "orders"): "1,204 messages wait"}
    assert await bench.found("lag", threshold=1204) == {}
    assert list(await bench.found("lag", topic="%RETRY%*")) == [Subject(A, "billing", "%RETRY%billing")]
    oldest = {Subject(A, "billing", "orders"): "a message has waited 12 min 5 s"}
    assert await bench.found("oldest", threshold=600_000) == oldest
    assert await bench.found("disk_used", threshold=80) == {Subject(A): "the disk is 80.5 % full"}
    assert await bench.found("disk_used", threshold=81) == {}


def line(name: str, severity: Literal["error", "warning", "info"]) -> commands.VerdictLine:
    return commands.VerdictLine(id=name, severity=severity, sentence=f"It is {name}.")


async def test_verdicts_are_found_by_id_and_severity() -> None:
    bench = Bench()
    both = [line("subscriptions_disagree", "error"), line("heartbeat_late", "warning")]
    bench.port.replies[commands.GetMetrics] = broker_metrics(
        group_metrics("g", state="ok", verdicts=both),
        group_metrics("h", state="ok", verdicts=[line("lag_unknown", "info")]),
        group_metrics("late", verdicts=[line("heartbeat_late", "error")]),
    )

    async def found(**fields: Any) -> dict[str, str]:
        holding = await bench.found("group_verdict", **fields)
        return {subject.group: text for subject, text in holding.items()}

    late = "heartbeat late: It is heartbeat_late."
    disagree = "subscriptions disagree: It is subscriptions_disagree."
    assert await found(verdicts=("heartbeat_late",)) == {"g": late, "late": late}
    assert await found(verdicts=("heartbeat_late",), verdict_severities=("error",)) == {"late": late}
    assert await found(verdict_severities=("error",)) == {"g": disagree, "late": late}
    assert await found(verdict_severities=("warning",)) == {"g": late}
    assert await found(verdicts=("no_member",)) == {}
    assert await found(verdict_severities=("error",), group="l*") == {"late": late}


async def test_groups_are_judged_alone_only_where_no_other_broker_is() -> None:
    bench, other = Bench(), FakePort()
    rule = Rule(id=1, name="n", what="group_state", states=("stalled",))
    await Watch([(rule, RuleState())], bench.dead, bench.missed, Moment(0, 0)).look({A: bench.port, "broker-b": other})
    asked = [command for command in bench.port.commands if isinstance(command, commands.GetMetrics)]
    assert [command.alone for command in asked] == [False]


async def test_what_is_unknown_is_neither_true_nor_false() -> None:
    bench = Bench()
    bench.port.replies[commands.GetMetrics] = broker_metrics(
        group_metrics(
            "g",
            topic_metrics("all", lag=None, oldest_ms=None, unknown_queues=2),
            topic_metrics("some", lag=5, unknown_queues=1),
            state="unknown",
        ),
    )
    known = (Subject(A, "g"), Subject(A, "g", "all"), Subject(A, "g", "some"), Subject(A, "g", "gone"))
    state = Rule(id=1, name="s", what="group_state", states=("stalled",))
    lag, low = Rule(id=2, name="l", what="lag", threshold=9), Rule(id=3, name="m", what="lag", threshold=4)
    of_state, of_lag, of_low = await bench.look(state, lag, low, known=known)
    assert of_state.unknown == {Subject(A, "g")}
    assert of_lag.unknown == {Subject(A, "g", "all"), Subject(A, "g", "some")}
    assert (set(of_low.holding), of_low.unknown) == ({Subject(A, "g", "some")}, {Subject(A, "g", "all")})
    assert not of_lag.is_unknown(Subject(A, "g", "gone"))
    [named] = await bench.look(Rule(id=1, name="s", what="group_state", states=("unknown",)))
    assert named.holding == {Subject(A, "g"): "unknown: g stands still: 2 messages."}


async def test_topics_that_were_not_looked_at_are_unknown() -> None:
    bench = Bench()
    bench.port.replies[commands.GetMetrics] = broker_metrics(group_metrics("g"), topics_left_out=3)
    [readings] = await bench.look(Rule(id=1, name="l", what="lag"))
    assert readings.is_unknown(Subject(A, "g", "other"))
    assert bench.problems == ["3 topics of groups at broker-a were not looked at."]


async def test_all_pages_are_asked_for() -> None:
    bench = Bench()
    pages = {
        "": broker_metrics(*(group_metrics(f"a{number}") for number in range(30)), next="a9"),
        "a9": broker_metrics(group_metrics("z")),
    }
    bench.port.replies[commands.GetMetrics] = lambda command: pages[command.after]
    assert len(await bench.found("group_state", states=("stalled",))) == 31


async def test_a_slow_broker_is_asked_for_no_further_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "GROUPS_S", -1.0)
    bench = Bench()
    bench.port.replies[commands.GetMetrics] = broker_metrics(group_metrics("a"), next="a")
    [readings] = await bench.look(ALL[1])
    assert readings.holding == {Subject(A, "a"): "stalled: a stands still: 2 messages."}
    assert readings.is_unknown(Subject(A, "z"))
    assert "its other groups are not known" in bench.problems[0]


async def test_only_what_rules_need_is_asked_for() -> None:
    bench = Bench()
    await bench.look(Rule(id=1, name="d", what="engine_down"))
    assert [type(command) for command in bench.port.commands] == [commands.GetBroker]
    bench.port.commands.clear()
    await bench.look(Rule(id=1, name="d", what="disk_used", threshold=80))
    assert bench.port.commands == [
        commands.GetBroker(),
        commands.GetMetrics(after="", max_groups=0, alone=True, sentences=True),
    ]


async def test_new_dead_letters_and_missed_arrivals_are_counted_from_the_first_round_on() -> None:
    bench = Bench()
    for dead, missed, expected in ((7, 1, []), (7, 1, []), (9, 2, ["2 new dead letters, 2 stored"])):
        bench.port.replies[commands.GetMetrics] = broker_metrics(group_metrics("g", dead_lettered=dead))
        bench.port.replies[commands.GetSnapshot] = snapshot(counters={"woken_missed_arrival": missed})
        rules = (Rule(id=1, name="d", what="dead_letters"), Rule(id=2, name="m", what="missed_arrivals"))
        of_dead, of_missed = await bench.look(*rules)
        assert list(of_dead.holding.values()) == expected
        assert bool(of_missed.holding) == bool(expected)


ALL = (
    Rule(id=1, name="e", what="engine_down"),
    Rule(id=2, name="s", what="group_state", states=("stalled",)),
    Rule(id=3, name="u", what="disk_used"),
    Rule(id=4, name="m", what="missed_arrivals"),
)


async def test_an_engine_that_does_not_answer_leaves_the_rest_unknown() -> None:
    bench = Bench()
    bench.port.replies[commands.GetBroker] = PortTimeout("no answer within 10 s")
    down, *others = await bench.look(*ALL)
    assert down.holding == {Subject(A): "the engine does not answer: no answer within 10 s"}
    assert all(readings.is_unknown(Subject(A, "g")) and not readings.holding for readings in others)
    assert bench.problems == [f"{A} does not answer, so what began there since is not known: no answer within 10 s."]


async def test_a_busy_engine_is_not_down() -> None:
    bench = Bench()
    bench.port.replies[commands.GetBroker] = OverloadedError("busy")
    assert not (await bench.look(*ALL))[0].holding
    assert bench.problems == ["broker-a gave no answer: busy."]


@pytest.mark.parametrize("asked", [commands.GetMetrics, commands.GetSnapshot])
async def test_a_question_without_an_answer_leaves_its_rules_unknown(asked: type[commands.Command]) -> None:
    bench = Bench()
    bench.port.replies[asked] = PortTimeout("no answer")
    down, state, _, missed = await bench.look(*ALL)
    assert not down.holding
    assert state.is_unknown(Subject(A, "g")) == (asked is commands.GetMetrics)
    assert missed.is_unknown(Subject(A)) == (asked is commands.GetSnapshot)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 s"), (999, "0 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h"), (273_600_000, "3 d 4 h")],
)
def test_durations_have_two_units(ms: int, text: str) -> None:
    assert duration_text(ms) == text


def test_one_is_singular() -> None:
    one, many = "{0} message waits", "{0} messages wait"
    assert facts._by_number(1, one, many) == "1 message waits"
    assert facts._by_number(1204, one, many) == "1,204 messages wait"

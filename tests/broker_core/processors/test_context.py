"""Views for people: wall times reckoned from the monotonic clock, so a step of the wall clock moves no deadline."""

from broker_core import commands as c
from tests.fakes.engine import Bench


def test_a_step_of_the_wall_clock_does_not_move_what_is_left() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    request = bench.pull("orders", 1, suspend_timeout_ms=10_000)
    bench.clock.advance(4000)
    bench.clock.step_wall(-3_600_000)
    reply = bench.call(c.GetHolds())
    assert isinstance(reply, c.Holds)
    assert reply.holds[0].deadline_ms - bench.clock.now().wall_ms == 6000
    bench.tick(6004)
    assert bench.final(request) is not None


def test_draining_is_a_problem_in_words() -> None:
    bench = Bench()
    assert bench.context.problem() == ""
    bench.engine.drain(bench.clock.now())
    assert "shutting down" in bench.context.problem()

"""A full disk: retention runs first, readiness tells the truth, and the broker recovers by itself."""

import pytest

from broker_core import commands
from broker_core.commands import BrokerView, Failed
from broker_core.store.clean_commit_log import Clean
from broker_core.store.config_tables import TableWrite
from tests.fakes.engine import Bench, send


def full_bench() -> Bench:
    """A broker with some segments on a disk that has just become full."""
    bench = Bench(mapped_file_size_commit_log=65_536)
    for _ in range(40):
        bench.call(send("orders", b"x" * 4000, b"y" * 4000))
        bench.tick(1)
    bench.file_work()
    bench.files.used_percent = 99.0
    bench.files.full = True
    return bench


def problem(bench: Bench) -> str:
    view = bench.call(commands.GetBroker())
    assert isinstance(view, BrokerView)
    return view.problem


def test_retention_runs_although_no_table_can_be_written() -> None:
    bench = full_bench()
    bench.context.topics.dirty = True
    bench.tick(20_000)
    kinds = []
    for _ in range(3):
        work = bench.engine.next_file_work(bench.clock.now())
        kinds.append(type(work))
        if isinstance(work, Clean):
            bench.take(bench.engine.file_work_done(work.run(), bench.clock.now()))
        elif work is not None:
            with pytest.raises(OSError, match="No space"):
                work.run()
            bench.engine.file_work_failed(work, bench.clock.now())
        bench.tick(1000)
    assert kinds[0] is Clean
    assert TableWrite in kinds
    assert bench.context.store.min_physical_offset > 0


def test_readiness_says_what_publishing_says_and_recovers_by_itself() -> None:
    bench = full_bench()
    bench.files.used_percent = 50.0  # a quota, or room for others only
    refused = None
    for _ in range(40):
        answer = bench.call(send("orders", b"x" * 4000))
        if isinstance(answer, Failed):
            refused = answer
            break
    assert refused is not None and "accepts no more messages" in refused.remark
    assert problem(bench) == refused.remark
    bench.tick(2000)
    bench.engine.next_file_work(bench.clock.now())
    assert problem(bench) == refused.remark
    bench.files.full = False
    bench.tick(2000)
    while (work := bench.engine.next_file_work(bench.clock.now())) is not None:
        bench.engine.file_work_done(work.run(), bench.clock.now())
    assert problem(bench) == ""
    assert not isinstance(bench.call(send("orders", b"again")), Failed)


def test_a_refused_message_makes_retention_look_at_once() -> None:
    bench = full_bench()
    bench.files.used_percent = 50.0
    bench.tick(20_000)
    while (work := bench.engine.next_file_work(bench.clock.now())) is not None:
        bench.engine.file_work_failed(work, bench.clock.now())
        if isinstance(work, TableWrite):
            break
    bench.files.used_percent = 99.0
    while not isinstance(bench.call(send("orders", b"x" * 4000)), Failed):
        pass
    assert isinstance(bench.engine.next_file_work(bench.clock.now()), Clean)


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_on_a_full_disk_serves_reads_and_says_why_it_accepts_nothing(clean: bool) -> None:
    bench = full_bench()
    if clean:
        bench.files.full = False
        bench.flush()
        bench.engine.close(bench.clock.now())
        bench.files.full = True
    bench.files.kill()
    again = Bench(files=bench.files, clock=bench.clock, mapped_file_size_commit_log=65_536)
    assert "full" in problem(again) or "accepts no more messages" in problem(again)
    assert again.context.store.get_message("orders", 0, 0, 32, 1 << 20, None).status == "FOUND"

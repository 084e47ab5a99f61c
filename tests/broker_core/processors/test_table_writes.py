"""The tables in config/: each is written when it has changed, and again when the disk refused it."""

from broker_core import commands as c
from broker_core.store.config_tables import TableWrite
from tests.fakes.engine import Bench
from tests.fakes.pops import bodies, take


def names(bench: Bench) -> list[str]:
    """Write what is due; the names of the tables, in order."""
    found = []
    while (work := bench.engine.next_file_work(bench.clock.now())) is not None:
        work.run()
        bench.take(bench.engine.file_work_done(work, bench.clock.now()))
        if isinstance(work, TableWrite):
            found.append(work.name)
    return found


def test_changed_tables_are_written_once() -> None:
    bench = Bench()
    names(bench)
    assert names(bench) == []
    bench.send("orders", b"x")
    bench.call(c.SetMessageRequestMode(topic="orders", consumer_group="g", mode="POP"))
    assert names(bench) == ["topics", "subscriptionGroup", "messageRequestMode"]
    assert names(bench) == []


def test_offsets_are_written_at_their_interval() -> None:
    bench = Bench(flush_consumer_offset_interval=5000)
    bench.send("orders", b"x", b"y")
    bench.pull("orders", 0, commit_offset=1)
    assert "consumerOffset" in names(bench)
    bench.pull("orders", 0, commit_offset=2)
    assert names(bench) == []
    bench.clock.advance(5000)
    assert names(bench) == ["consumerOffset"]


def test_offsets_of_pops_are_written_when_their_check_points_are_on_the_disk() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    names(bench)
    bench.flush()
    bench.clock.advance(11_000)
    take(bench)
    assert "consumerOffset" not in names(bench), "or a power cut would keep the offset and lose the check point"
    bench.clock.advance(11_000)
    assert names(bench) == [] and bench.flush()
    assert names(bench) == ["consumerOffset"]
    bench.files.crash()
    again = Bench(files=bench.files, clock=bench.clock)
    again.tick(61_000)
    assert bodies(take(again)) == [b"x"]


def test_a_table_that_the_disk_refused_is_written_again() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"}))
    names(bench)
    bench.call(c.SetMessageRequestMode(topic="orders", consumer_group="g", mode="POP"))
    work = bench.engine.next_file_work(bench.clock.now())
    assert work is not None
    bench.engine.file_work_failed(work, bench.clock.now())
    assert names(bench) == ["messageRequestMode"]


def test_a_stop_writes_what_is_left() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    bench.call(c.SetMessageRequestMode(topic="orders", consumer_group="g", mode="POP"))
    bench.take(bench.engine.close(bench.clock.now()))
    again = Bench(files=bench.files, clock=bench.clock)
    assert again.context.request_modes.get("orders", "g") is not None

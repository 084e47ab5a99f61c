"""Slaves report and leave: what senders and everybody else notice."""

from typing import Any

from broker_core import commands as c
from broker_core.events import SlaveConnected, SlaveLost
from tests.fakes.engine import Bench


def report(bench: Bench, offset: int, slave: str = "slave") -> None:
    command = c.ReportSlaveMaxOffset(address=f"{slave}:1", slave_ack_offset=offset, transferred=max(offset, 0))
    assert isinstance(bench.call(command, connection=slave), c.Done)


def remove(bench: Bench, *, refused: bool, slave: str = "slave") -> None:
    command = c.RemoveSlave(address=f"{slave}:1", reason="it is ahead" if refused else "it left", refused=refused)
    assert isinstance(bench.call(command, connection=slave), c.Done)


def replication(bench: Bench) -> c.Replication:
    view = bench.call(c.GetBroker())
    assert isinstance(view, c.BrokerView)
    return view.replication


def events(bench: Bench) -> list[Any]:
    return list(bench.engine.events.after(0, SlaveConnected, SlaveLost))


def test_a_slave_is_shown_from_its_first_report_to_its_end() -> None:
    bench = Bench(ha_listen_port=10912)
    bench.send("orders", b"one")
    end = bench.context.store.appended_offset
    report(bench, 0)
    report(bench, end - 10)
    view = replication(bench)
    assert (view.broker_role, view.ha_listen_port, view.slaves_needed) == ("ASYNC_MASTER", 10912, 0)
    assert [(slave.address, slave.lag_bytes) for slave in view.slaves] == [("slave:1", 10)]
    remove(bench, refused=False)
    view = replication(bench)
    assert view.slaves == [] and view.refused == 0 and view.last_refused is None
    connected, lost = events(bench)
    assert (connected.address, connected.begin_offset) == ("slave:1", 0)
    assert (lost.slave_ack_offset, lost.reason, lost.refused) == (end - 10, "it left", False)


def test_a_slave_that_was_refused_is_shown_although_it_never_reported() -> None:
    bench = Bench(ha_listen_port=10912)
    remove(bench, refused=True)
    view = replication(bench)
    assert view.refused == 1 and view.last_refused is not None and view.last_refused.reason == "it is ahead"
    (lost,) = events(bench)
    assert (lost.slave_ack_offset, lost.refused) == (-1, True)


def test_a_connection_that_never_reported_leaves_without_an_event() -> None:
    bench = Bench(ha_listen_port=10912)
    remove(bench, refused=False)
    assert events(bench) == []

"""The broker for other people's tests."""

import socket
from pathlib import Path

import pytest

from broker_core.client import Message
from broker_core.client.sync import DefaultMQProducer
from broker_core.errors import RequestError
from broker_core.server.remoting_server import CannotServe
from broker_core.testing import running_broker
from broker_core.testing.running_broker import RunningBroker, free_ports


def test_two_brokers_at_once_are_separate() -> None:
    with RunningBroker() as one, RunningBroker(brokerName="other") as other:
        assert len({one.namesrv_addr, one.broker_addr, other.namesrv_addr, other.broker_addr}) == 4
        for broker, name in ((one, "broker-a"), (other, "other")):
            broker.create_topic("t", 1)
            with DefaultMQProducer("p", namesrv_addr=broker.namesrv_addr) as producer:
                sent = producer.send(Message("t", b"x"))
                assert (sent.message_queue.broker_name, sent.queue_offset) == (name, 0)


def test_nothing_is_left_after_stop() -> None:
    broker = RunningBroker()
    broker.start()
    assert broker._folder is not None
    folder = Path(broker._folder.name)
    assert folder.is_dir()
    broker.stop()
    broker.stop()
    assert not folder.exists()
    for address in (broker.namesrv_addr, broker.broker_addr):
        with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
            probe.connect(("127.0.0.1", int(address.partition(":")[2])))


def test_other_ports_are_tried_when_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = taken.getsockname()[1]
        (free,) = free_ports(1)
        answers = iter([[busy, free], [free, busy], free_ports(2)])
        monkeypatch.setattr(running_broker, "free_ports", lambda number: next(answers))
        with RunningBroker() as broker:
            broker.create_topic("t")
        monkeypatch.setattr(running_broker, "free_ports", lambda number: [busy, free])
        with pytest.raises(CannotServe, match="is taken"):
            RunningBroker().start()


def test_wrong_options_and_names_are_refused() -> None:
    with pytest.raises(RequestError, match="longPolling is not an option"):
        RunningBroker(longPolling=True)
    with pytest.raises(RuntimeError, match="call start"):
        RunningBroker().create_topic("t")
    with RunningBroker(autoCreateTopicEnable=False) as broker, pytest.raises(RequestError, match="contains characters"):
        broker.create_topic("a b")


def test_a_broker_that_runs_is_not_started_again() -> None:
    with RunningBroker() as broker:
        address = broker.broker_addr
        with pytest.raises(RuntimeError, match="the broker runs already"):
            broker.start()
        assert broker.broker_addr == address

"""Producer groups, as a heartbeat fills them."""

from broker_core import commands as c
from tests.fakes.engine import Bench
from tests.fakes.members import beat, connect, failure


def test_producers_are_in_their_groups_until_they_go() -> None:
    bench = Bench()
    for name in "AB":
        connect(bench, name)
        bench.call(
            c.HeartBeat(client_id=name, protocol="remoting", producer_groups=["CLIENT_INNER_PRODUCER", name]), name
        )
    reply = bench.call(c.GetProducerConnections())
    assert isinstance(reply, c.ProducerConnections)
    assert {group: [client.client_id for client in clients] for group, clients in reply.groups.items()} == {
        "A": ["A"],
        "B": ["B"],
        "CLIENT_INNER_PRODUCER": ["A", "B"],
    }
    bench.call(c.UnregisterClient(client_id="A", producer_group="A"), "A")
    bench.call(c.CloseConnection(), "B")
    reply = bench.call(c.GetProducerConnections())
    assert isinstance(reply, c.ProducerConnections) and list(reply.groups) == ["CLIENT_INNER_PRODUCER"]
    assert failure(bench, c.GetProducerConnections(group="B")).code == 1
    bench.call(beat("A"), "A")
    bench.tick(119_999)
    assert bench.context.producers.groups_of("A") == ["CLIENT_INNER_PRODUCER"]
    bench.tick(1)
    assert bench.context.producers.groups_of("A") == []


def test_an_older_connection_of_a_client_closes_after_the_newer_one() -> None:
    bench = Bench()
    for connection, groups in (("old", ["A", "B"]), ("new", ["A"])):
        bench.call(c.OpenConnection(client_id="", protocol="remoting"), connection=connection)
        heartbeat = c.HeartBeat(client_id="x@1", protocol="remoting", producer_groups=groups, consumers=[])
        assert not isinstance(bench.call(heartbeat, connection=connection), c.Failed)
    for connection in ("new", "old"):
        assert bench.call(c.CloseConnection(), connection=connection) == c.Done()
    assert list(bench.context.producers) == [] and bench.context.producers.find_channel("x@1") is None

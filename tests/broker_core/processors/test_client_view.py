"""Who is connected, in which groups."""

from broker_core import commands as c
from tests.fakes.engine import Bench
from tests.fakes.members import beats, connect, failure, join


def clients(bench: Bench, **fields: object) -> c.Clients:
    reply = bench.call(c.GetClients(**fields))  # type: ignore[arg-type]
    assert isinstance(reply, c.Clients), reply
    return reply


def test_every_connection_is_listed_in_the_order_of_its_coming() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    came = bench.clock.now().wall_ms
    connect(bench, "nameless")
    connect(bench, "web", "websocket")
    join(bench, "A", "g", "h", producer_groups=["p"])
    bench.pull("orders", 1, connection="A")
    bench.clock.advance(5000)
    beats(bench, "A", "g")
    listed = clients(bench)
    assert [(view.client_id, view.protocol, view.last_heartbeat_ms) for view in listed.clients] == [
        ("", "remoting", None),
        ("web", "websocket", None),
        ("A", "remoting", came + 5000),
    ]
    assert listed.clients[2] == c.ClientView(
        broker="broker-a",
        client_id="A",
        protocol="remoting",
        remote="ip:A",
        language="JAVA",
        version=493,
        connected_at_ms=came,
        last_heartbeat_ms=came + 5000,
        producer_groups=["p"],
        consumer_groups=["g", "h"],
        holds=1,
    )


def test_clients_of_a_group_or_the_first_ones() -> None:
    bench = Bench()
    join(bench, "A", "g", producer_groups=["p"])
    join(bench, "B", "h", producer_groups=["p"])
    assert [view.client_id for view in clients(bench, group="h").clients] == ["B"]
    assert [view.client_id for view in clients(bench, group="p").clients] == ["A", "B"]
    first = clients(bench, limit=1)
    assert (first.total, len(first.clients)) == (2, 1)
    assert failure(bench, c.GetClients(limit=0)).pointer == "/limit"


def test_the_connections_of_a_consumer_group() -> None:
    bench = Bench()
    assert failure(bench, c.GetConsumerConnections(group="g")).code == 206
    join(bench, "A", topics={"b": "TagA", "a": "*"}, version=3)
    reply = bench.call(c.GetConsumerConnections(group="g"))
    assert isinstance(reply, c.ConsumerConnections)
    assert (reply.consume_type, reply.message_model, reply.consume_from_where) == (
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
    )
    assert reply.subscriptions == [
        c.SubscriptionData(topic="a", sub_version=3),
        c.SubscriptionData(topic="b", sub_string="TagA", sub_version=3),
    ]
    assert [view.client_id for view in reply.clients] == ["A"]


def test_a_client_is_found_by_its_id_among_many() -> None:
    bench = Bench()
    for name in ("A", "B", "C"):
        join(bench, name)
    join(bench, "B", connection="another of B")
    assert [view.remote for view in clients(bench, client_id="B", limit=5).clients] == ["ip:B", "ip:another of B"]
    assert clients(bench, client_id="nobody").clients == []


def test_clients_come_in_pages() -> None:
    bench = Bench()
    for name in "abcde":
        connect(bench, name)
    bench.call(c.CloseConnection(), "b")
    pages, after = [], 0
    while True:
        page = clients(bench, after=after, limit=2)
        pages.append("".join(view.client_id or view.remote[-1] for view in page.clients))
        assert page.total == 4
        if page.next is None:
            break
        after = page.next
    assert pages == ["ac", "de"]

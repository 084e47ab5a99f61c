"""Members of consumer groups on a Bench: they join, send heartbeats and record their notices."""

from typing import Any

from broker_core import commands as c
from broker_core.events import Event
from tests.fakes.engine import Bench


def beat(
    client_id: str,
    *groups: str,
    topics: dict[str, str] | None = None,
    version: int = 1,
    model: c.MessageModel = "CLUSTERING",
    **more: Any,
) -> c.HeartBeat:
    """A heartbeat for these groups (by default "g"), each with the same subscriptions: topic -> expression."""
    subscriptions = [
        c.SubscriptionData(topic=topic, sub_string=expression, sub_version=version)
        for topic, expression in ({"orders": "*"} if topics is None else topics).items()
    ]
    return c.HeartBeat(
        client_id=client_id,
        **{"protocol": "remoting", "language": "JAVA", "version": 493} | more,
        consumers=[
            c.ConsumerData(group=group, message_model=model, subscriptions=subscriptions) for group in groups or ("g",)
        ],
    )


def connect(bench: Bench, connection: Any, protocol: c.Protocol = "remoting") -> None:
    client_id = "" if protocol == "remoting" else str(connection)
    reply = bench.call(c.OpenConnection(client_id=client_id, protocol=protocol, remote=f"ip:{connection}"), connection)
    assert reply == c.Done(), reply


def join(bench: Bench, client_id: str, *groups: str, connection: Any = None, **more: Any) -> bool:
    """Open a connection, named like the client, and send the first heartbeat; returns whether it changed anything."""
    where = connection or client_id
    connect(bench, where)
    return beats(bench, client_id, *groups, connection=where, **more)


def beats(bench: Bench, client_id: str, *groups: str, connection: Any = None, **more: Any) -> bool:
    reply = bench.call(beat(client_id, *groups, **more), connection or client_id)
    assert isinstance(reply, c.HeartBeatDone), reply
    return reply.sub_changed


def notices(bench: Bench, connection: Any) -> list[str]:
    """The groups of which the connection got change notices since the last call."""
    replies = bench.replies.pop((connection, c.NOTICE_ID), [])
    assert all(isinstance(notice, c.ConsumerIdsChanged) for notice in replies)
    return [notice.group for notice in replies if isinstance(notice, c.ConsumerIdsChanged)]


def client_ids(bench: Bench, group: str = "g") -> list[str]:
    """The client ids that GET_CONSUMER_LIST_BY_GROUP returns; [] for a group without members."""
    reply = bench.call(c.GetConsumerListByGroup(group=group), "asker")
    if isinstance(reply, c.Failed):
        assert reply.code == 1
        return []
    assert isinstance(reply, c.ConsumerList)
    return reply.client_ids


def events(bench: Bench, *kinds: type[Event]) -> list[Any]:
    return list(bench.engine.events.after(0, *kinds))


def failure(bench: Bench, command: c.Command, connection: Any = "c") -> c.Failed:
    reply = bench.call(command, connection)
    assert isinstance(reply, c.Failed), reply
    return reply


def subscribe_by_sql(bench: Bench, expression: str, version: int) -> None:
    """A heartbeat of A."""
    subscription = c.SubscriptionData(
        topic="orders", sub_string=expression, expression_type="SQL92", sub_version=version
    )
    group = c.ConsumerData(group="g", subscriptions=[subscription])
    bench.call(c.HeartBeat(client_id="A", protocol="remoting", consumers=[group]), "A")

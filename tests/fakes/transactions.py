"""A producer of transactions on a bench."""

from typing import Any

from broker_core import commands as c
from broker_core.commands import NOTICE_ID
from broker_core.events import Event
from broker_core.formats.message_properties import encode
from broker_core.store.transactional_message_service import OP_TOPIC
from tests.fakes.engine import Bench, bodies

PRODUCER = "producer"
"""A connection."""


def half(
    body: bytes = b"x", *, topic: str = "orders", group: str = "pg", sys_flag: int = 4, born: int = 0, **more: str
) -> c.SendMessage:
    """A send of a half message, with more properties; an empty value takes a property out."""
    properties = {"TRAN_MSG": "true", "PGROUP": group} | more
    message = c.OutgoingMessage(
        body=body,
        properties=encode({name: value for name, value in properties.items() if value}),
        queue_id=1,
        sys_flag=sys_flag,
        born_timestamp=born,
    )
    return c.SendMessage(topic=topic, messages=[message])


def begin(bench: Bench, body: bytes = b"x", **more: Any) -> c.SentMessage:
    """Store a half message."""
    sent = bench.call(half(body, **more))
    assert isinstance(sent, c.Sent), sent
    return sent.messages[0]


def ending(sent: c.SentMessage, decision: Any = "commit", **more: Any) -> c.EndTransaction:
    fields = {
        "producer_group": "pg",
        "tran_state_table_offset": sent.queue_offset,
        "commit_log_offset": sent.physical_offset,
        "decision": decision,
    }
    return c.EndTransaction(**(fields | more))


def end(bench: Bench, sent: c.SentMessage, decision: Any = "commit", **more: Any) -> None:
    assert bench.call(ending(sent, decision, **more)) == c.Done()


def refused(bench: Bench, command: c.Command) -> c.Failed:
    reply = bench.call(command)
    assert isinstance(reply, c.Failed), reply
    return reply


def seen(bench: Bench, topic: str = "orders", queue_id: int = 1) -> list[bytes]:
    """The bodies that consumers of a queue see."""
    found: list[bytes] = []
    offset = 0
    while offset < bench.context.store.max_offset(topic, queue_id):
        pull = c.PullMessage(topic=topic, queue_id=queue_id, queue_offset=offset, consumer_group="reader")
        reply = bench.call(pull)
        assert isinstance(reply, c.Pulled)
        found += bodies(reply)
        offset = reply.next_begin_offset
    return found


def pending(bench: Bench) -> list[int]:
    return list(bench.context.store.transactions.pending)


def ops(bench: Bench) -> list[bytes]:
    """The bodies of the op messages."""
    return seen(bench, OP_TOPIC, 0)


def settle(bench: Bench) -> None:
    """Let the engine store the op messages that wait."""
    bench.clock.advance(1000)
    bench.flush()
    bench.tick(3000)
    bench.flush()


def connect(bench: Bench, client_id: str = "p1", connection: str = PRODUCER, group: str = "pg") -> None:
    """A producer that can be asked."""
    bench.submit(c.OpenConnection(client_id="", protocol="remoting"), connection=connection)
    beat = c.HeartBeat(client_id=client_id, protocol="remoting", producer_groups=[group])
    assert isinstance(bench.call(beat, connection=connection), c.HeartBeatDone)


def asked(bench: Bench, connection: str = PRODUCER) -> list[c.CheckTransactionState]:
    """The questions that a producer received since the last call."""
    notices = bench.replies.pop((connection, NOTICE_ID), [])
    assert all(isinstance(notice, c.CheckTransactionState) for notice in notices)
    return notices  # type: ignore[return-value]


def events(bench: Bench, *kinds: type[Event]) -> list[Any]:
    return list(bench.engine.events.after(0, *kinds))

"""The shapes, and 64-bit numbers as text."""

import msgspec
import pytest

from api.http import schemas
from api.http.schemas import INT64_FIELDS, CommittedOffset, copied, with_int64_as_text
from api.resources import (
    attached,
    broker,
    clients,
    groups,
    health,
    holds,
    messages,
    offsets,
    publishing,
    pulls,
    receipts,
    receives,
    topics,
)
from api.resources.publishing import Published
from bridge.port import commands

SMALL = frozenset(
    {
        "queue_id",
        "reconsume_times",
        "read_queues",
        "write_queues",
        "perm",
        "holds",
        "limit",
        "id",
        "hold_id",
        "cached",
        "held_ms",
        "held_us",
        "wake_us",
        "effective_wait_ms",
        "delay_ms",
        "deliver_at_ms",
        "total",
        "next",
        "holds_total",
        "body_size",
        "queues_total",
        "queues",
        "short_polling_time_mills",
        "max_holds",
        "max_queues",
        "bounds",
        "counts",
        "changeable",
        "dropped",
        "to",
        "version",
        "members",
        "waiting",
        "unknown_queues",
        "handed",
        "n",
        "wait_ms",
        "lease_ms",
        "rest",
        "ha_listen_port",
        "slaves_needed",
        "timeouts",
        "refused",
    }
)
"""Whole numbers that need no 64 bits."""


def int_fields(shape: type[msgspec.Struct]) -> set[str]:
    properties = msgspec.json.schema(shape)["$defs"][shape.__name__]["properties"]
    return {
        name
        for name, schema in properties.items()
        if "integer" in (schema.get("type"), *(part.get("type") for part in schema.get("anyOf", ())))
    }


RESOURCES = (
    attached,
    broker,
    clients,
    groups,
    health,
    holds,
    messages,
    offsets,
    publishing,
    pulls,
    receipts,
    receives,
    topics,
)
SHAPES = [
    shape
    for module in (schemas, commands, *RESOURCES)
    for shape in vars(module).values()
    if isinstance(shape, type)
    and issubclass(shape, schemas.Model | schemas.Body | commands.Shape)
    and not issubclass(shape, commands.Command | commands.Reply)
    and shape.__struct_fields__
    and not shape.__name__.startswith("_")
    and shape.__module__
    not in {f"broker_core.commands.{name}" for name in ("admin", "group_facts", "metrics", "pop", "replicate")}
]  # those are not part of an answer or of the document


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_number_is_known_to_be_large_or_small(shape: type[msgspec.Struct]) -> None:
    internal = {"flag", "sys_flag", "born_timestamp"} if shape.__name__ == "OutgoingMessage" else set()
    assert int_fields(shape) <= INT64_FIELDS | SMALL | internal


def test_large_numbers_become_text_wherever_they_are() -> None:
    value = {
        "seq": 1,
        "queue_id": 2,
        "holds": [{"id": 3, "queue_max_offset": 1 << 62}],
        "counters": {"x": 4},
        "messages": [{"size": 5, "properties": {"offset": "6"}}],
        "last_store_time_ms": None,
        "read_only": True,
    }
    assert with_int64_as_text(value) == {
        "seq": "1",
        "queue_id": 2,
        "holds": [{"id": 3, "queue_max_offset": str(1 << 62)}],
        "counters": {"x": "4"},
        "messages": [{"size": "5", "properties": {"offset": "6"}}],
        "last_store_time_ms": None,
        "read_only": True,
    }


def test_a_topics_number_of_messages_is_text_too_but_a_list_stays_one() -> None:
    assert with_int64_as_text({"messages": 7}) == {"messages": "7"}
    assert with_int64_as_text({"messages": []}) == {"messages": []}


def test_copied_takes_fields_of_the_same_name_and_the_given_ones() -> None:
    source = commands.QueueOffset(topic="T", queue_id=1, offset=2)
    assert copied(CommittedOffset, source) == CommittedOffset(topic="T", queue_id=1, offset=2)
    assert copied(CommittedOffset, source, offset=9).offset == 9


def test_no_answer_carries_the_engines_tag() -> None:
    assert msgspec.json.encode(Published(messages=[])) == b'{"messages":[]}'
    assert not issubclass(commands.HoldView, commands.Reply)


def test_a_tag_that_is_named_like_a_number_stays_a_tag() -> None:
    evidence = {"evidence": {"offset": 7, "tags": {"offset": 3}}}
    assert schemas.with_int64_as_text(evidence) == {"evidence": {"offset": "7", "tags": {"offset": 3}}}

"""Events as JSON."""

from functools import reduce
from operator import or_

import msgspec

from broker_core.events import Event, MessagesStored


def test_every_event_reads_back_from_json_by_its_type() -> None:
    event = MessagesStored(1, 2, 3, "T", 0, 812, 876, 4096, 640)
    text = msgspec.json.encode(event)
    assert b'"type":"messages_stored"' in text
    assert msgspec.json.decode(text, type=reduce(or_, Event.__subclasses__())) == event

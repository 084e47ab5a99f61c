"""The units of a queue."""

import pytest

from broker_core import commands as c
from broker_core.formats.tags_code import tags_code
from broker_core.processors import query_consume_queue
from tests.fakes.engine import Bench
from tests.fakes.members import failure, join


def units(bench: Bench, index: int, count: int, group: str = "") -> c.ConsumeQueueUnits:
    reply = bench.call(c.QueryConsumeQueue(topic="orders", queue_id=0, index=index, count=count, group=group))
    assert isinstance(reply, c.ConsumeQueueUnits), reply
    return reply


def test_units(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    sent = [bench.send("orders", b"x" * number, tag="TagA").messages[0] for number in range(4)]
    ends = [*[one.physical_offset for one in sent[1:]], bench.context.store.appended_offset]
    expected = [
        (one.physical_offset, end - one.physical_offset, tags_code("TagA")) for one, end in zip(sent, ends, strict=True)
    ]
    assert units(bench, 1, 2) == c.ConsumeQueueUnits(min_offset=0, max_offset=4, units=expected[1:3])
    assert units(bench, 3, 9).units == expected[3:]
    assert units(bench, 0, 0).units == [] == units(bench, 0, -1).units
    join(bench, "A", topics={"orders": "TagA"})
    subscription = units(bench, 0, 1, "g").subscription
    assert subscription is not None and subscription.sub_string == "TagA"
    assert units(bench, 0, 1, "h").subscription is None
    monkeypatch.setattr(query_consume_queue, "MAX_UNITS", 3)
    assert len(units(bench, 0, 1 << 30).units) == 3


@pytest.mark.parametrize("fields", [{"index": -1}, {"index": 1}, {"topic": "none"}, {"queue_id": 7}, {"queue_id": -1}])
def test_an_unknown_topic_queue_or_index_is_refused(fields: dict[str, object]) -> None:
    bench = Bench()
    bench.send("orders", b"1")
    asked = {"topic": "orders", "queue_id": 0, "index": 0, "count": 1} | fields
    assert failure(bench, c.QueryConsumeQueue(**asked)).code == 1  # type: ignore[arg-type]

"""Which queues are handed out in order, without an engine."""

from typing import Any

import pytest

from broker_core.clock import Now
from broker_core.consumers.consumer_order_info_manager import ConsumerOrderInfoManager
from broker_core.formats.rocketmq_json import decode

PLACE = ("orders", "g", 0)
ROCKETMQ = b"""{"orderedConsumptionLevel":"QUEUE","table":{"orders@g":{0:{"a":"a4","cm":2,"i":60000,"l":1000,
    "o":[4,1,2],"oc":{4:1,5:1},"ot":{6:500},"popTime":1000}}}}"""
"""As RocketMQ 5.4.0 writes it."""


def at(ms: int) -> Now:
    return Now(wall_ms=ms, mono_ns=ms * 1_000_000)


def loaded(now: Now, table: bytes = ROCKETMQ) -> ConsumerOrderInfoManager:
    return ConsumerOrderInfoManager(decode(table), now)  # type: ignore[arg-type]


def is_blocked(infos: ConsumerOrderInfoManager, ms: int, attempt_id: str = "", committed: int = 4) -> bool:
    return infos.is_blocked("g", "orders", 0, committed, attempt_id, ms * 1_000_000)


def test_the_file_of_rocketmq_is_read_and_written_the_same() -> None:
    infos = loaded(at(2000))
    info = infos.find("g", "orders", 0)
    assert info is not None and info.offsets == (4, 5, 6) and info.waiting(4) == [4, 6]
    assert infos.copy_table()() == decode(ROCKETMQ)
    assert is_blocked(infos, 60_999) and not is_blocked(infos, 61_000)
    assert not is_blocked(infos, 2000, attempt_id="a4")


def test_a_clock_that_was_set_back_before_the_start_blocks_no_queue_for_longer() -> None:
    now = Now(wall_ms=1000 - 3_600_000, mono_ns=0)
    assert is_blocked(loaded(now), 59_000) and not is_blocked(loaded(now), 60_000)


@pytest.mark.parametrize("committed", [0, 3, 7, 100])
def test_an_offset_outside_the_last_pop_frees_the_queue(committed: int) -> None:
    assert not is_blocked(loaded(at(2000)), 2000, committed=committed)


def test_pops_of_messages_that_a_power_cut_took_are_forgotten() -> None:
    infos = loaded(at(2000))
    infos.keep_existing(lambda topic, queue_id: 7)
    assert len(infos) == 1
    infos.keep_existing(lambda topic, queue_id: 6)
    assert len(infos) == 0


@pytest.mark.parametrize("table", [b"[]", b'{"orders@g":[]}', b'{"orders@g":{0:{"o":"x"}}}', b'{"orders@g":{0:5}}'])
def test_another_form_is_refused(table: bytes) -> None:
    with pytest.raises((ValueError, AttributeError, TypeError)):
        loaded(at(0), b'{"table":' + (table if table != b"[]" else b'["x"]') + b"}")


def test_an_acknowledged_pop_is_forgotten_with_its_time() -> None:
    infos = ConsumerOrderInfoManager(None, at(0))
    infos.hand_out(PLACE, [0, 1], 0, 1000, "", "c", 0)
    infos.acknowledge(PLACE, [1], 0)
    assert list(infos.queues("g", "orders")) == [0] and infos.dirty
    infos.acknowledge(PLACE, [0], 2)
    assert len(infos) == 0 and infos.take_due(2_000_000_000, 9) == []


def test_a_copy_does_not_change_with_the_table() -> None:
    infos = ConsumerOrderInfoManager(None, at(0))
    infos.hand_out(PLACE, [0], 0, 1000, "", "c", 0)
    copy: Any = infos.copy_table()
    infos.clear("g", "orders", 0)
    assert list(copy()["table"]) == ["orders@g"]


def test_the_copy_for_the_file_has_all_groups_and_no_later_change() -> None:
    """The engine only copies a table of all groups; the thread that writes the file builds the JSON object."""
    infos = ConsumerOrderInfoManager(None, at(0))
    for number in range(3):
        infos.hand_out(("orders", f"g{number}", number), [0], 0, 1000, "", "c", 0)
    content = infos.copy_table()
    infos.hand_out(("orders", "g0", 9), [0], 0, 1000, "", "c", 0)
    assert {name: [*queues] for name, queues in content()["table"].items()} == {
        "orders@g0": [0],
        "orders@g1": [1],
        "orders@g2": [2],
    }

"""SQL92 filters with bitmaps: written at dispatch, tested on wake-up and on pull before the properties."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import PullAnswered, PullPassedOver
from broker_core.formats.message_properties import encode
from broker_core.formats.tags_code import EXT_ADDRESS_MAX
from broker_core.store import commit_log_dispatcher_calc_bit_map as calc
from broker_core.store.mapped_file_queue import file_name
from tests.fakes.engine import ROOT, Bench, bodies
from tests.fakes.members import connect, events

EXT = ROOT / "consumequeue_ext"


def subscribe(bench: Bench, expression: str, version: int = 1, group: str = "g", topic: str = "orders") -> None:
    if group not in bench.context.clients:
        connect(bench, group)
    subscription = c.SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92", sub_version=version)
    data = c.ConsumerData(group=group, subscriptions=[subscription])
    bench.call(c.HeartBeat(client_id=group, protocol="remoting", consumers=[data]), group)


def send(bench: Bench, *sizes: int, tag: str = "") -> None:
    for size in sizes:
        bench.send("orders", str(size).encode(), tag=tag, properties=encode({"size": str(size)}))


def pull(bench: Bench, offset: int = 0, group: str = "g", **more: Any) -> list[int]:
    """The sizes of the messages that the group's pull gets, until it gets no more."""
    found: list[int] = []
    while True:
        fields = {"subscription": None, "suspend_timeout_ms": 0, "consumer_group": group, "max_msg_nums": 32} | more
        pulled = bench.pulled(bench.pull("orders", offset, group, **fields), group)
        found += [int(body) for body in bodies(pulled)]
        if pulled.next_begin_offset == offset:
            return found
        offset = pulled.next_begin_offset


def by_bitmap(bench: Bench) -> int:
    return bench.context.counters.messages_passed_over_by_bitmap


def reopen(bench: Bench, *, killed: bool = False, **options: Any) -> Bench:
    """The broker starts again on the same files."""
    if killed:
        bench.files.kill()
    else:
        bench.engine.drain(bench.clock.now())
        bench.engine.close(bench.clock.now())
    return Bench(files=bench.files, clock=bench.clock, **options)


@pytest.mark.covers("sql-pull")
def test_a_pull_passes_over_messages_by_their_bitmaps() -> None:
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, *range(50), 500, *range(50), 600)
    assert pull(bench) == [500, 600]
    counters = bench.context.counters
    assert (counters.messages_passed_over, counters.messages_passed_over_by_sql, by_bitmap(bench)) == (100, 100, 100)
    answered = events(bench, PullAnswered)[0]
    assert (answered.passed_over, answered.passed_over_by_bitmap) == (100, 100)
    assert pull(bench, max_msg_nums=1) == [500, 600]
    assert pull(bench, 51) == [600]
    assert pull(bench, 101) == [600]


@pytest.mark.covers("sql-wake")
def test_a_held_pull_is_passed_over_by_the_bitmap_and_woken_by_a_match() -> None:
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, 1)
    held = bench.pull("orders", 1, "g", subscription=None)
    send(bench, 2)
    (passed,) = events(bench, PullPassedOver)
    assert (passed.from_offset, passed.by) == (1, "bitmap")
    counters = bench.context.counters
    counts = counters.pulls_passed_over, counters.pulls_passed_over_by_sql, counters.pulls_passed_over_by_bitmap
    assert counts == (1, 1, 1)
    send(bench, 300)
    assert bodies(bench.pulled(held, "g")) == [b"300"]


def test_a_message_that_another_groups_bits_let_through_is_evaluated() -> None:
    """With one group's bits all set by others, the bitmap says "perhaps": the properties decide."""
    bench = Bench(expect_consumer_num_use_filter=1, max_error_rate_of_bloom_filter=99)  # one bit would do: 8 are made
    assert bench.context.filters._bloom_filter.bit_num == 8
    bench.context.filters._limit = 64
    send(bench, 0)
    subscribe(bench, "size > 100")
    for number in range(40):
        subscribe(bench, "size > 0", group=f"other{number}")
    held = bench.pull("orders", 1, "g", subscription=None)
    send(bench, 5)
    assert [event.by for event in events(bench, PullPassedOver)] == ["properties"]
    assert pull(bench) == [] and by_bitmap(bench) == 0
    send(bench, 500)
    assert bodies(bench.pulled(held, "g")) == [b"500"]


def test_messages_from_before_the_subscription_are_evaluated() -> None:
    """Their bitmaps, computed for another group, lack this group's bits. The clock goes back an hour meanwhile."""
    bench = Bench()
    subscribe(bench, "size > 100", group="other")
    send(bench, 1, 500, 2)
    bench.clock.step_wall(-3_600_000)
    subscribe(bench, "size > 100")
    send(bench, 3, 600)
    assert pull(bench) == [500, 600] and by_bitmap(bench) == 1
    assert pull(bench, group="other") == [500, 600] and by_bitmap(bench) == 1 + 3


def test_a_new_expression_evaluates_the_messages_from_before_it() -> None:
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, 1, 500)
    held = bench.pull("orders", 2, "g", subscription="size > 100", expression_type="SQL92")
    subscribe(bench, "size < 100", version=2)
    assert pull(bench) == [1]
    send(bench, 2)
    assert bench.final(held, "g") is None
    send(bench, 600)
    assert bodies(bench.pulled(held, "g")) == [b"600"], "the held pull sent its own expression"
    assert pull(bench) == [1, 2]


def test_a_group_that_leaves_and_returns_misses_nothing() -> None:
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, 500)
    bench.call(c.UnregisterClient(client_id="g", consumer_group="g"), "g")
    send(bench, 1, 600)
    assert bench.context.store.reader.queue_units("orders", 0, 2, 1)
    assert raw_codes(bench)[1:] == [0, 0], "without a living group no unit is written"
    subscribe(bench, "size > 100", version=2)
    send(bench, 2, 700)
    assert pull(bench) == [500, 600, 700] and by_bitmap(bench) == 1


def test_bitmaps_from_while_a_group_was_away_are_not_its_own() -> None:
    """Another group's filter lives meanwhile, so the messages have bitmaps, without the bits of the one that left."""
    bench = Bench()
    subscribe(bench, "size > 0", group="other")
    subscribe(bench, "size > 100")
    send(bench, 1)
    bench.call(c.UnregisterClient(client_id="g", consumer_group="g"), "g")
    send(bench, 600)
    subscribe(bench, "size > 100", version=2)
    send(bench, 2, 700)
    assert max(raw_codes(bench)) <= EXT_ADDRESS_MAX
    assert pull(bench) == [600, 700]


def raw_codes(bench: Bench) -> list[int]:
    queue = bench.context.store._queues.table["orders", 0]
    return [queue.unit(offset)[2] for offset in range(queue.max_offset)]


def test_a_topic_that_no_group_filters_by_sql92_has_no_extension() -> None:
    bench = Bench()
    subscribe(bench, "size > 100", topic="other")
    send(bench, 1, 2)
    bench.send("other", b"x")
    assert raw_codes(bench) == [0, 0]
    assert bench.files.names(EXT) == ["other"]


@pytest.mark.parametrize("off", ["enable_calc_filter_bit_map", "enable_consume_queue_ext"])
def test_without_the_options_nothing_is_written_and_all_is_evaluated(off: str) -> None:
    bench = Bench(**{off: False})
    subscribe(bench, "size > 100")
    send(bench, 1, 500)
    assert pull(bench) == [500] and by_bitmap(bench) == 0
    assert bench.files.names(EXT) == []
    bench.file_work()
    assert bench.files.read(ROOT / "config" / "consumerFilter.json")


def test_tags_are_compared_through_the_extension() -> None:
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, 1, tag="a")
    send(bench, 2, tag="b")
    assert max(raw_codes(bench)) <= EXT_ADDRESS_MAX
    assert pull(bench, subscription="b") == [2]
    held = bench.pull("orders", 2, "g", subscription="b")
    send(bench, 3, tag="a")
    send(bench, 4, tag="b")
    assert bodies(bench.pulled(held, "g")) == [b"4"]


def test_a_turn_computes_so_many_bitmaps_and_the_other_messages_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calc, "EVALUATED_BYTES_MAX", 1000)
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, 1)
    bench.clock.advance(1)
    held = bench.pull("orders", 1, "g", subscription=None)
    messages = [
        c.OutgoingMessage(body=str(size).encode(), properties=encode({"size": str(size)}), queue_id=0)
        for size in [*range(20), 500]
    ]
    bench.call(c.SendMessage(topic="orders", messages=messages))
    assert bodies(bench.pulled(held, "g")) == [b"500"]
    assert pull(bench) == [500] and 0 < by_bitmap(bench) < 16


def test_a_full_disk_costs_the_bitmap_and_not_the_message() -> None:
    bench = Bench()
    subscribe(bench, "size > 100")
    put = bench.context.store._queues.find_ext

    def full(queue: Any) -> Any:
        raise OSError(28, "No space left on device")

    bench.context.store._queues.find_ext = full  # type: ignore[method-assign]
    send(bench, 1, 500)
    bench.context.store._queues.find_ext = put  # type: ignore[method-assign]
    send(bench, 2, 600)
    assert raw_codes(bench)[:2] == [0, 0] and max(raw_codes(bench)[2:]) <= EXT_ADDRESS_MAX
    assert pull(bench) == [500, 600] and by_bitmap(bench) == 1


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_after_a_restart_the_older_messages_are_evaluated_and_the_units_go_on() -> None:
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, 1, 500)
    addresses = raw_codes(bench)
    again = reopen(bench)
    assert raw_codes(again) == addresses
    subscribe(again, "size > 100", version=2)
    send(again, 2, 600)
    assert raw_codes(again) == [addresses[0] + 34 * number for number in range(4)]
    assert pull(again) == [500, 600] and by_bitmap(again) == 1
    data = again.context.filters.get("orders", "g")
    assert data is not None and data.version == 2 and data.born_ms == bench.context.filters.get("orders", "g").born_ms  # type: ignore[union-attr]


def test_the_units_go_on_after_those_of_the_queues_last_file() -> None:
    """The last units of the queue lie in two of its files; what they refer to is never written again."""
    bench = Bench(mapped_file_size_consume_queue=20 * 5)
    subscribe(bench, "size > 100")
    send(bench, *range(8), tag="a")
    again = reopen(bench, mapped_file_size_consume_queue=20 * 5)
    subscribe(again, "size > 100", version=2)
    send(again, *range(8, 12), tag="b")
    assert raw_codes(again) == [raw_codes(bench)[0] + 34 * number for number in range(12)]
    assert pull(again, subscription="a") == [*range(8)]


@pytest.mark.parametrize("length", [*range(0, 3 * 34 + 1, 3), None])
def test_after_a_kill_no_message_is_lost_wherever_the_extension_was_cut(length: int | None) -> None:
    """``None``: its file is gone. The queue refers to units that were not on the disk: it is rebuilt without them."""
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, 500, tag="a")
    send(bench, 1, tag="b")
    send(bench, 600, tag="a")
    path = EXT / "orders" / "0" / file_name(0)
    data = bench.files.read(path)
    assert data is not None
    if length is None:
        bench.files.remove(path)
    else:
        bench.files.write(path, data[:length].ljust(len(data), b"\0"))
    again = reopen(bench, killed=True)
    assert min(raw_codes(again)) > EXT_ADDRESS_MAX
    subscribe(again, "size > 100", version=2)
    assert pull(again) == [500, 600]
    assert pull(again, subscription="a") == [500, 600] and pull(again, subscription="b") == [1]
    send(again, 2, 700)
    assert pull(again) == [500, 600, 700] and by_bitmap(again) == 1


def test_a_lost_extension_of_a_closed_store_loses_no_message() -> None:
    bench = Bench()
    subscribe(bench, "size > 100")
    send(bench, 500, 1, 600, tag="a")
    again = reopen(bench)
    again.files.remove(EXT / "orders" / "0" / file_name(0))
    last = reopen(again)
    reader = last.context.store.reader
    assert reader.sample("orders", 0, 0, 3, frozenset({-1})) == [True] * 3, "their tags are not known"
    assert [code for _, _, code in reader.queue_units("orders", 0, 0, 3)] == raw_codes(last), "unknown is not 0"
    subscribe(last, "size > 100", version=2)
    assert pull(last) == [500, 600] and pull(last, subscription="a") == [500, 1, 600]
    send(last, 2, 700, tag="b")
    assert pull(last) == [500, 600, 700] and by_bitmap(last) == 1
    assert pull(last, subscription="a") == [500, 1, 600], "lost units are not taken for the new ones"


def test_flushed_units_survive_a_power_cut() -> None:
    """Units reach the disk with the queue that refers to them, before the marks."""
    bench = Bench()
    send(bench, 0)
    bench = reopen(bench)  # the file of the marks is there
    subscribe(bench, "size > 100")
    send(bench, 500, 1)
    bench.clock.advance(2000)
    assert bench.flush()
    addresses = raw_codes(bench)
    bench.files.crash()
    again = Bench(files=bench.files)
    assert raw_codes(again) == addresses
    ext = again.context.store._queues._ext["orders", 0]
    units = [ext.unit(address) for address in addresses[1:]]
    bits = bench.context.filters.get("orders", "g").bits  # type: ignore[union-attr]
    assert [int.from_bytes(unit.bitmap, "little") for unit in units if unit] == [bits, 0]


def test_the_table_is_written_every_10_s_and_when_the_broker_stops() -> None:
    bench = Bench()
    path = ROOT / "config" / "consumerFilter.json"
    bench.file_work()
    assert bench.files.read(path) is None
    subscribe(bench, "size > 100")
    bench.file_work()
    first = bench.files.read(path)
    assert first is not None and b'"expression":"size > 100"' in first
    subscribe(bench, "size > 200", version=2)
    bench.file_work()
    assert bench.files.read(path) == first
    bench.tick(10_000)
    bench.file_work()
    assert bench.files.read(path) != first
    subscribe(bench, "size > 300", version=3)
    bench.engine.drain(bench.clock.now())
    bench.engine.close(bench.clock.now())
    assert b"size > 300" in (bench.files.read(path) or b"")

"""The table of slaves: who is connected, and up to where enough of them have the log."""

from broker_core.clock import Now
from broker_core.store.ha.ha_service import MAX_GAP_NOT_IN_SYNC, HAService

NOW = Now(1_000_000, 5_000_000_000)


def service(*ack_offsets: int) -> HAService:
    table = HAService()
    for number, offset in enumerate(ack_offsets):
        assert table.report(number, f"10.0.0.{number}:1", offset, 900, NOW)
    return table


def test_the_offset_that_enough_slaves_have_is_that_of_the_slowest_of_them() -> None:
    table = service(500, 900, 700)
    assert [table.replicated_offset(slaves) for slaves in (1, 2, 3, 4)] == [900, 700, 500, -1]
    table.report(0, "10.0.0.0:1", 800, 900, NOW)
    assert [table.replicated_offset(slaves) for slaves in (1, 2, 3)] == [900, 800, 700]
    table.remove(1)
    assert [table.replicated_offset(slaves) for slaves in (1, 2, 3)] == [800, 700, -1]
    assert table.remove("unknown") is None


def test_a_slave_that_reports_less_than_before_has_less() -> None:
    table = service(900)
    assert not table.report(0, "10.0.0.0:1", 400, 900, NOW)
    assert table.replicated_offset(1) == 400


def test_news_are_taken_once() -> None:
    table = service(10)
    assert table.take_news() and not table.take_news()
    table.remove(0)
    assert table.take_news()


def test_a_view_says_how_far_behind_a_slave_is_and_unknown_is_not_0() -> None:
    table = service(600, -(1 << 40))
    slave, observer = table.views(1000)
    assert (slave.lag_bytes, slave.in_sync, slave.bytes_per_second) == (400, True, None)
    assert (observer.lag_bytes, observer.in_sync) == (None, False)
    assert table.slaves == 1
    assert table.largest_lag(1000) == 400 and service(-5).largest_lag(1000) is None and service().largest_lag(9) is None
    assert not table.views(600 + MAX_GAP_NOT_IN_SYNC)[0].in_sync


def test_the_rate_is_what_was_sent_in_the_last_second_or_more() -> None:
    table = service(600)
    table.report(0, "10.0.0.0:1", 900, 5900, Now(NOW.wall_ms + 999, NOW.mono_ns + 999_000_000))
    assert table.views(9000)[0].bytes_per_second is None
    table.report(0, "10.0.0.0:1", 900, 8900, Now(NOW.wall_ms + 2000, NOW.mono_ns + 2_000_000_000))
    assert table.views(9000)[0].bytes_per_second == 4000


def test_timeouts_are_recent_for_30_s() -> None:
    table, second = HAService(), 1_000_000_000
    assert table.recent_timeouts(100 * second) == 0
    for at in (100, 120, 145):
        table.note_timeout(at * second)
    assert (table.timeouts, table.recent_timeouts(175 * second), table.recent_timeouts(176 * second)) == (3, 3, 0)
    table.note_timeout(200 * second)
    assert (table.timeouts, table.recent_timeouts(200 * second)) == (4, 1)


def test_the_last_refusal_is_kept() -> None:
    table = service()
    table.note_refused("10.0.0.9:1", "it is ahead", NOW)
    assert table.refused == 1 and table.last_refused is not None
    assert (table.last_refused.reason, table.last_refused.at_ms) == ("it is ahead", NOW.wall_ms)

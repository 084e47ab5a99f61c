from bridge.limits import Limits
from broker_core.options import Options


def test_a_few_lost_heartbeats_do_no_harm() -> None:
    limits = Limits()
    assert limits.alive_ms * 3 <= limits.engine_silence_ms
    assert limits.engine_silence_ms < limits.peer_silence_ms
    assert limits.away_alive_ms < limits.alive_ms


def test_deltas_are_more_frequent_than_a_page_becomes_stale() -> None:
    limits = Limits()
    assert 1000 // limits.delta_ms <= 10
    assert limits.heartbeat_ms <= 2000


def test_the_largest_message_of_any_configuration_fits() -> None:
    largest = 16 * 1024 * 1024  # what maxMessageSize may be set to
    limits = Limits()
    assert Options().max_message_size <= largest
    assert largest * 2 < limits.message_bytes  # a batch ends with the entry that fills it
    assert limits.batch_bytes + largest < limits.message_bytes <= limits.waiting_bytes

from bridge.limits import Limits
from broker_core.options import Options


def test_a_few_signs_of_life_may_be_lost_before_anybody_is_taken_for_gone() -> None:
    limits = Limits()
    assert limits.alive_ms * 3 <= limits.engine_silence_ms
    assert limits.engine_silence_ms < limits.peer_silence_ms
    assert limits.away_alive_ms < limits.alive_ms


def test_a_heartbeat_is_more_often_than_a_page_calls_itself_stale() -> None:
    limits = Limits()
    assert 1000 // limits.delta_ms <= 10
    assert limits.heartbeat_ms <= 2000


def test_the_largest_message_of_any_configuration_fits() -> None:
    largest = 16 * 1024 * 1024  # what maxMessageSize may be set to
    limits = Limits()
    assert Options().max_message_size <= largest
    assert largest * 2 < limits.message_bytes  # a batch ends with the entry that fills it
    assert limits.batch_bytes + largest < limits.message_bytes <= limits.waiting_bytes

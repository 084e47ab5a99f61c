"""What is stored in the timer queue and not in the timer wheel yet."""

from broker_core.store.timer.on_their_way import OnTheirWay


def test_a_slot_is_concerned_until_its_messages_are_in_the_wheel() -> None:
    waiting = OnTheirWay()
    waiting.add(3, 1000, True)
    waiting.add(5, 1000, False)
    waiting.add(6, 9000, True)
    assert (waiting.may_concern(1000), waiting.may_concern(2000), waiting.first_slot_ms()) == (True, False, 1000)
    assert (waiting.recalls(1000), waiting.recalls(2000)) == (1, 0)
    waiting.remove_before(5)
    assert waiting.may_concern(1000) and waiting.recalls(1000) == 0
    waiting.remove_before(6)
    assert (waiting.may_concern(1000), waiting.may_concern(9000), waiting.first_slot_ms()) == (False, True, 9000)
    waiting.remove_before(7)
    assert waiting.first_slot_ms() is None


def test_what_was_stored_before_the_start_may_concern_every_slot() -> None:
    waiting = OnTheirWay()
    waiting.unknown_until = 10
    waiting.remove_before(9)
    assert waiting.may_concern(1000)
    waiting.remove_before(10)
    assert not waiting.may_concern(1000)

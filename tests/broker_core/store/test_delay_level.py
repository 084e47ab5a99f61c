import pytest

from broker_core.store.delay_level import schedule_tags_code


@pytest.mark.parametrize(("properties", "code"), [("DELAY\x011\x02", 6000), ("DELAY\x0118\x02", 5000 + 7_200_000),
    ("DELAY\x0199\x02", 5000 + 7_200_000), ("DELAY\x010\x02", 42), ("DELAY\x01x\x02", 42), ("", 42)])
def test_a_schedule_queue_holds_when_to_deliver(properties: str, code: int) -> None:
    assert schedule_tags_code(properties, 5000, 42) == code

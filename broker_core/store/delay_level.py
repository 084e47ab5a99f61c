"""What a queue of SCHEDULE_TOPIC_XXXX holds in place of a tagsCode: when its message is to be delivered."""

from broker_core.formats import message_properties

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DELAY_LEVELS_MS = tuple(1000 * seconds for seconds in (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200))
"""RocketMQ's default messageDelayLevel: 1s 5s 10s 30s 1m 2m ... 10m 20m 30m 1h 2h."""


def schedule_tags_code(properties: str, store_timestamp: int, otherwise: int) -> int:
    """Deliver time, ms, of a message with a delay level; ``otherwise`` when it has none."""
    level = message_properties.find(properties, message_properties.DELAY)
    if not level.isdigit() or int(level) == 0:
        return otherwise
    return store_timestamp + DELAY_LEVELS_MS[min(int(level), len(DELAY_LEVELS_MS)) - 1]

"""The options of the store are options of the broker, under RocketMQ's names."""

from broker_core.message_store_config import MessageStoreConfig, rocketmq_name
from broker_core.options import DESCRIPTIONS, PYTHON_NAMES, make_options


def test_options_of_the_store_are_set_and_described_like_all_others_and_follow_them() -> None:
    names = [rocketmq_name(field) for field in MessageStoreConfig.__struct_fields__]
    assert list(PYTHON_NAMES)[-len(names) :] == names == list(DESCRIPTIONS)[-len(names) :]
    assert make_options({"fileReservedTime": "5", "brokerName": "a"}).file_reserved_time == 5
    assert DESCRIPTIONS["fileReservedTime"]["changeable"] and not DESCRIPTIONS["maxMessageSize"]["changeable"]

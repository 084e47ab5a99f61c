"""The numbers are what clients of RocketMQ read: they are given here again, from its tables."""

from broker_core.remoting.codes import ResponseCode

ROCKETMQ = {
    0: "SUCCESS", 1: "SYSTEM_ERROR", 2: "SYSTEM_BUSY", 3: "REQUEST_CODE_NOT_SUPPORTED",
    10: "FLUSH_DISK_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE", 12: "FLUSH_SLAVE_TIMEOUT", 13: "MESSAGE_ILLEGAL",
    14: "SERVICE_NOT_AVAILABLE", 15: "VERSION_NOT_SUPPORTED", 16: "NO_PERMISSION", 17: "TOPIC_NOT_EXIST",
    18: "TOPIC_EXIST_ALREADY", 19: "PULL_NOT_FOUND", 20: "PULL_RETRY_IMMEDIATELY", 21: "PULL_OFFSET_MOVED",
    22: "QUERY_NOT_FOUND", 23: "SUBSCRIPTION_PARSE_FAILED", 24: "SUBSCRIPTION_NOT_EXIST",
    25: "SUBSCRIPTION_NOT_LATEST", 26: "SUBSCRIPTION_GROUP_NOT_EXIST", 27: "FILTER_DATA_NOT_EXIST",
    28: "FILTER_DATA_NOT_LATEST", 29: "INVALID_PARAMETER", 215: "FLOW_CONTROL", 604: "ILLEGAL_OPERATION",
}


def test_every_code_has_rocketmqs_number_and_name() -> None:
    assert {int(code): code.name for code in ResponseCode}.items() <= ROCKETMQ.items()


def test_what_a_pull_may_answer_is_there() -> None:
    assert [int(ResponseCode[name]) for name in (
        "SUCCESS", "PULL_NOT_FOUND", "PULL_RETRY_IMMEDIATELY", "PULL_OFFSET_MOVED")] == [0, 19, 20, 21]

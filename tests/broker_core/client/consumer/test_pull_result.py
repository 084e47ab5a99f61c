"""What each answer to a pull leads to."""

import pytest

from broker_core.client.consumer.pull_result import (
    STATUSES,
    NextPull,
    PullResult,
    PullStatus,
    delay_after_error,
    next_pull,
)
from broker_core.client.mq_client_exception import MQBrokerException
from tests.fakes.messages import message_ext


@pytest.mark.parametrize(
    ("status", "next_begin", "found", "expected"),
    [
        ("FOUND", 12, 2, NextPull(12)),
        ("FOUND", 12, 0, NextPull(12, correct_offset=True)),  # the client's own filter took them out
        ("FOUND", 10, 2, NextPull(10, 1000)),
        ("FOUND", 9, 2, NextPull(9, 1000)),
        ("NO_NEW_MSG", 10, 0, NextPull(10, correct_offset=True)),
        ("NO_NEW_MSG", 30, 0, NextPull(30, correct_offset=True)),  # a file of the queue is missing
        ("NO_NEW_MSG", 9, 0, NextPull(9, 1000, correct_offset=True)),
        ("NO_MATCHED_MSG", 11, 0, NextPull(11, correct_offset=True)),
        ("NO_MATCHED_MSG", 10, 0, NextPull(10, 1000, correct_offset=True)),
        ("OFFSET_ILLEGAL", 3, 0, NextPull(3, reset=True)),
        ("OFFSET_ILLEGAL", 50, 0, NextPull(50, reset=True)),
    ],
)
def test_after_an_answer(status: PullStatus, next_begin: int, found: int, expected: NextPull) -> None:
    result = PullResult(status, next_begin, 0, 100, [message_ext(10 + n) for n in range(found)])
    assert next_pull(10, result) == expected


def test_after_an_error() -> None:
    assert delay_after_error(MQBrokerException(215, "", "a:1")) == 20
    assert delay_after_error(MQBrokerException(24, "", "a:1")) == 1000
    assert delay_after_error(TimeoutError()) == 1000


def test_four_codes_are_answers() -> None:
    assert STATUSES == {0: "FOUND", 19: "NO_NEW_MSG", 20: "NO_MATCHED_MSG", 21: "OFFSET_ILLEGAL"}

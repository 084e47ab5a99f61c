"""Which errors end a command with which exit code."""

import pytest

from broker_core.cli.errors import (
    FAILED,
    NOT_FOUND,
    NOT_POSSIBLE,
    UNREACHABLE,
    CommandError,
    OutputError,
    client_errors,
    no_server,
)
from broker_core.client import MQBrokerException, MQClientException
from broker_core.codes import ResponseCode


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (MQBrokerException(ResponseCode.NO_PERMISSION, "no", "a:1"), FAILED, "a:1 answered NO_PERMISSION (16): no"),
        (
            MQBrokerException(ResponseCode.TOPIC_NOT_EXIST, "none\nsee FAQ", "a:1"),
            NOT_FOUND,
            "a:1 answered TOPIC_NOT_EXIST (17): none",
        ),
        (
            MQBrokerException(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "", "a:1"),
            NOT_POSSIBLE,
            "a:1 answered REQUEST_CODE_NOT_SUPPORTED (3)",
        ),
        (MQClientException("the body is empty"), FAILED, "the body is empty"),
        (TimeoutError("late"), UNREACHABLE, "the server does not answer: late"),
    ],
)
def test_an_error_of_the_client_has_an_exit_code(error: Exception, code: int, text: str) -> None:
    with pytest.raises(CommandError) as raised, client_errors():
        raise error
    assert raised.value.exit_code == code and raised.value.message.startswith(text)
    assert "FAQ" not in raised.value.message


def test_output_that_cannot_be_written_is_no_error_of_a_server() -> None:
    with pytest.raises(CommandError) as raised, client_errors():
        raise OutputError(OSError(28, "No space left on device"))
    assert raised.value.message == "standard output cannot be written to: No space left on device"
    assert raised.value.exit_code == FAILED
    assert OutputError(BrokenPipeError()).exit_code == 0


def test_a_server_that_is_away_names_its_option() -> None:
    error = no_server("name server", "h:1", "--namesrv", OSError("refused"))
    assert error.exit_code == UNREACHABLE
    assert "no name server answers at h:1 (refused)" in error.message and "--namesrv" in error.message

"""The errors of the clients.

MQClientException           the request was not carried out; the text says why and what to do
  MQBrokerException         a server refused it, with a ResponseCode
  RequestTimeoutException   the request message was sent, and no reply came in time

A server that cannot be reached is an OSError, and no answer in time a TimeoutError, which is an OSError too.
"""

from broker_core.codes import ResponseCode


def code_text(code: int) -> str:
    """A response code as errors show it: SYSTEM_BUSY (2); only the number if RocketMQ's table here does not have it."""
    return f"{ResponseCode(code).name} ({code})" if code in _KNOWN else str(code)


_KNOWN = frozenset(ResponseCode)


class MQClientException(Exception):
    """RocketMQ's MQClientException."""


class MQBrokerException(MQClientException):
    """RocketMQ's MQBrokerException: the server's answer was ``response_code``, with ``remark`` as its reason."""

    def __init__(self, response_code: int, remark: str, address: str) -> None:
        super().__init__(f"{address} answered {code_text(response_code)}: {remark or 'no reason was given'}")
        self.response_code = response_code
        self.remark = remark
        self.address = address


class RequestTimeoutException(MQClientException):
    """RocketMQ's RequestTimeoutException. Whether a consumer got the request is not known."""

    response_code = 10006
    """RocketMQ's REQUEST_TIMEOUT_EXCEPTION."""

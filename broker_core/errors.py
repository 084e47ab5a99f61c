"""The errors of the broker, by whose fault they are, with their RocketMQ codes.

BrokerError                 has a code, a remark, and a pointer to a field of the request
  RequestError              the client's fault: correct the request, then try again
    NotFoundError           the request is for something that does not exist
    ConflictError           the request contradicts existing data
    TooLargeError           a message or the whole request is larger than a limit
  UnavailableError          nobody's fault: try again after ``retry_after_ms``
    OverloadedError         the request waited too long among others: send less
  StoreError                the broker's or the disk's fault
    StoreLockedError        another process uses the store
    StoreReadOnlyError      the store belongs to another broker and was not adopted
    StoreCorruptError       bytes that recovery cannot read; nothing was deleted
"""

from broker_core.codes import ResponseCode


class BrokerError(Exception):
    """Base of every error that the engine raises on purpose.

    ``remark`` is a sentence for people: what is wrong and what to do. ``pointer`` is a JSON pointer to the wrong field
    of the request, such as ``/messages/0/body``, or empty.
    """

    code: ResponseCode = ResponseCode.SYSTEM_ERROR

    def __init__(self, remark: str, *, code: ResponseCode | None = None, pointer: str = "") -> None:
        super().__init__(remark)
        self.remark = remark
        self.pointer = pointer
        if code is not None:
            self.code = code


class RequestError(BrokerError):
    """The client's fault."""

    code = ResponseCode.INVALID_PARAMETER


class NotFoundError(RequestError):
    """The request is for something that does not exist."""

    code = ResponseCode.QUERY_NOT_FOUND


class ConflictError(RequestError):
    """The request contradicts existing data."""

    code = ResponseCode.ILLEGAL_OPERATION


class TooLargeError(RequestError):
    """A message, its properties or the whole request is larger than a limit."""

    code = ResponseCode.MESSAGE_ILLEGAL


class UnavailableError(BrokerError):
    """Nobody's fault: the broker is busy, stopping or full. The same request may be sent again."""

    code = ResponseCode.SYSTEM_BUSY

    def __init__(self, remark: str, *, code: ResponseCode | None = None, retry_after_ms: int = 1000) -> None:
        super().__init__(remark, code=code)
        self.retry_after_ms = retry_after_ms


class OverloadedError(UnavailableError):
    """The request waited too long for the engine and was not executed. All clients together should send less."""


class StoreError(BrokerError):
    """The broker's own fault, or the disk's."""


class StoreLockedError(StoreError):
    """Another process, of GlassMQ or RocketMQ, has locked the store."""


class StoreReadOnlyError(StoreError):
    """The store was written by another broker and has not been adopted."""

    code = ResponseCode.NO_PERMISSION


class StoreCorruptError(StoreError):
    """The disk contains bytes that recovery cannot read. Nothing was deleted."""

"""What can go wrong, whose fault it is, and which RocketMQ code says so.

BrokerError                 has a code, a remark and a field it points to
  RequestError              the client's fault: mend the request, then try again
    NotFoundError           it asked for something that is not there
    ConflictError           it asked for something that contradicts what is there
  UnavailableError          nobody's fault: try again after ``retry_after_ms``
  StoreError                the broker's or the disk's fault
    StoreLockedError        another process owns the store
    StoreReadOnlyError      the store belongs to another broker and was not adopted
    StoreCorruptError       bytes that recovery does not understand; nothing was deleted
"""

from broker_core.codes import ResponseCode


class BrokerError(Exception):
    """Base of every error the engine raises on purpose.

    ``remark`` is a sentence for a person: what is wrong and what to do. ``pointer`` names the offending
    field of the request (a JSON pointer such as ``/messages/0/body``), or is empty.
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
    """The thing asked for does not exist."""

    code = ResponseCode.QUERY_NOT_FOUND


class ConflictError(RequestError):
    """The request contradicts what is stored."""

    code = ResponseCode.ILLEGAL_OPERATION


class UnavailableError(BrokerError):
    """Nobody's fault: busy, draining or full. The same request may be sent again."""

    code = ResponseCode.SYSTEM_BUSY

    def __init__(self, remark: str, *, code: ResponseCode | None = None, retry_after_ms: int = 1000) -> None:
        super().__init__(remark, code=code)
        self.retry_after_ms = retry_after_ms


class StoreError(BrokerError):
    """The broker's own fault, or the disk's."""


class StoreLockedError(StoreError):
    """Another process, GlassMQ or RocketMQ, holds the store's lock."""


class StoreReadOnlyError(StoreError):
    """The store was written by another broker and has not been adopted."""

    code = ResponseCode.NO_PERMISSION


class StoreCorruptError(StoreError):
    """Bytes on disk that recovery does not understand. Nothing was deleted."""

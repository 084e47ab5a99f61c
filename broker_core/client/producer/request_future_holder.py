"""Requests of a client that wait for their replies, by correlation id."""

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, NamedTuple

from broker_core.client.mq_client_exception import MQClientException

if TYPE_CHECKING:
    from broker_core.client.message import Message

log = logging.getLogger(__name__)

MAX_REQUESTS = 65_535
"""Requests of a client that may wait at once, as many as calls on one connection."""


class _RequestResponseFuture(NamedTuple):
    """RocketMQ's RequestResponseFuture."""

    group: str
    reply: "asyncio.Future[Message]"


class RequestFutureHolder:
    """RocketMQ's RequestFutureHolder.

    ``unmatched_replies`` counts replies that nobody waits for: they came late, twice, or were never asked for.
    """

    def __init__(self) -> None:
        self.unmatched_replies = 0
        self._requests: dict[str, _RequestResponseFuture] = {}

    def __len__(self) -> int:
        """Requests that wait."""
        return len(self._requests)

    def add(self, group: str) -> tuple[str, "asyncio.Future[Message]"]:
        """A new correlation id, and the future of its reply. MQClientException if too many requests wait."""
        if len(self._requests) >= MAX_REQUESTS:
            raise MQClientException(
                f"{MAX_REQUESTS} requests of this client wait for their replies; no more are accepted until some end"
            )
        correlation_id = str(uuid.uuid4())
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._requests[correlation_id] = _RequestResponseFuture(group, reply)
        return correlation_id, reply

    def remove(self, correlation_id: str) -> None:
        """The request waits no longer; a reply that still comes is counted."""
        self._requests.pop(correlation_id, None)

    def take(self, correlation_id: str, replier: str) -> "asyncio.Future[Message] | None":
        """The future for a reply that came from ``replier``, host and port; None if nobody waits for it."""
        request = self._requests.pop(correlation_id, None)
        if request is not None and not request.reply.done():
            return request.reply
        self.unmatched_replies += 1
        if self.unmatched_replies == 1:
            log.warning(
                "receive reply message, but not matched any request, CorrelationId: %s, reply from host: %s; "
                "more of them are only counted",
                correlation_id,
                replier,
            )
        return None

    def end_group(self, group: str) -> None:
        """The producer of this group is shut down: its requests fail."""
        for request in self._requests.values():
            if request.group == group and not request.reply.done():
                request.reply.set_exception(
                    MQClientException("the producer was shut down while its request waited for a reply")
                )

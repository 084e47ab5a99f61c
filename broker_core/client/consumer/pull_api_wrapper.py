"""Sends pulls and reads their answers."""

from typing import TYPE_CHECKING, NamedTuple

from broker_core.client.consumer.message_selector import TAG
from broker_core.client.consumer.pull_result import STATUSES, PullResult
from broker_core.client.message import decode_messages
from broker_core.client.mq_client_exception import MQBrokerException
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import MessageQueue, SubscriptionData
from broker_core.errors import RequestError
from broker_core.filters.tags import parse_client_subscription
from broker_core.formats.commit_log_record import RecordError
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import read_header
from broker_core.remoting.requests.pull import (
    COMMIT_OFFSET,
    SUSPEND,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)

if TYPE_CHECKING:
    import asyncio

    from broker_core.client.mq_client_instance import MQClientInstance

BROKER_SUSPEND_MAX_TIME_MILLIS = 15_000
CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND = 30_000
"""The two times for push consumers. They are constants in RocketMQ, too."""


class PullOptions(NamedTuple):
    """How a consumer pulls: at most so many messages and bytes.

    ``suspend_millis``: how long the broker may hold the pull; 0, not at all. ``timeout_millis``: how long the client
    waits for the answer, which must be longer, so that no held pull is given up. ``sys_flag``: more bits.
    """

    max_msg_nums: int
    max_msg_bytes: int | None = None
    suspend_millis: int = BROKER_SUSPEND_MAX_TIME_MILLIS
    timeout_millis: int = CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND
    sys_flag: int = 0
    code: int = RequestCode.PULL_MESSAGE


class PullAPIWrapper:
    """RocketMQ's PullAPIWrapper."""

    def __init__(self, instance: "MQClientInstance", group: str) -> None:
        self._instance = instance
        self._group = group

    def pull_kernel_impl(
        self,
        queue: MessageQueue,
        subscription: SubscriptionData,
        offset: int,
        options: PullOptions,
        *,
        commit_offset: int = 0,
    ) -> "asyncio.Future[RemotingCommand]":
        """Send a pull, which may be held; the future of its answer.

        A ``commit_offset`` above 0 is committed by the way. Raises MQClientException if the broker is not known, and
        OSError if the pull cannot be sent; the future fails with an OSError.
        """
        header = PullMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=options.max_msg_nums,
            sys_flag=options.sys_flag
            | (SUSPEND if options.suspend_millis else 0)
            | (COMMIT_OFFSET if commit_offset > 0 else 0),
            commit_offset=max(0, commit_offset),
            suspend_timeout_millis=options.suspend_millis,
            sub_version=subscription.sub_version,
            subscription=subscription.sub_string,
            expression_type=subscription.expression_type,
            max_msg_bytes=options.max_msg_bytes,
        )
        address = self._instance.broker_address(queue.broker_name)
        return self._instance.api.pull_message(address, header, options.timeout_millis / 1000, options.code)

    @staticmethod
    def process_pull_result(
        queue: MessageQueue, subscription: SubscriptionData, answer: RemotingCommand, offset: int = 0
    ) -> PullResult:
        """The result of a pull at ``offset``, read from its answer.

        Messages with other tags are left out, because brokers compare only hashes of tags. SQL92 filters are not
        evaluated again. Brokers return whole batches, so messages before ``offset`` are left out. (Java's client keeps
        them, so they are consumed again.)

        Raises MQBrokerException if the answer is an error or cannot be read.
        """
        status = STATUSES.get(answer.code)
        if status is None:
            raise MQBrokerException(answer.code, answer.remark, queue.broker_name)
        try:
            header = read_header(PullMessageResponseHeader, answer.ext_fields)
            messages = decode_messages(answer.body, queue.broker_name) if status == "FOUND" else []
            if status == "FOUND" and not messages:
                raise RecordError("it says that messages were found, and has none")
        except (RequestError, RecordError) as error:
            remark = f"the answer to a pull of {queue} cannot be read: {error}"
            raise MQBrokerException(ResponseCode.SYSTEM_ERROR, remark, queue.broker_name) from error
        messages = [message for message in messages if message.queue_offset >= offset]
        tags = parse_client_subscription(subscription.sub_string) if subscription.expression_type == TAG else None
        if tags is not None:
            wanted = tags.tags_set
            messages = [message for message in messages if message.tags.encode("utf-8", "surrogateescape") in wanted]
        return PullResult(status, header.next_begin_offset, header.min_offset, header.max_offset, messages)

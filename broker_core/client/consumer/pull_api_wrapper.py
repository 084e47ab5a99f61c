"""Sends pulls and reads their answers."""

from typing import TYPE_CHECKING

from broker_core.client.consumer.pull_result import STATUSES, PullResult
from broker_core.client.message import decode_messages
from broker_core.client.mq_client_exception import MQBrokerException
from broker_core.codes import ResponseCode
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
"""How long a broker may hold a pull of a push consumer."""
CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND = 30_000
"""How long the client waits for the answer of such a pull. It must be longer, so that no held pull is given up."""


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
        *,
        max_msg_nums: int,
        max_msg_bytes: int,
        commit_offset: int,
    ) -> "asyncio.Future[RemotingCommand]":
        """Send a pull that may be held; the future of its answer.

        A ``commit_offset`` above 0 is committed by the way. Raises MQClientException if the broker is not known, and
        OSError if the pull cannot be sent; the future fails with an OSError.
        """
        header = PullMessageRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_msg_nums,
            sys_flag=SUSPEND | (COMMIT_OFFSET if commit_offset > 0 else 0),
            commit_offset=max(0, commit_offset),
            suspend_timeout_millis=BROKER_SUSPEND_MAX_TIME_MILLIS,
            sub_version=subscription.sub_version,
            subscription=subscription.sub_string,
            expression_type=subscription.expression_type,
            max_msg_bytes=max_msg_bytes,
        )
        return self._instance.api.pull_message(
            self._instance.broker_address(queue.broker_name), header, CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND / 1000
        )

    @staticmethod
    def process_pull_result(queue: MessageQueue, subscription: SubscriptionData, answer: RemotingCommand) -> PullResult:
        """What an answer says. Messages with other tags are left out: brokers compare hashes only.

        Raises MQBrokerException if it is an error or cannot be read.
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
        tags = parse_client_subscription(subscription.sub_string, subscription.expression_type)
        if tags is not None:
            wanted = tags.tags_set
            messages = [message for message in messages if message.tags.encode("utf-8", "surrogateescape") in wanted]
        return PullResult(status, header.next_begin_offset, header.min_offset, header.max_offset, messages)

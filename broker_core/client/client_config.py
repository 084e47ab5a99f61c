"""The options of producers and consumers: RocketMQ's names and defaults, in Python's spelling."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from broker_core.client.mq_client_exception import MQClientException
from broker_core.errors import RequestError
from broker_core.topics import validate_group

MessageModel = Literal["CLUSTERING", "BROADCASTING"]
ConsumeFromWhere = Literal["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"]
DEFAULT_MAX_RECONSUME_TIMES = 16

_UpTo1000 = Annotated[int, Meta(ge=1, le=1000)]
_UpTo1024 = Annotated[int, Meta(ge=1, le=1024)]
_UpTo65535 = Annotated[int, Meta(ge=1, le=65_535)]
_Millis = Annotated[int, Meta(ge=0, le=3_600_000)]


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes in bytes, times in ms."""

    send_msg_timeout: Annotated[int, Meta(ge=1, le=3_600_000)] = 3000
    """For all attempts of a send together."""
    retry_times_when_send_failed: Annotated[int, Meta(ge=0, le=100)] = 2
    retry_another_broker_when_not_store_ok: bool = False
    compress_msg_body_over_howmuch: Annotated[int, Meta(ge=1)] = 4096
    max_message_size: Annotated[int, Meta(ge=1, le=1 << 30)] = 4 << 20
    default_topic_queue_nums: _UpTo1024 = 4
    send_latency_fault_enable: bool = False
    back_pressure_for_async_send_num: Annotated[int, Meta(ge=1, le=60_000)] = 1024
    """Sends of ``send_async`` that may be under way; the others wait."""
    back_pressure_for_async_send_size: Annotated[int, Meta(ge=1 << 20)] = 100 << 20
    """Bytes that the bodies of these sends may have together."""


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are in MiB and times in ms, unless a field says otherwise."""

    message_model: MessageModel = "CLUSTERING"
    consume_from_where: ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"
    consume_timestamp: Annotated[int, Meta(ge=0)] | None = None
    """For CONSUME_FROM_TIMESTAMP, ms since 1970; by default half an hour before the start."""
    set_zero_if_not_found: bool = True
    """Whether a new group begins at the first message of a young queue, whatever ``consume_from_where`` says."""
    consume_thread_max: _UpTo1000 = 20
    consume_message_batch_max_size: _UpTo1024 = 1
    pull_batch_size: _UpTo1024 = 32
    pull_batch_size_in_bytes: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] = 256 << 10
    pull_threshold_for_queue: _UpTo65535 = 1000
    pull_threshold_size_for_queue: _UpTo1024 = 100
    consume_concurrently_max_span: _UpTo65535 = 2000
    max_reconsume_times: Annotated[int, Meta(ge=-1, le=10_000)] = -1
    """-1 means 16 for a concurrent listener, and no limit for an orderly one."""
    suspend_current_queue_time_millis: Annotated[int, Meta(ge=10, le=30_000)] = 1000
    """In order: how long a queue pauses after a message has failed."""
    local_offset_store_dir: str = "~/.rocketmq_offsets"
    """In broadcasting: the folder of the offsets."""
    consume_timeout: Annotated[int, Meta(ge=1, le=10_000)] = 15
    """A message is sent back if its listener has not returned after this time, in minutes."""
    await_termination_millis_when_shutdown: _Millis = 5000
    """How long ``shutdown`` waits for the listener. (RocketMQ does not wait.)"""


class SuspendTimes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Timeouts of pulls that a broker holds, in ms."""

    broker_suspend_max_time_millis: Annotated[int, Meta(ge=1000, le=3_600_000)] = 20_000
    """How long a broker may hold a pull that finds nothing. If it did not, one pull would follow another at once."""
    consumer_timeout_millis_when_suspend: _Millis = 30_000
    """How long the client waits for the answer of such a pull."""


class PullConsumerConfig(SuspendTimes, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of DefaultMQPullConsumer. Times are in ms."""

    consumer_pull_timeout_millis: Annotated[int, Meta(ge=1, le=3_600_000)] = 10_000
    """How long the client waits for the answer of a pull that is not held."""


class LitePullConsumerConfig(SuspendTimes, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of DefaultLitePullConsumer. Sizes are in MiB and times in ms, unless a field says otherwise."""

    message_model: MessageModel = "CLUSTERING"
    consume_from_where: ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"
    consume_timestamp: Annotated[int, Meta(ge=0)] | None = None
    set_zero_if_not_found: bool = True
    auto_commit: bool = True
    auto_commit_interval_millis: Annotated[int, Meta(ge=1000, le=3_600_000)] = 5000
    poll_timeout_millis: _Millis = 5000
    pull_batch_size: _UpTo1024 = 10
    pull_threshold_for_all: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Messages of all queues that wait for ``poll``."""
    pull_threshold_for_queue: _UpTo65535 = 1000
    pull_threshold_size_for_queue: _UpTo1024 = 100
    consume_max_span: _UpTo65535 = 2000
    local_offset_store_dir: str = "~/.rocketmq_offsets"


C = TypeVar("C", ProducerConfig, ConsumerConfig, PullConsumerConfig, LitePullConsumerConfig)


def read_config(kind: type[C], options: dict[str, Any]) -> C:
    """The options as ``kind``. MQClientException that names the one that is wrong."""
    try:
        return msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        raise MQClientException(f"an option is wrong: {error}") from error


def check_suspend_times(config: SuspendTimes) -> None:
    """MQClientException if the client would give up pulls that brokers may still hold."""
    held, waits = config.broker_suspend_max_time_millis, config.consumer_timeout_millis_when_suspend
    if waits <= held:
        raise MQClientException(
            f"consumer_timeout_millis_when_suspend ({waits}) must be greater than broker_suspend_max_time_millis "
            f"({held}), or the client gives up pulls that the broker still holds"
        )


def check_group(group: str, reserved: str) -> str:
    """The name of a group. MQClientException if it breaks RocketMQ's rules or is the ``reserved`` one."""
    try:
        validate_group(group)
    except RequestError as error:
        raise MQClientException(error.remark) from error
    if group == reserved:
        raise MQClientException(f"{group} is the name that RocketMQ gives to nobody; choose another group")
    return group

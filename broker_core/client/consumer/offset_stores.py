"""Where a consumer keeps its offsets."""

from typing import TYPE_CHECKING

from broker_core.client.client_config import ConsumerConfig, LitePullConsumerConfig
from broker_core.client.consumer.local_file_offset_store import LocalFileOffsetStore
from broker_core.client.consumer.remote_broker_offset_store import RemoteBrokerOffsetStore
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.mq_client_instance import MQClientInstance

if TYPE_CHECKING:
    from broker_core.client.consumer.mq_consumer_inner import OffsetStore


def offset_store_of(
    config: ConsumerConfig | LitePullConsumerConfig, instance: MQClientInstance, group: str
) -> "OffsetStore":
    """In broadcasting a file, else the brokers.

    MQClientException for a file that a later process would not find, because its client would have another id.
    """
    if config.message_model != "BROADCASTING":
        return RemoteBrokerOffsetStore(instance, group, set_zero_if_not_found=config.set_zero_if_not_found)
    if not instance.has_fixed_id:
        raise MQClientException(
            f"in broadcasting, the offsets are kept in a folder with the client's id, and {instance.client_id!r} is "
            f"another one after each start: give MQClientInstance an instance_name or a client_id"
        )
    return LocalFileOffsetStore(config.local_offset_store_dir, instance.client_id, group)

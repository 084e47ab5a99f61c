"""A RocketMQ client in pure Python, for GlassMQ and Apache RocketMQ. It needs neither a broker nor Django.

These classes are for asyncio; ``broker_core.client.sync`` has the same for programs without an event loop.
"""

from broker_core.client.consumer.default_lite_pull_consumer import DefaultLitePullConsumer
from broker_core.client.consumer.default_mq_pull_consumer import DefaultMQPullConsumer
from broker_core.client.consumer.default_mq_push_consumer import DefaultMQPushConsumer
from broker_core.client.consumer.message_selector import MessageSelector
from broker_core.client.consumer.pull_result import PullResult
from broker_core.client.message import Message, MessageExt
from broker_core.client.message_util import create_reply_message
from broker_core.client.mq_client_exception import MQBrokerException, MQClientException, RequestTimeoutException
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.client.producer.default_mq_producer import DefaultMQProducer
from broker_core.client.producer.send_result import SendResult
from broker_core.client.producer.transaction_mq_producer import (
    LocalTransactionState,
    TransactionListener,
    TransactionMQProducer,
    TransactionSendResult,
)
from broker_core.commands import MessageQueue
from broker_core.consumers.allocate_message_queue import (
    allocate_averagely,
    allocate_averagely_by_circle,
    allocate_by_consistent_hash,
    allocate_machine_room_nearby,
)

__all__ = [
    "DefaultLitePullConsumer",
    "DefaultMQProducer",
    "DefaultMQPullConsumer",
    "DefaultMQPushConsumer",
    "LocalTransactionState",
    "MQBrokerException",
    "MQClientException",
    "MQClientInstance",
    "Message",
    "MessageExt",
    "MessageQueue",
    "MessageSelector",
    "PullResult",
    "RequestTimeoutException",
    "SendResult",
    "TransactionListener",
    "TransactionMQProducer",
    "TransactionSendResult",
    "allocate_averagely",
    "allocate_averagely_by_circle",
    "allocate_by_consistent_hash",
    "allocate_machine_room_nearby",
    "create_reply_message",
]

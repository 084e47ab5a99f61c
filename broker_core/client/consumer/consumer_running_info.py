"""What a consumer tells an administrator about itself."""

from typing import Any, Protocol

from broker_core.client.consumer.mq_consumer_inner import OffsetStore
from broker_core.client.consumer.rebalance_impl import RebalanceImpl
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.commands import ConsumeType, SubscriptionData


class Consumer(Protocol):
    """A consumer, as far as its running info describes it."""

    instance: MQClientInstance
    offset_store: OffsetStore
    rebalance: RebalanceImpl
    subscriptions: dict[str, SubscriptionData]
    orderly: bool
    started_ms: int


def consumer_running_info(consumer: Consumer, consume_type: ConsumeType, threads: int) -> dict[str, Any]:
    """RocketMQ's ConsumerRunningInfo, without consumption figures by topic. ``threads`` call the listener."""
    now = consumer.instance.clock.now()
    table = {
        queue: work.info()
        | {
            "commitOffset": max(0, consumer.offset_store.read_memory(queue)),
            "lastPullTimestamp": now.wall_ms - (now.mono_ns - work.last_pull_ns) // 1_000_000,
        }
        for queue, work in consumer.rebalance.process_queues.items()
    }
    return {
        "mqTable": table,
        "mqPopTable": {},
        "properties": {
            "PROP_CONSUMEORDERLY": "true" if consumer.orderly else "false",
            "PROP_CONSUME_TYPE": consume_type,
            "PROP_CONSUMER_START_TIMESTAMP": str(consumer.started_ms),
            "PROP_THREADPOOL_CORE_SIZE": str(threads),
        },
        "statusTable": {},
        "subscriptionSet": [
            {
                "topic": data.topic,
                "subString": data.sub_string,
                "subVersion": data.sub_version,
                "expressionType": data.expression_type,
            }
            for data in consumer.subscriptions.values()
        ],
        "userConsumerInfo": {},
    }

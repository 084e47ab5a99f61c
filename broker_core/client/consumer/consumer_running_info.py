"""What a consumer tells an administrator about itself."""

from typing import TYPE_CHECKING, Any

from broker_core.commands import ConsumeType

if TYPE_CHECKING:
    from broker_core.client.consumer.pulling_consumer import PullingConsumer


def consumer_running_info(consumer: "PullingConsumer", consume_type: ConsumeType, threads: int) -> dict[str, Any]:
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

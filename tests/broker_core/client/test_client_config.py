from typing import Any

import pytest

from broker_core.client.client_config import ConsumerConfig, ProducerConfig, read_config
from broker_core.client.mq_client_exception import MQClientException


def test_defaults_are_rocketmqs() -> None:
    consumer, producer = read_config(ConsumerConfig, {}), read_config(ProducerConfig, {})
    assert (consumer.pull_batch_size, consumer.pull_threshold_for_queue) == (32, 1000)
    assert (consumer.pull_threshold_size_for_queue, consumer.consume_concurrently_max_span) == (100, 2000)
    assert (consumer.consume_thread_max, consumer.consume_timeout, consumer.max_reconsume_times) == (20, 15, -1)
    assert (producer.send_msg_timeout, producer.retry_times_when_send_failed) == (3000, 2)
    assert (producer.compress_msg_body_over_howmuch, producer.max_message_size) == (4096, 4 << 20)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ConsumerConfig, {"pull_batch_size": 1025}),
        (ConsumerConfig, {"consume_thread_max": 0}),
        (ConsumerConfig, {"consume_from_where": "LAST"}),
        (ConsumerConfig, {"pull_threshold_for_queue": "1000"}),
        (ConsumerConfig, {"pullBatchSize": 5}),
        (ProducerConfig, {"send_msg_timeout": 0}),
        (ProducerConfig, {"retry_times_when_send_failed": -1}),
    ],
)
def test_wrong_options_are_named(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(MQClientException, match=f"an option is wrong: .*{next(iter(options))}"):
        read_config(kind, options)

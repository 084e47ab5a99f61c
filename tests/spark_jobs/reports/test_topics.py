"""What topics are for."""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from spark_jobs.reports.topics import is_of_clients, kind_of, pop_retry_owner
from spark_jobs.spark.small_tables import small_table
from tests.spark_jobs.frames import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_CLIENTS = {
    "orders": "messages",
    "my_rmq_sys_topic": "messages",
    "%RETRY%g": "retry",
    "%RETRY%g_t": "retry",
    "%RETRY%g+t": "pop retry",
    "%DLQ%g": "dead letter",
    "RMQ_SYS_TRACE_TOPIC": "trace",
}
OF_THE_BROKER = {
    "SCHEDULE_TOPIC_XXXX": "delay",
    "rmq_sys_wheel_timer": "timer",
    "RMQ_SYS_TRANS_HALF_TOPIC": "transaction",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": "transaction",
    "TRANS_CHECK_MAX_TIME_TOPIC": "transaction",
    "rmq_sys_REVIVE_LOG_DefaultCluster": "pop",
    "rmq_sys_SYNC_BROKER_MEMBER_broker-a": "system",
    "RMQ_SYS_SELF_TEST": "system",
    "TBW102": "system",
    "BenchmarkTest": "system",
    "SELF_TEST_TOPIC": "system",
    "OFFSET_MOVED_EVENT": "system",
    "CHECKPOINT_TOPIC": "system",
    "DefaultCluster_REPLY_TOPIC": "system",
}


def test_each_topic_has_a_kind(spark: "SparkSession") -> None:
    names = [(name,) for name in OF_CLIENTS | OF_THE_BROKER]
    topic = F.col("topic")
    table = small_table(spark, names, "topic string").select(
        "topic", kind_of(topic).alias("kind"), is_of_clients(topic).alias("of_clients")
    )
    expected = {name: (kind, True) for name, kind in OF_CLIENTS.items()}
    expected |= {name: (kind, False) for name, kind in OF_THE_BROKER.items()}
    assert {name: (kind, of_clients) for name, kind, of_clients in rows(table)} == expected


@pytest.mark.parametrize(
    ("topic", "owner"),
    [
        ("%RETRY%g+t", ("g", "t")),
        ("%RETRY%unknown+t+u", ("unknown", "t+u")),
        ("%RETRY%g_t", ("g", "t")),
        ("%RETRY%g_1_t", ("g_1", "t")),
        ("%RETRY%g_2_t", ("g", "2_t")),
        ("%RETRY%g", None),
        ("%RETRY%whole_t", None),
        ("%RETRY%other_t", None),
        ("%RETRY%g_other", None),
        ("%DLQ%g_t", None),
        ("g_t", None),
    ],
)
def test_the_owner_of_a_retry_topic_of_pop(topic: str, owner: tuple[str, str] | None) -> None:
    groups = {"g", "g_1", "whole", "whole_t"}
    assert pop_retry_owner(topic, {"t", "2_t"}, groups) == owner

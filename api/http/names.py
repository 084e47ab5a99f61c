"""RocketMQ's rules for the names of topics, groups, clients, tags and properties.

The patterns end in ``$(?!\\n)`` because Python's ``$`` also matches before a final newline.
In JSON Schema both forms mean the same.
"""

from typing import Annotated

from msgspec import Meta

TOPIC_PATTERN = r"^([%|a-zA-Z0-9_-]{1,127}|%(RETRY|DLQ)%[%|a-zA-Z0-9_-]{1,248})$(?!\n)"
GROUP_PATTERN = r"^[%|a-zA-Z0-9_-]{1,120}$(?!\n)"
OPTIONAL_TOPIC_PATTERN = r"^$(?!\n)|" + TOPIC_PATTERN
OPTIONAL_GROUP_PATTERN = r"^[%|a-zA-Z0-9_-]{0,120}$(?!\n)"
GROUP_NAMES_PATTERN = r"^[%|a-zA-Z0-9_-]{1,120}(,[%|a-zA-Z0-9_-]{1,120}){0,99}$(?!\n)"
CLIENT_ID_PATTERN = r"^[ -~]{0,255}$(?!\n)"
PLAIN_PATTERN = r"^[^\x00-\x1f\x7f]*$(?!\n)"

RULES = {
    TOPIC_PATTERN: "the name of a topic has 1 to 127 of the characters % | a-z A-Z 0-9 _ -",
    OPTIONAL_TOPIC_PATTERN: "the name of a topic has 1 to 127 of the characters % | a-z A-Z 0-9 _ -",
    GROUP_PATTERN: "the name of a group has 1 to 120 of the characters % | a-z A-Z 0-9 _ -",
    OPTIONAL_GROUP_PATTERN: "the name of a group has 1 to 120 of the characters % | a-z A-Z 0-9 _ -",
    GROUP_NAMES_PATTERN: "this takes the names of 1 to 100 groups, with commas between them",
    CLIENT_ID_PATTERN: "a client id has at most 255 printable ASCII characters",
    PLAIN_PATTERN: "control characters are not allowed here",
}
"""The rule of each pattern in words, for the error that a name gets when it does not match."""

TopicName = Annotated[str, Meta(pattern=TOPIC_PATTERN, description="Name of a topic.")]
OptionalTopicName = Annotated[str, Meta(pattern=OPTIONAL_TOPIC_PATTERN, description="Only for this topic.")]
GroupName = Annotated[str, Meta(pattern=GROUP_PATTERN, description="Name of a consumer group.")]
OptionalGroupName = Annotated[str, Meta(pattern=OPTIONAL_GROUP_PATTERN, description="A consumer group.")]
ClientId = Annotated[str, Meta(pattern=CLIENT_ID_PATTERN, description="Name of this client on the dashboard.")]
MessageId = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=PLAIN_PATTERN, description="UNIQ_KEY or offset message id.")
]
Expression = Annotated[
    str,
    Meta(
        max_length=8192,
        pattern=PLAIN_PATTERN,
        description="Tags (`TagA || TagB`, `*` for all), or SQL92 if the filter type is SQL92.",
    ),
]

DELAY = "DELAY"
"""The property by which RocketMQ's producers set a delay level."""

TIMER_PROPERTIES = frozenset({"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"})
"""The properties by which RocketMQ's producers set a time of delivery that is not a delay level."""

RESERVED_PROPERTIES = TIMER_PROPERTIES | frozenset(
    {
        "KEYS",
        "TAGS",
        "WAIT",
        "UNIQ_KEY",
        "EXTEND_UNIQ_INFO",
        "RETRY_TOPIC",
        "REAL_TOPIC",
        "REAL_QID",
        "ORIGIN_MESSAGE_ID",
        "RECONSUME_TIME",
        "MAX_RECONSUME_TIMES",
        "TRAN_MSG",
        "PGROUP",
        "__transactionId__",
        "TRANSACTION_CHECK_TIMES",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "MSG_REGION",
        "TRACE_ON",
        "CLUSTER",
        "INSTANCE_ID",
        "BUYER_ID",
        "TRANSFER_FLAG",
        "CORRECTION_FLAG",
        "MQ2_FLAG",
        "CORRELATION_ID",
        "REPLY_TO_CLIENT",
        "TTL",
        "ARRIVE_TIME",
        "PUSH_REPLY_TIME",
        "MSG_TYPE",
        "TIMER_OUT_MS",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
        "TIMER_ROLL_TIMES",
        "TIMER_DEL_UNIQKEY",
        "TIMER_DELAY_LEVEL",
        "TIMER_ROLL_LABEL",
        "POP_CK",
        "POP_CK_OFFSET",
        "1ST_POP_TIME",
        "DLQ_ORIGIN_TOPIC",
        "DLQ_ORIGIN_MESSAGE_ID",
        "INNER_NUM",
        "INNER_BASE",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
        "MIN_OFFSET",
        "MAX_OFFSET",
        "CONSUME_START_TIME",
        "TRACE_CONTEXT",
        "__BORNHOST",
        "BORN_TIMESTAMP",
        "DUP_INFO",
        "REDIRECT",
        "PROPERTY_FORWARD_QUEUE_ID",
        "_SYS_MSG_PRIORITY_",
        "__LITE_TOPIC",
        "ORIGIN_GROUP",
        "TRANS_OFFSET",
        "__CRC32#",
        "IDEMPOTENCY_KEY",
        "IDEMPOTENCY_PLACE",
        "IDEMPOTENCY_DIGEST",
    }
)
"""Names that RocketMQ's or GlassMQ's brokers and clients use themselves. The order keys (``__SHARDINGKEY``,
``SHARDING_KEY``) are not reserved, because applications set them."""

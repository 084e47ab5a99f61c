"""A message's property string: ``name 0x01 value 0x02`` repeated, UTF-8.

RocketMQ's Java encoder ends with 0x02, others omit the last one; both forms are read. As in RocketMQ, an entry
without a name or value is ignored, and the last of several entries with the same name counts.
"""

from collections.abc import Container, Mapping

NAME_END = "\x01"
ENTRY_END = "\x02"
KEY_SEPARATOR = " "
"""Between the keys in KEYS. Other white space is part of a key."""

TAGS = "TAGS"
KEYS = "KEYS"
UNIQ_KEY = "UNIQ_KEY"
DELAY = "DELAY"
WAIT = "WAIT"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
CORRELATION_ID = "CORRELATION_ID"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
ARRIVE_TIME = "ARRIVE_TIME"
TTL = "TTL"
CLUSTER = "CLUSTER"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
MSG_TYPE = "MSG_TYPE"
SHARDING_KEY = "__SHARDINGKEY"
PRIORITY = "_SYS_MSG_PRIORITY_"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
"""RocketMQ's own: the message is in light message queues (LMQ) too, at these offsets."""
REPLY = "reply"
"""The MSG_TYPE of a reply to a request message."""
IDEMPOTENCY_KEY = "IDEMPOTENCY_KEY"
"""GlassMQ's own: the key by which a repeated send is recognized."""


class PropertiesError(ValueError):
    """A name or value that cannot be written into a property string."""


def encode(properties: Mapping[str, str]) -> str:
    """A property string as RocketMQ's Java clients write it.

    Raises PropertiesError for an empty name, or a name or value that contains a separator.
    """
    for name, value in properties.items():
        if not name:
            raise PropertiesError("a property has no name")
        if NAME_END in name or ENTRY_END in name or NAME_END in value or ENTRY_END in value:
            raise PropertiesError(f"property {name!r} contains 0x01 or 0x02, which separate properties")
    return "".join([f"{name}{NAME_END}{value}{ENTRY_END}" for name, value in properties.items()])


def decode(text: str) -> dict[str, str]:
    """All properties of a string, whether or not it ends with 0x02."""
    properties = {}
    for entry in text.split(ENTRY_END):
        name, _, value = entry.partition(NAME_END)
        if name and value:
            properties[name] = value
    return properties


def find(text: str, name: str) -> str:
    """One property's value, without decoding the others; empty if there is none."""
    needle = name + NAME_END
    start = text.find(needle)  # searching forwards is much faster, and the name usually occurs once
    if start < 0:
        return ""
    if text.find(needle, start + 1) >= 0 or (start and text[start - 1] != ENTRY_END):
        start = text.rfind(needle)
        while start > 0 and text[start - 1] != ENTRY_END:
            start = text.rfind(needle, 0, start)
        if start < 0:
            return ""
    start += len(needle)
    end = text.find(ENTRY_END, start)
    return text[start:] if end < 0 else text[start:end]


def split_keys(keys: str) -> list[str]:
    """The keys in the value of KEYS."""
    return [key for key in keys.split(KEY_SEPARATOR) if key]


def append(text: str, name: str, value: str) -> str:
    """``text`` with one more property. A missing last 0x02 is added."""
    separator = "" if not text or text.endswith(ENTRY_END) else ENTRY_END
    return f"{text}{separator}{name}{NAME_END}{value}{ENTRY_END}"


def without(text: str, names: Container[str]) -> str:
    """``text`` without the properties of these names."""
    return "".join(
        [
            f"{entry}{ENTRY_END}"
            for entry in text.split(ENTRY_END)
            if entry and entry.partition(NAME_END)[0] not in names
        ]
    )


def put(text: str, properties: Mapping[str, str]) -> str:
    """``text`` with these properties, which replace any of the same names. Raises PropertiesError as ``encode``."""
    return without(text, properties) + encode(properties)

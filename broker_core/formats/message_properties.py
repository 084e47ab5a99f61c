"""A message's property string: ``name 0x01 value 0x02`` repeated, UTF-8.

RocketMQ's Java encoder ends with 0x02, others leave the last one out: both are read. An entry without a name or
without a value is passed over, and of two entries with one name the last one counts, as RocketMQ reads them.
"""

from collections.abc import Container, Mapping

NAME_END = "\x01"
ENTRY_END = "\x02"

TAGS = "TAGS"
KEYS = "KEYS"
UNIQ_KEY = "UNIQ_KEY"
DELAY = "DELAY"
WAIT = "WAIT"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
IDEMPOTENCY_KEY = "IDEMPOTENCY_KEY"
"""GlassMQ's own: the key under which a producer may repeat a message."""


class PropertiesError(ValueError):
    """A name or value that the property string cannot hold."""


def encode(properties: Mapping[str, str]) -> str:
    """The string RocketMQ's Java clients write. PropertiesError for an empty name or a separator inside."""
    for name, value in properties.items():
        if not name:
            raise PropertiesError("a property without a name")
        if NAME_END in name or ENTRY_END in name or NAME_END in value or ENTRY_END in value:
            raise PropertiesError(f"property {name!r} holds 0x01 or 0x02, which separate properties")
    return "".join([f"{name}{NAME_END}{value}{ENTRY_END}" for name, value in properties.items()])


def decode(text: str) -> dict[str, str]:
    """All properties of a string in either tail form."""
    properties = {}
    for entry in text.split(ENTRY_END):
        name, _, value = entry.partition(NAME_END)
        if name and value:
            properties[name] = value
    return properties


def find(text: str, name: str) -> str:
    """One property's value without decoding the others; empty when it is not there."""
    needle = name + NAME_END
    start = text.find(needle)  # forwards, which is much faster; as a rule it is there once
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


def append(text: str, name: str, value: str) -> str:
    """``text`` with one more property, mending a string that lacks its last 0x02."""
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
    """``text`` with these properties in place of any of the same names. PropertiesError as ``encode``."""
    return without(text, properties) + encode(properties)

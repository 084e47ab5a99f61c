"""Messages as a consumer gets them."""

from typing import Any

from broker_core.client.message import MessageExt
from broker_core.formats import commit_log_record, message_properties


def message_ext(
    offset: int = 0, body: bytes = b"hello", *, topic: str = "T", broker: str = "a", **more: Any
) -> MessageExt:
    """One message. ``properties`` is a dict."""
    more["properties"] = message_properties.encode(more.get("properties", {}))
    data = commit_log_record.encode(
        topic=topic, queue_id=0, queue_offset=offset, physical_offset=offset * 1000, body=body, **more
    )
    return MessageExt(commit_log_record.decode(data), broker)

"""RocketMQ's JSON bodies: JSON, except for two kinds of keys that fastjson writes without quotes.

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7,{"brokerName":"b","queueId":1,"topic":"T"}:9}}
    {"brokerAddrs":{0:"127.0.0.1:10911"}}

In Python such keys are a MessageQueue and an ``int``. Java accepts no other form of the first. Use msgspec for bodies
without such keys, which are plain JSON.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from broker_core.commands import MessageQueue
from broker_core.formats import rocketmq_json
from broker_core.formats.rocketmq_json import RocketmqJsonError

_STRING = r'"(?:[^"\\]|\\.)*+"'
_STRING_OR_OBJECT_KEY = re.compile(rf'{_STRING}|(?<=[{{,])(\s*+)(\{{(?:[^{{}}"]|{_STRING})*+\}})(?=\s*+:)')
_MARK = "\0mq:"
_PLAIN = frozenset((str, int, float, bool))
_TEXT = frozenset((str,))
_WHOLE = frozenset((int,))
_to_json = msgspec.json.Encoder().encode


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A part of a body that is encoded already."""

    text: str


class _Queue(msgspec.Struct, rename="camel"):
    """A MessageQueue in a body, its members in Java's order."""

    broker_name: str
    queue_id: int
    topic: str


_queue = msgspec.json.Decoder(_Queue)


def encode(value: Any) -> bytes:
    """Compact JSON of dicts, lists, texts, numbers and MessageQueues; members that are None are left out.

    MessageQueue and ``int`` keys are written bare.
    """
    return _encode(value).encode()


def encode_table(rows: Iterable[tuple[str, int, str]], broker_name: str) -> Encoded:
    """A table by MessageQueue, for tables of many rows: (topic, queue id, the row's text)."""
    head = f'{{"brokerName":{_encode(broker_name)},"queueId":'
    names: dict[str, str] = {}
    texts = []
    for topic, queue_id, row in rows:
        name = names.get(topic) or names.setdefault(topic, _encode(topic))
        texts.append(f'{head}{queue_id},"topic":{name}}}:{row}')
    return Encoded(f"{{{','.join(texts)}}}")


def _encode(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, dict):
        kinds = {*map(type, value.values())}
        if kinds <= _PLAIN:  # a row of a table, which may have thousands
            if {*map(type, value)} == _TEXT:
                return _to_json(value).decode()
            if kinds == _WHOLE == {*map(type, value)}:
                return _to_json(value).replace(b'"', b"").decode()
        return (
            "{"
            + ",".join([f"{_encode_key(key)}:{_encode(item)}" for key, item in value.items() if item is not None])
            + "}"
        )
    if type(value) is Encoded:
        return value.text
    if isinstance(value, list | tuple):
        return "[" + ",".join([_encode(item) for item in value]) + "]"
    if type(value) is MessageQueue:
        return _encode_key(value)
    return _to_json(value).decode()


def _encode_key(key: str | int | MessageQueue) -> str:
    if type(key) is MessageQueue:
        return _to_json(_Queue(key.broker_name, key.queue_id, key.topic)).decode()
    return str(key) if type(key) is int else _to_json(key).decode()


def decode(data: bytes) -> dict[str | int | MessageQueue, Any]:
    """The object in a body. RocketmqJsonError if it is not one, or if a bare object is not a MessageQueue."""
    try:
        text = _STRING_OR_OBJECT_KEY.sub(_quote_object_key, data.decode("utf-8"))
        value: dict[str | int | MessageQueue, Any] = _restore_keys(rocketmq_json.decode(text))
    except RecursionError as error:
        raise RocketmqJsonError("not RocketMQ's JSON: too many nested objects") from error
    except ValueError as error:
        raise RocketmqJsonError(f"not RocketMQ's JSON: {error}") from error
    return value


def _quote_object_key(match: re.Match[str]) -> str:
    return match[0] if match[2] is None else match[1] + _to_json(_MARK + match[2]).decode()


def _restore_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_restore_key(key): _restore_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_restore_keys(item) for item in value]
    return value


def _restore_key(key: str | int) -> str | int | MessageQueue:
    if type(key) is int or not str(key).startswith(_MARK):
        return key
    queue = _queue.decode(str(key)[len(_MARK) :])
    return MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)

"""RocketMQ's JSON tables: ordinary JSON, except for integer keys, which fastjson writes without quotes.

    {"offsetTable":{"T@g":{0:5,1:7}}}

Keys without quotes are read as ``int`` and written without quotes again; a key in quotes is always text. A struct is
written as an object with its fields, which have no such keys.
"""

import json
import re
from typing import Any

import msgspec

_STRING_OR_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=[{,])(\s*)(-?\d+)(?=\s*:)')
_MARK = "\0int:"
_encode_struct = msgspec.json.Encoder().encode


class RocketmqJsonError(ValueError):
    """The text is not a JSON object."""


def _quote_bare_key(match: re.Match[str]) -> str:
    return f'{match[1]}"\\u0000int:{match[2]}"' if match[2] is not None else match[0]


def _restore_keys(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    return {int(key[len(_MARK) :]) if key.startswith(_MARK) else key: value for key, value in pairs}


def decode(data: bytes | str) -> dict[str | int, Any]:
    """A table; RocketmqJsonError if the text is not a JSON object."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(_STRING_OR_BARE_KEY.sub(_quote_bare_key, text), object_pairs_hook=_restore_keys)
    except ValueError as error:
        raise RocketmqJsonError(f"not a JSON table: {error}") from error
    if not isinstance(value, dict):
        raise RocketmqJsonError("not a JSON table: the outermost value is not an object")
    return value


def encode(value: Any) -> str:
    """Compact text, with ``int`` keys without quotes."""
    if isinstance(value, dict):
        if set(map(type, value)) == set(map(type, value.values())) == {int}:  # offsets of queues: there may be millions
            return str(value).replace(" ", "")
        return "{" + ",".join([f"{_encode_key(key)}:{encode(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([encode(item) for item in value]) + "]"
    if type(value) is int:
        return str(value)
    if isinstance(value, msgspec.Struct):  # as text at once: a table may have 20,000 topics or groups
        return _encode_struct(value).decode()
    return json.dumps(value, ensure_ascii=False)


def _encode_key(key: str | int) -> str:
    return str(key) if type(key) is int else json.dumps(key, ensure_ascii=False)

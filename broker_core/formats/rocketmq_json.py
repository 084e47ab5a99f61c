"""RocketMQ's JSON tables: ordinary JSON, but for integer keys, which fastjson writes without quotes.

    {"offsetTable":{"T@g":{0:5,1:7}}}

Bare integers become ``int`` keys and are written bare again; a key in quotes stays text, whatever it holds.
"""

import json
import re
from typing import Any

_STRING_OR_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=[{,])(\s*)(-?\d+)(?=\s*:)')
_MARK = "\0int:"


class RocketmqJsonError(ValueError):
    """The text is not a JSON object."""


def _quote_bare_key(match: re.Match[str]) -> str:
    return f'{match[1]}"\\u0000int:{match[2]}"' if match[2] is not None else match[0]


def _restore_keys(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    return {int(key[len(_MARK) :]) if key.startswith(_MARK) else key: value for key, value in pairs}


def decode(data: bytes | str) -> dict[str | int, Any]:
    """A table; RocketmqJsonError when it is not one."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(_STRING_OR_BARE_KEY.sub(_quote_bare_key, text), object_pairs_hook=_restore_keys)
    except ValueError as error:
        raise RocketmqJsonError(f"not a JSON table: {error}") from error
    if not isinstance(value, dict):
        raise RocketmqJsonError("not a JSON table: the outermost value is no object")
    return value


def encode(value: Any) -> str:
    """Compact text; ``int`` keys bare."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{_encode_key(key)}:{encode(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([encode(item) for item in value]) + "]"
    if type(value) is int:
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _encode_key(key: str | int) -> str:
    return str(key) if type(key) is int else json.dumps(key, ensure_ascii=False)

"""Tag expressions: ``*``, ``TagA``, ``TagA || TagB``.

Source: RocketMQ's FilterAPI. The hash in the queue unit is checked first. If it matches, the tag in the record is
compared, because two tags may share a hash.
"""

import re
from functools import lru_cache
from typing import ClassVar

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.formats.tags_code import hash_code

SUB_ALL = "*"
MAX_EXPRESSION_LENGTH = 4096
_TAGS = b"TAGS\x01"
_SQL92 = re.compile(
    r"\s(=|<>|[<>]=?)\s|[=<>]\s*'[^']*'|\w[=<>]+\w+\s+(and|or)\b|\sis\s+(not\s+)?null\b"
    r"|\sbetween\s.+\sand\s|\s(in\s*\(|like\s*')",
    re.IGNORECASE,
)
"""What SQL92 expressions have and tags do not: comparisons. Words alone, as in ``made in china``, may be in a tag."""


class TagFilter:
    """RocketMQ's SubscriptionData of type TAG, for an expression with at least one tag."""

    __slots__ = ("code_set", "expression", "tags_set")
    reads_properties: ClassVar[bool] = False
    work: ClassVar[int] = 1

    def __init__(self, expression: str, tags: frozenset[bytes]) -> None:
        self.expression = expression
        self.tags_set = tags
        self.code_set = frozenset(hash_code(tag.decode()) for tag in tags)

    def matches_tags_code(self, tags_code: int) -> bool:
        low = tags_code & 0xFFFFFFFF
        return (low - 0x100000000 if low & 0x80000000 else low) in self.code_set

    def matches_record(self, properties: bytes) -> bool:
        start = 0 if properties.startswith(_TAGS) else properties.find(b"\x02" + _TAGS) + 1
        if start == 0 and not properties.startswith(_TAGS):
            return False
        start += len(_TAGS)
        end = properties.find(b"\x02", start)
        return properties[start : end if end >= 0 else None] in self.tags_set


@lru_cache(maxsize=4096)
def parse_subscription(expression: str) -> TagFilter | None:
    """The filter of an expression; None if every message matches. Equal expressions share one filter.

    Raises RequestError (SUBSCRIPTION_PARSE_FAILED).
    """
    text = expression.strip()
    if text in ("", SUB_ALL):
        return None
    if len(text) > MAX_EXPRESSION_LENGTH:
        raise RequestError(
            f"the filter is {len(text)} characters long; the limit is {MAX_EXPRESSION_LENGTH}",
            code=ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            pointer="/filter",
        )
    tags = _split(text)
    for tag in tags:
        if looks_like_sql92(tag):
            raise RequestError(
                f"{expression[:200]!r} is no tag filter, but looks like an SQL92 expression, which needs "
                "filter_type=sql92; for tags, write *, one tag, or tags joined by ||",
                code=ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                pointer="/filter",
            )
        if not tag or "|" in tag or tag == SUB_ALL or any(c < " " or "\ud800" <= c <= "\udfff" for c in tag):
            raise RequestError(
                f"{expression!r} is not a tag filter: write *, one tag, or tags joined by ||",
                code=ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                pointer="/filter",
            )
    return TagFilter(text, frozenset(tag.encode() for tag in tags))


@lru_cache(maxsize=4096)
def parse_client_subscription(expression: str) -> TagFilter | None:
    """The filter of an expression as RocketMQ's clients may write it; empty parts are ignored.

    Raises RequestError (SUBSCRIPTION_PARSE_FAILED).
    """
    if expression.strip() in ("", SUB_ALL):
        return None
    tags = frozenset(tag.encode("utf-8", "replace") for tag in _split(expression) if tag)
    if not tags or len(expression) > MAX_EXPRESSION_LENGTH:
        raise RequestError(
            f"parse the consumer's subscription failed: {expression[:100]!r} contains no tag, or more "
            f"than {MAX_EXPRESSION_LENGTH} characters",
            code=ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            pointer="/subscription",
        )
    return TagFilter(expression, tags)


def looks_like_sql92(expression: str) -> bool:
    """Whether a text has what SQL92 expressions have and tags do not."""
    return _SQL92.search(expression) is not None


def _split(expression: str) -> list[str]:
    return [part.strip() for part in expression.split("||")]

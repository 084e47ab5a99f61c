"""Which messages of a topic a consumer gets."""

import msgspec

TAG, SQL92 = "TAG", "SQL92"


class MessageSelector(msgspec.Struct, frozen=True):
    """RocketMQ's MessageSelector: ``MessageSelector.by_sql("size > 3")`` or ``MessageSelector.by_tag("A || B")``."""

    expression: str
    expression_type: str

    @classmethod
    def by_sql(cls, expression: str) -> "MessageSelector":
        """The messages whose properties satisfy an SQL92 expression."""
        return cls(expression, SQL92)

    @classmethod
    def by_tag(cls, expression: str) -> "MessageSelector":
        """The messages with one of these tags: ``A || B``, or ``*`` for all."""
        return cls(expression, TAG)


def selected(expression: str | MessageSelector, expression_type: str) -> tuple[str, str]:
    """The expression and its type. A selector has a type of its own."""
    if isinstance(expression, MessageSelector):
        return expression.expression, expression.expression_type
    return expression, expression_type

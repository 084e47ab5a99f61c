"""Base types of commands and replies."""

from typing import Literal

import msgspec

WakeCause = Literal["arrival", "filter_advanced", "missed_arrival", "timeout", "short_poll", "shutdown"]
ReleaseCause = Literal["channel_gone", "cancelled", "refused"]
DeadCause = Literal["exhausted", "asked", "ordered"]
"""Why a message was moved to the dead letter queue.

``exhausted``: the group reached its limit of retries. ``asked``: the consumer requested it. ``ordered``: the group
consumes in order and had already retried the message itself before it sent it back."""

Protocol = Literal["http", "websocket", "remoting"]


class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A plain value inside a command or a reply."""


class Command(Shape, frozen=True, tag_field="t", tag=True):
    """Base of all commands."""


class Reply(Shape, frozen=True, tag_field="t", tag=True):
    """Base of all replies."""


NOTICE_ID = -1
"""The request id of notices, which answer no request."""


class Notice(Reply, frozen=True):
    """Base of what the engine sends to a connection unrequested. A notice is not answered."""


class Done(Reply, frozen=True):
    """The command was carried out; the reply contains nothing else."""


class Failed(Reply, frozen=True):
    """The command was not carried out. ``code`` is a ResponseCode; ``kind`` is whose fault it is.

    ``request``, ``not_found``, ``conflict`` and ``too_large`` are the client's fault. ``unavailable`` is nobody's: try
    again after ``retry_after_ms``. So are ``overload``, when the command waited too long among others, and ``no_room``,
    when the replies of others leave no room for this one. ``store`` is the broker's. ``pointer`` is the JSON pointer of
    the wrong field, if known.
    """

    code: int
    remark: str
    kind: Literal["request", "not_found", "conflict", "too_large", "unavailable", "overload", "no_room", "store"]
    pointer: str = ""
    retry_after_ms: int = 0


BaseReply = Done | Failed

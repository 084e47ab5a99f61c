"""What every command and every reply is made of."""

from typing import Literal

import msgspec

WakeCause = Literal["arrival", "filter_advanced", "missed_arrival", "timeout", "short_poll", "shutdown"]
ReleaseCause = Literal["channel_gone", "cancelled"]
DeadCause = Literal["exhausted", "asked", "ordered"]
"""Why a message is dead: its group tried it as often as it wants to; the consumer asked for it; it came again from a
group that consumes in order, which has tried by itself."""

Protocol = Literal["http", "websocket", "remoting"]


class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A plain value inside a command or a reply."""


class Command(Shape, frozen=True, tag_field="t", tag=True):
    """Base of everything that may be asked."""


class Reply(Shape, frozen=True, tag_field="t", tag=True):
    """Base of everything that may be answered."""


NOTICE_ID = -1
"""The request id under which a connection gets what it did not ask for."""


class Notice(Reply, frozen=True):
    """Base of what the engine tells a connection by itself; it is not answered."""


class Done(Reply, frozen=True):
    """It was done; there is nothing more to say."""


class Failed(Reply, frozen=True):
    """It was not done. ``code`` is a ResponseCode; ``kind`` says whose fault it is.

    ``request`` the client's, ``not_found`` and ``conflict`` too; ``unavailable`` nobody's (try again after
    ``retry_after_ms``); ``store`` the broker's.
    """

    code: int
    remark: str
    kind: Literal["request", "not_found", "conflict", "unavailable", "store"]
    pointer: str = ""
    retry_after_ms: int = 0


BaseReply = Done | Failed

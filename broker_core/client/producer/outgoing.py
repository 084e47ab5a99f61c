"""What a producer sends."""

from typing import NamedTuple


class Outgoing(NamedTuple):
    """What is sent, the same at every attempt."""

    topic: str
    body: bytes
    properties: str
    msg_id: str
    flag: int
    sys_flag: int
    code: int
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

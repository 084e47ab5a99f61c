"""RocketMQ's response codes, by RocketMQ's names.

Source: the ``ResponseCode`` and ``RemotingSysResponseCode`` tables of RocketMQ 5.x. The names are what the
HTTP API reports as ``code``; the numbers are what remoting clients read.
"""

from enum import IntEnum


class ResponseCode(IntEnum):
    """RocketMQ's ResponseCode."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    FLOW_CONTROL = 215
    ILLEGAL_OPERATION = 604

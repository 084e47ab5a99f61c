"""The two ids of a message. Both are upper-case hex of 32 characters (IPv4) or 56 (IPv6).

offset message id   store host address 4|16, port 4, physical offset 8
UNIQ_KEY            client address 4|16, process id 2, instance 4, ms since the start of the month 4, counter 2
"""

from datetime import UTC, datetime
from struct import Struct
from typing import NamedTuple, Protocol

from broker_core.formats.commit_log_record import host_text, packed_host

_TAIL = Struct(">iq")
_LENGTHS = (32, 56)


class MessageIdError(ValueError):
    """The text is not a message id."""


class OffsetMessageId(NamedTuple):
    """The address of a broker and the position of a message in its log."""

    host: str
    port: int
    physical_offset: int


class RandomBits(Protocol):
    """A source of random bits, such as ``random.Random``."""

    def getrandbits(self, bits: int, /) -> int: ...


def encode_offset_message_id(host: str, port: int, physical_offset: int) -> str:
    """The id from which a client can find the broker and the record."""
    return (packed_host(host) + _TAIL.pack(port, physical_offset)).hex().upper()


def offset_message_id_prefix(host: str, port: int) -> str:
    """The beginning of all offset message ids of one broker; the physical offset follows as ``%016X``."""
    return encode_offset_message_id(host, port, 0)[:-16]


def decode_offset_message_id(text: str) -> OffsetMessageId:
    """The parts of an offset message id; MessageIdError if the text is not one."""
    if len(text) not in _LENGTHS:
        raise MessageIdError(f"a message id has 32 or 56 characters, not {len(text)}")
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise MessageIdError("a message id consists of hexadecimal digits") from error
    if len(data) * 2 != len(text):
        raise MessageIdError("a message id consists of hexadecimal digits")
    port, physical_offset = _TAIL.unpack(data[-12:])
    return OffsetMessageId(host_text(data[:-12]), port, physical_offset)


class UniqKeyGenerator:
    """RocketMQ's MessageClientIDSetter: unique ids for the messages of one client instance."""

    def __init__(self, host: str, pid: int, random_bits: RandomBits) -> None:
        self._prefix = (
            (packed_host(host) + (pid & 0xFFFF).to_bytes(2, "big") + random_bits.getrandbits(32).to_bytes(4, "big"))
            .hex()
            .upper()
        )
        self._counter = 0
        self._month_begin_ms = self._month_end_ms = 0

    def next(self, wall_ms: int) -> str:
        """The next id. Ids repeat only if more than 65,536 are made within one millisecond."""
        if not self._month_begin_ms <= wall_ms < self._month_end_ms:
            self._enter_month(wall_ms)
        self._counter = counter = (self._counter + 1) & 0xFFFF
        return f"{self._prefix}{wall_ms - self._month_begin_ms:08X}{counter:04X}"

    def _enter_month(self, wall_ms: int) -> None:
        begin = datetime.fromtimestamp(wall_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
        self._month_begin_ms, self._month_end_ms = int(begin.timestamp() * 1000), int(end.timestamp() * 1000)

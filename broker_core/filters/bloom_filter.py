"""RocketMQ's BloomFilter: which bits of a bitmap belong to a subscription.

A bitmap is an integer here: bit p of RocketMQ's BitsArray (byte p / 8, mask 1 << p % 8) is bit p of the integer, so its
bytes are the integer's in little-endian order. A group whose bits are all set may want the message.
"""

import math
from struct import Struct

import msgspec

_BLOCK = Struct("<QQ")
_MASK64 = (1 << 64) - 1
_MASK32 = (1 << 32) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


class BloomFilterData(msgspec.Struct, frozen=True):
    """RocketMQ's BloomFilterData: the bits of one subscription in a bitmap of ``bit_num`` bits."""

    bit_pos: list[int]
    bit_num: int

    @property
    def bits(self) -> int:
        """The bits as one integer."""
        bits = 0
        for position in self.bit_pos:
            bits |= 1 << position
        return bits


class BloomFilter:
    """``bit_num`` bits for ``expected`` subscriptions; ``hash_count`` of them belong to each.

    ``error_rate``: percent of messages that pass by mistake when ``expected`` subscriptions match, 1 to 99.
    """

    __slots__ = ("bit_num", "hash_count")

    def __init__(self, error_rate: int, expected: int) -> None:
        rate = error_rate / 100
        self.hash_count = math.ceil(math.log(rate) / math.log(0.5))
        bits = math.ceil(expected * math.log(1 / rate) / math.log(2) ** 2)
        self.bit_num = -(-bits // 8) * 8

    def data(self, group: str, topic: str) -> BloomFilterData:
        """The bits of a group's subscription to a topic. RocketMQ's generate."""
        hashed = murmur3_128(f"{group}#{topic}".encode("utf-8", "replace"))
        low, high = hashed & _MASK32, hashed >> 32
        positions = []
        for number in range(1, self.hash_count + 1):
            value = (low + number * high) & _MASK32
            if value >> 31:
                value ^= _MASK32
            positions.append(value % self.bit_num)
        return BloomFilterData(positions, self.bit_num)


def murmur3_128(data: bytes) -> int:
    """The first 64 bits of Murmur3 (x64, 128 bits, seed 0), unsigned: what Guava's ``asLong`` returns."""
    first = second = 0
    whole = len(data) & ~15
    for k1, k2 in _BLOCK.iter_unpack(data[:whole]):
        first = _rotate(first ^ _mix1(k1), 27) + second
        first = (first * 5 + 0x52DCE729) & _MASK64
        second = _rotate(second ^ _mix2(k2), 31) + first
        second = (second * 5 + 0x38495AB5) & _MASK64
    tail = data[whole:]
    first ^= _mix1(int.from_bytes(tail[:8], "little")) ^ len(data)
    second ^= _mix2(int.from_bytes(tail[8:], "little")) ^ len(data)
    first = (first + second) & _MASK64
    second = (second + first) & _MASK64
    return (_final(first) + _final(second)) & _MASK64


def _rotate(value: int, count: int) -> int:
    return (value << count | value >> (64 - count)) & _MASK64


def _mix1(key: int) -> int:
    return _rotate(key * _C1 & _MASK64, 31) * _C2 & _MASK64


def _mix2(key: int) -> int:
    return _rotate(key * _C2 & _MASK64, 33) * _C1 & _MASK64


def _final(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK64
    return value ^ value >> 33

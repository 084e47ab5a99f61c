"""tagsCode, the hash by which a consume queue filters: Java's ``String.hashCode`` of the tag, as a signed 64-bit int.

    h = 31 * h + unit, over UTF-16 code units, in 32 bits with wrap-around

The code units are thus the digits of a number in base 31. If all units are below 256, Python's number parser computes
the hash: each unit is ``31 * high + low``, so the highs and the lows are two strings of base-31 digits. This takes a
fraction of the time of a loop over the characters.
"""

from functools import lru_cache

_DIGITS = b"0123456789abcdefghijklmnopqrstu"
_LOW = bytes(_DIGITS[unit % 31] for unit in range(256))
_HIGH = bytes(_DIGITS[unit // 31] for unit in range(256))
_PARSE_MAX = 1024
"""Longer texts are hashed in a loop, because Python refuses to parse numbers of many thousand digits."""

_MASK = 0xFFFFFFFF
_POWERS_KNOWN = 512
_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(_POWERS_KNOWN)]

EXT_ADDRESS_MAX = -(1 << 31) - 1
"""A tagsCode up to this value is not a hash but the address of a consume queue ext unit."""


def hash_code(text: str) -> int:
    """Java's ``String.hashCode``: signed 32-bit."""
    value = unsigned_hash(text)
    return value - (1 << 32) if value >> 31 else value


def unsigned_hash(text: str) -> int:
    """``hash_code`` as an unsigned number, which ``hash_behind`` can continue."""
    try:
        units = text.encode("latin-1")
    except UnicodeEncodeError:
        return _hash_wide(text)
    if len(units) > _PARSE_MAX or not units:
        return _hash_units(units)
    return (31 * int(units.translate(_HIGH), 31) + int(units.translate(_LOW), 31)) & _MASK


def hash_behind(front: int, text: str) -> int:
    """``unsigned_hash`` of a text that consists of a front part with the unsigned hash ``front``, and ``text``."""
    try:
        units = text.encode("latin-1")
    except UnicodeEncodeError:
        wide_length = len(text.encode("utf-16-be", "surrogatepass")) // 2
        return (front * pow(31, wide_length, 1 << 32) + _hash_wide(text)) & _MASK
    length = len(units)
    if not 0 < length < _POWERS_KNOWN:
        return (front * pow(31, length, 1 << 32) + _hash_units(units)) & _MASK
    return (front * _POWERS[length] + 31 * int(units.translate(_HIGH), 31) + int(units.translate(_LOW), 31)) & _MASK


def _hash_units(units: bytes) -> int:
    value = 0
    for unit in units:
        value = (31 * value + unit) & _MASK
    return value


def _hash_wide(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return value


@lru_cache(8192)
def tags_code(tag: str) -> int:
    """The code of a tag as consume queues store it, sign-extended; 0 without a tag."""
    return hash_code(tag)


def is_ext_address(code: int) -> bool:
    """Whether the field contains the address of a consume queue ext unit instead of a hash."""
    return code <= EXT_ADDRESS_MAX

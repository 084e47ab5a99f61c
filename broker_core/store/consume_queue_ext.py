"""The extension of one queue: tagsCode, store time and bitmap of messages, in the order of the queue.

    queue      | ... | tagsCode: address of unit 7 | tagsCode: address of unit 8 | tagsCode | ...
    extension  | ... | unit 7 (34 bytes)           | unit 8 (34 bytes)           | ...

Only messages that were dispatched while a group filtered their topic by SQL92 have a unit here. A missing or damaged
unit loses nothing: the message is then evaluated by its properties, and its tag is compared in its record. So files of
the extension may go before the units of the queue that refer to them.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from struct import Struct

from broker_core.filters.consumer_filter_data import ConsumerFilterData
from broker_core.formats.consume_queue_ext_unit import (
    ADDRESS_BASE,
    END_BLANK,
    END_OF_FILE,
    SIZE_MIN,
    ConsumeQueueExtUnit,
    decode,
    offset_of,
)
from broker_core.formats.tags_code import EXT_ADDRESS_MAX
from broker_core.store.mapped_file import MappedFile
from broker_core.store.mapped_file_queue import MappedFileQueue

ALLOCATE_CHUNK = 1 << 16
TESTED_IN_ROW, TESTED_ALONE = 32, 400
"""Testing a bitmap takes as long as reading so many bytes for an SQL92 filter."""
UNIT_SIZE_MAX = 2048
"""Bytes. GlassMQ writes no larger unit."""


class ConsumeQueueExt:
    """RocketMQ's ConsumeQueueExt."""

    __slots__ = ("_end", "_flushed", "_mapped_files", "steps")

    def __init__(self, mapped_files: MappedFileQueue) -> None:
        self._mapped_files = mapped_files
        self.steps = mapped_files.load()
        self._end = self._flushed = -1

    # --- reading --------------------------------------------------------------------------------------------------

    def unit(self, address: int) -> ConsumeQueueExtUnit | None:
        """The unit that a queue's tagsCode field points to; None when it is gone."""
        offset = offset_of(address)
        file = self._mapped_files.find(offset)
        return None if file is None else decode(file.buffer, offset - file.base)

    def candidates(self, codes: Sequence[int], wanted: ConsumerFilterData) -> tuple[list[int], int]:
        """(the indexes in ``codes`` of messages that may match, the work as bytes read).

        ``codes`` are the tagsCode fields of consecutive units of the queue. The bitmaps of the other messages say that
        they do not match.
        """
        in_row = self._candidates_in_row(codes, wanted) if codes else []
        if in_row is not None:
            return in_row, TESTED_IN_ROW * len(codes)
        bits, length = wanted.bits, wanted.bloom.bit_num // 8
        found = [place for place, code in enumerate(codes) if self._may_match(code, bits, length)]
        return found, TESTED_ALONE * len(codes)

    def _may_match(self, code: int, bits: int, length: int) -> bool:
        if code > EXT_ADDRESS_MAX:
            return True
        unit = self.unit(code)
        return unit is None or len(unit.bitmap) != length or int.from_bytes(unit.bitmap, "little") & bits == bits

    def _candidates_in_row(self, codes: Sequence[int], wanted: ConsumerFilterData) -> list[int] | None:
        """``candidates`` of messages whose units lie side by side and have bitmaps; None if they do not.

        Byte n of all units is one slice, so a few operations test all of them.
        """
        length, count = wanted.bloom.bit_num // 8, len(codes)
        data = self._row(codes, length)
        if data is None:
            return None
        hits = (1 << 8 * count) - 1
        for number, table in wanted.columns:
            hits &= int.from_bytes(data[SIZE_MIN + number :: SIZE_MIN + length].translate(table))
        return _places(hits.to_bytes(count)) if hits else []

    def tags_codes_in_row(self, codes: Sequence[int]) -> list[int] | None:
        """The tagsCodes of messages whose units lie side by side and have one length; None if they do not."""
        first = self.unit(codes[0]) if codes and codes[0] <= EXT_ADDRESS_MAX else None
        data = self._row(codes, len(first.bitmap)) if first is not None else None
        if data is None or first is None:
            return None
        return [code for (code,) in Struct(f">2xq{first.size - 10}x").iter_unpack(data)]

    def _row(self, codes: Sequence[int], length: int) -> bytes | None:
        """The units of these addresses, if they lie side by side and have bitmaps of ``length`` bytes."""
        size, first, count = SIZE_MIN + length, codes[0], len(codes)
        if first > EXT_ADDRESS_MAX or tuple(codes) != tuple(range(first, first + size * count, size)):
            return None
        offset = offset_of(first)
        file = self._mapped_files.find(offset)
        start = 0 if file is None else offset - file.base
        if file is None or start + size * count > file.size:
            return None
        data = bytes(file.buffer[start : start + size * count])
        for number, value in (*enumerate(size.to_bytes(2)), *enumerate(length.to_bytes(2), SIZE_MIN - 2)):
            if data[number::size].count(value) != count:
                return None
        return data

    # --- writing --------------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether ``begin`` was called."""
        return self._end >= 0

    def begin(self, last_address: int, queue_length: int) -> None:
        """Continue after the unit with this address, the last one to which the queue refers; 0 if it is not known.

        If it is not known, or the unit is gone, writing begins in a new file, at a position to which no unit of the
        queue refers: a reference to a lost unit must not lead to a new one. ``queue_length``: the queue's max offset.
        """
        unit, last, size = self.unit(last_address), self._mapped_files.last, self._mapped_files.file_size
        if unit is not None and last_address:
            self._end = offset_of(last_address) + unit.size
        else:
            known = offset_of(last_address) + 1 if last_address else queue_length * UNIT_SIZE_MAX
            self._end = max(-(-known // size) * size, 0 if last is None else last.base + size)
        self._flushed = self._end
        file = self._mapped_files.find(self._end)
        if file is not None:
            file.allocated = self._end - file.base

    def put(self, units: list[bytes]) -> list[int]:
        """Append units; returns their addresses. OSError, and nothing is changed, if the disk is full."""
        data, end = units[0] if len(units) == 1 else b"".join(units), self._end
        file = self._mapped_files.find(end)
        start, size = 0 if file is None else end - file.base, len(data)
        if file is None or start + size > file.size - END_BLANK:
            return self._put_in_files(units)
        if start + size + END_BLANK > file.allocated:
            file.allocate(start + size + END_BLANK, ALLOCATE_CHUNK)
        file.write(start, data)
        self._end = end + size
        return [end + ADDRESS_BASE] if len(units) == 1 else _addresses(end, units)

    def _put_in_files(self, units: list[bytes]) -> list[int]:
        """``put`` for units that do not fit into the newest file."""
        file_size, end = self._mapped_files.file_size, self._end
        parts: list[tuple[int, list[bytes]]] = []
        ends: list[int] = []
        for unit in units:
            room = file_size - END_BLANK - end % file_size
            if len(unit) > file_size - END_BLANK:
                raise OSError(f"a unit of {len(unit)} bytes does not fit into a file of {file_size}")
            if len(unit) > room:
                ends.append(end)
                end += file_size - end % file_size
            if not parts or len(unit) > room:
                parts.append((end, []))
            parts[-1][1].append(unit)
            end += len(unit)
        files = [self._file_with_room(start, sum(map(len, part)) + END_BLANK) for start, part in parts]
        for position in ends:
            self._file_with_room(position, END_BLANK).write(position % file_size, END_OF_FILE)
        for file, (start, part) in zip(files, parts, strict=True):
            file.write(start - file.base, b"".join(part))
        self._end = end
        return [address for start, part in parts for address in _addresses(start, part)]

    def _file_with_room(self, start: int, size: int) -> MappedFile:
        file = self._mapped_files.find(start) or self._mapped_files.create(start)
        file.allocate(start - file.base + size, ALLOCATE_CHUNK)
        return file

    # --- flush and retention --------------------------------------------------------------------------------------

    def take_dirty(self) -> list[tuple[MappedFile, int, int]]:
        """Ranges written since the last call, for the flush thread."""
        if self._end <= self._flushed:
            return []
        ranges = self._mapped_files.ranges(self._flushed, self._end)
        self._flushed = self._end
        return ranges

    def take_expired(self, earliest_store_time: int) -> list[Path]:
        """Files whose units are all of expired messages, by their store times (ms). The caller removes them.

        If the clock was set, a file may expire too early or too late. No message is lost by that.
        """
        expired: list[Path] = []
        files = self._mapped_files.all()
        for file, following in itertools.pairwise(files):
            unit = decode(following.buffer, 0)
            if unit is None or unit.store_timestamp > earliest_store_time:
                break
            self._mapped_files.take_out(file)
            expired.append(file.path)
        return expired

    def close_files(self) -> None:
        """Forget the files: the queue is deleted."""
        for file in self._mapped_files.all():
            self._mapped_files.take_out(file)


def _addresses(start: int, units: list[bytes]) -> list[int]:
    addresses = []
    position = start + ADDRESS_BASE
    for unit in units:
        addresses.append(position)
        position += len(unit)
    return addresses


def _places(hits: bytes) -> list[int]:
    """The positions of the bytes that are 1."""
    places: list[int] = []
    place = hits.find(1)
    while place >= 0:
        places.append(place)
        place = hits.find(1, place + 1)
    return places

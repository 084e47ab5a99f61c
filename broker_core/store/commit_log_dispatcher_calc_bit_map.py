"""Computes, when messages are dispatched, which SQL92 filters of their topic match them."""

from collections.abc import Sequence

from broker_core.filters.consumer_filter_data import ConsumerFilterData
from broker_core.filters.message_filter import SEARCH_BYTES
from broker_core.formats.commit_log_record import properties_within, store_timestamp_at
from broker_core.formats.consume_queue_ext_unit import HEAD, SIZE_MIN
from broker_core.options import Options
from broker_core.store.commit_log import Arrival, CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.delay_level import SCHEDULE_TOPIC

EVALUATED_BYTES_MAX = 1 << 20
"""Bytes that filters may read in one turn, which takes a millisecond or two. The messages dispatched after that get a
bitmap with all bits, so pulls evaluate them."""


class CommitLogDispatcherCalcBitMap:
    """RocketMQ's CommitLogDispatcherCalcBitMap."""

    def __init__(self, log: CommitLog, queues: ConsumeQueueStore, options: Options) -> None:
        self._log = log
        self._queues = queues
        self.is_enabled = options.enable_calc_filter_bit_map and options.enable_consume_queue_ext
        self.work_left = EVALUATED_BYTES_MAX
        """Bytes that may still be read for filters in this turn."""
        self._turn_ns = 0

    def start_turn(self, now_ns: int) -> None:
        """Allow the filters their work again, if this is the time of another turn."""
        if now_ns != self._turn_ns:
            self._turn_ns, self.work_left = now_ns, EVALUATED_BYTES_MAX

    def set_filters(self, topic: str, filters: Sequence[ConsumerFilterData]) -> int:
        """Compute bitmaps of a topic's messages with these filters; none switches that off.

        Returns the physical offset from which on all messages are evaluated with all of them.
        """
        if topic != SCHEDULE_TOPIC:  # its units contain times instead of tagsCodes
            self._queues.set_filters(topic, filters)
        return self._log.max_offset

    def dispatch(self, arrival: Arrival) -> list[int]:
        """Compute the bitmaps of messages that arrive, note them in the arrival, and write them to the extension.

        Returns the fields of the queue's units. If the disk is full, they have no addresses of the extension.
        """
        filters, fields = arrival.queue.filters, arrival.fields
        bit_num = filters[0].bloom.bit_num
        all_bits, length = (1 << bit_num) - 1, bit_num // 8
        find, file = self._log.mapped_files.find, None
        bitmaps: list[int] = []
        units: list[bytes] = []
        work_left = self.work_left
        for at in range(0, len(fields), 3):
            place, size, tags_code = fields[at : at + 3]
            if file is None or not file.base <= place < file.base + file.size:
                file = find(place)
                if file is None:
                    return fields
            bitmap, buffer, start = all_bits, file.buffer, place - file.base
            if work_left > 0:
                bitmap, properties = 0, properties_within(buffer, start, size)
                for wanted in filters:
                    work_left -= wanted.work * (len(properties) + SEARCH_BYTES)
                    if wanted.matches_record(properties):
                        bitmap |= wanted.bits
            bitmaps.append(bitmap)
            stored = store_timestamp_at(buffer, start)
            units.append(HEAD.pack(SIZE_MIN + length, tags_code, stored, length) + bitmap.to_bytes(length, "little"))
        self.work_left = work_left
        arrival.bitmaps = bitmaps
        try:
            addresses = self._queues.find_ext(arrival.queue).put(units)
        except OSError:
            return fields
        fields = fields.copy()
        if len(units) == 1:
            fields[2] = addresses[0]
        else:
            fields[2::3] = addresses
        return fields

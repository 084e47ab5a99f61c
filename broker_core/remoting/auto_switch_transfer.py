"""RocketMQ's HA protocol in controller mode (AutoSwitchHA) from RocketMQ 5.1 on, from an asynchronous learner's side.

    slave -> master  handshake  16 bytes  state=1 (4)  syncFromLastFile (2)  asyncLearner (2)  slaveBrokerId (8)
    master -> slave  handshake  20 + 12n  state=1 (4)  bodySize=12n (4)  maxOffset (8)  epoch (4)   n epochs
    slave -> master  report     12 bytes  state=2 (4)  slaveMaxOffset (8)
    master -> slave  transfer   36 + b    state=2 (4)  bodySize (4)  offset (8)  epoch (4)  epochStartOffset (8)
                                          confirmOffset (8)          b bytes of the log

All numbers are big-endian and signed. An asynchronous learner gets the log and is never proposed for the SyncStateSet.
"""

from struct import Struct

from broker_core.remoting.ha_transfer import OBSERVED, HaSlave, TransferError

HANDSHAKE, TRANSFER = 1, 2
"""RocketMQ's HAConnectionState."""
HANDSHAKE_REQUEST = Struct(">ihhq")
HANDSHAKE_ANSWER = Struct(">iiqi")
TRANSFER_HEADER = Struct(">iiqiqq")
REPORT = Struct(">iq")
EPOCH_BYTES = 12
MAX_EPOCHS = 1000
"""A master names no more of them."""
LEARNER_ID = 1 << 40
"""The slaveBrokerId of a follower. Controllers count ids from 1, so no replica has it."""


class AutoSwitchSlave(HaSlave):
    """An HaSlave that shakes hands as an asynchronous learner before it reports where to begin."""

    def __init__(self, begin: int, segment_size: int) -> None:
        super().__init__(begin, segment_size)
        self._first_report = REPORT.pack(TRANSFER, self.received)
        self.unsent = HANDSHAKE_REQUEST.pack(HANDSHAKE, 0, 1, LEARNER_ID)
        self._header_size = HANDSHAKE_ANSWER.size
        self._state = HANDSHAKE

    @property
    def observer_report(self) -> bytes:
        return REPORT.pack(TRANSFER, OBSERVED)

    def _take_header(self, header: bytes) -> None:
        if self._state == TRANSFER:
            state, size, offset, *_ = TRANSFER_HEADER.unpack(header)
            if state != TRANSFER:
                raise TransferError(f"the master sent state {state} instead of a transfer after offset {self.received}")
            self._begin_transfer(offset, size)
        elif self._header_size == HANDSHAKE_ANSWER.size:
            self._take_handshake(*HANDSHAKE_ANSWER.unpack(header))
        else:
            self._begin_transfers()

    def _take_handshake(self, state: int, size: int, end: int, epoch: int) -> None:
        if state != HANDSHAKE or size % EPOCH_BYTES or not 0 <= size <= MAX_EPOCHS * EPOCH_BYTES:
            raise TransferError(
                f"the master answered the handshake with state {state} and {size} bytes; this is not an HA port of "
                "RocketMQ 5 in controller mode"
            )
        if size:
            self._header_size = size
        else:
            self._begin_transfers()

    def _begin_transfers(self) -> None:
        """Report where to begin. The epochs are not needed: the records themselves are compared and checked."""
        self._state = TRANSFER
        self._header_size = TRANSFER_HEADER.size
        self.unsent = self._first_report

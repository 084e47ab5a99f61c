"""Gathers the commands of a batch that store messages, and stores each kind as one block.

So a block is appended, dispatched and shown to the holds once, however many clients it comes from. Any other command of
the batch is handled after the gathered ones before it were stored.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from broker_core import commands
from broker_core.clock import Now
from broker_core.commands import Done, SentMessage
from broker_core.errors import UnavailableError
from broker_core.processors.context import Context, Request
from broker_core.processors.group_commit import GroupCommit
from broker_core.processors.idempotency import IdempotencyKeys, content_digest
from broker_core.processors.outcome import refuse
from broker_core.processors.pop.ack_message import Acknowledgements
from broker_core.processors.producers.end_transaction import End, prepare_end, store_ends
from broker_core.processors.send_message import Prepared, prepare, prepare_back, store_gathered
from broker_core.walk import Steps, finish

log = logging.getLogger(__name__)


MAX_LOOK_UPS = 4096
"""Sends that may wait until their Idempotency-Keys are looked up."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes that the bodies of these sends may have together. A single send may have more."""
LOOK_UPS_A_TURN = 16
"""Short look-ups in one turn. Together with the storing of their sends they take about a millisecond."""
PIECE = 8
"""A piece of a longer look-up counts as this many short ones. It takes about half a millisecond."""


class _LookUp(msgspec.Struct, frozen=True, gc=False):
    """A send whose Idempotency-Key is looked up in the store. ``size`` is that of its bodies, in bytes."""

    request: Request
    digest: str
    steps: Steps[dict[int, SentMessage]]
    size: int


class GatheredCommands:
    """Commands of a batch that store messages. They were checked, and are not stored yet."""

    def __init__(self, context: Context, commit: GroupCommit) -> None:
        self.is_empty = True
        self._context = context
        self._commit = commit
        self._keys = IdempotencyKeys(context)
        self._sends: list[Prepared] = []
        self._acknowledgements = Acknowledgements(context, commit)
        self._sent_keys: set[tuple[str, str]] = set()
        """Topic and Idempotency-Key of the sends that were gathered."""
        self._ends: list[End] = []
        self._ended: set[int] = set()
        self._looking_up: deque[_LookUp] = deque()
        self._look_up_bytes = 0
        self._look_ups_left = LOOK_UPS_A_TURN

    def begin_turn(self) -> None:
        """Allow look-ups for another turn."""
        self._look_ups_left = LOOK_UPS_A_TURN

    def add(self, request: Request, now: Now) -> None:
        """Check a command, and refuse it or gather it."""
        try:
            self._add(request, now)
        except Exception as error:
            refuse(self._context, request, error, now)

    def _add(self, request: Request, now: Now) -> None:
        context, command = self._context, request.command
        kind = type(command)
        if kind is commands.AckMessage:
            if not self._acknowledgements.add(request):
                self.store(now)
                self._acknowledgements.add(request)
        elif kind is commands.EndTransaction:
            if command.decision == "unknown":
                context.reply(request.connection, request.request_id, Done())
                return
            if command.tran_state_table_offset in self._ended:
                self.store(now)
            self._ends.append(prepare_end(context, request, now))
            self._ended.add(command.tran_state_table_offset)
        elif kind is commands.ConsumerSendMsgBack:
            self._sends.append(prepare_back(context, request, now))
        else:
            if command.idempotency_key:
                self._add_keyed(request, now)
                return
            self._sends.append(prepare(context, request, now))
        self.is_empty = False

    def _add_keyed(self, request: Request, now: Now) -> None:
        """Gather a send with an Idempotency-Key, or look up first which of its messages are stored already."""
        command: commands.SendMessage = request.command
        self._store_same_key(command, now)
        digest = content_digest(command.messages)
        steps = self._keys.stored_before(command, digest, now)
        if not self._keys.must_look_up(command, now):
            self._append(request, digest, finish(steps), now)
            return
        size = sum(len(message.body) for message in command.messages)
        if self._looking_up and (len(self._looking_up) >= MAX_LOOK_UPS or self._look_up_bytes + size > MAX_BYTES):
            raise UnavailableError(
                f"{len(self._looking_up)} sends wait until their Idempotency-Keys are looked up; send again later"
            )
        self._looking_up.append(_LookUp(request, digest, steps, size))
        self._look_up_bytes += size
        if len(self._looking_up) == 1:
            self._look_up(now)

    def _store_same_key(self, command: commands.SendMessage, now: Now) -> None:
        """Store the gathered sends if one has the key of this send: a repeat is recognized once the first is stored."""
        if (command.topic, command.idempotency_key) in self._sent_keys:
            self.store(now)

    def _append(self, request: Request, digest: str, known: Mapping[int, SentMessage], now: Now) -> None:
        self._sends.append(prepare(self._context, request, now, digest, known))
        self._sent_keys.add((request.command.topic, request.command.idempotency_key))
        self.is_empty = False

    @property
    def is_looking_up(self) -> bool:
        """Whether sends wait until their Idempotency-Keys are looked up."""
        return bool(self._looking_up)

    def continue_look_ups(self, now: Now) -> None:
        """Continue the look-ups for one turn. Store the sends whose look-ups are finished."""
        self.begin_turn()
        self._look_up(now)
        if not self.is_empty:
            self.store(now)

    def _look_up(self, now: Now) -> None:
        """Look up one key after the other, so that each look-up finds what the earlier sends stored."""
        while self._looking_up and self._look_ups_left > 0:
            first = self._looking_up[0]
            self._store_same_key(first.request.command, now)
            try:
                self._look_ups_left -= 1
                known = _continue(first.steps)
                if known is None:
                    self._look_ups_left -= PIECE - 1
                    continue
                self._append(first.request, first.digest, known, now)
            except Exception as error:
                refuse(self._context, first.request, error, now)
            self._looking_up.popleft()
            self._look_up_bytes -= first.size

    def store(self, now: Now) -> None:
        """Store the gathered commands, and answer them.

        Ends of transactions come first: a producer does not wait for their answers before it sends again.
        """
        context, commit = self._context, self._commit
        self.is_empty = True
        if self._ends:
            ends, self._ends = self._ends, []
            self._ended.clear()
            _guard(store_ends, context, commit, ends, now)
        if self._sends:
            sends, self._sends = self._sends, []
            self._sent_keys.clear()
            _guard(store_gathered, context, self._keys, commit, sends, now)
        if self._acknowledgements:
            _guard(self._acknowledgements.store, now)


def _continue(steps: Steps[dict[int, SentMessage]]) -> dict[int, SentMessage] | None:
    """Do the next piece of a look-up. Returns its result, or None if pieces are left."""
    try:
        next(steps)
    except StopIteration as end:
        known: dict[int, SentMessage] = end.value
        return known
    return None


def _guard(store: Callable[..., None], *arguments: Any) -> None:
    try:
        store(*arguments)
    except Exception:
        # The failure follows the append. So neither success nor failure can be reported to the senders.
        log.exception("stored messages could not be acknowledged; their senders will time out")

"""Gathers the commands of a batch that store messages, and stores each kind as one block.

So a block is appended, dispatched and shown to the holds once, however many clients it comes from. Any other command of
the batch is handled after the gathered ones before it were stored.
"""

import logging
from collections.abc import Callable
from typing import Any

from broker_core import commands
from broker_core.clock import Now
from broker_core.commands import Done
from broker_core.processors.context import Context, Request
from broker_core.processors.group_commit import GroupCommit
from broker_core.processors.idempotency import IdempotencyKeys
from broker_core.processors.outcome import refuse
from broker_core.processors.pop.ack_message import Acknowledgements
from broker_core.processors.producers.end_transaction import End, prepare_end, store_ends
from broker_core.processors.send_message import Prepared, prepare, prepare_back, store_gathered

log = logging.getLogger(__name__)


class GatheredCommands:
    """Commands of a batch that store messages. They were checked, and are not stored yet."""

    def __init__(self, context: Context, commit: GroupCommit) -> None:
        self.is_empty = True
        self._context = context
        self._commit = commit
        self._keys = IdempotencyKeys(context)
        self._sends: list[Prepared] = []
        self._acknowledgements = Acknowledgements(context, commit)
        self._ends: list[End] = []
        self._ended: set[int] = set()

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
            # The key may repeat that of a gathered message, which is recognized only once that message is stored.
            if command.idempotency_key and self._sends:
                self.store(now)
            self._sends.append(prepare(context, self._keys, request, now))
        self.is_empty = False

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
            _guard(store_gathered, context, self._keys, commit, sends, now)
        if self._acknowledgements:
            _guard(self._acknowledgements.store, now)


def _guard(store: Callable[..., None], *arguments: Any) -> None:
    try:
        store(*arguments)
    except Exception:
        # The failure follows the append. So neither success nor failure can be reported to the senders.
        log.exception("stored messages could not be acknowledged; their senders will time out")

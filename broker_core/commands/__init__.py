"""The closed sets of commands that the engine accepts and of replies that it gives.

Every command is named after RocketMQ's request code for it. All shells (the channel layer, RocketMQ's protocol, and
whatever else carries requests) build these and nothing else, so a behaviour is decided once. They are msgspec structs,
so one call encodes a whole batch (``bridge/wire.py``).

A command is answered exactly once, by its own reply type or by ``Failed``. A pull with ``report_hold`` gets ``Held``
first. A connection may also get replies that it did not ask for, under ``NOTICE_ID``.

Each module ends with the unions of its commands and replies; the sets below are made of these.
"""

# mypy: implicit-reexport
# ruff: noqa: F403, F405

from broker_core.commands.admin import *
from broker_core.commands.base import *
from broker_core.commands.clients import *
from broker_core.commands.groups import *
from broker_core.commands.messages import *
from broker_core.commands.observe import *
from broker_core.commands.offsets import *
from broker_core.commands.topics import *

AnyCommand = (
    AdminCommand | ClientCommand | GroupCommand | MessageCommand | ObserveCommand | OffsetCommand | TopicCommand
)
AnyReply = AdminReply | BaseReply | ClientReply | GroupReply | MessageReply | ObserveReply | OffsetReply | TopicReply

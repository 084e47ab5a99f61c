"""All commands that the engine accepts, and all replies that it returns.

Every command is named after RocketMQ's request code for it. The channel layer, RocketMQ's protocol and any other way to
carry requests build only these commands, so each behaviour is defined once. They are msgspec structs, so one call
encodes a whole batch (``bridge/wire.py``).

A command is answered exactly once, by its own reply type or by ``Failed``. A held pull with ``report_hold`` gets
``Held`` first. A connection may also get notices, which answer no request; their request id is ``NOTICE_ID``.

Each module ends with the unions of its commands and replies. The unions below combine them.
"""

# mypy: implicit-reexport
# ruff: noqa: F403, F405

from broker_core.commands.admin import *
from broker_core.commands.base import *
from broker_core.commands.clients import *
from broker_core.commands.group_facts import *
from broker_core.commands.groups import *
from broker_core.commands.ha import *
from broker_core.commands.messages import *
from broker_core.commands.metrics import *
from broker_core.commands.observe import *
from broker_core.commands.offsets import *
from broker_core.commands.pop import *
from broker_core.commands.replicate import *
from broker_core.commands.running_info import *
from broker_core.commands.topics import *

AnyCommand = (
    AdminCommand
    | ClientCommand
    | GroupCommand
    | GroupFactsCommand
    | HaCommand
    | MessageCommand
    | MetricsCommand
    | ObserveCommand
    | OffsetCommand
    | PopCommand
    | ReplicateCommand
    | RunningInfoCommand
    | TopicCommand
)
AnyReply = (
    AdminReply
    | BaseReply
    | ClientReply
    | GroupFactsReply
    | GroupReply
    | MessageReply
    | MetricsReply
    | ObserveReply
    | OffsetReply
    | PopReply
    | ReplicateReply
    | RunningInfoReply
    | TopicReply
)

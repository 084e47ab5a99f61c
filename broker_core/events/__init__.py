"""The engine's events: a closed set of small frozen types. The engine reports everything observable as an event.

Every event has a sequence number (1, 2, 3 ... in one epoch), the wall time in ms and the monotonic time in ns of its
turn. Messages are reported by batch and range: offsets ``from_offset`` up to, not including, ``to_offset``.
``event_log`` numbers the events, keeps them and passes them to listeners.
"""

# mypy: implicit-reexport
# ruff: noqa: F403

from broker_core.events.base import *
from broker_core.events.broker import *
from broker_core.events.clients import *
from broker_core.events.messages import *
from broker_core.events.pulls import *

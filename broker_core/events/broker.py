"""Events about the broker: topics, options, its log, slaves and refused requests."""

from typing import Any

from broker_core.events.base import Event


class TopicChanged(Event, frozen=True):
    """``action`` is created, updated or deleted."""

    topic: str
    action: str
    read_queues: int
    write_queues: int
    perm: int


class ConfigChanged(Event, frozen=True):
    name: str
    value: Any
    previous: Any


class SlaveConnected(Event, frozen=True):
    """A slave follows the commit log, from ``begin_offset`` on."""

    address: str
    begin_offset: int


class SlaveLost(Event, frozen=True):
    """A slave's connection ended. ``refused``: this broker ended it, for the ``reason``; ``slave_ack_offset`` is -1 if
    the slave had reported nothing."""

    address: str
    slave_ack_offset: int
    reason: str
    refused: bool


class FlushDone(Event, frozen=True):
    flushed_offset: int
    size: int
    took_us: int


class SegmentRolled(Event, frozen=True):
    physical_offset: int


class SegmentDeleted(Event, frozen=True):
    """``reason``: age or disk."""

    physical_offset: int
    reason: str


class RecoveryStep(Event, frozen=True):
    step: str
    detail: str


class RequestRefused(Event, frozen=True):
    """The broker refused a request to protect itself. ``code`` is the kind of refusal, ``remark`` the reason."""

    command: str
    code: str
    remark: str
    client_id: str

"""Slaves of this broker report, and leave. The sending is done by ``server/ha_server.py``."""

from broker_core.clock import Now
from broker_core.commands import Done, RemoveSlave, Replication, Reply, ReportSlaveMaxOffset
from broker_core.events import SlaveConnected, SlaveLost
from broker_core.processors.context import Context, Request


def report_slave_max_offset(context: Context, request: Request, now: Now) -> Reply:
    """Senders that waited for this report are answered at the end of the turn, by ``GroupCommit``."""
    command: ReportSlaveMaxOffset = request.command
    is_first = context.ha_service.report(
        request.connection, command.address, command.slave_ack_offset, command.transferred, now
    )
    if is_first:
        context.events.keep(SlaveConnected, now, command.address, command.transferred)
    return Done()


def remove_slave(context: Context, request: Request, now: Now) -> Reply:
    command: RemoveSlave = request.command
    slave = context.ha_service.remove(request.connection)
    if command.refused:
        context.ha_service.note_refused(command.address, command.reason, now)
    if slave is not None or command.refused:
        ack_offset = slave.slave_ack_offset if slave is not None else -1
        context.events.keep(SlaveLost, now, command.address, ack_offset, command.reason, command.refused)
    return Done()


def replication(context: Context) -> Replication:
    """How replication is going."""
    options, service = context.options, context.ha_service
    return Replication(
        broker_role=options.broker_role,
        ha_listen_port=options.ha_listen_port,
        slaves_needed=options.slaves_needed,
        slaves=service.views(context.store.appended_offset),
        waiting=service.waiting,
        timeouts=service.timeouts,
        refused=service.refused,
        last_refused=service.last_refused,
    )

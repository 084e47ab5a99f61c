"""Receives of a consumer's socket: messages with a lease, and their receipts. ``socket.py`` starts and cancels them."""

from functools import partial

import msgspec

from api.consumer.permits import Buffer
from api.http import brokers
from api.http.request import expect
from api.http.schemas import copied
from api.resources import receipts, receives
from api.websockets.frames import Acknowledge, Acknowledged, Lease, Leased, ReceivedFrame, ReceiveFrame, Woken
from api.websockets.socket import Socket
from bridge.port import EnginePort, commands


def pop_command(receive: ReceiveFrame, client_id: str) -> commands.PopMessage:
    """The engine's command of a receive."""
    wanted = receives.Receive(
        group=receive.group,
        n=receive.n,
        wait_ms=receive.wait_ms,
        lease_ms=receive.lease_ms,
        filter=receive.filter,
        filter_type=receive.filter_type,
        in_order=receive.in_order,
    )
    return receives.pop_command(receive.topic, wanted, client_id, "websocket")


async def send_received(
    socket: Socket,
    buffer: Buffer,
    port: EnginePort,
    broker: str,
    receive: ReceiveFrame,
    pop: commands.PopMessage,
    popped: commands.Popped,
) -> None:
    """Send the answer in its turn. Messages that do not fit into the frame, or find no room, are given back.

    So are all of them if the socket closes first. Then its own connection is closed, so ``port`` is used. Messages for
    which the buffer has no room are given back at once, and popped again when it is the answer's turn.
    """
    receives.require_room(popped)
    hold, size = popped.hold, len(popped.records)
    unsent = receives.extra_infos(popped, receive.topic, broker)
    is_kept = buffer.take(size)
    try:
        if not is_kept:
            del popped
            await receives.give_back(port, receive.topic, receive.group, unsent)
            unsent = []
        async with socket.outbox.turn():
            if not is_kept:
                reply = await port.call(msgspec.structs.replace(pop, poll_ms=0))
                popped = receives.require_room(expect(reply, commands.Popped))
                unsent = receives.extra_infos(popped, receive.topic, broker)
            if hold is not None:
                woken = Woken(id=receive.id, hold_id=hold.hold_id, cause=hold.wake_cause, held_ms=hold.held_us // 1000)
                socket.put(woken)
            read = partial(receives.read_received, popped, receive.topic, broker, pop.poll_ms)
            result, share = await socket.outbox.make(read, _size)
            socket.put(copied(ReceivedFrame, result, id=receive.id), share)
            unsent = unsent[len(result.messages) :]
    finally:
        if is_kept:
            buffer.give_back(size)
        if unsent:
            await receives.give_back(port, receive.topic, receive.group, unsent)


def _size(result: receives.ReceiveResult) -> int:
    return sum(len(message.body) for message in result.messages)


async def acknowledge(frame: Acknowledge, broker: str) -> Acknowledged:
    """Acknowledge messages of ``broker``, or of all brokers if it is empty."""
    wanted = receipts.AckReceipts(group=frame.group, receipts=frame.receipts)
    outcomes = await receipts.acknowledge(brokers.ports_of(broker), frame.topic, wanted)
    return Acknowledged(id=frame.id, outcomes=outcomes)


async def change_lease(frame: Lease, broker: str) -> Leased:
    """Change leases, in the same way."""
    wanted = receipts.ChangeLease(group=frame.group, receipts=frame.receipts, lease_ms=frame.lease_ms)
    outcomes = await receipts.change_lease(brokers.ports_of(broker), frame.topic, wanted)
    return Leased(id=frame.id, outcomes=outcomes)

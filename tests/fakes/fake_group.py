"""A topic and its groups behind a scripted port: messages, members and offsets, as consumers need them."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from bridge.port import NotFoundError, ResponseCode, commands
from tests.fakes.fake_port import BROKER, FakePort, HeldCall, pulled, record

C = TypeVar("C", bound=commands.Command)


class FakeGroup:
    """Answers for one topic, the group ``G`` and its retry topic.

    ``members`` are the members other than those under test, which join by heartbeats. ``committed`` contains the
    committed offsets by (topic, queue).
    """

    def __init__(self, port: FakePort, *, topic: str = "T", queues: int = 2, broker: str = BROKER) -> None:
        self.port = port
        self.topic = topic
        self.broker = broker
        self.queues = {topic: queues}
        self.messages: dict[tuple[str, int], list[bytes]] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.members: set[str] = set()
        self.knows_connections = True
        self.create_groups = True
        self.sent_back: list[commands.ConsumerSendMsgBack] = []
        port.replies |= {
            commands.GetTopic: self._topic,
            commands.CheckClientConfig: commands.Done(),
            commands.HeartBeat: self._beat,
            commands.GetClients: commands.Clients(seq=1, total=0, clients=[]),
            commands.UnregisterClient: self._unregister,
            commands.ReportWindows: commands.Done(),
            commands.GetConsumerListByGroup: self._list,
            commands.QueryOffset: self._offset,
            commands.UpdateConsumerOffset: self._commit,
            commands.GetMinOffset: commands.FoundOffset(offset=0),
            commands.GetMaxOffset: self._max,
            commands.SearchOffset: commands.FoundOffset(offset=1),
            commands.PullMessage: self._pull,
            commands.ConsumerSendMsgBack: self._send_back,
        }

    # Events

    def publish(self, body: str, queue_id: int = 0, *, topic: str = "") -> None:
        """Store a message, and wake a pull that waits for it."""
        topic = topic or self.topic
        messages = self.messages.setdefault((topic, queue_id), [])
        messages.append(
            record(
                body.encode(),
                topic=topic,
                queue_id=queue_id,
                queue_offset=len(messages),
                physical_offset=1000 * queue_id + len(messages),
            )
        )
        for held in self.held(topic, queue_id):
            reply = self._pull(held.command)
            assert reply is not None
            self.port.end(held, reply)

    def held(self, topic: str = "", queue_id: int | None = None) -> list[HeldCall]:
        return [
            held
            for held in self.port.held
            if held.command.topic == (topic or self.topic) and queue_id in (None, held.command.queue_id)
        ]

    def join(self, *client_ids: str) -> None:
        self.members.update(client_ids)
        self.notify()

    def leave(self, client_id: str) -> None:
        self.members.remove(client_id)
        self.notify()

    def notify(self, group: str = "G") -> None:
        for connection in self.port.connections:
            connection.on_notice(commands.ConsumerIdsChanged(group=group))

    def sent(self, kind: type[C]) -> list[C]:
        """The received commands of this kind, in order."""
        return [command for command in self.port.commands if isinstance(command, kind)]

    # Answers

    def _topic(self, command: commands.GetTopic) -> Any:
        if command.topic not in self.queues:
            return NotFoundError(
                f"topic {command.topic} does not exist", code=ResponseCode.TOPIC_NOT_EXIST, pointer="/topic"
            )
        number = self.queues[command.topic]
        return commands.Topics(
            seq=1,
            topics=[
                commands.TopicView(
                    broker=self.broker,
                    topic=command.topic,
                    read_queues=number,
                    write_queues=number,
                    perm=6,
                    system=False,
                    messages=0,
                )
            ],
        )

    def _beat(self, command: commands.HeartBeat) -> Any:
        if self.create_groups:
            self.members.add(command.client_id)
            for data in command.consumers:
                self.queues.setdefault(f"%RETRY%{data.group}", 1)
        return commands.HeartBeatDone(sub_changed=True)

    def _unregister(self, command: commands.UnregisterClient) -> Any:
        self.members.discard(command.client_id)
        return commands.Done()

    def _list(self, command: commands.GetConsumerListByGroup) -> Any:
        return commands.ConsumerList(client_ids=sorted(self.members))

    def _offset(self, command: commands.QueryOffset) -> Any:
        offset = self.committed.get((command.topic, command.queue_id))
        return NotFoundError("no offset") if offset is None else commands.FoundOffset(offset=offset)

    def _commit(self, command: commands.UpdateConsumerOffset) -> Any:
        self.committed |= {(entry.topic, entry.queue_id): entry.offset for entry in command.offsets}
        return commands.Done()

    def _max(self, command: commands.GetMaxOffset) -> Any:
        return commands.FoundOffset(offset=len(self.messages.get((command.topic, command.queue_id), [])))

    def _pull(self, command: commands.PullMessage) -> commands.Pulled | None:
        messages = self.messages.get((command.topic, command.queue_id), [])
        found = messages[command.queue_offset : command.queue_offset + command.max_msg_nums]
        if not found:
            return None
        return pulled(records=b"".join(found), next_offset=command.queue_offset + len(found))

    def _send_back(self, command: commands.ConsumerSendMsgBack) -> Any:
        self.sent_back.append(command)
        return commands.Done()


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until ``condition`` is true."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)

"""The members of producer groups."""

from broker_core.consumers.client_channel_info import ClientChannelInfo
from broker_core.consumers.memberships import Memberships, Registered


class ProducerManager(Memberships):
    """RocketMQ's ProducerManager. It also finds a producer by its client id."""

    def __init__(self) -> None:
        super().__init__()
        self._channels: dict[str, ClientChannelInfo] = {}

    def find_channel(self, client_id: str) -> ClientChannelInfo | None:
        """The connection of a producer's last heartbeat; None if it is in no group or cannot be pushed to."""
        client = self._channels.get(client_id)
        return client if client is not None and client.protocol == "remoting" else None

    def available_channel(self, group: str, turn: int) -> ClientChannelInfo | None:
        """A producer of the group that can be asked; its members take turns. None if there is none."""
        members = [client for client in self.members(group).values() if client.protocol == "remoting"]
        return members[turn % len(members)] if members else None

    def register(self, group: str, client: ClientChannelInfo, now_ns: int) -> Registered:
        registered = super().register(group, client, now_ns)
        if registered != "outdated":
            self._channels[client.client_id] = client
        return registered

    def _remove(self, group: str, client_id: str) -> None:
        super()._remove(group, client_id)
        client = self._channels.get(client_id)  # None if an older connection of this client was in the group
        if client is not None and not self.groups_of(client.connection):
            del self._channels[client_id]

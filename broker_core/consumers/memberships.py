"""The clients of each group, until they leave, disconnect or send no heartbeat for too long.

    groups          group      -> client id -> its connection
    by_connection   connection -> groups        for a connection that closes
    leases          (group, client id)          for expiry

A client is in a group once, by its newest connection. So a client that reconnects is not counted twice while its old
connection, perhaps cut on the way, has not closed yet.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from broker_core.consumers.client_channel_info import ClientChannelInfo
from broker_core.consumers.leases import Leases
from broker_core.errors import UnavailableError

CHANNEL_EXPIRED_NS = 120 * 1_000_000_000
"""RocketMQ's CHANNEL_EXPIRED_TIMEOUT: a client expires so long after its last heartbeat."""

MAX_MEMBERS = 100_000

Registered = Literal["joined", "reconnected", "renewed", "outdated"]


class Memberships:
    """Members of the groups of one kind, consumers or producers."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, ClientChannelInfo]] = {}
        self._by_connection: dict[Any, set[str]] = {}
        self._leases: Leases[tuple[str, str]] = Leases()

    def __len__(self) -> int:
        """Members of all groups together."""
        return len(self._leases)

    def __iter__(self) -> Iterator[str]:
        """Groups that have members."""
        return iter(self._groups)

    def members(self, group: str) -> Mapping[str, ClientChannelInfo]:
        """Client id -> connection; empty if the group has no members."""
        return self._groups.get(group, {})

    def groups_of(self, connection: Any) -> list[str]:
        return sorted(self._by_connection.get(connection, ()))

    def is_member(self, group: str, connection: Any) -> bool:
        return group in self._by_connection.get(connection, ())

    # --- in -------------------------------------------------------------------------------------------------------

    def require_room(self, groups: Iterable[str], client_id: str) -> None:
        """UnavailableError if there is no room for the client in all these groups."""
        joining = sum(client_id not in self.members(group) for group in set(groups))
        if joining and len(self) + joining > MAX_MEMBERS:
            raise UnavailableError(
                f"the groups of this broker have {len(self)} members; with {joining} more they would exceed the "
                f"limit of {MAX_MEMBERS}"
            )

    def register(self, group: str, client: ClientChannelInfo, now_ns: int) -> Registered:
        """Handle a heartbeat of ``client``. ``outdated``: the client has a newer connection."""
        members = self._groups.get(group)
        before = members.get(client.client_id) if members else None
        if before is not None and before.number > client.number:
            return "outdated"
        self._leases.renew((group, client.client_id), now_ns + CHANNEL_EXPIRED_NS)
        if before is client:
            return "renewed"
        if members is None:
            members = self._groups[group] = {}
        if before is not None:
            self._forget(before.connection, group)
        members[client.client_id] = client
        self._by_connection.setdefault(client.connection, set()).add(group)
        return "joined" if before is None else "reconnected"

    def renew(self, groups: Iterable[str], client: ClientChannelInfo, now_ns: int) -> None:
        """Renew the client's memberships of those groups that it is in."""
        for group in groups:
            if self.is_member(group, client.connection):
                self._leases.renew((group, client.client_id), now_ns + CHANNEL_EXPIRED_NS)

    # --- out ------------------------------------------------------------------------------------------------------

    def leave(self, group: str, client_id: str, number: int) -> bool:
        """The client leaves, by a request over connection ``number``. False if it is no member or has a newer one."""
        member = self.members(group).get(client_id)
        if member is None or member.number > number:
            return False
        self._remove(group, client_id)
        return True

    def leave_all(self, client: ClientChannelInfo) -> list[str]:
        """The connection has closed. Returns the groups in which it was a member."""
        groups = self.groups_of(client.connection)
        for group in groups:
            self._remove(group, client.client_id)
        return groups

    def take_expired(self, now_ns: int, limit: int) -> list[tuple[str, str]]:
        """Remove and return (group, client id) of expired members; at most ``limit`` are looked at."""
        expired = self._leases.take_due(now_ns, limit)
        for group, client_id in expired:
            self._remove(group, client_id)
        return expired

    def next_due_ns(self) -> int | None:
        return self._leases.next_due_ns()

    def _remove(self, group: str, client_id: str) -> None:
        members = self._groups[group]
        self._forget(members.pop(client_id).connection, group)
        if not members:
            del self._groups[group]
        self._leases.drop((group, client_id))

    def _forget(self, connection: Any, group: str) -> None:
        groups = self._by_connection[connection]
        groups.discard(group)
        if not groups:
            del self._by_connection[connection]

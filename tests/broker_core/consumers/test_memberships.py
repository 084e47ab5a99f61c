"""Members of groups: distinct, by their newest connection, until they leave."""

import pytest

from broker_core.consumers import memberships
from broker_core.consumers.client_channel_info import ClientChannelInfo
from broker_core.consumers.memberships import CHANNEL_EXPIRED_NS, Memberships
from broker_core.errors import UnavailableError


def client(client_id: str, number: int) -> ClientChannelInfo:
    return ClientChannelInfo(f"connection {number}", number, client_id, "remoting", "", 0)


@pytest.mark.covers("two-connections")
def test_the_newest_connection_is_the_clients() -> None:
    members = Memberships()
    old, new = client("A", 1), client("A", 2)
    assert members.register("g", old, 0) == "joined"
    assert members.register("g", old, 0) == "renewed"
    assert members.register("g", new, 0) == "reconnected"
    assert members.register("g", old, 0) == "outdated"
    assert dict(members.members("g")) == {"A": new} and len(members) == 1
    assert members.is_member("g", new.connection) and not members.is_member("g", old.connection)
    assert members.leave_all(old) == [] and not members.leave("g", "A", old.number)
    assert members.leave("g", "A", new.number) and list(members) == []


def test_a_connection_leaves_all_its_groups() -> None:
    members = Memberships()
    one, other = client("A", 1), client("B", 2)
    for group in ("g", "h"):
        members.register(group, one, 0)
    members.register("h", other, 0)
    assert members.groups_of(one.connection) == ["g", "h"]
    assert members.leave_all(one) == ["g", "h"]
    assert list(members) == ["h"] and members.groups_of(one.connection) == []
    assert members.take_expired(CHANNEL_EXPIRED_NS, 10) == [("h", "B")]
    assert len(members) == 0


def test_each_membership_expires_separately() -> None:
    members = Memberships()
    one = client("A", 1)
    members.register("g", one, 0)
    members.register("h", one, 5)
    members.register("g", one, 10)
    assert members.next_due_ns() == CHANNEL_EXPIRED_NS
    assert members.take_expired(CHANNEL_EXPIRED_NS + 9, 10) == [("h", "A")]
    assert members.take_expired(CHANNEL_EXPIRED_NS + 10, 10) == [("g", "A")]
    assert list(members) == [] and members.groups_of(one.connection) == []


def test_a_heartbeat_renews_only_the_memberships_of_its_connection() -> None:
    members = Memberships()
    old, new, other = client("A", 1), client("A", 2), client("B", 3)
    for group, member in (("g", old), ("h", old), ("g", new), ("h", other)):
        members.register(group, member, 0)
    members.renew(["g", "h", "unknown"], old, 7)  # its place in g is the newer connection's
    members.renew(["g"], new, 5)
    assert members.take_expired(CHANNEL_EXPIRED_NS, 10) == [("h", "B")]
    assert members.take_expired(CHANNEL_EXPIRED_NS + 6, 10) == [("g", "A")]
    assert members.take_expired(CHANNEL_EXPIRED_NS + 7, 10) == [("h", "A")]


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memberships, "MAX_MEMBERS", 1)
    members = Memberships()
    members.require_room(["g", "g"], "A")
    members.register("g", client("A", 1), 0)
    with pytest.raises(UnavailableError, match="have 1 members; with 2 more they would exceed the limit of 1"):
        members.require_room(["g", "h"], "B")
    members.require_room(["g"], "A")

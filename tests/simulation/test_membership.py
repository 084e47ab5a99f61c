"""Clients that join, send heartbeats, leave, disconnect and fall silent in any order, compared with a model.

After every step each group has exactly the model's members, each once and over an open connection. Every change was
reported exactly once to each remaining member, and nothing else was reported. The only exception: members of a group
get one more notice when the group's first heartbeat creates its retry topic.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker_core import commands as c
from broker_core.consumers.memberships import CHANNEL_EXPIRED_NS
from broker_core.events import GroupMemberJoined, GroupMemberLeft
from broker_core.processors.consumer_ids_changed import SECOND_NOTICE_NS
from tests.fakes.engine import Bench
from tests.fakes.members import beat, client_ids, connect, notices

CLUSTERED, BROADCASTING = ("g", "h"), "b"
GROUPS = (*CLUSTERED, BROADCASTING)
CLIENTS = st.sampled_from("ABC")
TOPICS = st.lists(st.sampled_from(["t", "u", "v"]), unique=True, min_size=1)


class Membership(RuleBasedStateMachine):
    """``members``: group -> client -> [connection, ns of its last heartbeat]; connections are numbered in order."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.names: dict[int, str] = {}  # of open connections; "" before the first heartbeat
        self.opened = 0
        self.members: dict[str, dict[str, list[int]]] = {group: {} for group in GROUPS}
        self.topics: dict[str, set[str]] = {group: set() for group in GROUPS}
        self.changed: set[str] = set()
        self.second_notice_at: dict[
            str, int
        ] = {}  # groups that ever had a member: ns of their second notice, 0 after it

    def remove(self, group: str, client: str) -> None:
        del self.members[group][client]
        self.changed.add(group)
        if not self.members[group]:
            self.topics[group] = set()

    def check_notices(self) -> None:
        """Each member of each changed group got one notice; broadcasting clients and all others got none."""
        expected: dict[int, list[str]] = {}
        for group in self.changed & set(CLUSTERED):
            for connection, _ in self.members[group].values():
                expected.setdefault(connection, []).append(group)
        for connection in range(1, self.opened + 1):
            assert sorted(notices(self.bench, connection)) == sorted(expected.get(connection, []))
        self.changed.clear()

    @rule()
    @precondition(lambda self: len(self.names) < 6)
    def connects(self) -> None:
        self.opened += 1
        self.names[self.opened] = ""
        connect(self.bench, self.opened)

    @rule(data=st.data(), client=CLIENTS, group=st.sampled_from(GROUPS), topics=TOPICS, without_sub=st.booleans())
    @precondition(lambda self: self.names)
    def beats(self, data: Any, client: str, group: str, topics: list[str], without_sub: bool) -> None:
        connection = data.draw(st.sampled_from(sorted(self.names)))
        client = self.names[connection] or client
        self.names[connection] = client
        model: c.MessageModel = "BROADCASTING" if group == BROADCASTING else "CLUSTERING"
        reply = self.bench.call(
            beat(client, group, topics=dict.fromkeys(topics, "*"), model=model, without_sub=without_sub), connection
        )
        if model == "CLUSTERING":
            self.second_notice_at.setdefault(group, self.bench.clock.mono_ns() + SECOND_NOTICE_NS)
        member = self.members[group].get(client)
        if member is None or member[0] <= connection:
            self.members[group][client] = [connection, self.bench.clock.mono_ns()]
            if member is None or member[0] != connection:
                self.changed.add(group)
            if not without_sub and self.topics[group] != set(topics):
                self.topics[group] = set(topics)
                self.changed.add(group)
        assert reply == c.HeartBeatDone(sub_changed=group in self.changed)
        self.check_notices()

    @rule(data=st.data(), client=CLIENTS, group=st.sampled_from(GROUPS))
    @precondition(lambda self: self.names)
    def unregisters(self, data: Any, client: str, group: str) -> None:
        connection = data.draw(st.sampled_from(sorted(self.names)))
        client = self.names[connection] or client
        self.bench.call(c.UnregisterClient(client_id=client, consumer_group=group), connection)
        if client in self.members[group] and self.members[group][client][0] <= connection:
            self.remove(group, client)
        self.check_notices()

    @rule(data=st.data())
    @precondition(lambda self: self.names)
    def breaks_off(self, data: Any) -> None:
        connection = data.draw(st.sampled_from(sorted(self.names)))
        client = self.names.pop(connection)
        self.bench.call(c.CloseConnection(), connection)
        for group in GROUPS:
            if self.members[group].get(client, [0])[0] == connection:
                self.remove(group, client)
        self.check_notices()

    @rule(seconds=st.sampled_from([1, 30, 59, 60, 119, 120]))
    def time_passes(self, seconds: int) -> None:
        self.bench.tick(seconds * 1000)
        now = self.bench.clock.mono_ns()
        for group in GROUPS:
            for client, (_, last) in list(self.members[group].items()):
                if now - last >= CHANNEL_EXPIRED_NS:
                    self.remove(group, client)
        for group, due in self.second_notice_at.items():
            if 0 < due <= now:
                self.changed.add(group)
                self.second_notice_at[group] = 0
        self.check_notices()

    @invariant()
    def the_lists_are_the_models(self) -> None:
        context = self.bench.context
        for group in GROUPS:
            assert client_ids(self.bench, group) == sorted(self.members[group])
            members = context.consumers.members(group)
            assert {client: info.connection for client, info in members.items()} == {
                client: connection for client, (connection, _) in self.members[group].items()
            }
            assert all(info.connection in context.clients for info in members.values())
            info = context.consumers.get(group)
            assert set(info.subscriptions if info else ()) == self.topics[group]
        assert len(context.consumers.memberships) == sum(map(len, self.members.values()))

    @invariant()
    def joined_and_left_make_the_members(self) -> None:
        events = self.bench.engine.events
        counts = dict.fromkeys(GROUPS, 0)
        for event in events.after(0, GroupMemberJoined, GroupMemberLeft):
            assert isinstance(event, GroupMemberJoined | GroupMemberLeft)
            counts[event.group] += 1 if isinstance(event, GroupMemberJoined) else -1
        if events.first_seq == 1:
            assert counts == {group: len(self.members[group]) for group in GROUPS}


Membership.TestCase.settings = settings(stateful_step_count=25)
TestMembership = Membership.TestCase

"""What heartbeats make of a group."""

import pytest

from broker_core.commands import ConsumerData, SubscriptionData
from broker_core.consumers import consumer_manager
from broker_core.consumers.client_channel_info import ClientChannelInfo
from broker_core.consumers.consumer_manager import ConsumerManager, Registration, SubscriptionUpdate, version_ns
from broker_core.consumers.memberships import CHANNEL_EXPIRED_NS
from broker_core.errors import UnavailableError


def client(client_id: str, number: int) -> ClientChannelInfo:
    return ClientChannelInfo(f"connection {number}", number, client_id, "remoting", "", 0)


def register(
    manager: ConsumerManager, who: ClientChannelInfo, version: int, *, without_sub: bool = False, **topics: str
) -> Registration:
    return manager.register(
        who,
        ConsumerData(
            group="g",
            subscriptions=[
                SubscriptionData(topic=topic, sub_string=expression, sub_version=version)
                for topic, expression in topics.items()
            ],
        ),
        0,
        without_sub=without_sub,
    )


def stored(manager: ConsumerManager) -> dict[str, tuple[str, int]]:
    info = manager.get("g")
    assert info is not None
    return {topic: (data.sub_string, data.sub_version) for topic, data in info.subscriptions.items()}


def test_a_newer_version_replaces_an_expression_silently() -> None:
    manager = ConsumerManager()
    one = client("A", 1)
    assert register(manager, one, 5, t="a") == ("joined", [SubscriptionUpdate("t", "a", "")])
    again = register(manager, one, 5, t="b")
    assert again == ("renewed", []) and stored(manager) == {"t": ("a", 5)}
    newer = register(manager, one, 6, t="b")
    assert newer.updates == [SubscriptionUpdate("t", "b", "a")] and not newer.topics_changed
    assert register(manager, one, 7, t="b").updates == [] and stored(manager) == {"t": ("b", 7)}


def test_topics_are_those_of_the_newest_heartbeat() -> None:
    manager = ConsumerManager()
    register(manager, client("A", 1), 5, t="a", u="*")
    other = register(manager, client("B", 2), 1, t="z", v="")
    assert other.topics_changed and stored(manager) == {"t": ("a", 5), "v": ("", 1)}
    assert other.updates == [SubscriptionUpdate("v", "*", ""), SubscriptionUpdate("u", "", "*")]
    silent = register(manager, client("C", 3), 9, without_sub=True)
    assert silent == ("joined", []) and set(stored(manager)) == {"t", "v"}


def test_an_empty_expression_is_all_and_no_end_of_a_subscription() -> None:
    manager = ConsumerManager()
    register(manager, client("A", 1), 1, t="")
    changed = register(manager, client("A", 1), 2, t="a")
    assert changed.updates == [SubscriptionUpdate("t", "a", "*")] and not changed.topics_changed


def test_versions_of_java_and_go_are_comparable() -> None:
    java, go = 1_700_000_000_000, 1_700_000_000_001_000_000
    assert version_ns(java) < version_ns(go) < version_ns(java + 2)
    manager = ConsumerManager()
    register(manager, client("go", 1), go, t="a")
    register(manager, client("java", 2), java + 2, t="b")
    assert stored(manager) == {"t": ("b", java + 2)}


def test_a_group_is_forgotten_with_its_last_member() -> None:
    manager = ConsumerManager()
    one, other = client("A", 1), client("B", 2)
    register(manager, one, 5, t="a")
    register(manager, other, 5, t="a")
    assert manager.client_ids("g") == ["A", "B"] and manager.leave("g", "A", 1)
    assert stored(manager) == {"t": ("a", 5)}  # the subscription of a member that left stays
    assert manager.leave_all(other) == ["g"]
    assert manager.get("g") is None and list(manager) == [] and len(manager) == 0


def test_subscriptions_are_limited_over_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_manager, "MAX_SUBSCRIPTIONS", 3)
    manager = ConsumerManager()

    def data(group: str, *topics: str) -> ConsumerData:
        return ConsumerData(group=group, subscriptions=[SubscriptionData(topic=topic) for topic in topics])

    def heard(*consumers: ConsumerData) -> None:
        manager.require_room("A", consumers, without_sub=False)
        for one in consumers:
            manager.register(client("A", 1), one, 0, without_sub=False)

    def refused(*consumers: ConsumerData) -> bool:
        with pytest.raises(UnavailableError):
            manager.require_room("A", consumers, without_sub=False)
        manager.require_room("A", consumers, without_sub=True)
        return True

    assert refused(data("g", "a", "b"), data("h", "a", "b"))
    heard(data("g", "a", "b"))
    assert refused(data("h", "a", "b"))
    heard(data("h", "a"))
    assert refused(data("g", "a", "b", "c"))
    heard(data("g", "c", "d"))
    heard(data("g", "d"))
    heard(data("h", "a", "b"))
    manager.leave("h", "A", 1)
    heard(data("g", "a", "b", "c"))


def test_the_newest_heartbeat_says_how_the_group_consumes() -> None:
    manager = ConsumerManager()
    manager.register(client("A", 1), ConsumerData(group="g"), 0, without_sub=False)
    manager.register(
        client("B", 2),
        ConsumerData(
            group="g",
            message_model="BROADCASTING",
            consume_type="CONSUME_ACTIVELY",
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        ),
        0,
        without_sub=False,
    )
    info = manager.get("g")
    assert info is not None
    assert (info.message_model, info.consume_type, info.consume_from_where) == (
        "BROADCASTING",
        "CONSUME_ACTIVELY",
        "CONSUME_FROM_FIRST_OFFSET",
    )


def test_differing_subscriptions_are_stored_of_some_members_and_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members times topics would be a table of gigabytes. A member that is not stored is still known to differ."""
    monkeypatch.setattr(consumer_manager, "MAX_DIFFERING", 3)
    manager = ConsumerManager()
    topics = {f"t{number:02d}": "a" for number in range(30)}
    for number in range(6):
        register(manager, client(f"old-{number}", number), 5, **topics)
    register(manager, client("new", 9), 6, **dict.fromkeys(topics, "b"))
    info = manager.get("g")
    assert info is not None
    assert {name: len(of) for name, of in info.differing.items()} == {"old-0": 16, "old-1": 16, "old-2": 16}
    for number in range(6):  # the others differ by their own heartbeats
        register(manager, client(f"old-{number}", number), 5, **topics)
    assert {name: len(of) for name, of in info.differing.items()} == {
        **dict.fromkeys(("old-0", "old-1", "old-2"), 16),
        **dict.fromkeys(("old-3", "old-4", "old-5"), 0),
    }
    register(manager, client("new", 9), 7, **dict.fromkeys(topics, "c"))
    assert {name: len(of) for name, of in info.differing.items()} == {
        **dict.fromkeys(("old-0", "old-1", "old-2"), 16),
        **dict.fromkeys(("old-3", "old-4", "old-5"), 0),
    }
    register(manager, client("old-0", 0), 7, **dict.fromkeys(topics, "c"))
    register(manager, client("old-5", 5), 7, **dict.fromkeys(topics, "c"))
    assert sorted(info.differing) == ["old-1", "old-2", "old-3", "old-4"]


def test_only_some_expired_members_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_manager, "MAX_EXPIRED", 2)
    manager = ConsumerManager()
    for number, group in enumerate(("g", "h", "i")):
        manager.register(client("A", number + 1), ConsumerData(group=group, subscriptions=[]), 0, without_sub=False)
    assert len(manager.take_expired(CHANNEL_EXPIRED_NS, 10)) == 3
    found = [manager.last_expired(group) for group in ("g", "h", "i")]
    assert found == [None, ("A", CHANNEL_EXPIRED_NS), ("A", CHANNEL_EXPIRED_NS)]
    manager.register(client("A", 9), ConsumerData(group="h", subscriptions=[]), 1, without_sub=False)
    assert manager.last_expired("h") is None

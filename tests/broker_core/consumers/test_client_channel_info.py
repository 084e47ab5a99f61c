"""What is known of a connection."""

from broker_core.consumers.client_channel_info import ClientChannelInfo


def test_two_connections_are_never_the_same() -> None:
    one, other = (ClientChannelInfo("c", 1, "A", "remoting", "ip:1", 0) for _ in range(2))
    assert one != other and one.last_heartbeat_ms is None

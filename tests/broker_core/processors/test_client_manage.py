"""Clients that come and go."""

from broker_core import commands as c
from broker_core.events import ClientConnected, ClientLost
from tests.fakes.engine import Bench


def test_a_client_that_goes_is_an_event_with_what_it_held() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.submit(c.OpenConnection(client_id="me", protocol="websocket", remote="127.0.0.1"), connection="w")
    bench.pull("orders", 1, connection="w")
    bench.submit(c.CloseConnection(), connection="w")
    bench.submit(c.CloseConnection(), connection="w")
    came, went = [
        [e for e in bench.engine.events.after(0) if isinstance(e, kind)] for kind in (ClientConnected, ClientLost)
    ]
    assert len(came) == 1 and len(went) == 1 and went[0].holds_released == 1  # type: ignore[union-attr]

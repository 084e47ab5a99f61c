"""The stock Go client v2.1.2, unmodified. The cases are in ``go/``; each holds for RocketMQ itself."""

from tests.compat import go_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address
from tests.compat.test_java_clients import assert_all_hold


def test_every_case_holds(server: Address) -> None:
    needs(go_program.program)
    assert_all_hold(go_program.run_cases(server.namesrv, server.broker), 24)

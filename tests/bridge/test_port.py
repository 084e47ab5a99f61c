import pytest

from bridge import port
from broker_core import commands
from broker_core.codes import ResponseCode
from broker_core.commands import Done, Failed
from broker_core.errors import (
    BrokerError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    RequestError,
    UnavailableError,
)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("request", RequestError),
        ("not_found", NotFoundError),
        ("conflict", ConflictError),
        ("unavailable", UnavailableError),
        ("no_room", UnavailableError),
        ("overload", OverloadedError),
        ("store", BrokerError),
    ],
)
def test_failed_becomes_the_corresponding_error(kind: str, error: type[BrokerError]) -> None:
    failed = Failed(
        code=ResponseCode.TOPIC_NOT_EXIST,
        remark="no",
        kind=kind,
        pointer="/topic",  # type: ignore[arg-type]
        retry_after_ms=7,
    )
    with pytest.raises(error) as caught:
        port.raise_failed(failed)
    assert type(caught.value) is error
    assert caught.value.code == ResponseCode.TOPIC_NOT_EXIST
    assert caught.value.remark == "no"
    if isinstance(caught.value, UnavailableError):
        assert caught.value.retry_after_ms == 7
    elif isinstance(caught.value, RequestError):
        assert caught.value.pointer == "/topic"


def test_any_other_reply_is_returned() -> None:
    assert port.raise_failed(Done()) == Done()


def test_exported_names_exist_and_commands_are_the_engines() -> None:
    assert all(hasattr(port, name) for name in port.__all__)
    assert port.commands is commands


def test_a_lost_reply_is_distinguished_from_an_unavailable_engine() -> None:
    """Nothing is known to be stored, against nobody knows: a caller must be able to tell them apart."""
    assert issubclass(port.PortUnavailable, UnavailableError)
    assert not issubclass(port.PortTimeout, UnavailableError)

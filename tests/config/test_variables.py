"""config/variables.py. What the variables mean is tested with the settings."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.variables import named_addresses


def test_addresses_by_broker_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSMQ_X", "")
    assert named_addresses("GLASSMQ_X") == {}
    monkeypatch.setenv("GLASSMQ_X", "a=10.0.0.1:10912, b=[::1]:5")
    assert named_addresses("GLASSMQ_X") == {"a": ("10.0.0.1", 10912), "b": ("::1", 5)}


@pytest.mark.parametrize("value", ["a", "a=b", "a=b:0", "a=b:99999", "=b:1", "a=b:1;c=d:2"])
def test_a_wrong_address_is_refused_with_the_variable(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSMQ_X", value)
    with pytest.raises(ImproperlyConfigured, match="GLASSMQ_X must be broker=host:port"):
        named_addresses("GLASSMQ_X")

"""The name server's key-value configuration (namespace -> key -> value), stored in ``kvConfig.json``.

{"configTable":{"ORDER_TOPIC_CONFIG":{"orders":"broker-a:4;broker-b:4"}}}
"""

from typing import Any

from broker_core.namesrv.register_broker import refused

NAMESPACE_ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
MAX_NAME = 255
MAX_VALUE = 65_536
MAX_CHARACTERS = 8 * 1024 * 1024
"""Characters of all namespaces, keys and values together."""


class KVConfigManager:
    """RocketMQ's KVConfigManager. ``dirty`` is True while there are changes that are not being written yet."""

    def __init__(self, loaded: dict[Any, Any] | None) -> None:
        self._table: dict[str, dict[str, str]] = {
            str(namespace): {str(key): str(value) for key, value in entries.items()}
            for namespace, entries in ((loaded or {}).get("configTable") or {}).items()
        }
        self._characters = sum(
            len(namespace) + sum(len(key) + len(value) for key, value in entries.items())
            for namespace, entries in self._table.items()
        )
        self.dirty = False

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value. RequestError if a name, the value, or everything together would be too long."""
        if max(len(namespace), len(key)) > MAX_NAME or len(value) > MAX_VALUE:
            raise refused(
                f"too long: the limit is {MAX_NAME} characters for a namespace or key, {MAX_VALUE} for a value"
            )
        entries = self._table.get(namespace)
        growth = (
            len(value)
            - len((entries or {}).get(key, ""))
            + (0 if entries and key in entries else len(key))
            + (0 if entries is not None else len(namespace))
        )
        if self._characters + growth > MAX_CHARACTERS:
            raise refused(f"the configuration would be larger than {MAX_CHARACTERS} characters; delete some first")
        self._characters += growth
        self._table.setdefault(namespace, {})[key] = value
        self.dirty = True

    def get(self, namespace: str, key: str) -> str | None:
        """A value, or None."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if there is one. Its namespace stays, even if it is empty."""
        value = self._table.get(namespace, {}).pop(key, None)
        if value is not None:
            self._characters -= len(key) + len(value)
            self.dirty = True

    def entries(self, namespace: str) -> dict[str, str] | None:
        """All keys and values of a namespace; None if there is no such namespace."""
        return self._table.get(namespace)

    def as_table(self) -> dict[str, Any]:
        """A copy of the content of kvConfig.json."""
        return {"configTable": {namespace: dict(entries) for namespace, entries in self._table.items()}}

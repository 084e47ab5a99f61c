"""The configuration of consumer groups.

Source: RocketMQ's SubscriptionGroupManager; the table behind ``config/subscriptionGroup.json``:
``{"dataVersion": {...}, "forbiddenTable": {}, "subscriptionGroupTable": {"g": {...SubscriptionGroupConfig}}}``.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import NotFoundError, RequestError
from broker_core.options import Options, rocketmq_name
from broker_core.topics import MAX_QUEUES, PERM_READ, alter_attributes, attribute_error, validate_group

MAX_GROUPS = 20_000
MAX_CONFIG_BYTES = 65_536
MAX_FORBIDDEN = 20_000
SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
PRIORITY_FACTOR = "priority.factor"
_LONG = re.compile("[+-]?[0-9]{1,18}")
_SYSTEM_PREFIX = "CID_RMQ_SYS_"


def is_system_group(group: str) -> bool:
    return group in SYSTEM_GROUPS or group.startswith(_SYSTEM_PREFIX)


def retry_topic(group: str) -> str:
    """The topic of messages that the group could not consume."""
    return f"%RETRY%{group}"


class SubscriptionGroupConfig(msgspec.Struct, kw_only=True, rename=rocketmq_name):
    """RocketMQ's SubscriptionGroupConfig, its members in the order of the file."""

    attributes: dict[str, Any] = {}
    broker_id: int = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    group_name: str
    group_retry_policy: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "CUSTOMIZED"})
    group_sys_flag: int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1
    which_broker_when_consume_slowly: int = 1

    @property
    def priority_factor(self) -> int:
        """Of a hundred pops of a topic with priorities, so many look at its queues in their order: 0 to 100."""
        text = str(self.attributes.get(PRIORITY_FACTOR, ""))
        return int(text) if _LONG.fullmatch(text) and 0 <= int(text) <= 100 else 100


_KNOWN = frozenset(rocketmq_name(name) for name in SubscriptionGroupConfig.__struct_fields__)


class SubscriptionGroupManager:
    """RocketMQ's SubscriptionGroupManager. ``dirty``: changes are not on the disk yet.

    Unknown members of the file and of a group are preserved. A stored SubscriptionGroupConfig is never changed, only
    replaced.
    """

    def __init__(self, options: Options, loaded: dict[str, Any] | None, now: Now) -> None:
        self._options = options
        self._rest = dict(loaded or {})
        version = self._rest.get("dataVersion") or {}
        self._version = {
            "counter": int(version.get("counter", 0)),
            "stateVersion": int(version.get("stateVersion", 0)),
            "timestamp": int(version.get("timestamp", now.wall_ms)),
        }
        self._forbidden: dict[str, dict[str, int]] = {
            group: {topic: int(bits) for topic, bits in topics.items()}
            for group, topics in (self._rest.get("forbiddenTable") or {}).items()
        }
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self._unknown: dict[str, dict[str, Any]] = {}
        self.dirty = False
        for name, entry in (self._rest.get("subscriptionGroupTable") or {}).items():
            self._take(msgspec.convert({"groupName": name} | entry, SubscriptionGroupConfig, strict=False), entry)
        for name in SYSTEM_GROUPS:
            if name not in self._table:
                self._put(SubscriptionGroupConfig(group_name=name), {}, now)

    def _take(self, config: SubscriptionGroupConfig, entry: dict[str, Any]) -> None:
        name = config.group_name
        self._table[name] = config
        unknown = {key: value for key, value in entry.items() if key not in _KNOWN}
        if unknown:
            self._unknown[name] = unknown
        else:
            self._unknown.pop(name, None)

    def _put(self, config: SubscriptionGroupConfig, entry: dict[str, Any], now: Now) -> SubscriptionGroupConfig:
        self.require_room(config.group_name not in self._table)
        self._take(config, entry)
        self._touch(now)
        return config

    def require_room(self, groups: int) -> None:
        """RequestError if there is no room for so many more groups."""
        if groups and len(self._table) + groups > MAX_GROUPS:
            raise RequestError(
                f"this broker has {len(self._table)} consumer groups; the limit is {MAX_GROUPS}: delete some first"
            )

    def _touch(self, now: Now) -> None:
        self._version["counter"] += 1
        self._version["timestamp"] = now.wall_ms
        self.dirty = True

    def __iter__(self) -> Iterator[SubscriptionGroupConfig]:
        return iter(list(self._table.values()))

    def __contains__(self, group: str) -> bool:
        return group in self._table

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        return self._table.get(group)

    def may_create(self, group: str) -> bool:
        """Whether a client's request may create this group."""
        return self._options.auto_create_subscription_group or is_system_group(group)

    def create(self, group: str, now: Now) -> SubscriptionGroupConfig:
        """Create a group for a client. NotFoundError (SUBSCRIPTION_GROUP_NOT_EXIST) where that is not allowed."""
        validate_group(group)
        if not self.may_create(group):
            raise not_exist(group)
        return self._put(SubscriptionGroupConfig(group_name=group), {}, now)

    def update(self, entry: dict[str, Any], now: Now) -> SubscriptionGroupConfig:
        """Create a group or replace its configuration, see ``checked``."""
        return self._store(*self.checked(entry), now)

    def replicate(self, entry: dict[str, Any], now: Now) -> SubscriptionGroupConfig:
        """Store a group as another broker has it: its ``attributes`` are all that it has. RequestError if invalid."""
        return self._store(*self._converted(entry), now)

    def _store(self, config: SubscriptionGroupConfig, given: dict[str, Any], now: Now) -> SubscriptionGroupConfig:
        if self._table.get(config.group_name) == config and self._unknown.get(config.group_name, {}) == {
            key: value for key, value in given.items() if key not in _KNOWN
        }:
            return config
        return self._put(config, given, now)

    def checked(self, entry: dict[str, Any]) -> tuple[SubscriptionGroupConfig, dict[str, Any]]:
        """The configuration that ``entry`` describes, with RocketMQ's defaults, and the members of ``entry`` to store.

        ``attributes`` are changes: ``+name`` sets one, ``-name`` removes one. RequestError for what is invalid.
        """
        config, given = self._converted(entry)
        old = self._table.get(config.group_name)
        changes = {name: _text_of(value) for name, value in config.attributes.items()}
        current = old.attributes if old is not None else {}
        config.attributes = alter_attributes(current, changes, _check_attribute, is_new=old is None)
        return config, given

    def _converted(self, entry: dict[str, Any]) -> tuple[SubscriptionGroupConfig, dict[str, Any]]:
        given = {key: value for key, value in entry.items() if value is not None}
        if len(msgspec.json.encode(given)) > MAX_CONFIG_BYTES:
            raise RequestError(f"the configuration of a group has at most {MAX_CONFIG_BYTES} bytes")
        try:
            config = msgspec.convert(given, SubscriptionGroupConfig, strict=False)
        except msgspec.ValidationError as error:
            raise RequestError(f"group refused: {error}") from error
        validate_group(config.group_name)
        if config.retry_queue_nums > MAX_QUEUES:
            raise RequestError(f"retryQueueNums is at most {MAX_QUEUES}", pointer="/retryQueueNums")
        return config, given

    def delete(self, group: str, now: Now) -> bool:
        """Delete a group. False if there is none; RequestError for a system group."""
        if is_system_group(group):
            raise RequestError(f"{group} is a system group; it cannot be deleted", pointer="/group")
        if self._table.pop(group, None) is None:
            return False
        self._unknown.pop(group, None)
        self._touch(now)
        return True

    def forbid(self, group: str, topic: str, now: Now, *, readable: bool) -> None:
        """Allow or forbid the group to read the topic. RequestError if there are too many forbidden pairs."""
        if readable == self.may_read(group, topic):
            return
        topics = self._forbidden.get(group, {})
        bits = topics.get(topic, 0) ^ PERM_READ
        if bits:
            if topic not in topics and sum(map(len, self._forbidden.values())) >= MAX_FORBIDDEN:
                raise RequestError(
                    f"{MAX_FORBIDDEN} pairs of group and topic are forbidden on this broker, which is the limit"
                )
            self._forbidden[group] = topics | {topic: bits}
        else:
            del topics[topic]
            if not topics:
                del self._forbidden[group]
        self._touch(now)

    @property
    def forbidden(self) -> dict[str, dict[str, int]]:
        """RocketMQ's forbiddenTable: group -> topic -> forbidden permissions (4: read)."""
        return {group: dict(topics) for group, topics in self._forbidden.items()}

    def may_read(self, group: str, topic: str) -> bool:
        """Whether the forbiddenTable lets the group read the topic."""
        return not self._forbidden.get(group, {}).get(topic, 0) & PERM_READ if self._forbidden else True

    def change_options(self, options: Options) -> None:
        self._options = options

    @property
    def data_version(self) -> dict[str, int]:
        return dict(self._version)

    def entry(self, group: str) -> dict[str, Any]:
        """One group's configuration in the form of the file."""
        entry: dict[str, Any] = msgspec.to_builtins(self._table[group])
        return entry | self._unknown.get(group, {})

    def as_table(self) -> dict[str, Any]:
        """The content of subscriptionGroup.json, as it is now."""
        return self._rest | {
            "dataVersion": self.data_version,
            "forbiddenTable": self.forbidden,
            "subscriptionGroupTable": self._table | {name: self.entry(name) for name in self._unknown},
        }


def _text_of(value: Any) -> str:
    """The value of an attribute. A number is accepted for its digits, as RocketMQ's JSON library does."""
    if not isinstance(value, str | int):
        raise attribute_error(f"the value of an attribute is a string, not {type(value).__name__}")
    return str(value)


def _check_attribute(name: str, value: str | None) -> None:
    """RequestError for what is not in RocketMQ's SubscriptionGroupAttributes; None removes the attribute."""
    if name != PRIORITY_FACTOR:
        raise attribute_error(f"unsupported key: {name[:100]}; a group may have {PRIORITY_FACTOR}")
    if value is None:
        return
    if not _LONG.fullmatch(value):
        raise attribute_error(f"For input string: {value[:100]!r}; {PRIORITY_FACTOR} is a number from 0 to 100")
    if not 0 <= int(value) <= 100:
        raise attribute_error(f"value is not in range(0, 100); {PRIORITY_FACTOR} is {value}")


def not_exist(group: str) -> NotFoundError:
    """The error of an unknown group."""
    return NotFoundError(
        f"consumer group {group} does not exist on this broker",
        code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        pointer="/group",
    )

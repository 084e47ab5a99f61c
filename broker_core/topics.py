"""The topics, their numbers of queues, and their permissions.

Source of the name rules, the limits and the predefined topics: RocketMQ's TopicValidator and TopicConfigManager.
"""

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import NotFoundError, RequestError
from broker_core.formats.pop_check_point import REVIVE_TOPIC_PREFIX
from broker_core.options import Options, rocketmq_name

PERM_READ, PERM_WRITE, PERM_INHERIT = 4, 2, 1
MAX_TOPIC_LENGTH = 127
MAX_GROUP_LENGTH = 120
MAX_QUEUES = 1024
MAX_TOPICS = 20_000
AUTO_CREATE_TOPIC = "TBW102"
NO_SEND_TOPICS = frozenset(
    (
        "SCHEDULE_TOPIC_XXXX",
        "rmq_sys_wheel_timer",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    )
)
_SYSTEM = NO_SEND_TOPICS | {AUTO_CREATE_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC"}
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
REPLY_TOPIC_POSTFIX = "REPLY_TOPIC"
MESSAGE_TYPE = "message.type"
QUEUE_TYPE = "queue.type"
RESERVE_TIME = "reserve.time"
BATCH_CQ = "BatchCQ"
PRIORITY = "PRIORITY"
ATTRIBUTES = {
    MESSAGE_TYPE: ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", PRIORITY, "MIXED"),
    QUEUE_TYPE: ("SimpleCQ", BATCH_CQ),
    "cleanup.policy": ("DELETE",),
}
"""The attributes of RocketMQ's TopicAttributes that this broker accepts, and their values.

Of a message.type, PRIORITY alone has an effect, on pops. As in RocketMQ, the broker does not compare it with messages.
"""
_UNCHANGEABLE = (QUEUE_TYPE, "cleanup.policy")
_NOT_SUPPORTED = {
    ("cleanup.policy", "COMPACTION"): "GlassMQ has no compaction; messages are deleted when fileReservedTime is over",
}
_RESERVE_TIME = "messages of all topics are deleted when fileReservedTime is over"
_NAMED = 20
"""Topics that a sentence about a store names at most."""


def reply_topic(cluster: str) -> str:
    """The topic of replies to request messages. RocketMQ's clients make its name from the request's CLUSTER."""
    return f"{cluster}_{REPLY_TOPIC_POSTFIX}"


def may_be_sent_to(topic: str) -> bool:
    """Whether clients may send to a topic of this name. They may not write the broker's own records."""
    return topic not in NO_SEND_TOPICS and not topic.startswith(REVIVE_TOPIC_PREFIX)


def validate_name(name: str, what: str, longest: int) -> str:
    """Return ``name`` if RocketMQ's rules allow it; raise RequestError otherwise. Call this before using a name."""
    if not name:
        raise RequestError(f"the {what} is empty", pointer=f"/{what}")
    if len(name) > longest:
        raise RequestError(f"the {what} has {len(name)} characters; the limit is {longest}", pointer=f"/{what}")
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"the {what} {name!r} contains characters other than a-z A-Z 0-9 _ - % |", pointer=f"/{what}"
        )
    return name


def validate_topic(topic: str) -> str:
    return validate_name(topic, "topic", MAX_TOPIC_LENGTH)


def validate_group(group: str) -> str:
    return validate_name(group, "group", MAX_GROUP_LENGTH)


def not_exist(topic: str) -> NotFoundError:
    """The error for an unknown topic."""
    return NotFoundError(
        f"topic {topic} does not exist on this broker; publish to it, or create it",
        code=ResponseCode.TOPIC_NOT_EXIST,
        pointer="/topic",
    )


class TopicConfig(msgspec.Struct, kw_only=True, gc=False, rename=rocketmq_name):
    """RocketMQ's TopicConfig, as in topics.json."""

    topic_name: str
    read_queue_nums: int = 4
    write_queue_nums: int = 4
    perm: int = PERM_READ | PERM_WRITE
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: dict[str, Any] = {}

    @property
    def has_batch_queues(self) -> bool:
        """Whether the topic's queues are batch consume queues."""
        return self.attributes.get(QUEUE_TYPE) == BATCH_CQ

    @property
    def queue_nums(self) -> int:
        """How many queues the topic has for readers or writers."""
        return max(self.read_queue_nums, self.write_queue_nums)


class TopicConfigManager:
    """RocketMQ's TopicConfigManager: the table behind ``config/topics.json``.

    ``dirty`` is True while there are changes that are not being written to the disk yet. ``take_changed`` returns the
    changed topics for registration with name servers. A stored TopicConfig is never changed, only replaced.
    """

    def __init__(self, options: Options, loaded: dict[str, Any] | None, now: Now) -> None:
        self._options = options
        self._rest = dict(loaded or {})
        self._table: dict[str, TopicConfig] = {}
        self._names: list[str] = []
        self.batch_topics: set[str] = set()
        """The topics with batch consume queues. The store has the same set."""
        self.queues_total = 0
        """Queues of all topics together."""
        version = self._rest.get("dataVersion") or {}
        self._version = {
            "counter": int(version.get("counter", 0)),
            "stateVersion": int(version.get("stateVersion", 0)),
            "timestamp": int(version.get("timestamp", now.wall_ms)),
        }
        self.dirty = False
        self._changed: set[str] = set()
        for name, entry in (self._rest.get("topicConfigTable") or {}).items():
            self._store(name, msgspec.convert(entry, TopicConfig, strict=False))
        self._system = _SYSTEM | {
            options.broker_cluster_name,
            options.broker_name,
            reply_topic(options.broker_cluster_name),
        }
        for config in self._predefined():
            if config.topic_name not in self._table:
                self._put(config, now)

    def _predefined(self) -> Iterable[TopicConfig]:
        queues = self._options.default_topic_queue_nums
        yield TopicConfig(
            topic_name=AUTO_CREATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=PERM_READ | PERM_WRITE | PERM_INHERIT,
        )
        for name, count in (
            ("SELF_TEST_TOPIC", 1),
            ("OFFSET_MOVED_EVENT", 1),
            ("SCHEDULE_TOPIC_XXXX", 18),
            ("rmq_sys_wheel_timer", 1),
            ("RMQ_SYS_TRANS_HALF_TOPIC", 1),
            ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1),
            (reply_topic(self._options.broker_cluster_name), 1),
        ):
            yield TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count)
        options = self._options
        for name, count, is_enabled in (  # mqadmin's clusterRT and sendMsgStatus send to them
            (options.broker_cluster_name, 16, options.cluster_topic_enable),
            (options.broker_name, 1, options.broker_topic_enable),
        ):
            if _NAME.fullmatch(name):  # a cluster may have a name that no topic can have
                perm = PERM_INHERIT | (PERM_READ | PERM_WRITE if is_enabled else 0)
                yield TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count, perm=perm)

    def _store(self, name: str, config: TopicConfig) -> None:
        """Put a configuration into the table. Keeps the sorted names and the total in step with it."""
        old = self._table.get(name)
        if old is None:
            insort(self._names, name)
        self.queues_total += config.queue_nums - (old.queue_nums if old else 0)
        self._table[name] = config
        if config.has_batch_queues:
            self.batch_topics.add(name)

    def _put(self, config: TopicConfig, now: Now) -> TopicConfig:
        self._store(config.topic_name, config)
        self._touch(config.topic_name, now)
        return config

    def _touch(self, topic: str, now: Now) -> None:
        self._version["counter"] += 1
        self._version["timestamp"] = now.wall_ms
        self._changed.add(topic)
        self.dirty = True

    @property
    def data_version(self) -> dict[str, int]:
        """RocketMQ's DataVersion of the table: counter, stateVersion and timestamp. Every change changes it."""
        return dict(self._version)

    def take_changed(self) -> set[str] | None:
        """Topics created, changed or deleted since the last call; None if there are none."""
        if not self._changed:
            return None
        changed, self._changed = self._changed, set()
        return changed

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(list(self._table.values()))

    def names(self, start: str = "") -> Sequence[str]:
        """The names of the topics from ``start`` on, sorted. Later changes do not change the sequence."""
        return self._names[bisect_left(self._names, start) :]

    def get(self, topic: str) -> TopicConfig | None:
        return self._table.get(topic)

    def require(self, topic: str) -> TopicConfig:
        """The topic's configuration. Raises NotFoundError (TOPIC_NOT_EXIST)."""
        config = self._table.get(topic)
        if config is None:
            validate_topic(topic)
            raise not_exist(topic)
        return config

    def is_system(self, topic: str) -> bool:
        return topic in self._system or topic.startswith(("rmq_sys_", "RMQ_SYS_"))

    def create_in_send_message(self, topic: str, default_topic: str, client_queues: int, now: Now) -> TopicConfig:
        """Create ``topic`` for a send, from the template ``default_topic``.

        It gets as many queues as the client requests, but at most those of the template. Raises NotFoundError
        (TOPIC_NOT_EXIST) if automatic creation is off or the template has no inherit permission.
        """
        validate_topic(topic)
        template = self._table.get(default_topic)
        allowed = self._options.auto_create_topic_enable or default_topic != AUTO_CREATE_TOPIC
        if template is None or not allowed or not template.perm & PERM_INHERIT:
            raise NotFoundError(
                f"topic {topic} does not exist on this broker and cannot be created automatically",
                code=ResponseCode.TOPIC_NOT_EXIST,
                pointer="/topic",
            )
        queues = max(1, min(client_queues, template.write_queue_nums))
        return self._add(
            TopicConfig(
                topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=template.perm & ~PERM_INHERIT
            ),
            now,
        )

    def _add(self, config: TopicConfig, now: Now) -> TopicConfig:
        self.require_room(1)
        return self._put(config, now)

    def require_room(self, topics: int) -> None:
        """Raise RequestError if ``topics`` more would exceed MAX_TOPICS."""
        if topics and len(self._table) + topics > MAX_TOPICS:
            raise RequestError(
                f"the limit is {MAX_TOPICS} topics, and this broker has {len(self._table)}; delete some first"
            )

    def create_in_send_message_back(self, topic: str, queues: int, perm: int, now: Now) -> tuple[TopicConfig, bool]:
        """A group's retry or dead letter topic, and whether it was created. An existing topic is not changed."""
        config = self._table.get(topic)
        if config is not None:
            return config, False
        validate_topic(topic)
        return self._add(
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm), now
        ), True

    def adopt(self, topic: str, queues: int, now: Now) -> TopicConfig:
        """Add a topic that has queues in the store but is not in topics.json."""
        attributes = {QUEUE_TYPE: BATCH_CQ} if topic in self.batch_topics else {}
        return self._put(
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, attributes=attributes), now
        )

    def adopt_unknown(self, queues: Iterable[tuple[str, int]], now: Now) -> list[str]:
        """Add the topics that have queues (topic, queue id) in the store but are not in topics.json. Their names."""
        counts: dict[str, int] = {}
        for topic, queue_id in queues:
            if topic not in self._table:
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        for topic, count in counts.items():
            self.adopt(topic, count, now)
        return list(counts)

    def unsupported(self, mapping: dict[str, Any] | None) -> list[str]:
        """Sentences on attributes and static topics that RocketMQ supports and this broker ignores, for its start.

        ``mapping`` is topicQueueMapping.json: RocketMQ's TopicQueueMappingSerializeWrapper, the static topics.
        """
        topics: dict[tuple[str, str], list[str]] = {}
        for topic in self._names:
            for name, value in self._table[topic].attributes.items():
                if value not in ATTRIBUTES.get(name, ()):
                    topics.setdefault((name, str(value)), []).append(topic)
        sentences = []
        for (name, value), named in topics.items():
            reason = _RESERVE_TIME if name == RESERVE_TIME else _NOT_SUPPORTED.get((name, value), "it has no effect")
            sentences.append(f"GlassMQ ignores the attribute {name}={value[:100]} of {_listed(named)}: {reason}")
        static = (mapping or {}).get("topicQueueMappingInfoMap")
        if static and isinstance(static, dict):
            sentences.append(
                f"GlassMQ ignores topicQueueMapping.json, which makes {_listed(sorted(map(str, static)))} static: "
                "their queues have this broker's own numbers and offsets"
            )
        return sentences

    def update(
        self, topic: str, read: int | None, write: int | None, perm: int | None, now: Now, **more: Any
    ) -> TopicConfig:
        """Create or change a topic; see ``changed_config`` for arguments and errors."""
        return self.put(self.changed_config(topic, read, write, perm, **more), now)

    def changed_config(
        self,
        topic: str,
        read: int | None,
        write: int | None,
        perm: int | None,
        *,
        order: bool | None = None,
        filter_type: str | None = None,
        sys_flag: int | None = None,
        attributes: dict[str, str] | None = None,
    ) -> TopicConfig:
        """The configuration of a new or existing topic after a change. Arguments that are None change nothing.

        ``attributes`` are changes: ``+name`` sets an attribute, ``-name`` removes one. Raises RequestError if a
        change is not allowed.
        """
        validate_topic(topic)
        if self.is_system(topic):
            raise RequestError(f"{topic} is a system topic; it cannot be changed", pointer="/topic")
        for name, value in (("read_queues", read), ("write_queues", write)):
            if value is not None and not 1 <= value <= MAX_QUEUES:
                raise RequestError(f"{name} must be 1 to {MAX_QUEUES}", pointer=f"/{name}")
        if perm is not None and not 0 <= perm <= 7:
            raise RequestError("perm is 4 (read) + 2 (write) + 1 (inherit): 0 to 7", pointer="/perm")
        base = self._table.get(topic) or TopicConfig(topic_name=topic)
        return msgspec.structs.replace(
            base,
            read_queue_nums=read or base.read_queue_nums,
            write_queue_nums=write or base.write_queue_nums,
            perm=base.perm if perm is None else perm,
            order=base.order if order is None else order,
            topic_filter_type=filter_type or base.topic_filter_type,
            topic_sys_flag=base.topic_sys_flag if sys_flag is None else sys_flag,
            attributes=self._changed_attributes(topic, base.attributes, attributes or {}),
        )

    def _changed_attributes(self, topic: str, attributes: dict[str, Any], changes: dict[str, str]) -> dict[str, Any]:
        is_new = topic not in self._table

        def check(name: str, value: str | None) -> None:
            _check_attribute(name, value, is_new=is_new)
            if value == "MIXED" and not self._options.enable_mixed_message_type:
                raise RequestError(
                    "MIXED message type is not supported. Set enableMixedMessageType=true to allow it",
                    pointer="/attributes",
                )

        return alter_attributes(attributes, changes, check, is_new=is_new)

    def put(self, config: TopicConfig, now: Now) -> TopicConfig:
        """Store a configuration. RequestError if there would be too many topics."""
        old = self._table.get(config.topic_name)
        if config == old:
            return config
        return self._put(config, now) if old else self._add(config, now)

    def delete(self, topic: str, now: Now) -> None:
        self.require(topic)
        if self.is_system(topic):
            raise RequestError(f"{topic} is a system topic; it cannot be deleted", pointer="/topic")
        self.queues_total -= self._table.pop(topic).queue_nums
        self.batch_topics.discard(topic)
        del self._names[bisect_left(self._names, topic)]
        self._touch(topic, now)

    def change_options(self, options: Options) -> None:
        if options.broker_permission != self._options.broker_permission:  # registrations contain it
            self._version["counter"] += 1
            self._changed.update(self._table)
            self.dirty = True
        self._options = options

    def as_table(self) -> dict[str, Any]:
        """The content of topics.json, as it is now. Fields that a newer RocketMQ wrote there are kept."""
        return self._rest | {
            "dataVersion": dict(self._version),
            "topicConfigTable": self._table.copy(),
        }


def _listed(topics: Sequence[str]) -> str:
    """``2 topics (a, b)``"""
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    return f"{len(topics)} topic{'s' * (len(topics) > 1)} ({', '.join(topics[:_NAMED])}{more})"


def alter_attributes(
    current: dict[str, Any], changes: dict[str, str], check: Callable[[str, str | None], None], *, is_new: bool
) -> dict[str, Any]:
    """Return the changed attributes, as RocketMQ's AttributeUtil.alterCurrentAttributes does. Errors have its texts.

    ``+name`` sets an attribute and ``-name`` removes one. RequestError for other names, and if one cannot be removed.
    ``check`` is called with each name, and with the value or None for a removal; it may raise RequestError as well.
    ``is_new``: whether the topic or group is being created.
    """
    new = dict(current)
    names: set[str] = set()
    for signed, value in changes.items():
        sign, name = signed[:1], signed[1:]
        if not name or "+" in name or "-" in name:
            raise attribute_error(f"kv string format wrong. {signed[:100]!r}: write +name=value or -name")
        if name in names:
            raise attribute_error(f"alter duplication key. key: {name[:100]}")
        names.add(name)
        if sign != "+" and is_new:
            raise attribute_error(f"only add attribute is supported while creating topic. key: {name[:100]}")
        if sign not in "+-":
            raise attribute_error(f"wrong format key: {name[:100]}; write +name=value or -name")
        if sign == "-" and name not in new:
            raise attribute_error(f"attempt to delete a nonexistent key: {name[:100]}")
        check(name, value if sign == "+" else None)
        if sign == "+":
            new[name] = value
        else:
            del new[name]
    return new


def _check_attribute(name: str, value: str | None, *, is_new: bool) -> None:
    """RequestError for an attribute or a value that this broker does not have; None removes the attribute."""
    if name == RESERVE_TIME:
        raise attribute_error(f"unsupported key: {RESERVE_TIME}; {_RESERVE_TIME}")
    if name not in ATTRIBUTES:
        raise attribute_error(f"unsupported key: {name[:100]}; a topic may have {', '.join(ATTRIBUTES)}")
    if name in _UNCHANGEABLE and not is_new:
        raise attribute_error(
            f"attempt to update an unchangeable attribute. key: {name}; it is set when a topic is created"
        )
    if value is None or value in ATTRIBUTES[name]:
        return
    reason = _NOT_SUPPORTED.get((name, value))
    if reason is not None:
        raise attribute_error(f"{name} cannot be {value}: {reason}")
    raise attribute_error(f"value is not in set: {', '.join(ATTRIBUTES[name])}. key: {name}, value: {value[:100]}")


def attribute_error(remark: str) -> RequestError:
    """The error of an attribute, with the code of RocketMQ's RuntimeException."""
    return RequestError(remark, code=ResponseCode.SYSTEM_ERROR, pointer="/attributes")

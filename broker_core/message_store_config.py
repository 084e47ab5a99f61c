"""The options of the store: RocketMQ's MessageStoreConfig. ``options`` has the others and explains the names."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

_IRREGULAR = {"broker_ip1": "brokerIP1"}
CHANGEABLE: dict[str, Any] = {"changeable": True}
MIB = 1024 * 1024


def rocketmq_name(field: str) -> str:
    """``long_polling_enable`` -> ``longPollingEnable``."""
    head, *rest = field.split("_")
    return _IRREGULAR.get(field) or head + "".join(word.capitalize() for word in rest)


class MessageStoreConfig(msgspec.Struct, frozen=True, kw_only=True, rename=rocketmq_name, forbid_unknown_fields=True):
    """RocketMQ's MessageStoreConfig, limited to the features of this broker."""

    # Store
    max_message_size: Annotated[int, Meta(ge=1024, le=16 * MIB, description="Largest body, bytes.")] = 4 * MIB
    mapped_file_size_commit_log: Annotated[
        int, Meta(ge=65_536, le=1 << 31, description="Size of a commit log segment, bytes.")
    ] = 1024 * MIB
    mapped_file_size_consume_queue: Annotated[
        int,
        Meta(
            ge=2000, le=600_000_000, description="Size of a consume queue file, bytes; rounded up to a multiple of 20."
        ),
    ] = 6_000_000
    enable_consume_queue_ext: Annotated[
        bool,
        Meta(
            description="Write the extension of consume queues, for topics that groups filter by SQL92. RocketMQ's "
            "default is false."
        ),
    ] = True
    mapped_file_size_consume_queue_ext: Annotated[
        int, Meta(ge=65_536, le=1 << 31, description="Size of a file of the extension of a consume queue, bytes.")
    ] = 48 * MIB
    max_hash_slot_num: Annotated[int, Meta(ge=1, description="Number of hash slots in an index file.")] = 5_000_000
    max_index_num: Annotated[int, Meta(ge=1, description="Number of entries in an index file.")] = 20_000_000
    message_index_enable: Annotated[
        bool, Meta(description="Write index files, by which messages are found by key or id.")
    ] = True
    message_delay_level: Annotated[
        str,
        Meta(
            pattern=r"^\d{1,9}[smhd]( \d{1,9}[smhd]){0,63}$",
            description="Delays of the delay levels from 1 on (s, m, h or d), separated by single spaces.",
        ),
    ] = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    timer_wheel_enable: Annotated[
        bool,
        Meta(
            description="Accept messages for an exact time (TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC).",
            extra_json_schema=CHANGEABLE,
        ),
    ] = True
    timer_max_delay_sec: Annotated[
        int,
        Meta(ge=1, le=31_536_000, description="How far ahead an exact time may be, s.", extra_json_schema=CHANGEABLE),
    ] = 259_200
    timer_precision_ms: Annotated[
        int,
        Meta(
            ge=100,
            le=1000,
            description="Length of a slot of the timer wheel, ms. A store keeps the length that it began with.",
        ),
    ] = 1000
    timer_roll_window_slot: Annotated[
        int,
        Meta(
            ge=2,
            description="A message that is due more slots ahead is stored again meanwhile, so that retention does not "
            "delete it.",
        ),
    ] = 172_800
    mapped_file_size_timer_log: Annotated[
        int, Meta(ge=4096, le=1 << 31, description="Size of a file of the timer log, bytes.")
    ] = 100 * MIB

    # Flush
    flush_disk_type: Annotated[
        Literal["ASYNC_FLUSH", "SYNC_FLUSH"],
        Meta(description="With SYNC_FLUSH a message is acknowledged and visible to consumers once it is on the disk."),
    ] = "ASYNC_FLUSH"
    sync_flush_timeout: Annotated[
        int, Meta(ge=1, description="After this time a SYNC_FLUSH send is answered with FLUSH_DISK_TIMEOUT, ms.")
    ] = 5000
    flush_interval_commit_log: Annotated[int, Meta(ge=1, description="Period of ASYNC_FLUSH, ms.")] = 500
    flush_commit_log_least_pages: Annotated[
        int, Meta(ge=0, description="ASYNC_FLUSH skips a period with fewer dirty 4 KiB pages than this.")
    ] = 4
    flush_commit_log_thorough_interval: Annotated[
        int, Meta(ge=1, description="Period of flushing however few pages are dirty, ms.")
    ] = 10_000
    flush_interval_consume_queue: Annotated[int, Meta(ge=1, description="Period of flushing consume queues, ms.")] = (
        1000
    )
    flush_consumer_offset_interval: Annotated[
        int, Meta(ge=1, description="Period of writing consumerOffset.json, ms.")
    ] = 5000
    flush_delay_offset_interval: Annotated[
        int,
        Meta(
            ge=1,
            description="Period of writing delayOffset.json, ms. After a crash, delayed messages delivered since the "
            "last write are delivered again.",
        ),
    ] = 10_000

    # Retention
    file_reserved_time: Annotated[
        int, Meta(ge=1, description="How long a full segment is kept, hours.", extra_json_schema=CHANGEABLE)
    ] = 72
    delete_when: Annotated[
        str,
        Meta(
            pattern=r"^([01]?\d|2[0-3])(;([01]?\d|2[0-3]))*$",
            extra_json_schema=CHANGEABLE,
            description="Hours of the day, 0 to 23 in local time, at which expired segments are deleted; separated by "
            "semicolons.",
        ),
    ] = "04"
    clean_resource_interval: Annotated[int, Meta(ge=1, description="Period of the retention check, ms.")] = 10_000
    disk_max_used_space_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=99,
            extra_json_schema=CHANGEABLE,
            description="Disk use, percent, above which expired segments are deleted at any hour.",
        ),
    ] = 75

    # Slaves
    broker_role: Annotated[
        Literal["ASYNC_MASTER", "SYNC_MASTER"],
        Meta(
            description="With SYNC_MASTER a message is acknowledged once enough slaves have it (inSyncReplicas).",
            extra_json_schema=CHANGEABLE,
        ),
    ] = "ASYNC_MASTER"
    ha_listen_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Port from which RocketMQ's slaves copy the commit log; 0 turns it off. Whoever reaches it "
            "reads every message. RocketMQ's default is listenPort + 1.",
        ),
    ] = 0
    ha_allowed_addresses: Annotated[
        str,
        Meta(
            max_length=4096,
            pattern=r"^[0-9A-Fa-f.:/;]*$",
            description="IP addresses or networks that may use haListenPort, separated by semicolons, as in "
            "10.0.0.7;10.1.0.0/16. Empty: this machine alone. GlassMQ's own.",
        ),
    ] = ""
    in_sync_replicas: Annotated[
        int,
        Meta(
            ge=1,
            le=17,
            description="How many brokers must have a message before SYNC_MASTER acknowledges it; this broker is one "
            "of them.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 1
    slave_timeout: Annotated[
        int,
        Meta(
            ge=1,
            le=600_000,
            description="After this time a SYNC_MASTER send is answered with FLUSH_SLAVE_TIMEOUT, ms.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 3000

    @property
    def slaves_needed(self) -> int:
        """How many slaves must have a message before it is acknowledged."""
        return self.in_sync_replicas - 1 if self.broker_role == "SYNC_MASTER" else 0

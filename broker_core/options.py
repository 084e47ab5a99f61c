"""Every option of the broker, under RocketMQ's own names, so that a ``broker.conf`` works as it is.

In Python an option is spelled ``long_polling_enable``; in files, on the command line and in the API it is
``longPollingEnable``. Units are in RocketMQ's names or in the description. Defaults are RocketMQ's unless the
description says otherwise. Options that a running broker may change carry ``changeable``.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from broker_core.errors import RequestError

_IRREGULAR = {"broker_ip1": "brokerIP1"}
CHANGEABLE: dict[str, Any] = {"changeable": True}
MIB = 1024 * 1024
ADDRESSES = r"^([^;\s]+:\d{1,5}(;[^;\s]+:\d{1,5})*)?$"
"""``host:port``, or several of them with semicolons between, or nothing."""


def rocketmq_name(field: str) -> str:
    """``long_polling_enable`` -> ``longPollingEnable``."""
    head, *rest = field.split("_")
    return _IRREGULAR.get(field) or head + "".join(word.capitalize() for word in rest)


class Options(msgspec.Struct, frozen=True, kw_only=True, rename=rocketmq_name, forbid_unknown_fields=True):
    """RocketMQ's BrokerConfig and MessageStoreConfig, as far as this broker has the thing they configure."""

    # Who this broker is
    broker_name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=127,
            pattern=r"^[%|a-zA-Z0-9_-]+$",
            description="Name of this broker; in every shape that leaves it.",
        ),
    ] = "broker-a"
    broker_cluster_name: Annotated[
        str, Meta(min_length=1, max_length=127, description="Cluster that the broker says it belongs to.")
    ] = "DefaultCluster"
    broker_id: Annotated[int, Meta(ge=0, description="0 is the master.")] = 0
    broker_ip1: Annotated[
        str, Meta(description="Address under which clients reach the broker; stored in records as store host.")
    ] = "127.0.0.1"
    listen_port: Annotated[
        int,
        Meta(
            ge=1,
            le=65535,
            description="Port for RocketMQ's clients, in store hosts and "
            "offset message ids too; the port two below it is the same for old clients.",
        ),
    ] = 10911
    tls_mode: Annotated[
        Literal["disabled", "permissive", "enforcing"],
        Meta(description="Whether RocketMQ's clients may not, may or must use TLS; RocketMQ's tls.server.mode."),
    ] = "permissive"
    tls_cert_path: Annotated[
        str,
        Meta(
            description="Certificate in PEM; one signed by itself is made at each start "
            "when there is none. RocketMQ's tls.server.certPath."
        ),
    ] = ""
    tls_key_path: Annotated[
        str,
        Meta(description="Its key in PEM, without a password; empty: in the same file. RocketMQ's tls.server.keyPath."),
    ] = ""

    # Name servers
    namesrv_addr: Annotated[
        str,
        Meta(
            max_length=4096,
            pattern=ADDRESSES,
            description="Name servers in other processes at which the broker registers, separated by semicolons.",
        ),
    ] = ""
    register_name_server_period: Annotated[
        int, Meta(ge=1, description="How often the broker registers anew, ms; 10,000 at least and 60,000 at most.")
    ] = 30_000
    register_broker_timeout_mills: Annotated[
        int, Meta(ge=1, le=600_000, description="How long a name server may take to answer, ms.")
    ] = 24_000

    allow_foreign_registration: Annotated[
        bool,
        Meta(
            description="Whether another broker, such as a slave, may register at the name server of this process "
            "under this broker's name. GlassMQ's own; RocketMQ's name server takes every registration."
        ),
    ] = False

    # Topics
    auto_create_topic_enable: Annotated[
        bool, Meta(description="Publishing to an unknown topic creates it.", extra_json_schema=CHANGEABLE)
    ] = True
    default_topic_queue_nums: Annotated[
        int, Meta(ge=1, le=1024, description="Queues of the template topic TBW102 when a store is new.")
    ] = 8

    # Consumer groups
    auto_create_subscription_group: Annotated[
        bool,
        Meta(
            description="A consumer group that is not known is made when "
            "a client comes with it. Off: it is refused, SUBSCRIPTION_GROUP_NOT_EXIST.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = True
    broker_permission: Annotated[
        int,
        Meta(
            ge=0,
            le=7,
            description="What may be done with this broker's topics: 4 read, 2 write, added up.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 6
    lite_pull_message_enable: Annotated[
        bool, Meta(description="Lite pull consumers may pull.", extra_json_schema=CHANGEABLE)
    ] = True

    # Long polling
    long_polling_enable: Annotated[
        bool,
        Meta(
            description="Hold a pull that finds nothing for as long as it "
            "asks. Off: hold it for shortPollingTimeMills only.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = True
    short_polling_time_mills: Annotated[
        int,
        Meta(
            ge=1,
            le=30_000,
            description="How long a pull is held while longPollingEnable is off, ms.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 1000
    hold_check_interval_mills: Annotated[
        int,
        Meta(
            ge=0,
            le=60_000,
            description="Period of the safety check over "
            "all held pulls, ms; with longPollingEnable off shortPollingTimeMills is used. 0 switches it off. "
            "GlassMQ's own; RocketMQ has a fixed 5 s.",
        ),
    ] = 5000
    max_holds: Annotated[
        int,
        Meta(
            ge=1,
            description="Held pulls in all; one more is answered FLOW_CONTROL. GlassMQ's own.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 200_000
    max_holds_per_connection: Annotated[
        int,
        Meta(
            ge=1,
            description="Held pulls of one connection; one more is answered FLOW_CONTROL. GlassMQ's own.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 8192

    # What one pull may bring
    max_transfer_bytes_on_message_in_memory: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="Bytes that one pull brings from the recent part of the log.",
        ),
    ] = 262_144
    max_transfer_count_on_message_in_memory: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="Messages that one pull brings from the recent part of the log.",
        ),
    ] = 32
    max_transfer_bytes_on_message_in_disk: Annotated[
        int,
        Meta(
            ge=1, extra_json_schema=CHANGEABLE, description="Bytes that one pull brings from the older part of the log."
        ),
    ] = 65_536
    max_transfer_count_on_message_in_disk: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="Messages that one pull brings from the older part of the log.",
        ),
    ] = 8
    access_message_in_memory_max_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            extra_json_schema=CHANGEABLE,
            description="Part of the machine's memory, per cent, that counts as the recent part of the log.",
        ),
    ] = 40

    # Store
    max_message_size: Annotated[int, Meta(ge=1024, le=16 * MIB, description="Largest body, bytes.")] = 4 * MIB
    mapped_file_size_commit_log: Annotated[
        int, Meta(ge=65_536, le=1 << 31, description="Bytes of a commit log segment.")
    ] = 1024 * MIB
    mapped_file_size_consume_queue: Annotated[
        int,
        Meta(ge=2000, le=600_000_000, description="Bytes of a consume queue file; rounded up to whole units of 20."),
    ] = 6_000_000
    max_hash_slot_num: Annotated[int, Meta(ge=1, description="Slots of an index file.")] = 5_000_000
    max_index_num: Annotated[int, Meta(ge=1, description="Entries of an index file.")] = 20_000_000
    message_index_enable: Annotated[bool, Meta(description="Keep index files, which find a message by key or id.")] = (
        True
    )
    message_delay_level: Annotated[
        str,
        Meta(
            pattern=r"^\d{1,9}[smhd]( \d{1,9}[smhd]){0,63}$",
            description="How long each delay level, from 1 on, makes a message wait (s, m, h or d), with one blank "
            "between.",
        ),
    ] = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

    # Flush
    flush_disk_type: Annotated[
        Literal["ASYNC_FLUSH", "SYNC_FLUSH"],
        Meta(description="SYNC_FLUSH acknowledges a message, and shows it to consumers, when it is on the disk."),
    ] = "ASYNC_FLUSH"
    sync_flush_timeout: Annotated[
        int, Meta(ge=1, description="SYNC_FLUSH not done in time is answered FLUSH_DISK_TIMEOUT, ms.")
    ] = 5000
    flush_interval_commit_log: Annotated[int, Meta(ge=1, description="ASYNC_FLUSH period, ms.")] = 500
    flush_commit_log_least_pages: Annotated[int, Meta(ge=0, description="Dirty 4 KiB pages worth a flush.")] = 4
    flush_commit_log_thorough_interval: Annotated[
        int, Meta(ge=1, description="Flush whatever is dirty this often, ms.")
    ] = 10_000
    flush_interval_consume_queue: Annotated[int, Meta(ge=1, description="Consume queue flush period, ms.")] = 1000
    flush_consumer_offset_interval: Annotated[
        int, Meta(ge=1, description="Period of writing consumerOffset.json, ms.")
    ] = 5000
    flush_delay_offset_interval: Annotated[
        int,
        Meta(
            ge=1,
            description="Period of writing delayOffset.json, ms; what was delivered since then is delivered again "
            "after a crash.",
        ),
    ] = 10_000

    # Retention
    file_reserved_time: Annotated[
        int, Meta(ge=1, description="Hours that a full segment is kept.", extra_json_schema=CHANGEABLE)
    ] = 72
    delete_when: Annotated[
        str,
        Meta(
            pattern=r"^([01]?\d|2[0-3])(;([01]?\d|2[0-3]))*$",
            extra_json_schema=CHANGEABLE,
            description="Hours of the day, 0 to 23, local time, at which expired segments are deleted.",
        ),
    ] = "04"
    clean_resource_interval: Annotated[int, Meta(ge=1, description="Period of the retention check, ms.")] = 10_000
    disk_max_used_space_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=99,
            extra_json_schema=CHANGEABLE,
            description="Disk use, per cent, above which expired segments go at any hour.",
        ),
    ] = 75

    # Lake (GlassMQ's own): segments that `manage.py lake sync` has yet to read
    lake_wait_enable: Annotated[
        bool,
        Meta(
            extra_json_schema=CHANGEABLE,
            description="Where a store has a lake, keep expired segments that it has not read. GlassMQ's own.",
        ),
    ] = True
    lake_wait_max_hours: Annotated[
        int,
        Meta(
            ge=1,
            le=87_600,
            extra_json_schema=CHANGEABLE,
            description="Hours after "
            "which a segment goes whether the lake has read it or not; counted as fileReservedTime. GlassMQ's own.",
        ),
    ] = 168
    lake_wait_max_used_space_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=99,
            extra_json_schema=CHANGEABLE,
            description="Disk "
            "use, per cent, above which expired segments go whether the lake has read them or not. GlassMQ's own.",
        ),
    ] = 80

    # Poll journal (GlassMQ's own): how pulls ended, for reports
    poll_journal_enable: Annotated[
        bool, Meta(description="Keep the poll journal, from which reports learn how pulls ended. GlassMQ's own.")
    ] = True
    poll_journal_flush_interval: Annotated[
        int,
        Meta(
            ge=10,
            le=10_000,
            description="How often its entries are written, ms; a crash loses what came since. GlassMQ's own.",
        ),
    ] = 200
    poll_journal_file_size: Annotated[
        int,
        Meta(
            ge=MIB,
            le=1 << 30,
            description="Bytes of a file of the journal, half of pollJournalMaxBytes at most. GlassMQ's own.",
        ),
    ] = 64 * MIB
    poll_journal_max_bytes: Annotated[
        int,
        Meta(
            ge=2 * MIB,
            extra_json_schema=CHANGEABLE,
            description="Bytes of the whole journal; its oldest file goes before there are more. GlassMQ's own.",
        ),
    ] = 1024 * MIB
    poll_journal_max_hours: Annotated[
        int,
        Meta(
            ge=1,
            le=87_600,
            extra_json_schema=CHANGEABLE,
            description="Hours that an entry is kept at most. GlassMQ's own.",
        ),
    ] = 72

    # Idempotency (GlassMQ's own)
    idempotency_window_mills: Annotated[
        int,
        Meta(
            ge=0,
            description="How long a repeated Idempotency-Key is answered with the first answer, ms. GlassMQ's own.",
        ),
    ] = 600_000


PYTHON_NAMES = {rocketmq_name(name): name for name in Options.__struct_fields__}


def _describe() -> dict[str, dict[str, Any]]:
    schema = msgspec.json.schema(Options)["$defs"]["Options"]["properties"]
    return {
        name: {key: value for key, value in entry.items() if key != "changeable"}
        | {"changeable": bool(entry.get("changeable"))}
        for name, entry in schema.items()
    }


DESCRIPTIONS: dict[str, dict[str, Any]] = _describe()
"""JSON-schema-like description of every option by its RocketMQ name, with ``changeable``."""


def make_options(values: dict[str, Any]) -> Options:
    """Options from RocketMQ names to values, which may be text as in a ``broker.conf``.

    Raises RequestError naming the option and what it takes.
    """
    for name in values:
        if name not in PYTHON_NAMES:
            raise RequestError(
                f"{name} is not an option of this broker; see docs/options.md for those it has", pointer=f"/{name}"
            )
    try:
        return msgspec.convert(values, Options, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(f"option refused: {error}") from error


def change_options(options: Options, changes: dict[str, Any]) -> Options:
    """A copy with ``changes`` (RocketMQ names); RequestError for what a running broker cannot change."""
    for name in changes:
        if name in PYTHON_NAMES and not DESCRIPTIONS[name]["changeable"]:
            raise RequestError(
                f"{name} cannot be changed while the broker runs; set it in broker.conf and restart", pointer=f"/{name}"
            )
    return make_options(msgspec.to_builtins(options) | changes)


def read_broker_conf(path: Path) -> tuple[dict[str, str], list[str]]:
    """A Java properties file as RocketMQ reads it: (options this broker has, names that it does not have).

    RocketMQ's file may carry hundreds of options; those that have no meaning here are returned for a warning.
    """
    values = parse_properties(path.read_text(encoding="utf-8"))
    known = {name: value for name, value in values.items() if name in PYTHON_NAMES}
    return known, [name for name in values if name not in known]


def parse_properties(text: str) -> dict[str, str]:
    """A Java properties text in the simple form that RocketMQ writes: ``name=value`` lines and comments."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = stripped.partition("=")
            values[name.strip()] = value.strip()
    return values

"""Every option of the broker, under RocketMQ's names, so that a ``broker.conf`` works unchanged.

In Python an option is spelled ``long_polling_enable``; in files, on the command line and in the API it is
``longPollingEnable``. Units are in the name or in the description. Defaults are RocketMQ's unless the description
says otherwise. Options marked ``changeable`` can be changed while the broker runs.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from broker_core.errors import RequestError
from broker_core.properties import parse_properties

_IRREGULAR = {"broker_ip1": "brokerIP1"}
CHANGEABLE: dict[str, Any] = {"changeable": True}
MIB = 1024 * 1024
ADDRESSES = r"^([^;\s]+:\d{1,5}(;[^;\s]+:\d{1,5})*)?$"
"""Any number of ``host:port``, separated by semicolons."""


def rocketmq_name(field: str) -> str:
    """``long_polling_enable`` -> ``longPollingEnable``."""
    head, *rest = field.split("_")
    return _IRREGULAR.get(field) or head + "".join(word.capitalize() for word in rest)


class Options(msgspec.Struct, frozen=True, kw_only=True, rename=rocketmq_name, forbid_unknown_fields=True):
    """RocketMQ's BrokerConfig and MessageStoreConfig, limited to the features of this broker."""

    # Identity and addresses
    broker_name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=127,
            pattern=r"^[%|a-zA-Z0-9_-]+$",
            description="Name of this broker, which every answer and event contains.",
        ),
    ] = "broker-a"
    broker_cluster_name: Annotated[
        str, Meta(min_length=1, max_length=127, description="Name of the cluster that the broker belongs to.")
    ] = "DefaultCluster"
    broker_id: Annotated[int, Meta(ge=0, description="0 is the master.")] = 0
    broker_ip1: Annotated[
        str, Meta(description="IP address at which clients reach the broker; stored in records as store host.")
    ] = "127.0.0.1"
    listen_port: Annotated[
        int,
        Meta(
            ge=1,
            le=65535,
            description="Port for RocketMQ's clients, also stored in store hosts and offset message ids. Old clients "
            "use the port that is lower by two.",
        ),
    ] = 10911
    tls_mode: Annotated[
        Literal["disabled", "permissive", "enforcing"],
        Meta(description="Whether RocketMQ's clients cannot, can or must use TLS. RocketMQ's tls.server.mode."),
    ] = "permissive"
    tls_cert_path: Annotated[
        str,
        Meta(
            description="File with the certificate, PEM. Empty: a self-signed one is made at each start. "
            "RocketMQ's tls.server.certPath."
        ),
    ] = ""
    tls_key_path: Annotated[
        str,
        Meta(
            description="File with the certificate's key, PEM, without a password. Empty: the key is in tlsCertPath. "
            "RocketMQ's tls.server.keyPath."
        ),
    ] = ""

    # Name servers
    namesrv_addr: Annotated[
        str,
        Meta(
            max_length=4096,
            pattern=ADDRESSES,
            description="Name servers of other processes with which the broker registers, separated by semicolons.",
        ),
    ] = ""
    register_name_server_period: Annotated[
        int,
        Meta(
            ge=1,
            description="Period of registration, ms; the effective period is between 10,000 and 60,000.",
        ),
    ] = 30_000
    register_broker_timeout_mills: Annotated[
        int, Meta(ge=1, le=600_000, description="How long a name server may take to answer, ms.")
    ] = 24_000

    allow_foreign_registration: Annotated[
        bool,
        Meta(
            description="Whether another broker, such as a slave, may register with this process's name server "
            "under this broker's name. GlassMQ's own; RocketMQ's name server accepts every registration."
        ),
    ] = False

    # Topics
    auto_create_topic_enable: Annotated[
        bool, Meta(description="Publishing to an unknown topic creates it.", extra_json_schema=CHANGEABLE)
    ] = True
    default_topic_queue_nums: Annotated[
        int, Meta(ge=1, le=1024, description="Queues of the template topic TBW102 when a store is new.")
    ] = 8
    cluster_topic_enable: Annotated[
        bool, Meta(description="A new store's topic named after the cluster may be read and written.")
    ] = True
    broker_topic_enable: Annotated[
        bool, Meta(description="A new store's topic named after the broker may be read and written.")
    ] = True

    # Consumer groups
    auto_create_subscription_group: Annotated[
        bool,
        Meta(
            description="An unknown consumer group is created when a client uses it. Off: the client gets the error "
            "SUBSCRIPTION_GROUP_NOT_EXIST.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = True
    broker_permission: Annotated[
        int,
        Meta(
            ge=0,
            le=7,
            description="Permissions for all topics of this broker: the sum of 4 (read) and 2 (write).",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 6
    lite_pull_message_enable: Annotated[
        bool, Meta(description="Lite pull consumers may pull.", extra_json_schema=CHANGEABLE)
    ] = True

    enable_property_filter: Annotated[
        bool,
        Meta(
            description="Consumers may filter by SQL92 expressions over properties. RocketMQ's default is false.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = True

    # Long polling
    long_polling_enable: Annotated[
        bool,
        Meta(
            description="Hold a pull that finds no message for as long as it requests. Off: hold it for "
            "shortPollingTimeMills.",
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
            description="Period of the safety check of all held pulls, ms; 0 turns it off. While longPollingEnable is "
            "off, the period is shortPollingTimeMills. GlassMQ's own; RocketMQ's period is 5 s.",
        ),
    ] = 5000
    max_holds: Annotated[
        int,
        Meta(
            ge=1,
            description="Limit of held pulls; a pull beyond it is answered with FLOW_CONTROL. GlassMQ's own.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 200_000
    max_holds_per_connection: Annotated[
        int,
        Meta(
            ge=1,
            description="Limit of held pulls per connection; a pull beyond it is answered with FLOW_CONTROL. "
            "GlassMQ's own.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 8192

    # Limits of one pull
    max_transfer_bytes_on_message_in_memory: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="Bytes that one pull returns at most from the recent part of the log.",
        ),
    ] = 262_144
    max_transfer_count_on_message_in_memory: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="Messages that one pull returns at most from the recent part of the log.",
        ),
    ] = 32
    max_transfer_bytes_on_message_in_disk: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="Bytes that one pull returns at most from the older part of the log.",
        ),
    ] = 65_536
    max_transfer_count_on_message_in_disk: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="Messages that one pull returns at most from the older part of the log.",
        ),
    ] = 8
    access_message_in_memory_max_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            extra_json_schema=CHANGEABLE,
            description="Size of the recent part of the log, in percent of the machine's memory.",
        ),
    ] = 40
    wait_time_mills_in_send_queue: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="A send that waits longer for the engine is answered SYSTEM_BUSY, or 429 over HTTP.",
        ),
    ] = 200
    wait_time_mills_in_pull_queue: Annotated[
        int,
        Meta(
            ge=1,
            extra_json_schema=CHANGEABLE,
            description="A pull that waits longer for the engine is answered SYSTEM_BUSY, or 429 over HTTP.",
        ),
    ] = 5000

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

    reject_transaction_message: Annotated[
        bool, Meta(description="Refuse transactional messages with NO_PERMISSION.", extra_json_schema=CHANGEABLE)
    ] = False
    transaction_time_out: Annotated[
        int,
        Meta(ge=0, description="Age from which a transaction is checked, ms.", extra_json_schema=CHANGEABLE),
    ] = 6000
    transaction_check_max: Annotated[
        int,
        Meta(ge=0, le=10_000, description="Checks of a transaction at most.", extra_json_schema=CHANGEABLE),
    ] = 15
    transaction_check_interval: Annotated[
        int, Meta(ge=100, description="Period of checking transactions, ms.", extra_json_schema=CHANGEABLE)
    ] = 30_000
    store_reply_message_enable: Annotated[
        bool,
        Meta(
            description="Store the replies to request messages in their topic, besides passing them on.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = True

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

    # Lake (GlassMQ's own): segments that `manage.py lake sync` has yet to read
    lake_wait_enable: Annotated[
        bool,
        Meta(
            extra_json_schema=CHANGEABLE,
            description="Keep expired segments that the store's lake has not read yet. GlassMQ's own.",
        ),
    ] = True
    lake_wait_max_hours: Annotated[
        int,
        Meta(
            ge=1,
            le=87_600,
            extra_json_schema=CHANGEABLE,
            description="Age, hours, above which a segment is deleted even if the lake has not read it; measured as "
            "for fileReservedTime. GlassMQ's own.",
        ),
    ] = 168
    lake_wait_max_used_space_ratio: Annotated[
        int,
        Meta(
            ge=1,
            le=99,
            extra_json_schema=CHANGEABLE,
            description="Disk use, percent, above which expired segments are deleted even if the lake has not read "
            "them. GlassMQ's own.",
        ),
    ] = 80

    # Poll journal (GlassMQ's own): how pulls ended, for reports
    poll_journal_enable: Annotated[
        bool, Meta(description="Write the poll journal, from which reports read how pulls ended. GlassMQ's own.")
    ] = True
    poll_journal_flush_interval: Annotated[
        int,
        Meta(
            ge=10,
            le=10_000,
            description="Period of writing journal entries, ms; a crash loses those since the last write. "
            "GlassMQ's own.",
        ),
    ] = 200
    poll_journal_file_size: Annotated[
        int,
        Meta(
            ge=MIB,
            le=1 << 30,
            description="Size of a journal file, bytes; at most half of pollJournalMaxBytes. GlassMQ's own.",
        ),
    ] = 64 * MIB
    poll_journal_max_bytes: Annotated[
        int,
        Meta(
            ge=2 * MIB,
            extra_json_schema=CHANGEABLE,
            description="Size of the whole journal, bytes; its oldest files are deleted to stay below. GlassMQ's own.",
        ),
    ] = 1024 * MIB
    poll_journal_max_hours: Annotated[
        int,
        Meta(
            ge=1,
            le=87_600,
            extra_json_schema=CHANGEABLE,
            description="How long a journal entry is kept at most, hours. GlassMQ's own.",
        ),
    ] = 72

    # Idempotency (GlassMQ's own)
    idempotency_window_mills: Annotated[
        int,
        Meta(
            ge=0,
            description="How long a send with a known Idempotency-Key gets the first send's answer, ms. GlassMQ's own.",
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
"""A description of every option by its RocketMQ name, as in a JSON schema, with ``changeable`` added."""


def make_options(values: dict[str, Any]) -> Options:
    """Options from RocketMQ names and values; values may be text, as in a ``broker.conf``.

    Raises RequestError with the name of the option and its allowed values.
    """
    for name in values:
        if name not in PYTHON_NAMES:
            raise RequestError(
                f"{name} is not an option of this broker; docs/options.md lists its options", pointer=f"/{name}"
            )
    try:
        return msgspec.convert(values, Options, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(f"option refused: {error}") from error


def change_options(options: Options, changes: dict[str, Any]) -> Options:
    """A copy with ``changes`` (RocketMQ names); RequestError for options that a running broker cannot change."""
    for name in changes:
        if name in PYTHON_NAMES and not DESCRIPTIONS[name]["changeable"]:
            raise RequestError(
                f"{name} cannot be changed while the broker runs; set it in broker.conf and restart", pointer=f"/{name}"
            )
    return make_options(msgspec.to_builtins(options) | changes)


def read_broker_conf(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """A Java properties file as RocketMQ reads it: (options of this broker, other options).

    RocketMQ's file may contain hundreds of options; the names that have no meaning here are for a warning.
    """
    values = parse_properties(path.read_text(encoding="utf-8"))
    options = {name: value for name, value in values.items() if name in PYTHON_NAMES}
    return options, {name: value for name, value in values.items() if name not in options}

"""Every option of the broker, under RocketMQ's names, so that a ``broker.conf`` works unchanged.

In Python an option is spelled ``long_polling_enable``; in files, on the command line and in the API it is
``longPollingEnable``. Units are in the name or in the description. Defaults are RocketMQ's unless the description
says otherwise. Options marked ``changeable`` can be changed while the broker runs.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.message_store_config import CHANGEABLE, MIB, MessageStoreConfig, rocketmq_name

__all__ = [
    "ADDRESSES",
    "DESCRIPTIONS",
    "MIB",
    "PYTHON_NAMES",
    "Options",
    "change_options",
    "make_options",
    "rocketmq_name",
]

ADDRESSES = r"^([^;\s]+:\d{1,5}(;[^;\s]+:\d{1,5})*)?$"
"""Any number of ``host:port``, separated by semicolons."""


class Options(MessageStoreConfig, frozen=True, kw_only=True, rename=rocketmq_name, forbid_unknown_fields=True):
    """RocketMQ's BrokerConfig and MessageStoreConfig, limited to the features of this broker. Those of the latter are
    in ``message_store_config``."""

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
        int, Meta(ge=1, description="Period of registration, ms; the effective period is between 10,000 and 60,000.")
    ] = 30_000
    register_broker_timeout_mills: Annotated[
        int, Meta(ge=1, le=600_000, description="How long a name server may take to answer, ms.")
    ] = 24_000
    enable_single_topic_register: Annotated[
        bool,
        Meta(
            description="After a change, name servers of other processes that have the broker's registration get "
            "each changed topic in a request of its own. If more than 100 topics changed, they get all topics."
        ),
    ] = False
    enable_split_registration: Annotated[
        bool, Meta(description="Register all topics in several requests, of at most splitRegistrationSize topics each.")
    ] = False
    split_registration_size: Annotated[
        int, Meta(ge=1, le=100_000, description="Topics in a registration, with enableSplitRegistration.")
    ] = 800

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

    enable_mixed_message_type: Annotated[
        bool, Meta(description="A topic's attribute message.type may be MIXED.", extra_json_schema=CHANGEABLE)
    ] = False
    priority_order_asc: Annotated[
        bool,
        Meta(
            description="Pops of a topic with message.type=PRIORITY take the queue with the highest number first. Off: "
            "queue 0.",
            extra_json_schema=CHANGEABLE,
        ),
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
    enable_calc_filter_bit_map: Annotated[
        bool,
        Meta(
            description="Store with each message which SQL92 filters match it, so that pulls pass over messages that "
            "do not match without reading them. Needs enableConsumeQueueExt. RocketMQ's default is false."
        ),
    ] = True
    expect_consumer_num_use_filter: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="For how many groups of a topic enableCalcFilterBitMap works. The filters of further groups "
            "are evaluated for each message that they pull or wait for.",
        ),
    ] = 32
    max_error_rate_of_bloom_filter: Annotated[
        int,
        Meta(
            ge=1,
            le=99,
            description="Percent of messages that a bitmap lets pass although the filter does not match them, if "
            "expectConsumerNumUseFilter other filters match. The filter is then evaluated.",
        ),
    ] = 20

    estimate_accumulation: Annotated[
        bool,
        Meta(
            description="The lag in metrics counts only messages that the filter of a group's members may match. "
            "Where many messages wait, their share is estimated. Off: all messages count.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = True

    use_server_side_reset_offset: Annotated[
        bool,
        Meta(
            description="A reset of offsets by RocketMQ's tools is stored, and members get it with the answer to their "
            "next pull. Off: the broker sends the members their new offsets, and they commit them.",
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
    max_hold_time_mills: Annotated[
        int,
        Meta(
            ge=30_000,
            le=604_800_000,
            description="The longest time that a pull or a pop is held, ms, even if it asks for more. HTTP and "
            "WebSocket clients may ask for 30 s at most. RocketMQ does not have this option, and has no limit.",
            extra_json_schema=CHANGEABLE,
        ),
    ] = 86_400_000
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

    # Recalls, transactions and replies
    recall_message_enable: Annotated[
        bool, Meta(description="Recalls are accepted. RocketMQ's default is false.", extra_json_schema=CHANGEABLE)
    ] = True
    reject_transaction_message: Annotated[
        bool, Meta(description="Refuse transactional messages with NO_PERMISSION.", extra_json_schema=CHANGEABLE)
    ] = False
    transaction_time_out: Annotated[
        int, Meta(ge=0, description="Age from which a transaction is checked, ms.", extra_json_schema=CHANGEABLE)
    ] = 6000
    transaction_check_max: Annotated[
        int, Meta(ge=0, le=10_000, description="Checks of a transaction at most.", extra_json_schema=CHANGEABLE)
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


PYTHON_NAMES = {
    rocketmq_name(name): name
    for name in sorted(Options.__struct_fields__, key=MessageStoreConfig.__struct_fields__.__contains__)
}
"""The options by RocketMQ's names; those of the store follow the others."""


def _describe() -> dict[str, dict[str, Any]]:
    schema = msgspec.json.schema(Options)["$defs"]["Options"]["properties"]
    return {
        name: {key: value for key, value in schema[name].items() if key != "changeable"}
        | {"changeable": bool(schema[name].get("changeable"))}
        for name in PYTHON_NAMES
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


BLACK_LIST = frozenset(("brokerConfigPath", "configBlackList"))
"""What RocketMQ lets no request change: its default configBlackList. GlassMQ does not have these options."""


def change_options(options: Options, changes: dict[str, Any]) -> Options:
    """A copy with ``changes`` (RocketMQ names); RequestError for options that a running broker cannot change."""
    for name in changes:
        if name in BLACK_LIST:
            raise RequestError(
                f"{name} cannot be changed by a request", code=ResponseCode.NO_PERMISSION, pointer=f"/{name}"
            )
        if name in PYTHON_NAMES and not DESCRIPTIONS[name]["changeable"]:
            raise RequestError(
                f"{name} cannot be changed while the broker runs; set it in broker.conf and restart", pointer=f"/{name}"
            )
    return make_options(msgspec.to_builtins(options) | changes)

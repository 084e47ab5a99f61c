"""The requests that a RocketMQ 5.4.0 broker answers and this one refuses, each with a sentence that says why.

A request is in this table or in ``REQUESTS``, never in both.
"""

from broker_core.codes import RequestCode

_NO_ACL = (
    "GlassMQ has no users and access control lists; restrict who reaches its port (GLASSMQ_BROKER_HOST, a firewall)"
)
_NO_CONTROLLER = "GlassMQ has no controller mode; a broker keeps the role that it starts with"
_NO_COLD_DATA = "GlassMQ does not slow down readers of old messages, so there is nothing to configure or show"
_NO_ROCKSDB = "GlassMQ has no RocksDB; its consume queues and its configuration are files (storeType=default)"

REFUSED_REQUESTS: dict[int, str] = {
    RequestCode.RESUME_CHECK_HALF_MESSAGE: (
        "a half message that was asked about too often is not asked about again; "
        "its copy is in TRANS_CHECK_MAX_TIME_TOPIC, send it anew from there"
    ),
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: _NO_ROCKSDB,
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: _NO_ROCKSDB,
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: (
        "GlassMQ has no static topics; create a topic with a fixed number of queues (updateTopic)"
    ),
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: "no broker acts for another one here (enableSlaveActingMaster)",
    RequestCode.RESET_MASTER_FLUSH_OFFSET: "only a slave has this offset, and GlassMQ is a master",
    RequestCode.GET_BROKER_EPOCH_CACHE: _NO_CONTROLLER,
    RequestCode.NOTIFY_BROKER_ROLE_CHANGED: _NO_CONTROLLER,
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _NO_COLD_DATA,
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _NO_COLD_DATA,
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: _NO_COLD_DATA,
    RequestCode.SET_COMMITLOG_READ_MODE: "GlassMQ leaves reading ahead to the operating system",
    RequestCode.AUTH_CREATE_USER: _NO_ACL,
    RequestCode.AUTH_UPDATE_USER: _NO_ACL,
    RequestCode.AUTH_DELETE_USER: _NO_ACL,
    RequestCode.AUTH_GET_USER: _NO_ACL,
    RequestCode.AUTH_LIST_USER: _NO_ACL,
    RequestCode.AUTH_CREATE_ACL: _NO_ACL,
    RequestCode.AUTH_UPDATE_ACL: _NO_ACL,
    RequestCode.AUTH_DELETE_ACL: _NO_ACL,
    RequestCode.AUTH_GET_ACL: _NO_ACL,
    RequestCode.AUTH_LIST_ACL: _NO_ACL,
    RequestCode.SWITCH_TIMER_ENGINE: "GlassMQ has no second timer engine to switch to",
    RequestCode.POP_ROLLBACK: (
        "GlassMQ's check points are messages of the revive log only, so there is no other store to move them from"
    ),
}
"""Request code -> why it is refused, and what to do instead if there is something."""

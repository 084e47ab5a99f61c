"""The bytes of RocketMQ's clients: their frames, and one example of every request that a broker serves."""

import json
from typing import Any

from broker_core.codes import RequestCode as Q
from broker_core.commands import ClientView
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests import Identity, Peer

PEER = Peer("10.0.0.2", 50_000, "10.0.0.2@1")
IDENTITY = Identity("broker-a")

PROPERTIES = "UNIQ_KEY\x010A00000200010000000000000000\x02WAIT\x01true\x02TAGS\x01TagA\x02"
REPLY_PROPERTIES = f"{PROPERTIES}MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x0110.0.0.2@1\x02CORRELATION_ID\x01c-1\x02"
BATCH_OF_ONE = bytes.fromhex("00000024 00000000 00000000 00000000 00000002 6d31 000c 554e49515f4b455901413102")
"""Body ``m1``, UNIQ_KEY ``A1``."""


def frame(header: str, body: bytes = b"") -> bytes:
    """A frame with this JSON text as header."""
    text = header.encode()
    return (4 + len(text) + len(body)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body


def java(code: int, fields: dict[str, str], body: bytes = b"", *, opaque: int = 1, flag: int = 0) -> bytes:
    """A request as RocketMQ's Java client 5.4.0 writes it."""
    return frame(
        json.dumps(
            {
                "code": code,
                "extFields": fields,
                "flag": flag,
                "language": "JAVA",
                "opaque": opaque,
                "serializeTypeCurrentRPC": "JSON",
                "version": 493,
            },
            separators=(",", ":"),
            sort_keys=True,
            ensure_ascii=False,
        ),
        body,
    )


def go(code: int, fields: dict[str, str], body: bytes = b"", *, opaque: int = 1) -> bytes:
    """A request as RocketMQ's Go client 2.1.2 writes it: always with a remark, never with the one-way flag."""
    return frame(
        json.dumps(
            {
                "code": code,
                "language": "GO",
                "version": 317,
                "opaque": opaque,
                "flag": 0,
                "remark": "",
                "extFields": fields,
            },
            separators=(",", ":"),
            ensure_ascii=False,
        ),
        body,
    )


def commands_of(data: bytes) -> list[RemotingCommand]:
    """The commands in these bytes, which must be complete frames."""
    decoder = FrameDecoder()
    commands = decoder.feed(data)
    assert decoder.unfinished == 0
    return commands


def command_of(data: bytes) -> RemotingCommand:
    (command,) = commands_of(data)
    return command


def client_view(client_id: str, version: int = 493, **more: Any) -> ClientView:
    """A member of group g."""
    fields: dict[str, Any] = {
        "broker": "broker-a",
        "client_id": client_id,
        "protocol": "remoting",
        "remote": "10.0.0.2:50000",
        "language": "JAVA",
        "version": version,
        "connected_at_ms": 1,
        "last_heartbeat_ms": 2,
        "producer_groups": [],
        "consumer_groups": ["g"],
        "holds": 0,
    }
    return ClientView(**(fields | more))


SEND = {
    "producerGroup": "pg",
    "topic": "T",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "1",
    "sysFlag": "0",
    "bornTimestamp": "1700000000000",
    "flag": "0",
    "properties": PROPERTIES,
    "reconsumeTimes": "0",
    "unitMode": "false",
    "maxReconsumeTimes": "0",
    "batch": "false",
    "brokerName": "broker-a",
}
SEND_V2 = {
    "a": "pg",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": PROPERTIES,
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}
END = {
    "producerGroup": "pg",
    "tranStateTableOffset": "0",
    "commitLogOffset": "0",
    "commitOrRollback": "8",
    "fromTransactionCheck": "false",
    "msgId": "0A00000200010000000000000000",
    "transactionId": "0A00000200010000000000000000",
    "topic": "T",
    "bname": "broker-a",
}
PULL = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "1",
    "queueOffset": "7",
    "maxMsgNums": "32",
    "sysFlag": "3",
    "commitOffset": "6",
    "suspendTimeoutMillis": "15000",
    "subVersion": "1700000000000",
    "expressionType": "TAG",
    "maxMsgBytes": "262144",
    "bname": "broker-a",
}
HEARTBEAT = (
    b'{"clientID":"10.0.0.2@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":'
    b'"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,'
    b'"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB","subVersion":1700000000000,'
    b'"tagsSet":["TagA","TagB"],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":'
    b'[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
)
LOCK = (
    b'{"clientId":"10.0.0.2@1","consumerGroup":"g","mqSet":[{"brokerName":"broker-a","queueId":0,"topic":"T"}],'
    b'"onlyThisBroker":false}'
)
QUEUE = {"topic": "T", "queueId": "1"}
GROUP_CONFIG = b'{"consumeEnable":true,"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},"retryMaxTimes":16}'
ASSIGNMENT = (
    b'{"clientId":"10.0.0.2@1","consumerGroup":"g","messageModel":"CLUSTERING","strategyName":"AVG","topic":"T"}'
)

ACKED = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "0",
    "extraInfo": "7 1700000000000 60000 0 0 broker-a 0 8",
    "offset": "8",
}

EXAMPLES: dict[int, tuple[dict[str, str], bytes]] = {
    Q.SEND_MESSAGE: (SEND, b"hello"),
    Q.SEND_MESSAGE_V2: (SEND_V2, b"hello"),
    Q.SEND_BATCH_MESSAGE: (SEND_V2 | {"m": "true"}, BATCH_OF_ONE),
    Q.END_TRANSACTION: (END, b""),
    Q.SEND_REPLY_MESSAGE: (SEND | {"properties": REPLY_PROPERTIES}, b"reply"),
    Q.SEND_REPLY_MESSAGE_V2: (SEND_V2 | {"i": REPLY_PROPERTIES}, b"reply"),
    Q.PULL_MESSAGE: (PULL, b""),
    Q.LITE_PULL_MESSAGE: (PULL | {"sysFlag": "22", "subscription": "*", "maxMsgBytes": "2147483647", "ReqT": "0"}, b""),
    Q.QUERY_CONSUMER_OFFSET: (QUEUE | {"consumerGroup": "g", "setZeroIfNotFound": "false"}, b""),
    Q.UPDATE_CONSUMER_OFFSET: (QUEUE | {"consumerGroup": "g", "commitOffset": "5"}, b""),
    Q.SEARCH_OFFSET_BY_TIMESTAMP: (QUEUE | {"timestamp": "1700000000000", "boundaryType": "UPPER"}, b""),
    Q.GET_MAX_OFFSET: (QUEUE | {"committed": "true"}, b""),
    Q.GET_MIN_OFFSET: (QUEUE, b""),
    Q.GET_EARLIEST_MSG_STORETIME: (QUEUE, b""),
    Q.GET_CONSUMER_LIST_BY_GROUP: ({"consumerGroup": "g"}, b""),
    Q.CONSUMER_SEND_MSG_BACK: (
        {
            "offset": "120",
            "group": "g",
            "delayLevel": "0",
            "originMsgId": "0A",
            "originTopic": "T",
            "unitMode": "false",
            "maxReconsumeTimes": "16",
        },
        b"",
    ),
    Q.HEART_BEAT: ({}, HEARTBEAT),
    Q.UNREGISTER_CLIENT: ({"clientID": "10.0.0.2@1", "producerGroup": "pg", "consumerGroup": "g"}, b""),
    Q.CHECK_CLIENT_CONFIG: (
        {},
        b'{"clientId":"10.0.0.2@1","group":"g","subscriptionData":{"expressionType":"SQL92",'
        b'"subString":"a > 1","subVersion":1,"topic":"T"}}',
    ),
    Q.LOCK_BATCH_MQ: ({}, LOCK),
    Q.UNLOCK_BATCH_MQ: ({}, LOCK),
    Q.VIEW_MESSAGE_BY_ID: ({"offset": "120", "topic": "T"}, b""),
    Q.QUERY_MESSAGE: (
        {"topic": "T", "key": "k", "maxNum": "10", "beginTimestamp": "0", "endTimestamp": "9223372036854775807"},
        b"",
    ),
    Q.GET_CONSUMER_RUNNING_INFO: ({"consumerGroup": "g", "clientId": "c1", "jstackEnable": "false"}, b""),
    Q.CONSUME_MESSAGE_DIRECTLY: ({"consumerGroup": "g", "clientId": "c1", "msgId": "0A", "topic": "T"}, b""),
    Q.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ({"topic": "T", "group": "g", "clientAddr": "c1"}, b""),
    Q.UPDATE_AND_CREATE_TOPIC: (
        {
            "topic": "T",
            "defaultTopic": "TBW102",
            "readQueueNums": "4",
            "writeQueueNums": "8",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
            "attributes": "+message.type=FIFO,-queue.type",
            "force": "false",
        },
        b"",
    ),
    Q.UPDATE_AND_CREATE_TOPIC_LIST: (
        {},
        b'{"topicConfigList":[{"attributes":{"+message.type":"FIFO"},"order":false,'
        b'"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T",'
        b'"topicSysFlag":0,"writeQueueNums":8}]}',
    ),
    Q.DELETE_TOPIC_IN_BROKER: ({"topic": "T"}, b""),
    Q.GET_ALL_TOPIC_CONFIG: ({"topicSeq": "0", "maxTopicNum": "2000", "dataVersion": "{}"}, b""),
    Q.GET_TOPIC_CONFIG: ({"topic": "T", "lo": "true"}, b""),
    Q.GET_TOPIC_STATS_INFO: ({"topic": "T"}, b""),
    Q.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: ({}, b""),
    Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ({}, GROUP_CONFIG),
    Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: ({}, b'{"groupConfigList":[%b]}' % GROUP_CONFIG),
    Q.DELETE_SUBSCRIPTIONGROUP: ({"groupName": "g", "cleanOffset": "true"}, b""),
    Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ({"groupSeq": "0", "maxGroupNum": "2000"}, b""),
    Q.GET_SUBSCRIPTIONGROUP_CONFIG: ({"group": "g"}, b""),
    Q.UPDATE_AND_GET_GROUP_FORBIDDEN: ({"group": "g", "topic": "T", "readable": "false"}, b""),
    Q.GET_CONSUMER_CONNECTION_LIST: ({"consumerGroup": "g"}, b""),
    Q.GET_PRODUCER_CONNECTION_LIST: ({"producerGroup": "pg"}, b""),
    Q.GET_ALL_PRODUCER_INFO: ({}, b""),
    Q.GET_CONSUME_STATS: ({"consumerGroup": "g", "topic": "T"}, b""),
    Q.GET_BROKER_CONSUME_STATS: ({"isOrder": "false"}, b""),
    Q.QUERY_CONSUME_TIME_SPAN: ({"topic": "T", "group": "g"}, b""),
    Q.QUERY_TOPIC_CONSUME_BY_WHO: ({"topic": "T"}, b""),
    Q.QUERY_TOPICS_BY_CONSUMER: ({"group": "g"}, b""),
    Q.QUERY_SUBSCRIPTION_BY_CONSUMER: ({"group": "g", "topic": "T"}, b""),
    Q.QUERY_ASSIGNMENT: ({}, ASSIGNMENT),
    Q.POP_MESSAGE: (
        {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "-1",
            "maxMsgNums": "32",
            "invisibleTime": "60000",
            "pollTime": "15000",
            "bornTime": "1700000000000",
            "initMode": "1",
            "expType": "TAG",
            "exp": "*",
            "order": "false",
            "attemptId": "a",
        },
        b"",
    ),
    Q.ACK_MESSAGE: (ACKED, b""),
    Q.BATCH_ACK_MESSAGE: (
        {},
        b'{"acks":[{"b":"BQ==","c":"g","it":60000,"pt":1700000000000,"q":0,"r":"1","rq":0,"so":7,"t":"T"}],'
        b'"brokerName":"broker-a"}',
    ),
    Q.CHANGE_MESSAGE_INVISIBLETIME: (ACKED | {"invisibleTime": "10000"}, b""),
    Q.NOTIFICATION: (
        {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "-1",
            "pollTime": "15000",
            "bornTime": "1700000000000",
            "order": "false",
            "attemptId": "a",
        },
        b"",
    ),
    Q.PEEK_MESSAGE: ({"consumerGroup": "g", "topic": "T", "queueId": "-1", "maxMsgNums": "32"}, b""),
    Q.POLLING_INFO: ({"consumerGroup": "g", "topic": "T", "queueId": "-1"}, b""),
    Q.INVOKE_BROKER_TO_RESET_OFFSET: (
        {"topic": "T", "group": "g", "timestamp": "1700000000000", "isForce": "true", "queueId": "-1", "offset": "-1"},
        b"",
    ),
    Q.CLONE_GROUP_OFFSET: ({"srcGroup": "g", "destGroup": "h", "topic": "T", "offline": "true"}, b""),
    Q.QUERY_CORRECTION_OFFSET: ({"topic": "T", "filterGroups": "h,i", "compareGroup": "g"}, b""),
    Q.GET_ALL_CONSUMER_OFFSET: ({}, b""),
    Q.GET_ALL_DELAY_OFFSET: ({}, b""),
    Q.GET_BROKER_RUNTIME_INFO: ({}, b""),
    Q.VIEW_BROKER_STATS_DATA: ({"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}, b""),
    Q.GET_BROKER_HA_STATUS: ({}, b""),
    Q.EXCHANGE_BROKER_HA_INFO: ({}, b""),
    Q.GET_TIMER_CHECK_POINT: ({}, b""),
    Q.GET_TIMER_METRICS: ({}, b""),
    Q.GET_BROKER_CONFIG: ({}, b""),
    Q.UPDATE_BROKER_CONFIG: ({}, b"fileReservedTime=48\n"),
    Q.QUERY_CONSUME_QUEUE: (QUEUE | {"index": "0", "count": "10", "consumerGroup": "g"}, b""),
    Q.DELETE_EXPIRED_COMMITLOG: ({}, b""),
    Q.CLEAN_EXPIRED_CONSUMEQUEUE: ({}, b""),
    Q.CLEAN_UNUSED_TOPIC: ({}, b""),
    Q.SET_MESSAGE_REQUEST_MODE: ({}, b'{"consumerGroup":"g","mode":"PULL","popShareQueueNum":0,"topic":"T"}'),
    Q.GET_ALL_MESSAGE_REQUEST_MODE: ({}, b""),
    Q.RECALL_MESSAGE: ({"topic": "T", "recallHandle": "djEgVA==", "producerGroup": "pg"}, b""),
}
"""extFields and body of every request in ``REQUESTS``."""

ANSWERED_AT_ONCE = {
    Q.CLEAN_EXPIRED_CONSUMEQUEUE: 0,
    Q.CLEAN_UNUSED_TOPIC: 0,
}
"""The requests that are answered without the engine, and the codes of their answers."""

"""The examples of the OpenAPI document, made from its schemas: a value for each field, by the field's name."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

_MESSAGE_ID = "7F0000011170273B018769DF202C0001"
_CLIENT_ID = "10.0.4.17@8812"
_TIME_MS = 1_795_267_430_444
_BY_NAME: dict[str, Any] = {
    "advice": "Start a consumer of this group.",
    "after": "",
    "assigned_to": _CLIENT_ID,
    "at_ms": _TIME_MS,
    "begin_ms": _TIME_MS - 3_600_000,
    "body": "hello",
    "body_encoding": "utf8",
    "born_host": "10.0.4.17:51234",
    "born_time_ms": _TIME_MS - 3,
    "broker": "broker-a",
    "client_id": _CLIENT_ID,
    "connected_at_ms": _TIME_MS - 900_000,
    "consume_from_where": "CONSUME_FROM_LAST_OFFSET",
    "consume_type": "CONSUME_PASSIVELY",
    "created_ms": _TIME_MS,
    "cron": "30 4 * * *",
    "dead_letter_topic": "%DLQ%billing",
    "delay_ms": 90_000,
    "deliver_at_ms": _TIME_MS + 90_000,
    "deadline_ms": _TIME_MS + 15_000,
    "dry_run": True,
    "effective_wait_ms": 15_000,
    "end_ms": _TIME_MS,
    "file": "by_group.csv",
    "filter": "TagA || TagB",
    "from_ms": _TIME_MS - 86_400_000,
    "group": "billing",
    "held_ms": 531,
    "held_us": 531_145,
    "id": "1",
    "key": "order-1",
    "keys": ["order-1"],
    "lag": 912,
    "lease_ends_ms": _TIME_MS + 60_000,
    "lease_ms": 60_000,
    "language": "JAVA",
    "last_heartbeat_ms": _TIME_MS - 4000,
    "last_store_time_ms": _TIME_MS,
    "limit": 32,
    "max_body": 1000,
    "max_offset": 2,
    "max_holds": 1000,
    "max_queues": 2000,
    "message_id": _MESSAGE_ID,
    "message_model": "CLUSTERING",
    "n": 10,
    "name": "consumer_lag",
    "new_receipt": f"1 {_TIME_MS + 30_000} 60000 0 0 broker-a 0 1",
    "next_offset": 2,
    "offset": 1,
    "offset_message_id": "7F00000100002A9F0000000000000000",
    "perm": 6,
    "polled_by": _CLIENT_ID,
    "polled_ms_ago": 2041,
    "properties": {"color": "red"},
    "queue_id": 0,
    "queue_max_offset": 2,
    "queue_offset": 1,
    "queues": 4,
    "queues_total": 4,
    "read_queues": 4,
    "recall_handle": "djEgb3JkZXJzIGJyb2tlci1hIDE3OTUyNjc0MzUwMDEgN0YwMDAwMDExMTcwMjczQjAxODc2OURGMjAyQzAwMDE=",
    "receipt": f"1 {_TIME_MS} 60000 0 0 broker-a 0 1",
    "remote": "10.0.4.17:51234",
    "role": "ASYNC_MASTER",
    "sentence": "No member of billing is online, and no client pulls for it; 912 messages wait.",
    "seq": 4711,
    "size": 182,
    "started_at_ms": _TIME_MS - 900_000,
    "store_host": "10.0.4.2:10911",
    "store_time_ms": _TIME_MS,
    "status": "ok",
    "sub_string": "TagA || TagB",
    "suspended_at_ms": _TIME_MS,
    "tag": "TagA",
    "timestamp_ms": _TIME_MS,
    "title": "Consumer lag",
    "to": "min",
    "topic": "orders",
    "types": "pull_held,pull_woken",
    "version": "5.4.0",
    "wait_ms": 15_000,
    "wake_us": 164,
    "wall_ms": _TIME_MS,
    "write_queues": 4,
}
_OF_PATH: dict[str, dict[str, Any]] = {
    "/api/v1/clients/{id}": {"id": _CLIENT_ID},
    "/api/v1/messages/{id}": {"id": _MESSAGE_ID},
    "/api/v1/groups/{group}/verdicts": {"id": "no_member", "state": "stopped"},
    "/api/v1/history/lags": {"groups": "billing,audit"},
    "/api/v1/openapi.json": {"": {"openapi": "3.1.0"}},
    "/api/v1/asyncapi.json": {"": {"asyncapi": "3.0.0"}},
    "/api/v1/messages/{id}/timeline": {"id": _MESSAGE_ID},
    "/api/v1/topics/{topic}/what-if": {"pulls": 412, "empty": 3, "waits": 409, "minutes": 5, "interval_ms": 1000},
    "/api/v1/messages/{id}/consume-directly": {"id": _MESSAGE_ID, "result": "CR_SUCCESS", "spent_ms": 3},
}
"""Examples for fields whose name means something else on this path."""
CONFIG_CHANGES = {"longPollingEnable": False}
_TEXTS = {
    "/api/v1/events": 'id: 4711\nevent: pull_held\ndata: {"type":"pull_held","topic":"orders","queue_id":0}\n\n',
    "/metrics": "rocketmq_messages_in_total 4711\n",
    "/api/docs": "<!doctype html>\n",
    "/api/v1/reports/{name}/runs/{id}/log": "the run was cancelled\n",
    "/api/v1/reports/{name}/runs/{id}/files/{file}": "topic,group,lag\norders,billing,912\n",
}
"""Examples of answers that are not JSON, by path."""
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_EMPTY: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
MAX_DEPTH = 8

Schema = Mapping[str, Any]


_PROBLEMS = {
    HTTPStatus.BAD_REQUEST: ("INVALID_PARAMETER", "Expected `int`, got `str`"),
    HTTPStatus.FORBIDDEN: ("NO_PERMISSION", "topic orders may not be read"),
    HTTPStatus.NOT_FOUND: ("TOPIC_NOT_EXIST", "the topic orders does not exist"),
    HTTPStatus.CONFLICT: ("ILLEGAL_OPERATION", "group billing has 2 members online"),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("MESSAGE_ILLEGAL", "the request body is too large"),
    HTTPStatus.TOO_MANY_REQUESTS: ("FLOW_CONTROL", "the broker's limit of held pulls is reached"),
    HTTPStatus.SERVICE_UNAVAILABLE: ("SERVICE_NOT_AVAILABLE", "the broker is shutting down"),
    HTTPStatus.GATEWAY_TIMEOUT: ("SYSTEM_ERROR", "the engine did not answer in time; the request may be carried out"),
}
"""RocketMQ's name for the condition, and a detail."""


def problem_example(status: int, path: str) -> dict[str, Any]:
    """A refusal with this status of a request on this path."""
    kind = HTTPStatus(status)
    code, detail = _PROBLEMS.get(kind, ("ILLEGAL_OPERATION", kind.description or kind.phrase))
    instance = re.sub(r"\{(\w+)\}", lambda name: str(_named(name[1], path)), path)
    return {
        "type": "about:blank",
        "title": kind.phrase,
        "status": status,
        "detail": detail,
        "instance": instance,
        "code": code,
        "errors": [],
    }


def text_of(path: str) -> str:
    """The example of an answer that is no JSON; empty if there is none."""
    return _TEXTS.get(path, "")


def example_of(schema: Schema, components: Mapping[str, Schema], name: str = "", path: str = "", depth: int = 0) -> Any:
    """A value that the schema accepts, for the field ``name`` of an operation on ``path``.

    Fields that may be left out are left out, unless there is a value for their name.
    """
    if "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    for kind in ("anyOf", "oneOf"):
        if kind in schema:
            schema = _chosen(schema[kind], name, path)
            return example_of(schema, components, name, path, depth)
    known = _named(name, path)
    if "enum" in schema:
        return known if known in schema["enum"] else schema.get("default", schema["enum"][0])
    if "const" in schema:
        return schema["const"]
    kind = _kind(schema)
    if known is not None and kind in ("", _kind_of(known)):
        return known
    if depth >= MAX_DEPTH:
        return _EMPTY.get(kind)
    if kind == "object" and "properties" in schema:
        required = schema.get("required", ())
        return {
            field: example_of(of_field, components, field, path, depth + 1)
            for field, of_field in schema["properties"].items()
            if field in required or _named(field, path) is not None
        }
    if kind == "array" and schema.get("items"):
        return [example_of(schema["items"], components, name.removesuffix("s"), path, depth + 1)]
    return schema.get("default", schema.get("minimum", _EMPTY.get(kind)))


def _named(name: str, path: str) -> Any:
    return _OF_PATH.get(path, {}).get(name, _BY_NAME.get(name))


def _kind(schema: Schema) -> str:
    """The schema's type, the first of several; empty if it accepts any."""
    kind = schema.get("type", "")
    return str(kind if isinstance(kind, str) else kind[0])


def _kind_of(value: Any) -> str:
    return next(kind for kind, types in _TYPES.items() if type(value) in types)


def _chosen(schemas: list[Schema], name: str, path: str) -> Schema:
    """The schema that the value of this name fits, or the first one that is not null."""
    known = _named(name, path)
    kinds = [schema for schema in schemas if _kind(schema) != "null"]
    fitting = [schema for schema in kinds if known is not None and _kind(schema) == _kind_of(known)]
    return (fitting or kinds)[0]

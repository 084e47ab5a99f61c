"""The answers of a name server: ``HANDLERS`` has one line for each request.

Bodies are RocketMQ's JSON (``route_data.py``), with numbers as keys without quotes where RocketMQ 5.4 writes them so.
A route is standard JSON for clients from release 4.9.4 on, and for clients that request standard JSON only.
"""

import logging
from collections.abc import Callable, Hashable
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from broker_core.clock import Now
from broker_core.codes import RequestCode, ResponseCode
from broker_core.errors import BrokerError, NotFoundError, RequestError
from broker_core.namesrv.kv_config_manager import NAMESPACE_ORDER_TOPIC_CONFIG
from broker_core.namesrv.namesrv_controller import NamesrvController
from broker_core.namesrv.register_broker import (
    BrokerHeader,
    Name,
    RegisterBrokerHeader,
    Registration,
    decode_json,
    decode_registration,
    refused,
)
from broker_core.namesrv.route_data import DataVersion, QueueData, encode_bare, encode_standard
from broker_core.options import rocketmq_name
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, json_body, read_header

log = logging.getLogger(__name__)

T = TypeVar("T")

STANDARD_JSON_SINCE = 401
"""Version number of release 4.9.4, the first in which clients read quoted keys."""
FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class TopicHeader(Header):
    topic: Name
    accept_standard_json_only: bool = False
    cluster_name: str = ""


class ClusterHeader(Header):
    cluster: str


class KVHeader(Header):
    namespace: Name
    key: Name
    value: str = ""


class NamespaceHeader(Header):
    namespace: Name


class BrokerNameHeader(Header):
    broker_name: Name


class MemberHeader(BrokerNameHeader):
    cluster_name: str = ""


class RegisterTopicBody(msgspec.Struct, rename=rocketmq_name):
    queue_datas: Annotated[list[QueueData], Meta(max_length=10_000)] = []


class Call(NamedTuple):
    """A request, its connection and its time."""

    request: RemotingCommand
    connection: Hashable
    now: Now


class Answer(NamedTuple):
    """The answer to a successful request."""

    ext_fields: dict[str, str] | None = None
    body: bytes = b""


class NamesrvProcessor:
    """RocketMQ's DefaultRequestProcessor and ClientRequestProcessor."""

    def __init__(self, controller: NamesrvController) -> None:
        self._controller = controller
        self._routes = controller.routes
        self._kv_config = controller.kv_config
        self.own_broker: Registration | None = None
        """The broker in this process, if no other broker may register under its name or address."""

    def process(self, request: RemotingCommand, connection: Hashable, now: Now) -> RemotingCommand:
        """Answer any request, even one that is invalid or unknown."""
        handler = HANDLERS.get(request.code)
        if handler is None:
            return request.response(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported"
            )
        header, handle = handler
        try:
            answer = handle(self, read_header(header, request.ext_fields), Call(request, connection, now))
        except BrokerError as error:
            return request.response(error.code, error.remark)
        except Exception:
            log.exception("request %d failed", request.code)
            return request.response(ResponseCode.SYSTEM_ERROR, "the name server failed; its log contains the reason")
        return request.response(ResponseCode.SUCCESS, "", answer.ext_fields, answer.body)

    # --- Routes -------------------------------------------------------------------------------------------------

    def get_route_info_by_topic(self, header: TopicHeader, call: Call) -> Answer:
        route = self._routes.pick_topic_route(header.topic)
        if route is None:
            raise NotFoundError(
                f"No topic route info in name server for the topic: {header.topic}\n{FAQ}",
                code=ResponseCode.TOPIC_NOT_EXIST,
            )
        if self._controller.options.order_message_enable:
            route.order_topic_conf = self._kv_config.get(NAMESPACE_ORDER_TOPIC_CONFIG, header.topic)
        standard = header.accept_standard_json_only or call.request.version >= STANDARD_JSON_SINCE
        return Answer(body=(encode_standard if standard else encode_bare)(route))

    def get_broker_cluster_info(self, header: Header, call: Call) -> Answer:
        return Answer(body=encode_bare(self._routes.cluster_info()))

    def get_broker_member_group(self, header: MemberHeader, call: Call) -> Answer:
        return Answer(
            body=encode_bare(
                {
                    "brokerMemberGroup": {
                        "brokerAddrs": self._routes.broker_addrs(header.broker_name),
                        "brokerName": header.broker_name,
                        "cluster": header.cluster_name,
                    }
                }
            )
        )

    # --- Topic lists ----------------------------------------------------------------------------------------------

    def get_all_topic_list(self, header: Header, call: Call) -> Answer:
        return _topic_list(self._routes.topics())

    def get_topics_by_cluster(self, header: ClusterHeader, call: Call) -> Answer:
        return _topic_list(self._routes.topics_of_cluster(header.cluster))

    def get_system_topic_list(self, header: Header, call: Call) -> Answer:
        names, addr = self._routes.system_topics()
        return Answer(body=json_body(({"brokerAddr": addr} if addr else {}) | {"topicList": names}))

    def get_unit_topic_list(self, header: Header, call: Call) -> Answer:
        return _topic_list(self._routes.unit_topics(unit=True, unit_sub=None))

    def get_has_unit_sub_topic_list(self, header: Header, call: Call) -> Answer:
        return _topic_list(self._routes.unit_topics(unit=None, unit_sub=True))

    def get_has_unit_sub_ununit_topic_list(self, header: Header, call: Call) -> Answer:
        return _topic_list(self._routes.unit_topics(unit=False, unit_sub=True))

    # --- Administration of topics and permissions -----------------------------------------------------------------

    def register_topic(self, header: TopicHeader, call: Call) -> Answer:
        if call.request.body:
            self._routes.register_topic(header.topic, _body(call.request, RegisterTopicBody).queue_datas)
        return Answer()

    def delete_topic(self, header: TopicHeader, call: Call) -> Answer:
        self._routes.delete_topic(header.topic, header.cluster_name)
        return Answer()

    def wipe_write_perm_of_broker(self, header: BrokerNameHeader, call: Call) -> Answer:
        return Answer({"wipeTopicCount": str(self._routes.wipe_write_perm_of_broker(header.broker_name))})

    def add_write_perm_of_broker(self, header: BrokerNameHeader, call: Call) -> Answer:
        return Answer({"addTopicCount": str(self._routes.add_write_perm_of_broker(header.broker_name))})

    # --- Brokers --------------------------------------------------------------------------------------------------

    def register_broker(self, header: RegisterBrokerHeader, call: Call) -> Answer:
        if self._is_own_broker(header):
            return Answer()
        done = self._routes.register_broker(decode_registration(header, call.request), call.connection, call.now)
        fields = {"haServerAddr": done.ha_server_addr, "masterAddr": done.master_addr}
        fields = {name: address for name, address in fields.items() if address}
        ordered = None
        if self._controller.options.return_order_topic_config_to_broker:
            ordered = self._kv_config.entries(NAMESPACE_ORDER_TOPIC_CONFIG)
        return Answer(fields, b"" if ordered is None else json_body({"table": ordered}))

    def unregister_broker(self, header: BrokerHeader, call: Call) -> Answer:
        if self._is_own_broker(header):
            return Answer()
        self._routes.unregister_broker(header.cluster_name, header.broker_addr)
        return Answer()

    def _is_own_broker(self, header: BrokerHeader) -> bool:
        """Whether the request is about the broker in this process, which registers without a request.

        Such a request is answered and changes nothing. Raises RequestError (NO_PERMISSION) if another broker uses the
        name or address of the broker in this process.
        """
        own = self.own_broker
        if own is None or (header.broker_name != own.broker_name and header.broker_addr != own.broker_addr):
            return False
        if (header.broker_name, header.broker_addr) == (own.broker_name, own.broker_addr):
            return True
        raise RequestError(
            f"broker {header.broker_name} at {header.broker_addr} is refused: {own.broker_name} at {own.broker_addr} "
            "runs in the process of this name server; choose another brokerName and address, or set "
            "allowForeignRegistration=true in its broker.conf",
            code=ResponseCode.NO_PERMISSION,
        )

    def query_data_version(self, header: BrokerHeader, call: Call) -> Answer:
        theirs = _body(call.request, DataVersion) if call.request.body else None
        ours = self._routes.renew_broker(header.cluster_name, header.broker_addr, call.now)
        if ours is None:
            return Answer({"changed": "true"})
        return Answer({"changed": "false" if theirs == ours else "true"}, json_body(ours))

    def broker_heartbeat(self, header: BrokerHeader, call: Call) -> Answer:
        self._routes.renew_broker(header.cluster_name, header.broker_addr, call.now)
        return Answer()

    # --- Configuration --------------------------------------------------------------------------------------------

    def put_kv_config(self, header: KVHeader, call: Call) -> Answer:
        self._kv_config.put(header.namespace, header.key, header.value)
        return Answer()

    def get_kv_config(self, header: KVHeader, call: Call) -> Answer:
        value = self._kv_config.get(header.namespace, header.key)
        if value is None:
            raise NotFoundError(f"No config item, Namespace: {header.namespace} Key: {header.key}")
        return Answer({"value": value})

    def delete_kv_config(self, header: KVHeader, call: Call) -> Answer:
        self._kv_config.delete(header.namespace, header.key)
        return Answer()

    def get_kvlist_by_namespace(self, header: NamespaceHeader, call: Call) -> Answer:
        entries = self._kv_config.entries(header.namespace)
        if entries is None:
            raise NotFoundError(f"No config item, Namespace: {header.namespace}")
        return Answer(body=json_body({"table": entries}))

    def update_namesrv_config(self, header: Header, call: Call) -> Answer:
        try:
            text = call.request.body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise refused(f"the body is not UTF-8: {error}") from error
        self._controller.update_config(text)
        return Answer()

    def get_namesrv_config(self, header: Header, call: Call) -> Answer:
        return Answer(body=self._controller.config().encode())


HANDLERS: dict[int, tuple[type[Header], Callable[[NamesrvProcessor, Any, Call], Answer]]] = {
    RequestCode.PUT_KV_CONFIG: (KVHeader, NamesrvProcessor.put_kv_config),
    RequestCode.GET_KV_CONFIG: (KVHeader, NamesrvProcessor.get_kv_config),
    RequestCode.DELETE_KV_CONFIG: (KVHeader, NamesrvProcessor.delete_kv_config),
    RequestCode.REGISTER_BROKER: (RegisterBrokerHeader, NamesrvProcessor.register_broker),
    RequestCode.UNREGISTER_BROKER: (BrokerHeader, NamesrvProcessor.unregister_broker),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: (TopicHeader, NamesrvProcessor.get_route_info_by_topic),
    RequestCode.GET_BROKER_CLUSTER_INFO: (Header, NamesrvProcessor.get_broker_cluster_info),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: (BrokerNameHeader, NamesrvProcessor.wipe_write_perm_of_broker),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (Header, NamesrvProcessor.get_all_topic_list),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: (TopicHeader, NamesrvProcessor.delete_topic),
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: (TopicHeader, NamesrvProcessor.register_topic),
    RequestCode.GET_KVLIST_BY_NAMESPACE: (NamespaceHeader, NamesrvProcessor.get_kvlist_by_namespace),
    RequestCode.GET_TOPICS_BY_CLUSTER: (ClusterHeader, NamesrvProcessor.get_topics_by_cluster),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: (Header, NamesrvProcessor.get_system_topic_list),
    RequestCode.GET_UNIT_TOPIC_LIST: (Header, NamesrvProcessor.get_unit_topic_list),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: (Header, NamesrvProcessor.get_has_unit_sub_topic_list),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: (Header, NamesrvProcessor.get_has_unit_sub_ununit_topic_list),
    RequestCode.UPDATE_NAMESRV_CONFIG: (Header, NamesrvProcessor.update_namesrv_config),
    RequestCode.GET_NAMESRV_CONFIG: (Header, NamesrvProcessor.get_namesrv_config),
    RequestCode.QUERY_DATA_VERSION: (BrokerHeader, NamesrvProcessor.query_data_version),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: (BrokerNameHeader, NamesrvProcessor.add_write_perm_of_broker),
    RequestCode.GET_BROKER_MEMBER_GROUP: (MemberHeader, NamesrvProcessor.get_broker_member_group),
    RequestCode.BROKER_HEARTBEAT: (BrokerHeader, NamesrvProcessor.broker_heartbeat),
}
"""Request code -> (type of the header, handler)."""


def _topic_list(topics: list[str]) -> Answer:
    return Answer(body=json_body({"topicList": topics}))


def _body(request: RemotingCommand, kind: type[T]) -> T:
    try:
        return decode_json(request.body, kind)
    except (ValueError, RecursionError) as error:
        raise refused(f"body: {error}") from error

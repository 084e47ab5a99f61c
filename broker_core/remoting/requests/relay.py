"""Requests of administrators' tools that the broker passes on to a client: its state, and to consume one message now.

The engine returns the members of the group and, where needed, the message. The answer is the client's own.
"""

from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import Clients, ClientView, Command, Failed, GetClients, MessageQueue, Records, ViewMessage
from broker_core.remoting import fastjson
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.headers import Header, Name, read_header
from broker_core.remoting.requests.request_type import Identity, Peer, Relay

TELLS_RUNNING_INFO = 62
"""RocketMQ 3.1.8: clients before it do not know these requests."""

TELLS_STATUS = 28
RUNNING_INFO_SECONDS = 10.0
STATUS_SECONDS = 5.0
MAX_CLIENTS = 1000

# --- GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY -------------------------------------------------------------


class ConsumerOfGroupRequestHeader(Header):
    """The common fields of RocketMQ's GetConsumerRunningInfo- and ConsumeMessageDirectlyResultRequestHeader."""

    consumer_group: Name
    client_id: Name
    msg_id: str = ""
    topic: Name = ""


def decode_get_consumer_running_info(request: RemotingCommand, peer: Peer) -> Command:
    header = read_header(ConsumerOfGroupRequestHeader, request.ext_fields)
    return GetClients(group=header.consumer_group, limit=MAX_CLIENTS)


def encode_get_consumer_running_info(
    reply: Clients, request: RemotingCommand, identity: Identity
) -> RemotingCommand | Relay:
    return _to_consumer(reply, request, request.ext_fields, b"")


def decode_consume_message_directly(request: RemotingCommand, peer: Peer) -> list[Command]:
    header = read_header(ConsumerOfGroupRequestHeader, request.ext_fields)
    return [
        GetClients(group=header.consumer_group, limit=MAX_CLIENTS),
        ViewMessage(message_id=header.msg_id, topic=header.topic),
    ]


def encode_consume_message_directly(
    replies: list[Clients | Records], request: RemotingCommand, identity: Identity
) -> RemotingCommand | Relay:
    clients, message = replies
    assert isinstance(clients, Clients) and isinstance(message, Records)
    return _to_consumer(clients, request, request.ext_fields | {"brokerName": identity.broker_name}, message.records)


def _to_consumer(
    clients: Clients, request: RemotingCommand, ext_fields: dict[str, str], body: bytes
) -> RemotingCommand | Relay:
    """Pass the request on to the client that it names."""
    group, client_id = request.ext_fields["consumerGroup"], request.ext_fields["clientId"]
    found = [client for client in clients.clients if client.client_id == client_id]
    if not found:
        return request.response(ResponseCode.SYSTEM_ERROR, f"client {client_id} is not in group {group} here")
    if found[-1].version < TELLS_RUNNING_INFO:
        return request.response(ResponseCode.SYSTEM_ERROR, _cannot_be_asked(found[-1]))

    def answer(answers: list[RemotingCommand | Failed]) -> RemotingCommand:
        (client_answer,) = answers
        if isinstance(client_answer, Failed):
            return request.response(client_answer.code, client_answer.remark)
        return request.response(client_answer.code, client_answer.remark, client_answer.ext_fields, client_answer.body)

    return Relay([client_id], request.code, ext_fields, body, RUNNING_INFO_SECONDS, answer)


def _cannot_be_asked(client: ClientView) -> str:
    if client.protocol != "remoting":
        return f"client {client.client_id} is connected by {client.protocol}; only RocketMQ's clients can be asked"
    return f"client {client.client_id} has version {client.version}, which is too old to be asked"


# --- INVOKE_BROKER_TO_GET_CONSUMER_STATUS ----------------------------------------------------------------------------


class GetConsumerStatusRequestHeader(Header):
    """``client_addr`` is the id of one client; without it, all clients of the group are asked."""

    topic: Name
    group: Name
    client_addr: Name = ""


def decode_get_consumer_status(request: RemotingCommand, peer: Peer) -> Command:
    header = read_header(GetConsumerStatusRequestHeader, request.ext_fields)
    return GetClients(group=header.group, limit=MAX_CLIENTS)


def encode_get_consumer_status(reply: Clients, request: RemotingCommand, identity: Identity) -> RemotingCommand | Relay:
    """RocketMQ's GetConsumerStatusBody: offsets of the queues of every client that answers."""
    group, wanted = request.ext_fields["group"], request.ext_fields.get("clientAddr", "")
    clients = {client.client_id: client for client in reply.clients if wanted in ("", client.client_id)}
    if not clients:
        who = f"client {wanted}" if wanted else "no client"
        return request.response(ResponseCode.SYSTEM_ERROR, f"{who} is {'not ' if wanted else ''}in group {group} here")
    for client in clients.values():
        if client.version < TELLS_STATUS:
            return request.response(ResponseCode.SYSTEM_ERROR, _cannot_be_asked(client))

    def answer(answers: list[RemotingCommand | Failed]) -> RemotingCommand:
        table = {
            client_id: _offsets(client_answer.body)
            for client_id, client_answer in zip(clients, answers, strict=True)
            if isinstance(client_answer, RemotingCommand) and client_answer.code == ResponseCode.SUCCESS
        }
        return request.response(
            ResponseCode.SUCCESS, body=fastjson.encode({"consumerTable": table, "messageQueueTable": {}})
        )

    return Relay(
        list(clients), RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, request.ext_fields, b"", STATUS_SECONDS, answer
    )


def _offsets(body: bytes) -> dict[MessageQueue, int]:
    """The offsets by queue of a client's GetConsumerStatusBody; none when it is not one."""
    try:
        table = fastjson.decode(body).get("messageQueueTable")
    except ValueError:
        return {}
    return (
        {queue: offset for queue, offset in table.items() if isinstance(queue, MessageQueue) and type(offset) is int}
        if isinstance(table, dict)
        else {}
    )

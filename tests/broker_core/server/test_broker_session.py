"""A client's connection: who waits for what, who is told, and what has a limit."""

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.codes import RequestCode as Q
from broker_core.errors import UnavailableError
from broker_core.remoting.remoting_command import MAX_FRAME, RemotingCommand, SerializeType
from broker_core.server import broker_session
from broker_core.server.broker_session import BrokerSession, BrokerSessions
from broker_core.server.engine_runner import Connection
from tests.fakes.remoting import EXAMPLES, HEARTBEAT, IDENTITY, REPLY_PROPERTIES, client_view, commands_of

PATIENCE = 60.0
FAILED = c.Failed(code=17, remark="no such topic", kind="not_found")


class FakeRunner:
    """Notes what is submitted; a test answers it when it likes."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Connection, int, c.Command]] = []
        self.handled = 0
        self.curious: set[Connection] = set()

    @property
    def submitted(self) -> int:
        return self.handled + len(self.waiting)

    @property
    def backlog(self) -> int:
        return len(self.waiting)

    def is_delayed(self, connection: Connection) -> bool:
        return False

    def has_waiting(self, connection: Connection) -> bool:
        return connection in self.curious

    def submit(self, connection: Connection, request_id: int, command: c.Command) -> None:
        self.waiting.append((connection, request_id, command))

    def take(self) -> list[tuple[Connection, int, c.Command]]:
        self.handled = self.submitted
        taken, self.waiting = self.waiting, []
        return taken


class FakeChannel:
    def __init__(self, port: int = 50_000) -> None:
        self.remote_host = "10.0.0.2"
        self.remote_port = port
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def take(self) -> list[RemotingCommand]:
        sent, self.sent = self.sent, []
        return [command for data in sent for command in commands_of(data)]


class Client:
    """One connection of a broker whose engine is the test."""

    def __init__(self, sessions: BrokerSessions, port: int = 50_000) -> None:
        assert isinstance(sessions.runner, FakeRunner)
        self.runner = sessions.runner
        self.channel = FakeChannel(port)
        self.session: BrokerSession = sessions.make_session(self.channel)
        ((self.connection, request_id, opened),) = self.runner.take()
        assert (request_id, opened) == (
            0,
            c.OpenConnection(client_id="", protocol="remoting", remote=f"10.0.0.2:{port}"),
        )

    def send(
        self,
        code: int,
        *,
        opaque: int = 1,
        oneway: bool = False,
        kind: SerializeType = "JSON",
        body: bytes = b"",
        **fields: str,
    ) -> list[tuple[int, c.Command]]:
        """Send the example of a request; what reaches the engine."""
        example, example_body = EXAMPLES.get(code, ({}, b""))
        self.session.receive(
            [
                RemotingCommand.request(
                    code, example | fields, body or example_body, opaque=opaque, oneway=oneway, serialize_type=kind
                )
            ]
        )
        return [(request_id, command) for _, request_id, command in self.runner.take()]

    def beat(self, client_id: str = "10.0.0.2@1", kind: SerializeType = "JSON") -> None:
        ((request_id, _),) = self.send(34, body=HEARTBEAT.replace(b"10.0.0.2@1", client_id.encode()), kind=kind)
        self.reply((request_id, c.HeartBeatDone(sub_changed=False)))
        self.channel.take()

    def reply(self, *replies: tuple[int, c.Reply]) -> list[RemotingCommand]:
        """What the engine says in one turn; what the client hears."""
        self.connection.sink([(self.connection, request_id, reply) for request_id, reply in replies])
        return self.channel.take()

    def answer(self, question: RemotingCommand, body: bytes = b"") -> None:
        """The client answers what it was asked."""
        self.session.receive([question.response(0, "", {}, body)])


@pytest.fixture
def sessions() -> BrokerSessions:
    return BrokerSessions(FakeRunner(), IDENTITY)


def test_a_session_is_ready_when_the_engine_has_handled_its_requests(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    assert client.session.ready
    client.session.receive([RemotingCommand.request(30, EXAMPLES[30][0], opaque=opaque) for opaque in (1, 2)])
    assert not client.session.ready
    client.runner.take()
    assert client.session.ready
    client.runner.curious.add(client.connection)
    assert not client.session.ready


def test_the_body_of_a_waiting_request_is_not_kept(sessions: BrokerSessions) -> None:
    client, body = Client(sessions), bytes(1000)
    before = sys.getrefcount(body)
    assert client.send(10, body=body)
    assert sys.getrefcount(body) == before


def test_a_request_is_answered_under_its_own_number(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    ((first, command),) = client.send(30, opaque=77)
    assert command == c.GetMaxOffset(topic="T", queue_id=1) and client.channel.sent == []
    ((second, _),) = client.send(31, opaque=78)
    answers = client.reply((second, c.FoundOffset(offset=3)), (first, c.FoundOffset(offset=9)))
    assert [(answer.opaque, answer.flag, answer.ext_fields) for answer in answers] == [
        (78, 1, {"offset": "3"}),
        (77, 1, {"offset": "9"}),
    ]
    assert client.reply((first, c.FoundOffset(offset=9))) == []


def test_many_frames_of_one_read_are_submitted_at_once_and_in_order(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    client.session.receive([RemotingCommand.request(code, *EXAMPLES[code], opaque=code) for code in (310, 11, 15)])
    submitted = client.runner.take()
    assert [type(command) for _, _, command in submitted] == [c.SendMessage, c.PullMessage, c.UpdateConsumerOffset]
    assert len({request_id for _, request_id, _ in submitted}) == 3


def test_a_heartbeat_that_is_refused_names_nobody(sessions: BrokerSessions) -> None:
    owner, other = Client(sessions), Client(sessions, 50_001)
    owner.beat("A")
    other.beat("B")
    ((request_id, _),) = other.send(34, body=HEARTBEAT.replace(b"10.0.0.2@1", b"A"))
    other.reply((request_id, FAILED))
    assert sessions.find("A") is owner.session and sessions.find("B") is other.session
    ((_, pull),) = other.send(11)
    assert isinstance(pull, c.PullMessage) and pull.client_id == "B"


@pytest.mark.parametrize("kind", ["JSON", "ROCKETMQ"])
def test_the_answer_has_the_encoding_of_its_request(sessions: BrokerSessions, kind: Any) -> None:
    client = Client(sessions)
    ((request_id, _),) = client.send(30, kind=kind)
    (answer,) = client.reply((request_id, c.FoundOffset(offset=9)))
    assert answer.serialize_type == kind


def test_malformed_requests_are_answered_without_the_engine(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    assert client.send(999) == client.send(30, queueId="x") == client.send(15, commitOffset="-1") == []
    unknown, malformed, ignored = client.channel.take()
    assert (unknown.code, unknown.remark) == (3, " request type 999 not supported")
    assert malformed.code == 1 and "queueId" in malformed.remark
    assert ignored.code == 0


def test_one_way_requests_are_never_answered(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    for code, fields in ((999, {}), (30, {"queueId": "x"}), (15, {"commitOffset": "-1"})):
        assert client.send(code, oneway=True, **fields) == []
    for reply in (c.Done(), FAILED):
        ((request_id, _),) = client.send(15, oneway=True)
        assert client.reply((request_id, reply)) == []
    assert client.channel.sent == []


def test_a_failure_is_answered_with_its_code_and_remark(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    ((request_id, _),) = client.send(30)
    (answer,) = client.reply((request_id, FAILED))
    assert (answer.code, answer.remark) == (17, "no such topic")


def test_a_client_is_known_from_its_first_heartbeat(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    ((_, before),) = client.send(11)
    client.beat("me")
    ((_, after),) = client.send(11)
    assert isinstance(before, c.PullMessage) and isinstance(after, c.PullMessage)
    assert (before.client_id, after.client_id) == ("", "me")
    ((_, sent),) = client.send(310)
    assert isinstance(sent, c.SendMessage) and (sent.born_host, sent.born_port) == ("10.0.0.2", 50_000)


def test_an_answer_too_large_for_a_frame_becomes_an_error(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    ((request_id, _),) = client.send(33)
    (answer,) = client.reply((request_id, c.Records(records=bytes(MAX_FRAME))))
    assert answer.code == 1 and "cannot be sent" in answer.remark and answer.opaque == 1


# --- limits, and the end ------------------------------------------------------------------------------------------


def test_requests_of_all_connections_that_the_engine_has_not_seen_are_limited(
    sessions: BrokerSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_session, "MAX_BACKLOG", 2)
    one, other = Client(sessions), Client(sessions, 50_001)
    one.session.receive([RemotingCommand.request(30, *EXAMPLES[30], opaque=opaque) for opaque in (1, 2, 4)])
    assert [(refused.code, refused.opaque) for refused in one.channel.take()] == [(2, 4)], "in the same read"
    other.session.receive([RemotingCommand.request(30, *EXAMPLES[30], opaque=3)])
    (refused,) = other.channel.take()
    assert (refused.code, refused.opaque) == (2, 3)
    other.session.closed()  # is never refused
    assert [type(command) for _, _, command in one.runner.take()] == [c.GetMaxOffset, c.GetMaxOffset, c.CloseConnection]


def test_too_many_unanswered_requests(sessions: BrokerSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_session, "MAX_PENDING", 3)
    client = Client(sessions)
    ids = [client.send(30)[0][0], client.send(15, oneway=True)[0][0], client.send(11)[0][0]]
    assert client.send(30, opaque=8) == client.send(30, oneway=True) == []
    (refused,) = client.channel.take()
    assert (refused.code, refused.opaque, refused.remark[:10]) == (2, 8, "[OVERLOAD]")
    client.reply((ids[1], c.Done()))
    assert len(client.send(30)) == 1


def test_the_end_of_a_connection(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    client.beat("me")
    ((request_id, _),) = client.send(11)
    assert sessions.find("me") is client.session
    client.session.closed()
    assert client.runner.take() == [(client.connection, 0, c.CloseConnection())]
    assert client.reply((request_id, FAILED), (0, c.Done()), (c.NOTICE_ID, c.ConsumerIdsChanged(group="g"))) == []
    assert sessions.find("me") is None


def test_a_client_is_where_its_last_heartbeat_came_from(sessions: BrokerSessions) -> None:
    old, new = Client(sessions), Client(sessions, 50_001)
    old.beat("me")
    new.beat("me")
    old.session.closed()
    new.runner.take()
    assert sessions.find("me") is new.session
    new.session.closed()
    assert sessions.find("me") is None


# --- notices ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["JSON", "ROCKETMQ"])
def test_notices_are_one_way_requests_with_numbers_of_their_own(sessions: BrokerSessions, kind: Any) -> None:
    client = Client(sessions)
    client.beat(kind=kind)
    ((request_id, _),) = client.send(30, opaque=1)
    notice = (c.NOTICE_ID, c.ConsumerIdsChanged(group="g"))
    first, answer, second = client.reply(notice, (request_id, c.FoundOffset(offset=1)), notice)
    for notice in (first, second):
        assert (notice.code, notice.flag, notice.ext_fields, notice.serialize_type) == (
            40,
            2,
            {"consumerGroup": "g"},
            kind,
        )
    assert (first.opaque, second.opaque, answer.opaque) == (1, 2, 1)


def test_a_notice_that_rocketmqs_clients_do_not_know_is_passed_over(sessions: BrokerSessions) -> None:
    class Whisper(c.Notice, frozen=True):
        pass

    assert Client(sessions).reply((c.NOTICE_ID, Whisper())) == []


# --- questions to a client ----------------------------------------------------------------------------------------


async def test_a_client_is_asked_and_answers(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    calls = [
        asyncio.create_task(client.session.invoke(Q.GET_CONSUMER_RUNNING_INFO, {"a": str(number)}, b"", PATIENCE))
        for number in range(2)
    ]
    await asyncio.sleep(0)
    first, second = client.channel.take()
    assert (first.code, first.flag, first.opaque != second.opaque) == (307, 0, True)
    client.answer(second, b"2")
    client.answer(first, b"1")
    client.answer(first, b"again")
    assert [(await call).body for call in calls] == [b"1", b"2"]


async def test_a_client_that_does_not_answer(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    with pytest.raises(TimeoutError):
        await client.session.invoke(307, {}, b"", 0.001)
    (late,) = client.channel.take()
    client.answer(late)


async def test_a_client_that_goes_instead_of_answering(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    call = asyncio.create_task(client.session.invoke(307, {}, b"", PATIENCE))
    await asyncio.sleep(0)
    client.session.closed()
    with pytest.raises(ConnectionError):
        await call
    with pytest.raises(ConnectionError):
        await client.session.invoke(307, {}, b"", PATIENCE)


async def test_too_many_questions(sessions: BrokerSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_session, "MAX_CALLS", 1)
    client = Client(sessions)
    call = asyncio.create_task(client.session.invoke(307, {}, b"", PATIENCE))
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError):
        await client.session.invoke(307, {}, b"", PATIENCE)
    client.answer(client.channel.take()[0])
    await call


# --- questions of an administrator's tool -----------------------------------------------------------------------------


def ask(admin: Client, code: int, *views: c.ClientView, **fields: str) -> None:
    """An administrator's question, and what the engine says to it."""
    submitted = admin.send(code, opaque=5, **fields)
    clients = c.Clients(seq=1, total=len(views), clients=list(views))
    for request_id, command in reversed(submitted):
        answers = admin.reply((request_id, clients if isinstance(command, c.GetClients) else c.Records(records=b"rec")))
        assert answers == []


async def next_frame(client: Client) -> RemotingCommand:
    """The next frame that the session sends."""
    async with asyncio.timeout(PATIENCE):
        while not client.channel.sent:
            await asyncio.sleep(0)
    (command,) = client.channel.take()
    return command


async def test_a_question_is_passed_on_and_so_is_the_answer(sessions: BrokerSessions) -> None:
    admin, client = Client(sessions), Client(sessions, 50_001)
    client.beat("c1", kind="ROCKETMQ")
    ask(admin, 307, client_view("c1"))
    question = await next_frame(client)
    assert (question.code, question.ext_fields, question.serialize_type) == (307, EXAMPLES[307][0], "ROCKETMQ")
    client.answer(question, b"info")
    answer = await next_frame(admin)
    assert (answer.code, answer.opaque, answer.body, answer.serialize_type) == (0, 5, b"info", "JSON")


async def test_a_message_to_consume_goes_along(sessions: BrokerSessions) -> None:
    """Two commands make one request; the order of their replies does not matter."""
    admin, client = Client(sessions), Client(sessions, 50_001)
    client.beat("c1")
    ask(admin, 309, client_view("c1"))
    question = await next_frame(client)
    assert (question.body, question.ext_fields["brokerName"]) == (b"rec", "broker-a")


def test_a_failure_among_two_replies_is_the_answer(sessions: BrokerSessions) -> None:
    admin = Client(sessions)
    (clients_id, _), (message_id, _) = admin.send(309, opaque=5)
    assert admin.reply((message_id, FAILED)) == []
    (answer,) = admin.reply((clients_id, c.Clients(seq=1, total=0, clients=[])))
    assert (answer.code, answer.opaque) == (17, 5)


async def test_a_member_without_a_connection_here(sessions: BrokerSessions) -> None:
    """A WebSocket's, say."""
    admin = Client(sessions)
    ask(admin, 307, client_view("c1"))
    answer = await next_frame(admin)
    assert answer.code == 1 and "c1" in answer.remark


async def test_a_client_that_is_too_late_or_goes(sessions: BrokerSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.remoting.requests.relay.RUNNING_INFO_SECONDS", 0.001)
    admin, client = Client(sessions), Client(sessions, 50_001)
    client.beat("c1")
    ask(admin, 307, client_view("c1"))
    answer = await next_frame(admin)
    assert answer.code == 207 and "0.001 s" in answer.remark
    monkeypatch.setattr("broker_core.remoting.requests.relay.RUNNING_INFO_SECONDS", PATIENCE)
    client.channel.take()
    ask(admin, 307, client_view("c1"))
    await next_frame(client)
    client.session.closed()
    answer = await next_frame(admin)
    assert answer.code == 1 and "closed" in answer.remark


async def test_all_clients_of_a_group_are_asked_at_once(sessions: BrokerSessions) -> None:
    admin, one, two = (Client(sessions, port) for port in (50_000, 50_001, 50_002))
    one.beat("c1")
    two.beat("c2")
    ask(admin, 223, client_view("c1"), client_view("c2"), clientAddr="")
    questions = [await next_frame(client) for client in (one, two)]
    table = b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:%d}}'
    two.answer(questions[1], table % 2)
    one.answer(questions[0], table % 1)
    answer = await next_frame(admin)
    assert answer.body == (
        b'{"consumerTable":{"c1":{{"brokerName":"b","queueId":0,"topic":"T"}:1},'
        b'"c2":{{"brokerName":"b","queueId":0,"topic":"T"}:2}},"messageQueueTable":{}}'
    )


async def test_too_many_questions_of_one_tool(sessions: BrokerSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_session, "MAX_RELAYS", 1)
    monkeypatch.setattr(broker_session, "MAX_WAITING_RELAYS", 1)
    admin, client = Client(sessions), Client(sessions, 50_001)
    client.beat("c1")
    ask(admin, 307, client_view("c1"))
    ask(admin, 307, client_view("c1"))
    ((request_id, _),) = admin.send(307, opaque=6)
    (refused,) = admin.reply((request_id, c.Clients(seq=1, total=1, clients=[client_view("c1")])))
    assert (refused.code, refused.opaque) == (2, 6)
    client.answer(await next_frame(client), b"info")
    assert (await next_frame(admin)).opaque == 5
    client.answer(await next_frame(client), b"info")
    assert (await next_frame(admin)).opaque == 5


async def test_a_tool_that_goes_is_not_waited_for(sessions: BrokerSessions) -> None:
    admin, client = Client(sessions), Client(sessions, 50_001)
    client.beat("c1")
    ask(admin, 307, client_view("c1"))
    question = await next_frame(client)
    admin.session.closed()
    async with asyncio.timeout(PATIENCE):
        while client.session._calls or admin.session._relays:
            await asyncio.sleep(0)
    client.answer(question)
    assert admin.channel.sent == []


async def test_a_question_that_has_no_place_in_the_clients_encoding(sessions: BrokerSessions) -> None:
    admin, client = Client(sessions), Client(sessions, 50_001)
    client.beat("c1", kind="ROCKETMQ")
    ask(admin, 307, client_view("c1"), **{"x" * 40_000: "y"})
    answer = await next_frame(admin)
    assert answer.code == 1 and client.channel.sent == []


# --- replies to request messages -------------------------------------------------------------------------------------


def send_reply(consumer: Client, code: int = 325, *, opaque: int = 7, oneway: bool = False, **fields: Any) -> None:
    """A consumer replies; the engine has found the requester."""
    ((request_id, command),) = consumer.send(code, opaque=opaque, oneway=oneway)
    assert isinstance(command, c.SendReplyMessage)
    push = c.ReplyMessage(
        **{
            "client_id": "c1",
            "properties": command.send.messages[0].properties,
            "body": command.send.messages[0].body,
            "born_host": "10.0.0.2:50000",
            "store_host": "127.0.0.1:10911",
            "store_time_ms": 5,
            "offset_message_id": "ID",
            "queue_id": 1,
            "queue_offset": 9,
        }
        | fields
    )
    assert consumer.reply((request_id, push)) == []


@pytest.mark.parametrize("code", [324, 325])
async def test_a_reply_is_pushed_to_its_requester(sessions: BrokerSessions, code: int) -> None:
    consumer, requester = Client(sessions), Client(sessions, 50_001)
    requester.beat("c1")
    send_reply(consumer, code)
    push = await next_frame(requester)
    assert (push.code, push.body, push.is_oneway) == (326, b"reply", False)
    assert push.ext_fields == {
        "producerGroup": "pg",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "1",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": REPLY_PROPERTIES,
        "reconsumeTimes": "0",
        "unitMode": "false",
        "bornHost": "10.0.0.2:50000",
        "storeHost": "127.0.0.1:10911",
        "storeTimestamp": "5",
    }
    assert consumer.channel.sent == [], "the consumer is answered when the requester has answered"
    requester.answer(push)
    answer = await next_frame(consumer)
    assert (answer.code, answer.opaque) == (0, 7)
    assert {name: answer.ext_fields[name] for name in ("msgId", "queueId", "queueOffset")} == {
        "msgId": "ID",
        "queueId": "1",
        "queueOffset": "9",
    }


async def test_a_reply_that_its_requester_does_not_take(sessions: BrokerSessions) -> None:
    consumer, requester = Client(sessions), Client(sessions, 50_001)
    requester.beat("c1")
    send_reply(consumer)
    push = await next_frame(requester)
    requester.session.receive([push.response(1, "not my request")])
    answer = await next_frame(consumer)
    assert answer.code == 1 and "not my request" in answer.remark
    send_reply(consumer)
    await next_frame(requester)
    requester.session.closed()
    answer = await next_frame(consumer)
    assert answer.code == 1 and "closed" in answer.remark


async def test_a_one_way_reply_is_pushed_and_not_answered(sessions: BrokerSessions) -> None:
    consumer, requester = Client(sessions), Client(sessions, 50_001)
    requester.beat("c1")
    send_reply(consumer, oneway=True)
    requester.answer(await next_frame(requester))
    async with asyncio.timeout(PATIENCE):
        while consumer.session._relays:
            await asyncio.sleep(0)
    assert consumer.channel.sent == []


async def test_more_one_way_replies_than_can_be_pushed_at_once_are_pushed_after_their_consumer_has_gone(
    sessions: BrokerSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_session, "MAX_RELAYS", 1)
    consumer, requester = Client(sessions), Client(sessions, 50_001)
    requester.beat("c1")
    for opaque in range(5):
        send_reply(consumer, oneway=True, opaque=opaque)
    consumer.session.closed()
    for _ in range(5):
        requester.answer(await next_frame(requester))
    async with asyncio.timeout(PATIENCE):
        while consumer.session._relays:
            await asyncio.sleep(0)
    assert consumer.channel.sent == [] and consumer.session._waiting_bytes == 0


async def test_the_bytes_of_replies_on_their_way_are_limited(
    sessions: BrokerSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_session, "MAX_RELAYED_BYTES", 8)
    consumer, requester = Client(sessions), Client(sessions, 50_001)
    requester.beat("c1")
    send_reply(consumer, body=b"more than 8 bytes")
    push = await next_frame(requester)
    send_reply(consumer, opaque=8)
    assert len(consumer.session._relays) == 1
    requester.answer(push)
    assert (await next_frame(consumer)).code == 0
    requester.answer(await next_frame(requester))
    assert (await next_frame(consumer)).opaque == 8
    send_reply(consumer, opaque=9)
    requester.answer(await next_frame(requester))
    assert (await next_frame(consumer)).opaque == 9


def test_the_server_counts_its_questions_within_an_int32(sessions: BrokerSessions) -> None:
    client = Client(sessions)
    client.session._opaque = (1 << 31) - 1
    (notice,) = client.reply((c.NOTICE_ID, c.ConsumerIdsChanged(group="g")))
    assert notice.opaque == 0


def test_every_kind_of_notice_is_sent_to_the_client() -> None:
    """Whoever adds a notice for RocketMQ's clients adds a line for it."""
    client = Client(BrokerSessions(FakeRunner(), IDENTITY))
    kinds = [
        kind
        for kind in msgspec.inspect.type_info(c.AnyReply).types  # type: ignore[attr-defined]
        if issubclass(kind.cls, c.Notice)
    ]
    assert kinds
    for kind in kinds:
        notice = kind.cls(
            **{
                field.name: [] if isinstance(field.type, msgspec.inspect.ListType) else "g"
                for field in kind.fields
                if field.required
            }
        )
        assert len(client.reply((c.NOTICE_ID, notice))) == 1

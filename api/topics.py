"""Topics and their queues."""

from typing import Literal

from api import brokers
from api.names import OptionalTopicName, TopicName
from api.problems import Problem
from api.request import Answer, Params, Request, ask
from api.schemas import FoundOffset, Milliseconds, QueueId, Queues, TopicConfig, Topics
from bridge.port import commands


class TopicsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    system: bool = True


class TopicParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName


class QueuesParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: OptionalTopicName = ""


class SearchParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName
    queue_id: QueueId
    timestamp_ms: Milliseconds
    boundary: Literal["lower", "upper"] = "lower"


async def get_topics(request: Request[TopicsParams]) -> Answer:
    params = request.params
    replies = await brokers.ask_all(params.broker, commands.GetTopics(system=params.system), commands.Topics)
    topics = [topic for reply in replies.by_broker.values() for topic in reply.topics]
    return Answer(body=Topics(seq=replies.seq, topics=topics, unavailable=replies.missing))


async def get_topic(request: Request[TopicParams]) -> Answer:
    params = request.params
    broker = await brokers.one(params.broker, params.topic)
    reply = await ask(broker.port, commands.GetTopic(topic=params.topic), commands.Topics)
    return Answer(body=reply.topics[0])


async def put_topic(request: Request[TopicParams]) -> Answer:
    """Creates the topic or changes it, at every broker that is meant; the answer is how it is at the first of them."""
    body: TopicConfig = request.body
    if body.queues is not None and body.read_queues is not None and body.write_queues is not None:
        raise Problem(400, "queues sets read_queues and write_queues; send it or those two", pointer="/queues")
    _, reply = await brokers.ask_first(
        request.params.broker,
        commands.UpdateAndCreateTopic(
            topic=request.params.topic,
            read_queues=body.queues if body.read_queues is None else body.read_queues,
            write_queues=body.queues if body.write_queues is None else body.write_queues,
            perm=body.perm,
        ),
        commands.Topics,
    )
    brokers.forget_topics()
    return Answer(body=reply.topics[0])


async def delete_topic(request: Request[TopicParams]) -> Answer:
    params = request.params
    await brokers.ask_all(params.broker, commands.DeleteTopic(topic=params.topic), commands.Done)
    brokers.forget_topics()
    return Answer()


async def get_queues(request: Request[QueuesParams]) -> Answer:
    params = request.params
    replies = await brokers.ask_all(params.broker, commands.GetQueues(topic=params.topic), commands.Queues)
    queues = [queue for reply in replies.by_broker.values() for queue in reply.queues]
    return Answer(body=Queues(seq=replies.seq, queues=queues, unavailable=replies.missing))


async def search_offset(request: Request[SearchParams]) -> Answer:
    """The offset in a queue at a store time: RocketMQ's SEARCH_OFFSET_BY_TIMESTAMP."""
    params = request.params
    broker = await brokers.one(params.broker, params.topic)
    found = await ask(
        broker.port,
        commands.SearchOffset(
            topic=params.topic, queue_id=params.queue_id, timestamp_ms=params.timestamp_ms, boundary=params.boundary
        ),
        commands.FoundOffset,
    )
    return Answer(
        body=FoundOffset(broker=broker.name, topic=params.topic, queue_id=params.queue_id, offset=found.offset)
    )

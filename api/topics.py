"""Topics and their queues."""

from typing import Literal

from api import brokers
from api.names import OptionalTopicName, TopicName
from api.problems import Problem
from api.request import Answer, Params, Request, ask
from api.schemas import FoundOffset, Milliseconds, QueueId, Queues, TopicConfig, Topics, copied
from bridge.port import commands, get_port


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
    reply = await ask(get_port(), commands.GetTopics(system=request.params.system), commands.Topics)
    return Answer(body=copied(Topics, reply))


async def get_topic(request: Request[TopicParams]) -> Answer:
    reply = await ask(get_port(), commands.GetTopic(topic=request.params.topic), commands.Topics)
    return Answer(body=reply.topics[0])


async def put_topic(request: Request[TopicParams]) -> Answer:
    """Creates the topic or changes it; the answer is the topic as it is now."""
    body: TopicConfig = request.body
    if body.queues is not None and body.read_queues is not None and body.write_queues is not None:
        raise Problem(400, "queues sets read_queues and write_queues; send it or those two", pointer="/queues")
    reply = await ask(get_port(), commands.UpdateAndCreateTopic(
        topic=request.params.topic,
        read_queues=body.queues if body.read_queues is None else body.read_queues,
        write_queues=body.queues if body.write_queues is None else body.write_queues,
        perm=body.perm), commands.Topics)
    return Answer(body=reply.topics[0])


async def delete_topic(request: Request[TopicParams]) -> Answer:
    await ask(get_port(), commands.DeleteTopic(topic=request.params.topic), commands.Done)
    return Answer()


async def get_queues(request: Request[QueuesParams]) -> Answer:
    reply = await ask(get_port(), commands.GetQueues(topic=request.params.topic), commands.Queues)
    return Answer(body=copied(Queues, reply))


async def search_offset(request: Request[SearchParams]) -> Answer:
    """The offset in a queue at a store time: RocketMQ's SEARCH_OFFSET_BY_TIMESTAMP."""
    port, params = get_port(), request.params
    found = await ask(port, commands.SearchOffset(topic=params.topic, queue_id=params.queue_id,
        timestamp_ms=params.timestamp_ms, boundary=params.boundary), commands.FoundOffset)
    return Answer(body=FoundOffset(broker=await brokers.name_of(port), topic=params.topic, queue_id=params.queue_id,
        offset=found.offset))

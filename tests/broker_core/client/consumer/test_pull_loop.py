"""The loop with its consumer is in the tests of consumers; here is what happens to answers that nobody wants."""

from typing import TYPE_CHECKING

from broker_core.client import MessageQueue
from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.consumer.pull_message_service import PullRequest
from tests.fakes.client import Inbox, consumer_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually

if TYPE_CHECKING:
    import asyncio

    from broker_core.remoting.remoting_command import RemotingCommand

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)


def test_the_answer_for_a_queue_that_was_given_up_ends_its_pull_request() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with consumer_of(cluster, Inbox()) as consumer:
            request = PullRequest(QUEUE, ProcessQueue(0), 5)
            for dropped in (True, False):
                request.process_queue.dropped = dropped
                answer: asyncio.Future[RemotingCommand] = cluster.loop.create_future()
                if dropped:
                    answer.set_exception(ConnectionError("lost"))
                else:
                    answer.cancel()
                consumer.pulls.on_pull(request, answer)
            assert consumer.pulls._failing == set()
            assert all(timer.when() < cluster.loop.time() + 1 for timer in consumer.pull_service._later)

    run_virtually(story)

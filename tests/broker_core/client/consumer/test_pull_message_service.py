"""Pull requests are taken one after the other, now or later."""

import asyncio

from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.consumer.pull_message_service import PullMessageService, PullRequest
from broker_core.commands import MessageQueue
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually


def request(queue_id: int) -> PullRequest:
    return PullRequest(MessageQueue(topic="T", broker_name="a", queue_id=queue_id), ProcessQueue(0), 0)


def test_now_and_later() -> None:
    async def story(cluster: VirtualCluster) -> None:
        pulled: list[tuple[int, float]] = []
        begin = cluster.loop.time()
        service = PullMessageService(
            lambda request: pulled.append((request.message_queue.queue_id, round(cluster.loop.time() - begin, 3)))
        )
        service.start()
        service.execute_pull_request_later(request(1), 50)
        service.execute_pull_request_later(request(2), 20)
        service.execute_pull_request_immediately(request(3))
        gone = request(4)
        service.execute_pull_request_later(gone, 30)
        gone.process_queue.dropped = True
        service.execute_pull_request_later(request(5), 1000)
        await asyncio.sleep(0.5)
        await service.stop()
        service.execute_pull_request_immediately(request(6))
        await asyncio.sleep(10)
        assert pulled == [(3, 0), (2, 0.02), (1, 0.05)]

    run_virtually(story)

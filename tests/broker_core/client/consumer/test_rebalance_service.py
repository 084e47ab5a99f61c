"""When queues are shared out anew."""

import asyncio

import pytest

from broker_core.client.consumer.rebalance_service import RebalanceService
from broker_core.client.mq_client_exception import MQClientException
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually


class Consumer:
    """Records when it rebalances."""

    group = "g"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.begin = loop, loop.time()
        self.rounds: list[float] = []
        self.results: list[bool | Exception] = []
        self.rebalance = self

    async def do_rebalance(self) -> bool:
        self.rounds.append(self.loop.time() - self.begin)
        result = self.results.pop(0) if self.results else True
        if isinstance(result, Exception):
            raise result
        return result


def test_an_unexpected_error_does_not_end_the_rounds(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        consumer = Consumer(cluster.loop)
        instance = type("Instance", (), {"consumers": {"g": consumer}})()
        task = asyncio.create_task(RebalanceService(instance).run())
        consumer.results = [KeyError("of the allocate function")]
        await asyncio.sleep(45)
        assert consumer.rounds == pytest.approx([20, 40])
        task.cancel()

    run_virtually(story)
    assert "of the allocate function" in caplog.text


def test_rounds() -> None:
    async def story(cluster: VirtualCluster) -> None:
        consumer = Consumer(cluster.loop)
        instance = type("Instance", (), {"consumers": {"g": consumer}})()
        service = RebalanceService(instance)
        task = asyncio.create_task(service.run())
        consumer.results = [True, False, MQClientException("nobody answers"), OSError("gone"), True]
        await asyncio.sleep(44)
        assert consumer.rounds == pytest.approx([20, 40, 41, 42, 43])
        service.wakeup()
        service.wakeup()
        await asyncio.sleep(1)
        assert consumer.rounds[5:] == pytest.approx([44])
        await asyncio.sleep(20)
        assert consumer.rounds[6:] == pytest.approx([64])
        task.cancel()

    run_virtually(story)

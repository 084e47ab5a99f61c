"""The virtual cluster of ``broker_core.testing`` on simulated files."""

import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from broker_core.codes import RequestCode
from broker_core.testing import virtual_cluster
from broker_core.testing.virtual_cluster import NAMESRV, WALL_MS, Link, VirtualBroker, VirtualCluster, VirtualLoop
from tests.fakes.engine import ROOT
from tests.fakes.simulated_files import SimulatedFiles

__all__ = ["NAMESRV", "WALL_MS", "Link", "VirtualBroker", "VirtualCluster", "VirtualLoop", "run_virtually"]

T = TypeVar("T")
PULL, SEND, UPDATE_OFFSET = RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.UPDATE_CONSUMER_OFFSET
SEND_BACK, HEART_BEAT = RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.HEART_BEAT


def run_virtually(work: Callable[[VirtualCluster], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Run ``work`` on a virtual loop with a new cluster, and return its result."""
    return virtual_cluster.run_virtually(
        work, ROOT, seed=seed, make_files=lambda port: SimulatedFiles(random.Random(port))
    )

"""A name server in memory with a clock that the test moves, and brokers that register with it."""

import json
from pathlib import Path
from typing import Any

from broker_core.codes import RequestCode
from broker_core.formats import rocketmq_json
from broker_core.namesrv.namesrv_controller import NamesrvController
from broker_core.namesrv.namesrv_processor import NamesrvProcessor
from broker_core.remoting.remoting_command import RemotingCommand
from tests.fakes.clock import VirtualClock
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/namesrv")


def topic_config(topic: str, queues: int = 4, perm: int = 6, sys_flag: int = 0) -> dict[str, Any]:
    """A TopicConfig as RocketMQ 5.4 registers it."""
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": sys_flag,
        "writeQueueNums": queues,
    }


def register_body(
    *topics: dict[str, Any], counter: int = 1, state_version: int = 0, filter_servers: tuple[str, ...] = ()
) -> bytes:
    """A RegisterBrokerBody as RocketMQ 5.4 sends it."""
    version = {"counter": counter, "stateVersion": state_version, "timestamp": 1_700_000_000_000}
    return json.dumps(
        {
            "filterServerList": filter_servers,
            "topicConfigSerializeWrapper": {
                "dataVersion": version,
                "mappingDataVersion": version | {"counter": 0},
                "topicConfigTable": {topic["topicName"]: topic for topic in topics},
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            },
        },
        separators=(",", ":"),
    ).encode()


def broker_header(name: str, addr: str, broker_id: int = 0, cluster: str = "C1", **more: str) -> dict[str, str]:
    """The extFields of REGISTER_BROKER and its relatives."""
    return {
        "brokerName": name,
        "brokerAddr": addr,
        "clusterName": cluster,
        "haServerAddr": addr,
        "brokerId": str(broker_id),
    } | more


class NameServerBench:
    """One name server, its clock and files."""

    def __init__(self, files: SimulatedFiles | None = None, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.files = files or SimulatedFiles()
        self.controller = NamesrvController(FOLDER, self.files)
        self.processor = NamesrvProcessor(self.controller)

    def ask(
        self,
        code: int,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        connection: Any = "c",
        version: int = 493,
    ) -> RemotingCommand:
        request = RemotingCommand.request(code, ext_fields or {}, body, opaque=7)
        request.version = version
        return self.processor.process(request, connection, self.clock.now())

    def register(
        self,
        name: str,
        addr: str,
        *topics: str,
        connection: Any = "c",
        broker_id: int = 0,
        queues: int = 4,
        counter: int = 1,
        state_version: int = 0,
        cluster: str = "C1",
        **more: str,
    ) -> RemotingCommand:
        """REGISTER_BROKER with topics of ``queues`` queues."""
        body = register_body(
            *(topic_config(topic, queues) for topic in topics), counter=counter, state_version=state_version
        )
        return self.ask(
            RequestCode.REGISTER_BROKER,
            broker_header(name, addr, broker_id, cluster, **more),
            body,
            connection=connection,
        )

    def route(self, topic: str) -> Any:
        """The route of a topic as JSON; None when it is unknown."""
        answer = self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return json.loads(answer.body) if answer.code == 0 else None

    def addresses(self) -> dict[str, dict[int, str]]:
        """Broker name -> broker id -> address."""
        table: Any = rocketmq_json.decode(self.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)["brokerAddrTable"]
        return {name: data["brokerAddrs"] for name, data in table.items()}

    def write(self) -> int:
        """Write all files that are due; returns their number."""
        count = 0
        while (write := self.controller.next_write()) is not None:
            write.run()
            count += 1
        return count

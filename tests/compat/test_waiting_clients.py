"""Stock Java consumers that stand still, and what the broker says about their groups."""

import asyncio
import tempfile
from urllib.parse import quote

from tests.compat import java_program
from tests.compat.conftest import needs
from tests.compat.glassmq_broker import Address
from tests.compat.program import running_client
from tests.e2e.conftest import Broker
from tests.e2e.waiting_site import Site, verdict

LISTENERS = {
    "suspending": (True, "listener_blocked", "(orderly, java-suspending@0 suspended)"),
    "blocked": (False, "listener_blocked", "2 messages handed to"),
    "failing": (False, "every_message_fails", "Every message fails: 2 of 2 came back"),
    "suspended": (False, "not_pulling", "java-suspended@0 is assigned to ... which has not asked for"),
}
"""What the listener does: whether it is orderly, and the verdict on its group."""


async def test_java_consumers_that_stand_still(glassmq: Address, everything: bool) -> None:
    needs(java_program.classes)
    ports = {
        "GLASSMQ_BROKER_PORT": glassmq.broker.rpartition(":")[2],
        "GLASSMQ_NAMESRV_PORT": glassmq.namesrv.rpartition(":")[2],
    }
    for listener in LISTENERS if everything else ("suspending",):
        is_orderly, wanted, words = LISTENERS[listener]
        site = await asyncio.to_thread(Site, Broker(glassmq.web), f"java-{listener}", ports)
        await site.publish("", "")
        named = {"namesrv": glassmq.namesrv, "group": site.group, "topic": site.topic, "listener": listener}
        given = [word for name, value in named.items() for word in (f"--{name}", value)]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            command = java_program.command("member", *given, "--orderly", str(int(is_orderly)), home=home)
            with running_client(command, home):
                answer, found = await verdict(site, wanted, words)
                if listener == "suspended":  # it consumed both messages before
                    assert "it is suspended, frozen, cut off, or busy with its messages" in found["sentence"]
                    await site.publish("")
                    answer, _ = await verdict(site, wanted, words, state="stalled")
                assert answer["state"] == "stalled", answer
                if listener == "suspending":
                    await asyncio.to_thread(consume_directly, Broker(glassmq.web), site)
                    await asyncio.to_thread(show_threads, Broker(glassmq.web), site)


def show_threads(broker: Broker, site: Site) -> None:
    """A stock client is asked for its queues and for the stacks of its threads."""
    path = f"/api/v1/groups/{site.group}/running-info"
    ((client,),) = ([*of_broker["clients"]] for of_broker in broker.call("GET", path)["brokers"])
    assert (client["problem"], client["stacks"]) == ("", None), client
    (queue,) = (queue for queue in client["queues"] if queue["topic"] == site.topic)
    assert (queue["cached"], queue["locked"]) == (2, True), queue
    answer = broker.call("GET", f"{path}?client={quote(client['client_id'])}&stacks=true")
    assert "ConsumeMessage" in answer["brokers"][0]["clients"][0]["stacks"]


def consume_directly(broker: Broker, site: Site) -> None:
    """A stock client calls its listener for a message that an operator chooses, and its answer is understood."""
    (client,) = broker.call("GET", f"/api/v1/clients?group={site.group}")["clients"]
    (message, *_) = broker.call("GET", f"/api/v1/messages?topic={site.topic}")["messages"]
    answer = broker.call(
        "POST",
        f"/api/v1/messages/{message['offset_message_id']}/consume-directly?topic={site.topic}",
        {"group": site.group, "client_id": client["client_id"]},
    )
    assert (answer["result"], answer["order"], answer["remark"]) == ("CR_LATER", True, ""), answer

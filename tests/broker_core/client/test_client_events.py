"""Every step of a message is an event, and a listener that raises stops nothing."""

import asyncio

import pytest

from broker_core.client import DefaultMQProducer, DefaultMQPushConsumer, Message, MQClientException, MQClientInstance
from broker_core.client.client_events import (
    ClientEvent,
    MessagesConsumed,
    MessageSent,
    MessagesPut,
    OffsetCommitted,
    PullAnswered,
    PullSent,
)
from broker_core.codes import ResponseCode
from tests.fakes.client import Inbox, consumer_of
from tests.fakes.virtual_cluster import NAMESRV, PULL, SEND, VirtualCluster, run_virtually


@pytest.mark.parametrize("orderly", [False, True])
def test_the_way_of_a_message(orderly: bool) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        events: list[ClientEvent] = []
        instance = MQClientInstance(NAMESRV, clock=cluster.loop, event_listener=events.append)
        inbox = Inbox()
        consumer = DefaultMQPushConsumer("g", instance=instance)
        consumer.subscribe("orders")
        consumer.register_message_listener(inbox, orderly=orderly)
        async with DefaultMQProducer("pg", instance=instance) as producer, consumer:
            await asyncio.sleep(3)
            sent = await producer.send(Message("orders", b"x", properties={"traceparent": "00-1-2-01"}))
            await asyncio.sleep(6)
            broker.refuse[PULL] = ResponseCode.SYSTEM_BUSY
            await asyncio.sleep(30)
            broker.refuse[SEND] = ResponseCode.MESSAGE_ILLEGAL
            with pytest.raises(MQClientException):
                await producer.send(Message("orders", b"x"))
        of_queue = [event for event in events if getattr(event, "queue", None) == sent.message_queue]
        begin, *names = [type(event) for event in of_queue if event.group == "g"]
        assert begin is OffsetCommitted  # the offset at which the new group begins
        way = [PullSent, PullAnswered, MessagesPut, MessagesConsumed, OffsetCommitted]
        assert [name for name in dict.fromkeys(names) if name in way] == way
        first, failed = (event for event in events if isinstance(event, MessageSent))
        assert (first.send_status, first.msg_id, first.attempts) == ("SEND_OK", sent.msg_id, 1)
        assert "traceparent\x0100-1-2-01" in first.properties
        assert (failed.send_status, failed.queue, failed.attempts) == ("", None, 1) and "refused" in failed.error
        answered = [event for event in of_queue if isinstance(event, PullAnswered)]
        found, error = answered[0], answered[-1]
        assert (found.status, found.messages, found.pull_from_offset, found.next_begin_offset) == ("FOUND", 1, 0, 1)
        assert found.duration_ns == pytest.approx(2.5e9, rel=0.01)  # held until the message came
        assert (error.status, error.messages) == ("", 0) and "refused" in error.error
        [consumed] = [event for event in events if isinstance(event, MessagesConsumed)]
        assert (consumed.consumed, consumed.messages[0].properties["traceparent"]) == (1, "00-1-2-01")
        assert [event.offset for event in of_queue if isinstance(event, OffsetCommitted)] == [0, 1]

    run_virtually(story)


def test_a_listener_that_raises_is_called_no_more(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        events: list[ClientEvent] = []

        def listener(event: ClientEvent) -> None:
            events.append(event)
            raise ValueError("of the program")

        instance = MQClientInstance(NAMESRV, clock=cluster.loop, event_listener=listener)
        async with DefaultMQProducer("pg", instance=instance) as producer:
            for _ in range(2):
                await producer.send(Message("orders", b"x"))
        assert len(events) == 1

    run_virtually(story)
    assert "failed at MessageSent and is called no more" in caplog.text


def test_each_pull_that_is_sent_is_answered_also_if_its_queue_is_given_up() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 4)
        events: list[ClientEvent] = []
        instance = MQClientInstance(NAMESRV, clock=cluster.loop, event_listener=events.append)
        consumer = DefaultMQPushConsumer("g", instance=instance)
        consumer.subscribe("orders")
        consumer.register_message_listener(Inbox())
        async with consumer:
            await asyncio.sleep(3)  # its pulls are held
            async with consumer_of(cluster, Inbox()):
                await asyncio.sleep(60)
        sent = [event for event in events if isinstance(event, PullSent)]
        answered = [event for event in events if isinstance(event, PullAnswered)]
        assert len(sent) == len(answered) > 0
        assert "its queue was given up meanwhile" in {event.error for event in answered}

    run_virtually(story)

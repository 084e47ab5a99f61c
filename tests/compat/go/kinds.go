package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Messages that are committed or rolled back, filtered by their properties, replied to, or delivered at a time of their
// own. The client's library has no call that queries messages by key, and none that recalls one.

// ends says how a transaction ends by the message's tag.
type ends struct{}

func (ends) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	if m.GetTags() == "commit" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func (ends) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState {
	return primitive.UnknowState
}

func transactionEnds(w *world) {
	topic := w.topic(1)
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	p, err := rocketmq.NewTransactionProducer(ends{}, producer.WithNsResolver(w.resolver()),
		producer.WithGroupName(w.name("pg")), producer.WithInstanceName(w.name("i")),
		producer.WithSendMsgTimeout(10*time.Second))
	must("new producer", err)
	must("start producer", p.Start())
	w.atEnd(func() { p.Shutdown() })
	for i := 0; i < 6; i++ {
		tag := []string{"commit", "rollback"}[i%2]
		result, err := p.SendMessageInTransaction(background, message(topic, tag, i))
		must("send", err)
		check(result.Status == primitive.SendOK, "status %v", result.Status)
	}
	send(w.producer(), topic, "none", 6, 1)
	in.awaitCount(4, while)
	numbers := in.numbers()
	sort.Ints(numbers) // the ends are sent one-way, so they may overtake each other
	check(fmt.Sprint(numbers) == "[0 2 4 6]", "consumers see %v", numbers)
	for _, m := range in.all() {
		if number(m) < 6 {
			check(m.SysFlag&12 == 8, "flag %d is not that of a commit", m.SysFlag)
			check(m.GetProperty("TRAN_MSG") == "true", "TRAN_MSG %s", m.GetProperty("TRAN_MSG"))
		}
	}
}

func pushSQL92(w *world) {
	topic := w.topic(2)
	p := w.producer()
	sized := func(first, count int, size string) {
		for i := first; i < first+count; i++ {
			m := message(topic, "A", i)
			m.WithProperty("color", "red")
			m.WithProperty("size", size)
			_, err := p.SendSync(background, m)
			must("send", err)
		}
	}
	sized(0, 10, "11")
	sized(100, 10, "9")
	sized(200, 10, "large")
	send(p, topic, "A", 300, 10)
	in := &inbox{}
	c, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(w.resolver()), consumer.WithGroupName(w.name("g")),
		consumer.WithInstance(w.name("i")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must("new consumer", err)
	filter := consumer.MessageSelector{Type: consumer.SQL92, Expression: "color = 'red' AND size > 10"}
	must("subscribe", c.Subscribe(topic, filter, in.succeed))
	must("start consumer", c.Start())
	w.atEnd(func() { c.Shutdown() })
	in.await(0, 10, while)
	sized(110, 5, "10")
	sized(10, 10, "12")
	in.await(0, 20, while)
	in.awaitCount(20, time.Second)
}

// requestSync asks until there is a reply. A producer of this client may be unknown to the broker up to its next
// heartbeat, half a minute later, and until then no reply reaches it.
func requestSync(w *world) {
	topic := w.topic(2)
	answering := w.producer()
	replies := make(chan error, 100)
	w.consume(w.name("g"), topic, "*",
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range messages {
				reply, err := consumer.CreateReplyMessage(m, nil) // which reads properties from a body and drops it
				if err == nil {
					reply.Body = append(m.Body, '!')
					_, err = answering.SendSync(background, reply)
				}
				replies <- err
			}
			return consumer.ConsumeSuccess, nil
		})
	asking := w.producer()
	var reply *primitive.Message
	until("a reply", while, func() bool {
		var err error
		reply, err = asking.Request(background, 2*time.Second, message(topic, "tag", 7))
		return err == nil
	})
	until("the replier hears of it", while, func() bool { return <-replies == nil })
	check(string(reply.Body) == "7!", "reply %s", reply.Body)
	check(reply.GetProperty("MSG_TYPE") == "reply", "type %s", reply.GetProperty("MSG_TYPE"))
}

// timerDeliver sets the property by itself: this client has no call for it.
func timerDeliver(w *world) {
	topic := w.topic(2)
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	due := time.Now().UnixMilli() + 1500
	m := message(topic, "tag", 0)
	m.WithProperty("TIMER_DELIVER_MS", strconv.FormatInt(due, 10))
	sent, err := w.producer().SendSync(background, m)
	must("send", err)
	in.awaitCount(1, while)
	came := in.all()[0]
	check(came.StoreTimestamp >= due, "came %d ms early", due-came.StoreTimestamp)
	check(came.StoreTimestamp < due+15_000, "came %d ms late", came.StoreTimestamp-due)
	check(came.Topic == topic && came.MsgId == sent.MsgID, "topic %s, id %s", came.Topic, came.MsgId)
}

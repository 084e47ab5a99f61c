package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type namedCase struct {
	name string
	run  func(*world)
}

var background = context.Background()

const while = 90 * time.Second

var cases = []namedCase{
	{"producer.sync", producerSync},
	{"producer.async", producerAsync},
	{"producer.oneway", producerOneway},
	{"producer.batch", producerBatch},
	{"producer.compressed", producerCompressed},
	{"producer.ordered", producerOrdered},
	{"producer.auto_creation", producerAutoCreation},
	{"producer.unknown_topic", producerUnknownTopic},
	{"producer.too_large", producerTooLarge},
	{"push.concurrent", pushConcurrent},
	{"push.held_pull_is_woken", pushHeld},
	{"push.broadcast", pushBroadcast},
	{"push.orderly", pushOrderly},
	{"push.tags", pushTags},
	{"push.sql92", pushSQL92},
	{"push.unknown_topic", pushUnknownTopic},
	{"retry.once", retryOnce},
	{"retry.dead_letter", retryDeadLetter},
	{"retry.orderly_suspend", retryOrderly},
	{"delay.level_1", delayLevel},
	{"timer.deliver_ms", timerDeliver},
	{"transaction.commit_and_rollback", transactionEnds},
	{"request.sync", requestSync},
	{"group.join_and_leave", groupJoinAndLeave},
	{"group.killed_member", groupKilledMember},
	{"group.offsets_survive_a_restart", groupOffsets},
	{"pull.poll", pullPoll},
	{"pull.pull_from", pullFrom},
}

func producerSync(w *world) {
	topic := w.topic(4)
	p := w.producer()
	places, queues := map[string]bool{}, map[int]bool{}
	for _, result := range send(p, topic, "tag", 0, 40) {
		check(len(result.MsgID) == 32 || len(result.MsgID) == 56, "id %s", result.MsgID)
		check(len(result.OffsetMsgID) == 32, "offset id %s", result.OffsetMsgID)
		check(result.RegionID == "DefaultRegion", "region %s", result.RegionID)
		places[fmt.Sprint(result.MessageQueue.QueueId, result.QueueOffset)] = true
		queues[result.MessageQueue.QueueId] = true
	}
	check(len(places) == 40, "%d different places", len(places))
	check(len(queues) == 4, "%d queues in use", len(queues))
	m := primitive.NewMessage(topic, []byte("100")).WithTag("标签").WithKeys([]string{"k1", "ключ"})
	m.WithProperty("имя", "значение 🌍")
	m.Flag = 7
	result, err := p.SendSync(background, m)
	must("send", err)
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	until("all of them", while, func() bool { return len(in.all()) == 41 })
	for _, seen := range in.all() {
		if string(seen.Body) == "100" {
			check(seen.GetTags() == "标签" && seen.GetKeys() == "k1 ключ", "tag %s, keys %s", seen.GetTags(), seen.GetKeys())
			check(seen.GetProperty("имя") == "значение 🌍", "property %s", seen.GetProperty("имя"))
			check(seen.Flag == 7, "flag %d", seen.Flag)
			check(seen.MsgId == result.MsgID, "id %s, sent as %s", seen.MsgId, result.MsgID)
			check(seen.OffsetMsgId == result.OffsetMsgID, "offset id %s, sent as %s", seen.OffsetMsgId, result.OffsetMsgID)
		}
	}
}

func producerAsync(w *world) {
	topic := w.topic(2)
	p := w.producer()
	var done sync.WaitGroup
	var mutex sync.Mutex
	var failure error
	places := map[string]bool{}
	for i := 0; i < 100; i++ {
		done.Add(1)
		must("send", p.SendAsync(background, func(_ context.Context, result *primitive.SendResult, err error) {
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				failure = err
			} else {
				places[fmt.Sprint(result.MessageQueue.QueueId, result.QueueOffset)] = true
			}
			done.Done()
		}, message(topic, "tag", i)))
	}
	done.Wait()
	must("answer", failure)
	check(len(places) == 100, "%d different places", len(places))
}

func producerOneway(w *world) {
	topic := w.topic(2)
	p := w.producer()
	for i := 0; i < 30; i++ {
		must("send", p.SendOneWay(background, message(topic, "tag", i)))
	}
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	in.await(0, 30, while)
}

func producerBatch(w *world) {
	topic := w.topic(4)
	var batch []*primitive.Message
	for i := 0; i < 20; i++ {
		batch = append(batch, message(topic, "tag", i).WithKeys([]string{fmt.Sprint("key", i)}))
	}
	result, err := w.producer().SendSync(background, batch...)
	must("send", err)
	check(len(strings.Split(result.OffsetMsgID, ",")) == 20, "offset ids %s", result.OffsetMsgID)
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	in.await(0, 20, while)
	for _, m := range in.all() {
		check(m.Queue.QueueId == result.MessageQueue.QueueId, "queue %d", m.Queue.QueueId)
		check(m.GetKeys() == "key"+string(m.Body), "keys %s of %s", m.GetKeys(), m.Body)
		check(m.GetTags() == "tag", "tag %s", m.GetTags())
	}
}

func producerCompressed(w *world) {
	topic := w.topic(1)
	body := strings.Repeat("compresses well. ", 10_000)
	_, err := w.producer().SendSync(background, primitive.NewMessage(topic, []byte(body)))
	must("send", err)
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	in.awaitCount(1, while)
	m := in.all()[0]
	check(string(m.Body) == body, "the body is another, %d bytes", len(m.Body))
	check(int(m.StoreSize) < len(body)/10, "stored in %d bytes", m.StoreSize)
}

func producerOrdered(w *world) {
	topic := w.topic(4)
	p := w.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for i := 0; i < 60; i++ {
		_, err := p.SendSync(background, message(topic, "tag", i).WithShardingKey(fmt.Sprint("order-", i%3)))
		must("send", err)
	}
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	in.await(0, 60, while)
	queueOf := map[int]int{}
	offsets := map[int][]int64{}
	all := in.all()
	sort.Slice(all, func(i, j int) bool { return number(all[i]) < number(all[j]) })
	for _, m := range all {
		order := number(m) % 3
		if queue, known := queueOf[order]; known {
			check(queue == m.Queue.QueueId, "order %d is in two queues", order)
		}
		queueOf[order] = m.Queue.QueueId
		offsets[order] = append(offsets[order], m.QueueOffset)
	}
	for order, of := range offsets {
		check(sort.SliceIsSorted(of, func(i, j int) bool { return of[i] < of[j] }), "order %d is not kept", order)
	}
}

func number(m *primitive.MessageExt) int {
	var n int
	fmt.Sscan(string(m.Body), &n)
	return n
}

func producerAutoCreation(w *world) {
	topic := w.name("new")
	send(w.producer(producer.WithDefaultTopicQueueNums(3)), topic, "tag", 0, 6)
	in := &inbox{}
	until("a consumer finds the topic", while, func() bool { // its Start fails as long as there is no route
		c, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(w.resolver()), consumer.WithGroupName(w.name("g")),
			consumer.WithInstance(w.name("i")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
		must("new consumer", err)
		must("subscribe", c.Subscribe(topic, consumer.MessageSelector{}, in.succeed))
		w.atEnd(func() { c.Shutdown() })
		return c.Start() == nil
	})
	in.await(0, 6, while)
}

func producerUnknownTopic(w *world) {
	p := w.producer(producer.WithCreateTopicKey(w.name("no-template")))
	_, err := p.SendSync(background, message(w.name("never"), "tag", 0))
	check(err != nil, "it was sent")
}

func producerTooLarge(w *world) {
	topic := w.topic(1)
	p := w.producer()
	body := make([]byte, 5<<20)
	rand.Read(body)
	_, err := p.SendSync(background, primitive.NewMessage(topic, body))
	check(err != nil, "it was sent")
	send(p, topic, "tag", 0, 1)
}

func pushConcurrent(w *world) {
	topic := w.topic(4)
	p := w.producer()
	send(p, topic, "tag", 0, 50)
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	in.await(0, 50, while)
	send(p, topic, "tag", 50, 50)
	in.await(0, 100, while)
	in.awaitCount(100, time.Second)
}

func pushHeld(w *world) {
	topic := w.topic(1)
	p := w.producer()
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	send(p, topic, "tag", 0, 1)
	in.await(0, 1, while)
	for i := 1; i <= 10; i++ {
		time.Sleep(200 * time.Millisecond)
		began := time.Now()
		send(p, topic, "tag", i, 1)
		in.await(0, i+1, while)
		check(time.Since(began) < 4*time.Second, "a message waited %v", time.Since(began))
	}
}

func pushBroadcast(w *world) {
	topic := w.topic(2)
	group := w.name("g")
	one, two := &inbox{}, &inbox{}
	for _, in := range []*inbox{one, two} {
		w.consume(group, topic, "*", in.succeed, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	p := w.producer()
	next := 0
	awaitShares(w, p, topic, &next, while, map[*inbox]int{one: 2, two: 2}) // its offsets begin where the queues end then
	send(p, topic, "tag", next, 20)
	for _, in := range []*inbox{one, two} {
		until("everything came to both", while, func() bool {
			came := map[int]bool{}
			for _, n := range in.numbers() {
				if n >= next {
					came[n] = true
				}
			}
			return len(came) == 20
		})
	}
}

func pushOrderly(w *world) {
	topic := w.topic(3)
	p := w.producer()
	send(p, topic, "tag", 0, 30)
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed, consumer.WithConsumerOrder(true))
	in.await(0, 30, while)
	send(p, topic, "tag", 30, 30)
	in.await(0, 60, while)
	last := map[int]int64{}
	for _, m := range in.all() {
		if before, known := last[m.Queue.QueueId]; known {
			check(before < m.QueueOffset, "queue %d: %d after %d", m.Queue.QueueId, m.QueueOffset, before)
		}
		last[m.Queue.QueueId] = m.QueueOffset
	}
}

func pushTags(w *world) {
	topic := w.topic(2)
	p := w.producer()
	send(p, topic, "A", 0, 10)
	send(p, topic, "C", 100, 10)
	in := &inbox{}
	w.consume(w.name("g"), topic, "A || B", in.succeed)
	send(p, topic, "B", 10, 10)
	send(p, topic, "", 110, 10)
	in.await(0, 20, while)
	send(p, topic, "C", 120, 5)
	send(p, topic, "A", 20, 5)
	in.await(0, 25, while)
	in.awaitCount(25, time.Second)
}

func pushUnknownTopic(w *world) {
	c, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(w.resolver()), consumer.WithGroupName(w.name("g")),
		consumer.WithInstance(w.name("i")))
	must("new consumer", err)
	must("subscribe", c.Subscribe(w.name("never"), consumer.MessageSelector{}, (&inbox{}).succeed))
	w.atEnd(func() { c.Shutdown() })
	check(c.Start() != nil, "it started")
}

// failing fails each message so many times, to be tried again after a second.
func failing(in *inbox, times int32) listener {
	return func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		in.add(messages...)
		if concurrently, ok := primitive.GetConcurrentlyCtx(ctx); ok {
			concurrently.DelayLevelWhenNextConsume = 1
		}
		if messages[0].ReconsumeTimes < times {
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	}
}

// knownGroup is a group that has been there before. A new one has no retry topic yet when the client first asks for it,
// and the client asks again only half a minute later.
func (w *world) knownGroup(topic string) string {
	group := w.name("g")
	must("shutdown", w.consume(group, topic, "*", (&inbox{}).succeed).Shutdown())
	return group
}

func retryOnce(w *world) {
	topic := w.topic(2)
	in := &inbox{}
	w.consume(w.knownGroup(topic), topic, "*", failing(in, 1))
	sent := send(w.producer(), topic, "tag", 5, 1)[0]
	until("it came again", while, func() bool { return len(in.all()) == 2 })
	for i, m := range in.all() {
		check(m.ReconsumeTimes == int32(i), "reconsume times %d", m.ReconsumeTimes)
		check(m.Topic == topic && string(m.Body) == "5", "topic %s, body %s", m.Topic, m.Body)
		check(m.GetProperty("UNIQ_KEY") == sent.MsgID, "id %s", m.GetProperty("UNIQ_KEY"))
	}
	origin := in.all()[1].GetProperty("ORIGIN_MESSAGE_ID")
	check(origin == sent.OffsetMsgID, "ORIGIN_MESSAGE_ID %s, sent as %s", origin, sent.OffsetMsgID)
}

func retryDeadLetter(w *world) {
	topic := w.topic(1)
	group := w.knownGroup(topic)
	in := &inbox{}
	w.consume(group, topic, "*", failing(in, 99), consumer.WithMaxReconsumeTimes(1))
	send(w.producer(), topic, "tag", 5, 1)
	until("it came again", while, func() bool { return len(in.all()) == 2 })
	dead := &inbox{}
	until("a consumer of the dead letter queue", while, func() bool {
		c, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(w.resolver()), consumer.WithGroupName(w.name("d")),
			consumer.WithInstance(w.name("i")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
		must("new consumer", err)
		must("subscribe", c.Subscribe("%DLQ%"+group, consumer.MessageSelector{}, dead.succeed))
		w.atEnd(func() { c.Shutdown() })
		return c.Start() == nil
	})
	dead.await(5, 1, while)
	check(dead.all()[0].GetProperty("RETRY_TOPIC") == topic, "RETRY_TOPIC %s", dead.all()[0].GetProperty("RETRY_TOPIC"))
}

func retryOrderly(w *world) {
	topic := w.topic(1)
	in := &inbox{}
	failures := 0
	w.consume(w.name("g"), topic, "*",
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			if orderly, ok := primitive.GetOrderlyCtx(ctx); ok {
				orderly.SuspendCurrentQueueTimeMillis = 100
			}
			if number(messages[0]) == 2 && failures < 2 {
				failures++
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			in.add(messages...)
			return consumer.ConsumeSuccess, nil
		}, consumer.WithConsumerOrder(true))
	send(w.producer(), topic, "tag", 0, 5)
	in.await(0, 5, while)
	check(failures == 2, "%d failures", failures)
	check(fmt.Sprint(in.numbers()) == "[0 1 2 3 4]", "order %v", in.numbers())
}

func delayLevel(w *world) {
	topic := w.topic(2)
	in := &inbox{}
	w.consume(w.name("g"), topic, "*", in.succeed)
	before := time.Now().UnixMilli()
	_, err := w.producer().SendSync(background, message(topic, "tag", 0).WithDelayTimeLevel(1))
	must("send", err)
	in.awaitCount(1, while)
	check(in.all()[0].StoreTimestamp-before > 950, "came %d ms later", in.all()[0].StoreTimestamp-before)
	check(in.all()[0].Topic == topic, "topic %s", in.all()[0].Topic)
}

// numbersOf gives the queues that the newest messages of each inbox came from.
func queuesOf(in *inbox, from int) map[int]bool {
	queues := map[int]bool{}
	for _, m := range in.all() {
		if number(m) >= from {
			queues[m.Queue.QueueId] = true
		}
	}
	return queues
}

// awaitShares sends rounds of messages until one of them is shared as expected.
func awaitShares(w *world, p rocketmq.Producer, topic string, first *int, limit time.Duration, shares map[*inbox]int) {
	until("shares", limit, func() bool {
		send(p, topic, "tag", *first, 16) // four in each of four queues
		from := *first
		*first += 16
		time.Sleep(300 * time.Millisecond)
		for in, share := range shares {
			if len(queuesOf(in, from)) != share {
				return false
			}
		}
		return true
	})
}

func groupJoinAndLeave(w *world) {
	topic := w.topic(4)
	group := w.name("g")
	p := w.producer()
	one, two := &inbox{}, &inbox{}
	next := 0
	w.consume(group, topic, "*", one.succeed)
	awaitShares(w, p, topic, &next, while, map[*inbox]int{one: 4})
	leaving := w.consume(group, topic, "*", two.succeed)
	awaitShares(w, p, topic, &next, 15*time.Second, map[*inbox]int{one: 2, two: 2})
	must("shutdown", leaving.Shutdown())
	awaitShares(w, p, topic, &next, 15*time.Second, map[*inbox]int{one: 4, two: 0})
	all := &inbox{}
	all.add(one.all()...)
	all.add(two.all()...)
	until("everything came", while, func() bool {
		seen := map[int]bool{}
		for _, n := range append(one.numbers(), two.numbers()...) {
			seen[n] = true
		}
		return len(seen) == next
	})
}

func groupKilledMember(w *world) {
	topic := w.topic(4)
	group := w.name("g")
	p := w.producer()
	in := &inbox{}
	next := 0
	w.consume(group, topic, "*", in.succeed)
	awaitShares(w, p, topic, &next, while, map[*inbox]int{in: 4})
	other := exec.Command(os.Args[0], "member", "-namesrv", w.namesrv, "-group", group, "-topic", topic)
	input, err := other.StdinPipe()
	must("pipe", err)
	defer input.Close()
	must("start member", other.Start())
	defer other.Wait()
	defer other.Process.Kill()
	awaitShares(w, p, topic, &next, 15*time.Second, map[*inbox]int{in: 2})
	must("kill", other.Process.Kill())
	awaitShares(w, p, topic, &next, 15*time.Second, map[*inbox]int{in: 4})
}

// runMember consumes until it is killed or the process that started it ends.
func runMember(namesrv, group, topic string, orderly bool) {
	w := &world{namesrv: namesrv, run: unique("member")}
	if orderly {
		runOrderlyMember(w, group, topic)
		return
	}
	w.consume(group, topic, "*", (&inbox{}).succeed)
	os.Stdin.Read(make([]byte, 1))
}

// runOrderlyMember prints when it consumed which message. At a line of input it leaves the group. It finishes what its
// listener has begun first: the client unlocks its queues at once, also while the listener is at work.
func runOrderlyMember(w *world, group, topic string) {
	var mutex sync.Mutex
	var atWork sync.WaitGroup
	leaving := false
	c := w.consume(group, topic, "*",
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			mutex.Lock()
			if leaving {
				mutex.Unlock()
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			atWork.Add(1)
			mutex.Unlock()
			defer atWork.Done()
			began := time.Now().UnixMilli()
			time.Sleep(10 * time.Millisecond)
			ended := time.Now().UnixMilli()
			for _, m := range messages {
				tell(map[string]interface{}{"queue": m.Queue.QueueId, "offset": m.QueueOffset, "began_ms": began,
					"ended_ms": ended})
			}
			return consumer.ConsumeSuccess, nil
		}, consumer.WithConsumerOrder(true))
	if count, _ := os.Stdin.Read(make([]byte, 1)); count == 0 {
		return
	}
	mutex.Lock()
	leaving = true
	mutex.Unlock()
	atWork.Wait()
	must("shutdown", c.Shutdown())
}

func groupOffsets(w *world) {
	topic := w.topic(2)
	group := w.name("g")
	p := w.producer()
	send(p, topic, "tag", 0, 20)
	before := &inbox{}
	c := w.consume(group, topic, "*", before.succeed)
	before.await(0, 20, while)
	must("shutdown", c.Shutdown()) // commits
	time.Sleep(500 * time.Millisecond)
	send(p, topic, "tag", 20, 10)
	after := &inbox{}
	w.consume(group, topic, "*", after.succeed)
	after.await(20, 10, while)
}

func pullConsumer(w *world, topic, tags string) rocketmq.PullConsumer {
	c, err := rocketmq.NewPullConsumer(consumer.WithNsResolver(w.resolver()), consumer.WithGroupName(w.name("g")),
		consumer.WithInstance(w.name("i")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must("new consumer", err)
	must("subscribe", c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}))
	must("start", c.Start())
	w.atEnd(func() { c.Shutdown() })
	return c
}

func pullPoll(w *world) {
	topic := w.topic(2)
	p := w.producer()
	send(p, topic, "A", 0, 20)
	c := pullConsumer(w, topic, "*")
	in := &inbox{}
	until("all of them", while, func() bool {
		request, err := c.Poll(background, time.Second)
		if consumer.IsNoNewMsgError(err) {
			return false
		}
		must("poll", err)
		in.add(request.GetMsgList()...)
		c.ACK(background, request, consumer.ConsumeSuccess)
		return len(in.all()) == 20
	})
	in.await(0, 20, time.Second)
}

func pullFrom(w *world) {
	topic := w.topic(1)
	sent := send(w.producer(), topic, "A", 0, 10)
	c := pullConsumer(w, topic, "*")
	queue := &primitive.MessageQueue{Topic: topic, BrokerName: sent[0].MessageQueue.BrokerName, QueueId: 0}
	result, err := c.PullFrom(background, queue, 3, 5)
	must("pull", err)
	check(result.Status == primitive.PullFound, "status %v", result.Status)
	check(result.NextBeginOffset == 8 && result.MinOffset == 0 && result.MaxOffset == 10,
		"next %d, min %d, max %d", result.NextBeginOffset, result.MinOffset, result.MaxOffset)
	in := &inbox{}
	in.add(result.GetMessageExts()...)
	in.await(3, 5, time.Second)
	result, err = c.PullFrom(background, queue, 99, 5)
	must("pull behind the end", err)
	check(result.Status == primitive.PullOffsetIllegal, "status %v", result.Status)
}

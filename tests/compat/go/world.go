package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// world is what one case works with: names of its own, and clients that end with it.
type world struct {
	namesrv, broker, run string
	serial               int64
	endings              []func()
}

func unique(name string) string {
	return strings.ReplaceAll(name, ".", "-") + "-" + strconv.FormatInt(time.Now().UnixNano()%1e12, 36) +
		strconv.FormatInt(int64(os.Getpid()), 36)
}

func (w *world) name(what string) string {
	return fmt.Sprintf("%s-go-%s-%d", what, w.run, atomic.AddInt64(&w.serial, 1))
}

func (w *world) atEnd(ending func()) { w.endings = append(w.endings, ending) }

func (w *world) close() {
	for i := len(w.endings) - 1; i >= 0; i-- {
		w.endings[i]()
	}
}

func (w *world) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{w.namesrv})
}

// must fails the case when there is an error.
func must(what string, err error) {
	if err != nil {
		panic(failed(what + ": " + err.Error()))
	}
}

func check(holds bool, sentence string, values ...interface{}) {
	if !holds {
		panic(failed(fmt.Sprintf(sentence, values...)))
	}
}

func until(what string, limit time.Duration, holds func() bool) {
	end := time.Now().Add(limit)
	for !holds() {
		check(time.Now().Before(end), "not within %v: %s", limit, what)
		time.Sleep(50 * time.Millisecond)
	}
}

// topic makes one with so many queues.
func (w *world) topic(queues int) string {
	topic := w.name("t")
	a, err := admin.NewAdmin(admin.WithResolver(w.resolver()))
	must("admin", err)
	defer a.Close()
	must("create topic", a.CreateTopic(context.Background(), admin.WithTopicCreate(topic),
		admin.WithBrokerAddrCreate(w.broker), admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues)))
	until("a route to "+topic, while, func() bool {
		found, err := a.FetchPublishMessageQueues(context.Background(), topic)
		return err == nil && len(found) == queues
	})
	return topic
}

func (w *world) producer(options ...producer.Option) rocketmq.Producer {
	p, err := rocketmq.NewProducer(append([]producer.Option{
		producer.WithNsResolver(w.resolver()), producer.WithGroupName(w.name("pg")), producer.WithRetry(2),
		producer.WithInstanceName(w.name("i")), producer.WithSendMsgTimeout(10 * time.Second)}, options...)...)
	must("new producer", err)
	must("start producer", p.Start())
	w.atEnd(func() { p.Shutdown() })
	return p
}

func message(topic, tag string, number int) *primitive.Message {
	m := primitive.NewMessage(topic, []byte(strconv.Itoa(number)))
	if tag != "" {
		m.WithTag(tag)
	}
	return m
}

// send sends numbers from first on, one after the other.
func send(p rocketmq.Producer, topic, tag string, first, count int) []*primitive.SendResult {
	var results []*primitive.SendResult
	for i := first; i < first+count; i++ {
		result, err := p.SendSync(context.Background(), message(topic, tag, i))
		must("send", err)
		check(result.Status == primitive.SendOK, "status %v", result.Status)
		results = append(results, result)
	}
	return results
}

// inbox is what consumers were given, in order of arrival.
type inbox struct {
	mutex    sync.Mutex
	messages []*primitive.MessageExt
}

func (in *inbox) add(messages ...*primitive.MessageExt) {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	in.messages = append(in.messages, messages...)
}

func (in *inbox) all() []*primitive.MessageExt {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	return append([]*primitive.MessageExt(nil), in.messages...)
}

func (in *inbox) numbers() []int {
	var numbers []int
	for _, m := range in.all() {
		n, _ := strconv.Atoi(string(m.Body))
		numbers = append(numbers, n)
	}
	return numbers
}

// await waits until exactly the numbers from first on have come, each at least once.
func (in *inbox) await(first, count int, limit time.Duration) {
	end := time.Now().Add(limit)
	for {
		seen := map[int]bool{}
		for _, n := range in.numbers() {
			seen[n] = true
		}
		var missing, other []int
		for i := first; i < first+count; i++ {
			if !seen[i] {
				missing = append(missing, i)
			}
			delete(seen, i)
		}
		for n := range seen {
			other = append(other, n)
		}
		if len(missing) == 0 && len(other) == 0 {
			return
		}
		sort.Ints(other)
		check(time.Now().Before(end), "not within %v: missing %v, unexpected %v", limit, missing, other)
		time.Sleep(20 * time.Millisecond)
	}
}

func (in *inbox) awaitCount(count int, limit time.Duration) {
	until(fmt.Sprintf("%d messages", count), limit, func() bool { return len(in.all()) >= count })
	check(len(in.all()) == count, "%d messages instead of %d", len(in.all()), count)
}

type listener = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func (in *inbox) succeed(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	in.add(messages...)
	return consumer.ConsumeSuccess, nil
}

// consume starts a push consumer that begins with the first message.
func (w *world) consume(group, topic, tags string, listen listener, options ...consumer.Option) rocketmq.PushConsumer {
	c, err := rocketmq.NewPushConsumer(append([]consumer.Option{
		consumer.WithNsResolver(w.resolver()), consumer.WithGroupName(group), consumer.WithInstance(w.name("i")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, options...)...)
	must("new consumer", err)
	must("subscribe", c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, listen))
	must("start consumer", c.Start())
	w.atEnd(func() { c.Shutdown() })
	return c
}

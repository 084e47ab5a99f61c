package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

const (
	messagesBefore = 100
	messagesAfter  = 200
	outageLimit    = 180 * time.Second
)

// runOutage sends and consumes, in turn and in order, while the broker ends and comes back. It prints a line when it
// runs; a line of input tells it that the broker is there again, and when more has been sent and all has been consumed,
// it prints what became of its messages.
func runOutage(namesrv, broker string) {
	w := &world{namesrv: namesrv, broker: broker, run: unique("outage")}
	topic := w.topic(4)
	inboxes := []*inbox{{}, {}}
	for i, in := range inboxes {
		w.consume(w.name("g"), topic, "*", in.succeed, consumer.WithConsumerOrder(i == 1))
	}
	sent := &sendings{acknowledged: map[int]bool{}}
	back, done := make(chan struct{}), make(chan struct{})
	go sent.run(w, topic, back, done)
	until("both consume", outageLimit, func() bool {
		return len(seen(inboxes[0])) >= messagesBefore && len(seen(inboxes[1])) >= messagesBefore
	})
	tell(map[string]interface{}{"said": "running"})
	os.Stdin.Read(make([]byte, 1))
	close(back)
	select {
	case <-done:
	case <-time.After(outageLimit):
		panic("nothing is taken again: " + sent.String())
	}
	var lost []int
	for _, in := range inboxes {
		for end := time.Now().Add(outageLimit); sent.missing(in) > 0 && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond)
		}
		lost = append(lost, sent.missing(in))
	}
	tell(map[string]interface{}{"acknowledged": len(sent.acknowledged), "failed": sent.failed, "lost": lost,
		"ordered": isOrdered(inboxes[1])})
	os.Exit(0) // clients may wait long for a broker at their end
}

func tell(line map[string]interface{}) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

// sendings is what was sent, and what became of it.
type sendings struct {
	mutex        sync.Mutex
	acknowledged map[int]bool
	failed       int
	lastFailure  error
}

func (s *sendings) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return fmt.Sprintf("%d acknowledged, %d failed, the last one with %v", len(s.acknowledged), s.failed, s.lastFailure)
}

// run sends until the broker is back and has acknowledged many messages since.
func (s *sendings) run(w *world, topic string, back, done chan struct{}) {
	p := w.producer()
	for i, since := 0, 0; since < messagesAfter; i++ {
		select {
		case <-back:
			since++
		default:
		}
		_, err := p.SendSync(background, message(topic, "tag", i))
		pause := 5 * time.Millisecond
		s.mutex.Lock()
		if err == nil {
			s.acknowledged[i] = true
		} else {
			s.failed++
			s.lastFailure = err
			since, pause = 0, 100*time.Millisecond
		}
		s.mutex.Unlock()
		time.Sleep(pause)
	}
	close(done)
}

// missing is how many acknowledged messages the inbox does not have.
func (s *sendings) missing(in *inbox) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	have, missing := seen(in), 0
	for i := range s.acknowledged {
		if !have[i] {
			missing++
		}
	}
	return missing
}

func seen(in *inbox) map[int]bool {
	numbers := map[int]bool{}
	for _, n := range in.numbers() {
		numbers[n] = true
	}
	return numbers
}

// isOrdered is whether each queue's messages came in its order; some may have come again.
func isOrdered(in *inbox) bool {
	latest, ids := map[int]int64{}, map[string]bool{}
	for _, m := range in.all() {
		if ids[m.MsgId] {
			continue
		}
		ids[m.MsgId] = true
		if before, known := latest[m.Queue.QueueId]; known && before > m.QueueOffset {
			return false
		}
		latest[m.Queue.QueueId] = m.QueueOffset
	}
	return true
}

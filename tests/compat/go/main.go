// Runs the stock Go client against a name server and prints a JSON line for each case: name, ok, detail, seconds.
//
//	compat cases -namesrv A -broker A [-parallel 8] [WORD...]
//	compat member -namesrv A -group G -topic T [-orderly]   a push consumer, until it is killed
//	compat outage -namesrv A -broker A                see outage.go
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const caseSeconds = 300

type result struct {
	Name    string  `json:"name"`
	OK      bool    `json:"ok"`
	Detail  string  `json:"detail"`
	Seconds float64 `json:"seconds"`
}

func main() {
	flags := flag.NewFlagSet("compat", flag.ExitOnError)
	namesrv := flags.String("namesrv", "", "address of the name server")
	broker := flags.String("broker", "", "address of the broker, to create topics on")
	parallel := flags.Int("parallel", 8, "cases at a time")
	group := flags.String("group", "", "of a member")
	topic := flags.String("topic", "", "of a member")
	orderly := flags.Bool("orderly", false, "a member consumes in order, prints, and leaves at a line of input")
	flags.Parse(os.Args[2:])
	rlog.SetLogLevel("fatal")
	switch os.Args[1] {
	case "cases":
		runCases(*namesrv, *broker, *parallel, flags.Args())
	case "member":
		runMember(*namesrv, *group, *topic, *orderly)
	case "outage":
		runOutage(*namesrv, *broker)
	default:
		panic("no program is called " + os.Args[1])
	}
}

func runCases(namesrv, broker string, parallel int, words []string) {
	var print sync.Mutex
	var running sync.WaitGroup
	places := make(chan struct{}, parallel)
	for _, each := range cases {
		if !chosen(each.name, words) {
			continue
		}
		places <- struct{}{}
		running.Add(1)
		go func(each namedCase) {
			defer func() { running.Done(); <-places }()
			began := time.Now()
			failure := runCase(each, &world{namesrv: namesrv, broker: broker, run: unique(each.name)})
			print.Lock()
			defer print.Unlock()
			line, _ := json.Marshal(result{each.name, failure == "", failure, time.Since(began).Seconds()})
			fmt.Println(string(line))
		}(each)
	}
	running.Wait()
}

func chosen(name string, words []string) bool {
	for _, word := range words {
		if strings.Contains(name, word) {
			return true
		}
	}
	return len(words) == 0
}

// failed is what a case panics with when something is not what it should be.
type failed string

func runCase(each namedCase, w *world) string {
	done := make(chan string, 1)
	go func() {
		defer w.close()
		defer func() {
			switch e := recover().(type) {
			case nil:
				done <- ""
			case failed:
				done <- string(e)
			default:
				done <- fmt.Sprintf("%v\n%s", e, debug.Stack())
			}
		}()
		each.run(w)
	}()
	select {
	case failure := <-done:
		return failure
	case <-time.After(caseSeconds * time.Second):
		return fmt.Sprintf("not done in %d s", caseSeconds)
	}
}

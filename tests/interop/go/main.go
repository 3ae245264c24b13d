// The Go clients of the interop test:
//
//	interop produce NAMESERVERS TOPIC COUNT
//	interop consume NAMESERVERS TOPIC COUNT GROUP
//	interop traffic NAMESERVERS TOPIC GROUP    prints "flowing" and goes on until SIGTERM
//
// NAMESERVERS are joined with ';'. Exit code 0: every message was sent, and received.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const (
	sendInterval   = 20 * time.Millisecond
	receiveTimeout = 40 * time.Second
)

func main() {
	rlog.SetLogLevel("error")
	ok, err := run(os.Args[1:])
	if err != nil {
		fmt.Println("error:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(args []string) (bool, error) {
	if len(args) != 4 && !(len(args) == 5 && args[0] == "consume") {
		return false, fmt.Errorf("wrong number of arguments: %v", args)
	}
	nameservers, topic := strings.Split(args[1], ";"), args[2]
	if args[0] == "traffic" {
		return traffic(nameservers, topic, args[3])
	}
	count, err := strconv.Atoi(args[3])
	if err != nil {
		return false, err
	}
	switch args[0] {
	case "produce":
		return produce(nameservers, topic, count)
	case "consume":
		return consume(nameservers, topic, count, args[4])
	}
	return false, fmt.Errorf("unknown command %q", args[0])
}

func produce(nameservers []string, topic string, count int) (bool, error) {
	p, err := startProducer(nameservers)
	if err != nil {
		return false, err
	}
	defer p.Shutdown()
	failed := 0
	for i := 0; i < count; i++ {
		if err := send(p, topic, "go-"+strconv.Itoa(i)); err != nil {
			failed++
			fmt.Println("send", i, err)
		}
	}
	fmt.Println("sent", count-failed, "failed", failed)
	return failed == 0, nil
}

func consume(nameservers []string, topic string, count int, group string) (bool, error) {
	received := newKeys()
	c, err := startConsumer(nameservers, topic, group, func(m *primitive.MessageExt) { received.add(m.MsgId) })
	if err != nil {
		return false, err
	}
	defer c.Shutdown()
	all := await(receiveTimeout, func() bool { return received.len() >= count })
	fmt.Println("received", received.len(), "of", count)
	return all, nil
}

func traffic(nameservers []string, topic, group string) (bool, error) {
	received := newKeys()
	c, err := startConsumer(nameservers, topic, group, func(m *primitive.MessageExt) { received.add(m.GetKeys()) })
	if err != nil {
		return false, err
	}
	defer c.Shutdown()
	p, err := startProducer(nameservers)
	if err != nil {
		return false, err
	}
	defer p.Shutdown()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	sent, failed, announced := newKeys(), 0, false
	for number := 0; ; number++ {
		select {
		case <-stop:
			all := await(receiveTimeout, func() bool { return received.has(sent) })
			fmt.Println("sent", sent.len(), "received", received.len(), "failed", failed)
			return all && failed == 0 && sent.len() > 0, nil
		case <-time.After(sendInterval):
		}
		key := "traffic-" + strconv.Itoa(number)
		if err := send(p, topic, key); err != nil {
			failed++
			fmt.Println("send", key, err)
		} else {
			sent.add(key)
		}
		if !announced && received.len() > 0 {
			announced = true
			fmt.Println("flowing")
		}
	}
}

func startProducer(nameservers []string) (rocketmq.Producer, error) {
	p, err := rocketmq.NewProducer(producer.WithNameServer(nameservers), producer.WithGroupName("interop_producer_go"), producer.WithRetry(2))
	if err != nil {
		return nil, err
	}
	return p, p.Start()
}

func startConsumer(nameservers []string, topic, group string, each func(*primitive.MessageExt)) (rocketmq.PushConsumer, error) {
	c, err := rocketmq.NewPushConsumer(consumer.WithNameServer(nameservers), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return nil, err
	}
	err = c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			each(m)
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return nil, err
	}
	return c, c.Start()
}

func send(p rocketmq.Producer, topic, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	result, err := p.SendSync(ctx, primitive.NewMessage(topic, []byte(key)).WithKeys([]string{key}))
	if err == nil && result.Status != primitive.SendOK {
		err = fmt.Errorf("status %d", result.Status)
	}
	return err
}

// keys is a set that several goroutines share.
type keys struct {
	mu  sync.Mutex
	set map[string]bool
}

func newKeys() *keys { return &keys{set: map[string]bool{}} }

func (k *keys) add(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set[key] = true
}

func (k *keys) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.set)
}

// has tells whether all of other's keys are in k; other is no longer written to.
func (k *keys) has(other *keys) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range other.set {
		if !k.set[key] {
			return false
		}
	}
	return true
}

func await(timeout time.Duration, condition func() bool) bool {
	for end := time.Now().Add(timeout); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

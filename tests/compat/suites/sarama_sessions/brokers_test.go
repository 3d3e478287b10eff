package sessions

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/sarama"
	"github.com/stretchr/testify/require"
)

// A broker stops, or is killed, and comes back while producers of three versions write and a group
// reads: what was acknowledged is there once it is back, in the order in which it was sent, once
// each where the producer is idempotent.
func TestBrokersStopAndComeBackAndNothingIsLost(t *testing.T) {
	several(t)
	for number, verb := range []string{"stop", "kill"} {
		broker := int32(number + 1)
		t.Run(verb, func(t *testing.T) { comeAndGo(t, verb, broker) })
	}
}

func comeAndGo(t *testing.T, verb string, broker int32) {
	name := topic(t, partitionsOfGroups, map[string]string{"min.insync.replicas": "2"})
	idsForProducers(t)
	reading := join(t, sarama.V1_1_0_0, t.Name(), name)
	var writers []*writer
	for _, version := range []sarama.KafkaVersion{sarama.MinVersion, sarama.V0_10_2_0, sarama.MaxVersion} {
		writers = append(writers, newWriter(t, name, version))
	}
	goOn(t, writers)
	order(t, verb, broker)
	time.Sleep(2 * time.Second)
	order(t, "start", broker)
	waitInSync(t, name, partitionsOfGroups, replicas())
	goOn(t, writers)
	var all []string
	for _, one := range writers {
		for partition, values := range one.end() {
			all = append(all, values...)
			found := ofVersion(t, name, int32(partition), one.version)
			if one.version == sarama.MaxVersion {
				require.Equal(t, values, found)
			} else {
				require.Equal(t, values, firsts(found))
			}
		}
	}
	seeAll(t, all, reading)
	reading.leave()
}

// goOn until each writer has written to each partition twice more.
func goOn(t *testing.T, writers []*writer) {
	for _, one := range writers {
		begun := one.count()
		eventually(t, one.version.String()+" does not go on", func() bool {
			return one.count() >= begun+2*partitionsOfGroups
		})
	}
}

// writer writes one message after another until it is told to end.
type writer struct {
	t       *testing.T
	version sarama.KafkaVersion
	stop    chan struct{}
	done    chan struct{}

	lock         sync.Mutex
	acknowledged [partitionsOfGroups][]string
	written      int
}

func newWriter(t *testing.T, name string, version sarama.KafkaVersion) *writer {
	c := config(version)
	c.Net.MaxOpenRequests = 1
	if version == sarama.MaxVersion {
		// Its retries of such a batch follow one another without a pause.
		c.Producer.Idempotent, c.Producer.Retry.Max = true, 1000000
	}
	producer, err := sarama.NewSyncProducer(peers, c)
	require.NoError(t, err)
	one := &writer{t: t, version: version, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(one.done)
		defer producer.Close()
		one.run(producer, name)
	}()
	return one
}

func (one *writer) run(producer sarama.SyncProducer, name string) {
	for number := 0; ; number++ {
		select {
		case <-one.stop:
			return
		default:
		}
		partition := number % partitionsOfGroups
		value := fmt.Sprintf("%s: %d", one.version, number)
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: name, Partition: int32(partition), Value: sarama.StringEncoder(value),
		})
		if err != nil {
			one.t.Errorf("%s was not written: %s", value, err)
			return
		}
		one.lock.Lock()
		one.acknowledged[partition] = append(one.acknowledged[partition], value)
		one.written++
		one.lock.Unlock()
	}
}

func (one *writer) count() int {
	one.lock.Lock()
	defer one.lock.Unlock()
	return one.written
}

// end and tell what was acknowledged, by partition.
func (one *writer) end() [partitionsOfGroups][]string {
	close(one.stop)
	<-one.done
	return one.acknowledged
}

// idsForProducers until each broker has some: sarama does not look whether it has got one.
func idsForProducers(t *testing.T) {
	for _, broker := range client(t, config(sarama.MaxVersion)).Brokers() {
		broker.Open(config(sarama.MaxVersion))
		eventually(t, "a broker has no ids for producers", func() bool {
			answer, err := broker.InitProducerID(&sarama.InitProducerIDRequest{})
			return err == nil && answer.Err == sarama.ErrNoError
		})
	}
}

// ofVersion are the values in a partition that a version has written.
func ofVersion(t *testing.T, name string, partition int32, version sarama.KafkaVersion) []string {
	c := config(sarama.MaxVersion)
	known := client(t, c)
	end, err := known.GetOffset(name, partition, sarama.OffsetNewest)
	require.NoError(t, err)
	var found []string
	word := version.String() + ":"
	for _, value := range valuesOf(consume(t, c, name, partition, sarama.OffsetOldest, int(end))) {
		if strings.HasPrefix(value, word) {
			found = append(found, value)
		}
	}
	return found
}

// firsts leaves out what a retry has written again.
func firsts(values []string) []string {
	seen := map[string]bool{}
	var found []string
	for _, value := range values {
		if !seen[value] {
			found = append(found, value)
		}
		seen[value] = true
	}
	return found
}

// With one replica of three left, what wants two is refused, and what wants one is not.
func TestProducersAreToldOfTooFewReplicasInSync(t *testing.T) {
	several(t)
	name := topic(t, 1, map[string]string{"min.insync.replicas": "3"})
	c := config(sarama.MaxVersion)
	known := client(t, c)
	all, err := known.Replicas(name, 0)
	require.NoError(t, err)
	leader, err := known.Leader(name, 0)
	require.NoError(t, err)
	other := all[0]
	if other == leader.ID() {
		other = all[1]
	}
	order(t, "stop", other)
	c.Producer.Retry.Max = 0
	producer, err := sarama.NewSyncProducer(peers, c)
	require.NoError(t, err)
	defer producer.Close()
	message := func() *sarama.ProducerMessage {
		return &sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder("an order")}
	}
	eventually(t, "it is not refused", func() bool {
		_, _, err := producer.SendMessage(message())
		return err == sarama.ErrNotEnoughReplicas
	})
	produce(t, onlyTheLeader(), name, 0, "wants the leader alone")
	order(t, "start", other)
	waitInSync(t, name, 1, replicas())
	_, _, err = producer.SendMessage(message())
	require.NoError(t, err)
}

func onlyTheLeader() *sarama.Config {
	c := config(sarama.MaxVersion)
	c.Producer.RequiredAcks = sarama.WaitForLocal
	return c
}

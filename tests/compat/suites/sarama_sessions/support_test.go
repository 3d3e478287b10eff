// Package sessions has what users of sarama do with a cluster, as Go's tests.
//
// KAFKA_PEERS are the brokers, REPLICAS how many each partition has. KAFKA_CONTROL, if there are
// several brokers, is where brokers are stopped, killed and started: a line such as "stop 2", which
// is answered by a line when it is done.
package sessions

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/sarama"
	"github.com/stretchr/testify/require"
)

const patience = 60 * time.Second

var peers = strings.Split(os.Getenv("KAFKA_PEERS"), ",")

func replicas() int {
	count, err := strconv.Atoi(os.Getenv("REPLICAS"))
	if err != nil {
		panic(err)
	}
	return count
}

func config(version sarama.KafkaVersion) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version
	c.ClientID = "sarama-" + version.String()
	c.Admin.Timeout = patience
	c.Metadata.Retry.Max = 40
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Retry.Max = 40
	c.Producer.Retry.Backoff = 250 * time.Millisecond
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Return.Errors = true
	c.Consumer.Retry.Backoff = 250 * time.Millisecond
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	return c
}

// admin of the newest version, closed with the test.
func admin(t *testing.T) sarama.ClusterAdmin {
	a, err := sarama.NewClusterAdmin(peers, config(sarama.MaxVersion))
	require.NoError(t, err)
	t.Cleanup(func() { a.Close() })
	return a
}

// client closed with the test.
func client(t *testing.T, c *sarama.Config) sarama.Client {
	made, err := sarama.NewClient(peers, c)
	require.NoError(t, err)
	t.Cleanup(func() { made.Close() })
	return made
}

// topic is made with the test's own name, and led everywhere when this returns.
func topic(t *testing.T, partitions int32, settings map[string]string) string {
	name := strings.NewReplacer("/", ".", "#", ".").Replace(t.Name())
	entries := map[string]*string{}
	for key := range settings {
		value := settings[key]
		entries[key] = &value
	}
	detail := sarama.TopicDetail{
		NumPartitions:     partitions,
		ReplicationFactor: int16(replicas()),
		ConfigEntries:     entries,
	}
	require.NoError(t, admin(t).CreateTopic(name, &detail, false))
	waitInSync(t, name, int(partitions), replicas())
	return name
}

// waitInSync until each broker says that so many replicas of each partition are in sync.
func waitInSync(t *testing.T, name string, partitions, count int) {
	for _, peer := range peers {
		eventually(t, peer+" has not all replicas of "+name+" in sync", func() bool {
			c := config(sarama.MaxVersion)
			c.Metadata.Retry.Max = 0
			one, err := sarama.NewClient([]string{peer}, c)
			if err != nil {
				return false
			}
			defer one.Close()
			all, err := one.WritablePartitions(name)
			if err != nil || len(all) != partitions {
				return false
			}
			for _, partition := range all {
				isr, err := one.InSyncReplicas(name, partition)
				if err != nil || len(isr) != count {
					return false
				}
			}
			return true
		})
	}
}

func eventually(t *testing.T, otherwise string, holds func() bool) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return
		}
	}
	require.Fail(t, otherwise)
}

// produce sends values to a partition one after another; the offset of the first.
func produce(t *testing.T, c *sarama.Config, name string, partition int32, values ...string) int64 {
	producer, err := sarama.NewSyncProducer(peers, c)
	require.NoError(t, err)
	defer producer.Close()
	first := int64(-1)
	for _, value := range values {
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: name, Partition: partition, Value: sarama.StringEncoder(value),
		})
		require.NoError(t, err)
		if first < 0 {
			first = offset
		}
	}
	return first
}

// consume reads so many messages of a partition.
func consume(t *testing.T, c *sarama.Config, name string, partition int32, from int64, count int) []*sarama.ConsumerMessage {
	consumer, err := sarama.NewConsumer(peers, c)
	require.NoError(t, err)
	defer consumer.Close()
	reading, err := consumer.ConsumePartition(name, partition, from)
	require.NoError(t, err)
	defer reading.AsyncClose()
	var found []*sarama.ConsumerMessage
	timeout := time.After(patience)
	for len(found) < count {
		select {
		case message := <-reading.Messages():
			found = append(found, message)
		case err := <-reading.Errors():
			require.NoError(t, err)
		case <-timeout:
			require.FailNow(t, "too few messages", "%d of %d of %s", len(found), count, name)
		}
	}
	return found
}

func valuesOf(messages []*sarama.ConsumerMessage) []string {
	var values []string
	for _, message := range messages {
		values = append(values, string(message.Value))
	}
	return values
}

// numbered are count values that tell themselves apart.
func numbered(word string, count int) []string {
	var values []string
	for number := 0; number < count; number++ {
		values = append(values, fmt.Sprintf("%s %d", word, number))
	}
	return values
}

// several skips a test that needs more than one broker.
func several(t *testing.T) {
	if len(peers) < 2 {
		t.Skip("needs several brokers")
	}
}

// order a broker to stop, to be killed, or to start, and wait until it has.
func order(t *testing.T, verb string, broker int32) {
	connection, err := net.Dial("tcp", os.Getenv("KAFKA_CONTROL"))
	require.NoError(t, err)
	defer connection.Close()
	_, err = fmt.Fprintf(connection, "%s %d\n", verb, broker)
	require.NoError(t, err)
	answer, err := bufio.NewReader(connection).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "done\n", answer)
}

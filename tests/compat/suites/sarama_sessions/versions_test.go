package sessions

import (
	"fmt"
	"testing"
	"time"

	"github.com/Shopify/sarama"
	"github.com/stretchr/testify/require"
)

var written = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const perProducer = 5

// since tells from which version a codec is known.
var since = map[sarama.CompressionCodec]sarama.KafkaVersion{
	sarama.CompressionNone:   sarama.MinVersion,
	sarama.CompressionGZIP:   sarama.MinVersion,
	sarama.CompressionSnappy: sarama.MinVersion,
	sarama.CompressionLZ4:    sarama.V0_10_0_0,
}

// Each version writes with each codec that it knows, and each version reads all of it. lz4 has a
// topic of its own: up to 0.9 it has another checksum, which sarama cannot read.
func TestVersionsReadWhatEveryVersionHasWritten(t *testing.T) {
	for _, suite := range []struct {
		name    string
		readers sarama.KafkaVersion
		chosen  func(sarama.CompressionCodec) bool
	}{
		{"older", sarama.MinVersion, func(c sarama.CompressionCodec) bool { return c < sarama.CompressionLZ4 }},
		{"lz4", sarama.V0_10_0_0, func(c sarama.CompressionCodec) bool { return c == sarama.CompressionLZ4 }},
	} {
		suite := suite
		t.Run(suite.name, func(t *testing.T) {
			name := topic(t, 1, nil)
			var wanted []string
			for _, version := range sarama.SupportedVersions {
				for codec := sarama.CompressionCodec(0); codec <= sarama.CompressionLZ4; codec++ {
					if suite.chosen(codec) && version.IsAtLeast(since[codec]) {
						wanted = append(wanted, write(t, name, version, codec)...)
					}
				}
			}
			for _, version := range sarama.SupportedVersions {
				if version.IsAtLeast(suite.readers) {
					t.Run(version.String(), func(t *testing.T) { check(t, name, version, wanted) })
				}
			}
		})
	}
}

// write a few messages in one batch; their values.
func write(t *testing.T, name string, version sarama.KafkaVersion, codec sarama.CompressionCodec) []string {
	c := config(version)
	c.Producer.Compression = codec
	c.Producer.Flush.Messages = perProducer
	c.Producer.Flush.Frequency = time.Second
	if version.IsAtLeast(sarama.V0_11_0_0) {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(peers, c)
	require.NoError(t, err)
	defer producer.Close()
	values := numbered(fmt.Sprintf("%s %s", version, codec), perProducer)
	var messages []*sarama.ProducerMessage
	for _, value := range values {
		message := &sarama.ProducerMessage{
			Topic:     name,
			Key:       sarama.StringEncoder("key of " + value),
			Value:     sarama.StringEncoder(value),
			Timestamp: written,
		}
		if version.IsAtLeast(sarama.V0_11_0_0) {
			message.Headers = []sarama.RecordHeader{{Key: []byte("by"), Value: []byte(version.String())}}
		}
		messages = append(messages, message)
	}
	require.NoError(t, producer.SendMessages(messages), "%s %s", version, codec)
	for index, message := range messages {
		require.Equal(t, messages[0].Offset+int64(index), message.Offset)
	}
	return values
}

// check that a version reads everything in order, with the times and headers that it can know.
func check(t *testing.T, name string, version sarama.KafkaVersion, wanted []string) {
	found := consume(t, config(version), name, 0, sarama.OffsetOldest, len(wanted))
	require.Equal(t, wanted, valuesOf(found))
	for index, message := range found {
		require.Equal(t, int64(index), message.Offset)
		require.Equal(t, "key of "+wanted[index], string(message.Key))
		if version.IsAtLeast(sarama.V0_11_0_0) && len(message.Headers) > 0 {
			by := string(message.Headers[0].Value)
			require.Equal(t, by, wanted[index][:len(by)])
			require.True(t, message.Timestamp.Equal(written), "%s", message.Timestamp)
		}
	}
}

// This sarama knows zstd, but asks in versions of requests that are older: as of Kafka, it is told.
func TestZstdIsRefusedInRequestsThatDoNotKnowIt(t *testing.T) {
	name := topic(t, 1, map[string]string{"compression.type": "zstd"})
	c := config(sarama.MaxVersion)
	produce(t, c, name, 0, "compressed by the broker")
	consumer, err := sarama.NewConsumer(peers, c)
	require.NoError(t, err)
	defer consumer.Close()
	reading, err := consumer.ConsumePartition(name, 0, sarama.OffsetOldest)
	require.NoError(t, err)
	defer reading.AsyncClose()
	select {
	case err := <-reading.Errors():
		require.Equal(t, sarama.ErrUnsupportedCompressionType, err.Err)
	case message := <-reading.Messages():
		require.Fail(t, "it was given a message", "%s", message.Value)
	case <-time.After(patience):
		require.Fail(t, "it was told nothing")
	}
	c.Producer.Compression = sarama.CompressionZSTD
	producer, err := sarama.NewSyncProducer(peers, c)
	require.NoError(t, err)
	defer producer.Close()
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: name, Value: sarama.StringEncoder("an order")})
	require.Equal(t, sarama.ErrUnsupportedCompressionType, err)
}

// Many messages at once, of both partitioners, are there once each and in order.
func TestProducersWithManyMessagesInFlight(t *testing.T) {
	const partitions, count = 64, 2000
	name := topic(t, partitions, nil)
	for _, version := range []sarama.KafkaVersion{sarama.MinVersion, sarama.V0_10_2_0, sarama.MaxVersion} {
		c := config(version)
		c.Producer.Partitioner = sarama.NewHashPartitioner
		producer, err := sarama.NewAsyncProducer(peers, c)
		require.NoError(t, err)
		go func() {
			for _, value := range numbered(version.String(), count) {
				producer.Input() <- &sarama.ProducerMessage{
					Topic: name, Key: sarama.StringEncoder(value), Value: sarama.StringEncoder(value),
				}
			}
		}()
		for acknowledged := 0; acknowledged < count; acknowledged++ {
			select {
			case <-producer.Successes():
			case err := <-producer.Errors():
				require.NoError(t, err)
			}
		}
		require.NoError(t, producer.Close())
	}
	newest := client(t, config(sarama.MaxVersion))
	total := int64(0)
	for partition := int32(0); partition < partitions; partition++ {
		end, err := newest.GetOffset(name, partition, sarama.OffsetNewest)
		require.NoError(t, err)
		total += end
	}
	require.Equal(t, int64(3*count), total)
}

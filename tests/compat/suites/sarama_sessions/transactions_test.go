package sessions

import (
	"fmt"
	"testing"
	"time"

	"github.com/Shopify/sarama"
	"github.com/stretchr/testify/require"
)

// transactional is a producer of transactions: sarama has their requests, but no such producer.
type transactional struct {
	t         *testing.T
	client    sarama.Client
	id        string
	producer  int64
	epoch     int16
	sequences map[int32]int32
}

func newTransactional(t *testing.T, id string) *transactional {
	made := &transactional{t: t, client: client(t, config(sarama.MaxVersion)), id: id, sequences: map[int32]int32{}}
	request := &sarama.InitProducerIDRequest{TransactionalID: &id, TransactionTimeout: time.Minute}
	made.retry(func() sarama.KError {
		answer, err := made.coordinator(sarama.CoordinatorTransaction, id).InitProducerID(request)
		require.NoError(t, err)
		made.producer, made.epoch = answer.ProducerID, answer.ProducerEpoch
		return answer.Err
	})
	return made
}

func (p *transactional) coordinator(kind sarama.CoordinatorType, key string) *sarama.Broker {
	request := &sarama.FindCoordinatorRequest{Version: 1, CoordinatorKey: key, CoordinatorType: kind}
	var found *sarama.Broker
	p.retry(func() sarama.KError {
		seed := p.client.Brokers()[0]
		seed.Open(p.client.Config())
		answer, err := seed.FindCoordinator(request)
		require.NoError(p.t, err)
		found = answer.Coordinator
		return answer.Err
	})
	found.Open(p.client.Config())
	return found
}

// retry what a coordinator that is just made or moved cannot answer yet.
func (p *transactional) retry(ask func() sarama.KError) {
	var last sarama.KError
	eventually(p.t, fmt.Sprintf("still %s", last), func() bool {
		last = ask()
		switch last {
		case sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrNotCoordinatorForConsumer,
			sarama.ErrOffsetsLoadInProgress, sarama.ErrConcurrentTransactions:
			return false
		}
		require.Equal(p.t, sarama.ErrNoError, last)
		return true
	})
}

func (p *transactional) write(name string, partition int32, value string) {
	adding := &sarama.AddPartitionsToTxnRequest{
		TransactionalID: p.id, ProducerID: p.producer, ProducerEpoch: p.epoch,
		TopicPartitions: map[string][]int32{name: {partition}},
	}
	p.retry(func() sarama.KError {
		answer, err := p.coordinator(sarama.CoordinatorTransaction, p.id).AddPartitionsToTxn(adding)
		require.NoError(p.t, err)
		return answer.Errors[name][0].Err
	})
	now := time.Now()
	batch := &sarama.RecordBatch{
		Version: 2, FirstTimestamp: now, MaxTimestamp: now, IsTransactional: true,
		ProducerID: p.producer, ProducerEpoch: p.epoch, FirstSequence: p.sequences[partition],
		Records: []*sarama.Record{{Value: []byte(value)}},
	}
	p.sequences[partition]++
	request := &sarama.ProduceRequest{
		TransactionalID: &p.id, RequiredAcks: sarama.WaitForAll, Timeout: 10000, Version: 3,
	}
	request.AddBatch(name, partition, batch)
	leader, err := p.client.Leader(name, partition)
	require.NoError(p.t, err)
	answer, err := leader.Produce(request)
	require.NoError(p.t, err)
	require.Equal(p.t, sarama.ErrNoError, answer.GetBlock(name, partition).Err)
}

func (p *transactional) commitOffset(group, name string, offset int64) {
	adding := &sarama.AddOffsetsToTxnRequest{
		TransactionalID: p.id, ProducerID: p.producer, ProducerEpoch: p.epoch, GroupID: group,
	}
	p.retry(func() sarama.KError {
		answer, err := p.coordinator(sarama.CoordinatorTransaction, p.id).AddOffsetsToTxn(adding)
		require.NoError(p.t, err)
		return answer.Err
	})
	request := &sarama.TxnOffsetCommitRequest{
		TransactionalID: p.id, GroupID: group, ProducerID: p.producer, ProducerEpoch: p.epoch,
		Topics: map[string][]*sarama.PartitionOffsetMetadata{name: {{Partition: 0, Offset: offset}}},
	}
	p.retry(func() sarama.KError {
		answer, err := p.coordinator(sarama.CoordinatorGroup, group).TxnOffsetCommit(request)
		require.NoError(p.t, err)
		return answer.Topics[name][0].Err
	})
}

func (p *transactional) end(isCommitted bool) {
	request := &sarama.EndTxnRequest{
		TransactionalID: p.id, ProducerID: p.producer, ProducerEpoch: p.epoch, TransactionResult: isCommitted,
	}
	p.retry(func() sarama.KError {
		answer, err := p.coordinator(sarama.CoordinatorTransaction, p.id).EndTxn(request)
		require.NoError(p.t, err)
		return answer.Err
	})
}

// Who reads committed messages passes over aborted ones, who reads uncommitted ones sees all.
func TestReadersOfCommittedMessagesPassOverAbortedOnes(t *testing.T) {
	name := topic(t, 2, nil)
	producer := newTransactional(t, t.Name())
	var all, committed []string
	for number := 0; number < 6; number++ {
		for _, isCommitted := range []bool{false, true} {
			value := fmt.Sprintf("%d committed: %t", number, isCommitted)
			producer.write(name, 0, value)
			producer.write(name, 1, value)
			producer.end(isCommitted)
			all = append(all, value)
			if isCommitted {
				committed = append(committed, value)
			}
		}
	}
	for partition := int32(0); partition < 2; partition++ {
		for _, version := range []sarama.KafkaVersion{sarama.V0_11_0_0, sarama.V1_0_0_0, sarama.MaxVersion} {
			c := config(version)
			require.Equal(t, all, valuesOf(consume(t, c, name, partition, sarama.OffsetOldest, len(all))))
			c.Consumer.IsolationLevel = sarama.ReadCommitted
			found := consume(t, c, name, partition, sarama.OffsetOldest, len(committed))
			require.Equal(t, committed, valuesOf(found))
		}
	}
}

// An open transaction holds up who reads committed messages, until it ends.
func TestReadersOfCommittedMessagesWaitForOpenTransactions(t *testing.T) {
	name := topic(t, 1, nil)
	producer := newTransactional(t, t.Name())
	produce(t, config(sarama.MaxVersion), name, 0, "before it")
	producer.write(name, 0, "open")
	produce(t, config(sarama.MaxVersion), name, 0, "behind it")
	c := config(sarama.MaxVersion)
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(peers, c)
	require.NoError(t, err)
	defer consumer.Close()
	reading, err := consumer.ConsumePartition(name, 0, sarama.OffsetOldest)
	require.NoError(t, err)
	defer reading.AsyncClose()
	next := func(wanted string) {
		select {
		case message := <-reading.Messages():
			require.Equal(t, wanted, string(message.Value))
		case <-time.After(patience):
			require.Fail(t, "it still waits")
		}
	}
	next("before it")
	require.Equal(t, int64(3), reading.HighWaterMarkOffset())
	require.Empty(t, reading.Messages())
	producer.end(true)
	next("open")
	next("behind it")
}

// Offsets of a group count once their transaction is committed.
func TestOffsetsOfTransactions(t *testing.T) {
	name, group := topic(t, 1, nil), t.Name()
	producer := newTransactional(t, t.Name())
	offset := func() int64 {
		found, err := admin(t).ListConsumerGroupOffsets(group, map[string][]int32{name: {0}})
		require.NoError(t, err)
		return found.GetBlock(name, 0).Offset
	}
	for number, isCommitted := range []bool{true, false, true} {
		before := offset()
		producer.write(name, 0, "an order")
		producer.commitOffset(group, name, int64(number+1))
		require.Equal(t, before, offset())
		producer.end(isCommitted)
		wanted := map[bool]int64{true: int64(number + 1), false: before}[isCommitted]
		eventually(t, "the offset is another", func() bool { return offset() == wanted })
	}
}

// A second producer with the same name fences the first.
func TestProducersFenceTheirPredecessors(t *testing.T) {
	name := topic(t, 1, nil)
	first := newTransactional(t, t.Name())
	first.write(name, 0, "of the first")
	second := newTransactional(t, t.Name())
	require.Equal(t, first.producer, second.producer)
	require.Greater(t, second.epoch, first.epoch)
	request := &sarama.EndTxnRequest{
		TransactionalID: first.id, ProducerID: first.producer, ProducerEpoch: first.epoch, TransactionResult: true,
	}
	answer, err := first.coordinator(sarama.CoordinatorTransaction, first.id).EndTxn(request)
	require.NoError(t, err)
	require.Equal(t, sarama.ErrInvalidProducerEpoch, answer.Err)
	second.write(name, 0, "of the second")
	second.end(true)
	c := config(sarama.MaxVersion)
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	found := consume(t, c, name, 0, sarama.OffsetOldest, 1)
	require.Equal(t, []string{"of the second"}, valuesOf(found))
}

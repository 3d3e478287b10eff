package sessions

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/sarama"
	"github.com/stretchr/testify/require"
)

const partitionsOfGroups = 4

// member of a group, which notes what it is given and marks it.
type member struct {
	t     *testing.T
	group sarama.ConsumerGroup
	stop  context.CancelFunc
	done  chan struct{}

	lock   sync.Mutex
	claims int
	seen   map[string]int
}

func join(t *testing.T, version sarama.KafkaVersion, group, name string) *member {
	c := config(version)
	c.Consumer.Group.Session.Timeout = 6 * time.Second
	c.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	c.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	c.Consumer.Offsets.CommitInterval = 100 * time.Millisecond
	joined, err := sarama.NewConsumerGroup(peers, group, c)
	require.NoError(t, err)
	running, stop := context.WithCancel(context.Background())
	m := &member{t: t, group: joined, stop: stop, done: make(chan struct{}), seen: map[string]int{}}
	go func() {
		for range joined.Errors() {
			// A broker that is stopped, and rebalances: the group goes on.
		}
	}()
	go func() {
		defer close(m.done)
		for running.Err() == nil {
			if joined.Consume(running, []string{name}, m) == sarama.ErrClosedConsumerGroup {
				return
			}
		}
	}()
	return m
}

func (m *member) leave() {
	m.stop()
	<-m.done
	require.NoError(m.t, m.group.Close())
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.claims = 0
	for _, partitions := range session.Claims() {
		m.claims += len(partitions)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.lock.Lock()
		m.seen[string(message.Value)]++
		m.lock.Unlock()
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *member) claimed() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.claims
}

func together(members ...*member) map[string]int {
	all := map[string]int{}
	for _, m := range members {
		m.lock.Lock()
		for value, count := range m.seen {
			all[value] += count
		}
		m.lock.Unlock()
	}
	return all
}

func share(t *testing.T, each int, members ...*member) {
	eventually(t, fmt.Sprintf("not every member has %d partitions", each), func() bool {
		for _, m := range members {
			if m.claimed() != each {
				return false
			}
		}
		return true
	})
}

func seeAll(t *testing.T, wanted []string, members ...*member) {
	eventually(t, "the group has not seen every message", func() bool {
		all := together(members...)
		for _, value := range wanted {
			if all[value] == 0 {
				return false
			}
		}
		return true
	})
}

func produceToAll(t *testing.T, name, word string, each int) []string {
	var all []string
	for partition := int32(0); partition < partitionsOfGroups; partition++ {
		values := numbered(fmt.Sprintf("%s %d", word, partition), each)
		produce(t, config(sarama.MaxVersion), name, partition, values...)
		all = append(all, values...)
	}
	return all
}

// Members of three versions come and go; each message is given to the group, and none twice to
// members that left in peace.
func TestGroupsWhoseMembersComeAndGo(t *testing.T) {
	name := topic(t, partitionsOfGroups, nil)
	group := t.Name()
	wanted := produceToAll(t, name, "before", 25)
	first := join(t, sarama.V0_10_2_0, group, name)
	share(t, 4, first)
	seeAll(t, wanted, first)

	second := join(t, sarama.V1_1_0_0, group, name)
	share(t, 2, first, second)
	wanted = append(wanted, produceToAll(t, name, "two", 25)...)
	seeAll(t, wanted, first, second)

	third, fourth := join(t, sarama.MaxVersion, group, name), join(t, sarama.V2_0_0_0, group, name)
	share(t, 1, first, second, third, fourth)
	wanted = append(wanted, produceToAll(t, name, "four", 25)...)
	seeAll(t, wanted, first, second, third, fourth)
	described(t, group, 4)

	first.leave()
	second.leave()
	share(t, 2, third, fourth)
	wanted = append(wanted, produceToAll(t, name, "two again", 25)...)
	seeAll(t, wanted, first, second, third, fourth)
	third.leave()
	fourth.leave()

	for value, count := range together(first, second, third, fourth) {
		require.Equal(t, 1, count, value)
	}
	described(t, group, 0)
	committed(t, group, name, 100)
}

func described(t *testing.T, group string, members int) {
	found, err := admin(t).DescribeConsumerGroups([]string{group})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, sarama.ErrNoError, found[0].Err)
	require.Len(t, found[0].Members, members)
	state := map[bool]string{true: "Stable", false: "Empty"}[members > 0]
	require.Equal(t, state, found[0].State)
	groups, err := admin(t).ListConsumerGroups()
	require.NoError(t, err)
	require.Contains(t, groups, group)
}

func committed(t *testing.T, group, name string, each int64) {
	wanted := map[string][]int32{name: {0, 1, 2, 3}}
	found, err := admin(t).ListConsumerGroupOffsets(group, wanted)
	require.NoError(t, err)
	for partition := int32(0); partition < partitionsOfGroups; partition++ {
		block := found.GetBlock(name, partition)
		require.NotNil(t, block)
		require.Equal(t, each, block.Offset)
	}
}

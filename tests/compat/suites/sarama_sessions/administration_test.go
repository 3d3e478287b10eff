package sessions

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/Shopify/sarama"
	"github.com/stretchr/testify/require"
)

func text(value string) *string { return &value }

// code of an error of a topic, or of any other answer.
func code(t *testing.T, err error) sarama.KError {
	var known sarama.KError
	var ofTopic *sarama.TopicError
	var ofPartitions *sarama.TopicPartitionError
	switch {
	case errors.As(err, &ofTopic):
		return ofTopic.Err
	case errors.As(err, &ofPartitions):
		return ofPartitions.Err
	}
	require.True(t, errors.As(err, &known), "%v", err)
	return known
}

// A topic is made, changed, grown and deleted; each step holds at every broker.
func TestTopicsAreAdministered(t *testing.T) {
	for _, version := range []sarama.KafkaVersion{sarama.V1_0_0_0, sarama.MaxVersion} {
		t.Run(version.String(), func(t *testing.T) {
			name := topic(t, 3, map[string]string{"retention.ms": "3600000"})
			a, err := sarama.NewClusterAdmin(peers, config(version))
			require.NoError(t, err)
			defer a.Close()
			resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: name}
			require.Equal(t, "3600000", setting(t, a, resource, "retention.ms"))

			require.NoError(t, a.AlterConfig(sarama.TopicResource, name, map[string]*string{
				"retention.ms": text("7200000"), "cleanup.policy": text("compact"),
			}, false))
			eventually(t, "the settings did not change", func() bool {
				return setting(t, a, resource, "retention.ms") == "7200000" &&
					setting(t, a, resource, "cleanup.policy") == "compact"
			})
			require.Error(t, a.AlterConfig(sarama.TopicResource, name, map[string]*string{
				"retention.ms": text("soon"),
			}, false))

			require.NoError(t, a.CreatePartitions(name, 5, nil, false))
			waitInSync(t, name, 5, replicas())
			require.Equal(t, sarama.ErrInvalidPartitions, code(t, a.CreatePartitions(name, 2, nil, false)))

			found, err := a.DescribeTopics([]string{name})
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Len(t, found[0].Partitions, 5)
			for _, partition := range found[0].Partitions {
				require.Len(t, partition.Replicas, replicas())
			}
			listed, err := a.ListTopics()
			require.NoError(t, err)
			require.Equal(t, int32(5), listed[name].NumPartitions)
			require.Equal(t, int16(replicas()), listed[name].ReplicationFactor)
			require.Equal(t, "compact", *listed[name].ConfigEntries["cleanup.policy"])

			require.NoError(t, a.DeleteTopic(name))
			for _, peer := range peers {
				gone(t, peer, name)
			}
			require.Equal(t, sarama.ErrUnknownTopicOrPartition, code(t, a.DeleteTopic(name)))
		})
	}
}

func setting(t *testing.T, a sarama.ClusterAdmin, resource sarama.ConfigResource, name string) string {
	entries, err := a.DescribeConfig(resource)
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.Name == name {
			return entry.Value
		}
	}
	require.Fail(t, "there is no such setting", name)
	return ""
}

func gone(t *testing.T, peer, name string) {
	eventually(t, peer+" still has the topic", func() bool {
		c := config(sarama.MaxVersion)
		c.Metadata.Retry.Max = 0
		one, err := sarama.NewClient([]string{peer}, c)
		require.NoError(t, err)
		defer one.Close()
		all, err := one.Topics()
		require.NoError(t, err)
		for _, other := range all {
			if other == name {
				return false
			}
		}
		return true
	})
}

func TestTopicsThatCannotBeMadeAreRefused(t *testing.T) {
	name, a := topic(t, 1, nil), admin(t)
	refused := func(name string, detail sarama.TopicDetail) sarama.KError {
		return code(t, a.CreateTopic(name, &detail, false))
	}
	fitting := sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: int16(replicas())}
	require.Equal(t, sarama.ErrTopicAlreadyExists, refused(name, fitting))
	require.Equal(t, sarama.ErrInvalidTopic, refused("not a name", fitting))
	require.Equal(t, sarama.ErrInvalidReplicationFactor, refused("large", sarama.TopicDetail{
		NumPartitions: 1, ReplicationFactor: int16(len(peers) + 1),
	}))
	require.Equal(t, sarama.ErrInvalidPartitions, refused("none", sarama.TopicDetail{
		NumPartitions: 0, ReplicationFactor: 1,
	}))
	require.Equal(t, sarama.ErrInvalidConfig, refused("odd", sarama.TopicDetail{
		NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": text("soon")},
	}))
	require.NoError(t, a.CreateTopic("only-asked", &fitting, true))
	for _, peer := range peers {
		gone(t, peer, "only-asked")
	}
}

func TestReplicasArePlacedAsAsked(t *testing.T) {
	several(t)
	a := admin(t)
	placed := map[int32][]int32{0: {3, 1}, 1: {2, 3}, 2: {1, 2}}
	require.NoError(t, a.CreateTopic(t.Name(), &sarama.TopicDetail{
		NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: placed,
	}, false))
	waitInSync(t, t.Name(), 3, 2)
	known := client(t, config(sarama.MaxVersion))
	for partition, wanted := range placed {
		found, err := known.Replicas(t.Name(), partition)
		require.NoError(t, err)
		require.ElementsMatch(t, wanted, found)
		leader, err := known.Leader(t.Name(), partition)
		require.NoError(t, err)
		require.Equal(t, wanted[0], leader.ID())
	}
}

// What one broker is told about access, each of them knows.
func TestAccessRulesAreMadeFoundAndDeleted(t *testing.T) {
	a, name := admin(t), t.Name()
	resource := sarama.Resource{
		ResourceType: sarama.AclResourceTopic, ResourceName: name, ResoucePatternType: sarama.AclPatternLiteral,
	}
	for _, operation := range []sarama.AclOperation{sarama.AclOperationRead, sarama.AclOperationWrite} {
		require.NoError(t, a.CreateACL(resource, sarama.Acl{
			Principal: "User:ana", Host: "*", Operation: operation, PermissionType: sarama.AclPermissionAllow,
		}))
	}
	filter := func(operation sarama.AclOperation) sarama.AclFilter {
		return sarama.AclFilter{
			Version: 1, ResourceType: sarama.AclResourceTopic, ResourceName: &name,
			ResourcePatternTypeFilter: sarama.AclPatternAny, Operation: operation,
			PermissionType: sarama.AclPermissionAny,
		}
	}
	everywhere(t, filter(sarama.AclOperationAny), 2)
	matched, err := a.DeleteACL(filter(sarama.AclOperationRead), false)
	require.NoError(t, err)
	require.Len(t, matched, 1)
	require.Equal(t, "User:ana", matched[0].Principal)
	everywhere(t, filter(sarama.AclOperationAny), 1)
	_, err = a.DeleteACL(filter(sarama.AclOperationAny), false)
	require.NoError(t, err)
	everywhere(t, filter(sarama.AclOperationAny), 0)
}

func everywhere(t *testing.T, filter sarama.AclFilter, count int) {
	request := &sarama.DescribeAclsRequest{Version: 1, AclFilter: filter}
	for _, broker := range client(t, config(sarama.MaxVersion)).Brokers() {
		eventually(t, fmt.Sprintf("broker %d knows another number of rules", broker.ID()), func() bool {
			broker.Open(config(sarama.MaxVersion))
			answer, err := broker.DescribeAcls(request)
			require.NoError(t, err)
			require.Equal(t, sarama.ErrNoError, answer.Err)
			found := 0
			for _, rules := range answer.ResourceAcls {
				found += len(rules.Acls)
			}
			return found == count
		})
	}
}

func TestRecordsAreDeletedBeforeAnOffset(t *testing.T) {
	name := topic(t, 1, nil)
	produce(t, config(sarama.MaxVersion), name, 0, numbered("order", 10)...)
	known := client(t, config(sarama.MaxVersion))
	leader, err := known.Leader(name, 0)
	require.NoError(t, err)
	answer, err := leader.DeleteRecords(&sarama.DeleteRecordsRequest{
		Timeout: patience,
		Topics:  map[string]*sarama.DeleteRecordsRequestTopic{name: {PartitionOffsets: map[int32]int64{0: 4}}},
	})
	require.NoError(t, err)
	require.Equal(t, sarama.ErrNoError, answer.Topics[name].Partitions[0].Err)
	first, err := known.GetOffset(name, 0, sarama.OffsetOldest)
	require.NoError(t, err)
	require.Equal(t, int64(4), first)
	found := consume(t, config(sarama.MaxVersion), name, 0, sarama.OffsetOldest, 6)
	require.Equal(t, numbered("order", 10)[4:], valuesOf(found))
}

// What is known of topics, leaders, the controller and coordinators, by every version.
func TestClientsKnowTheCluster(t *testing.T) {
	name := topic(t, 4, nil)
	for _, version := range sarama.SupportedVersions {
		known := client(t, config(version))
		require.Len(t, known.Brokers(), len(peers))
		all, err := known.Partitions(name)
		require.NoError(t, err)
		require.Equal(t, []int32{0, 1, 2, 3}, all)
		for _, partition := range all {
			leader, err := known.Leader(name, partition)
			require.NoError(t, err)
			inSync, err := known.InSyncReplicas(name, partition)
			require.NoError(t, err)
			require.Len(t, inSync, replicas())
			require.Contains(t, inSync, leader.ID())
		}
		if version.IsAtLeast(sarama.V0_10_0_0) {
			controller, err := known.Controller()
			require.NoError(t, err)
			require.Contains(t, peers, controller.Addr())
		}
		coordinator, err := known.Coordinator(t.Name())
		require.NoError(t, err)
		require.NoError(t, known.RefreshCoordinator(t.Name()))
		again, err := known.Coordinator(t.Name())
		require.NoError(t, err)
		require.Equal(t, coordinator.ID(), again.ID())
		require.NoError(t, known.RefreshMetadata())
		topics, err := known.Topics()
		require.NoError(t, err)
		require.Contains(t, topics, name)
	}
}

func TestTopicsThatDoNotExistAreUnknown(t *testing.T) {
	c := config(sarama.MaxVersion)
	c.Metadata.Retry.Max = 0
	known := client(t, c)
	_, err := known.Partitions("nobody-made-this")
	require.Equal(t, sarama.ErrUnknownTopicOrPartition, err)
	require.Equal(t, sarama.ErrUnknownTopicOrPartition, known.RefreshMetadata("nobody-made-this"))
	_, err = known.Partitions("in:valid")
	require.Contains(t, []error{sarama.ErrInvalidTopic, sarama.ErrUnknownTopicOrPartition}, err)
	_, err = known.Leader(topic(t, 1, nil), 7)
	require.Equal(t, sarama.ErrUnknownTopicOrPartition, err)
}

// Offsets by their time, and those that a group has committed with what it says of them.
func TestOffsetsAreFoundAndCommitted(t *testing.T) {
	name := topic(t, 1, nil)
	produce(t, config(sarama.V0_10_2_0), name, 0, numbered("early", 3)...)
	time.Sleep(5 * time.Millisecond)
	between := time.Now().UnixNano() / int64(time.Millisecond)
	produce(t, config(sarama.MaxVersion), name, 0, numbered("late", 3)...)
	for _, version := range []sarama.KafkaVersion{sarama.V0_10_1_0, sarama.V0_11_0_0, sarama.MaxVersion} {
		known := client(t, config(version))
		for asked, wanted := range map[int64]int64{sarama.OffsetOldest: 0, sarama.OffsetNewest: 6, between: 3} {
			found, err := known.GetOffset(name, 0, asked)
			require.NoError(t, err)
			require.Equal(t, wanted, found)
		}
	}
	for number, version := range []sarama.KafkaVersion{sarama.MinVersion, sarama.V0_9_0_0, sarama.V1_0_0_0, sarama.MaxVersion} {
		commit(t, client(t, config(version)), name, int64(number))
	}
}

func commit(t *testing.T, known sarama.Client, name string, offset int64) {
	manager, err := sarama.NewOffsetManagerFromClient(t.Name(), known)
	require.NoError(t, err)
	defer manager.Close()
	one, err := manager.ManagePartition(name, 0)
	require.NoError(t, err)
	before, _ := one.NextOffset()
	if offset > 0 {
		require.Equal(t, offset, before)
	}
	said := known.Config().Version.String()
	one.MarkOffset(offset+1, said)
	require.NoError(t, one.Close())
	require.NoError(t, manager.Close())
	again, err := sarama.NewOffsetManagerFromClient(t.Name(), known)
	require.NoError(t, err)
	defer again.Close()
	other, err := again.ManagePartition(name, 0)
	require.NoError(t, err)
	defer other.Close()
	found, words := other.NextOffset()
	require.Equal(t, offset+1, found)
	require.Equal(t, said, words)
}

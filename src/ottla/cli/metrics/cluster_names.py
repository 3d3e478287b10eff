"""The metrics of a broker in a cluster: its quorum, what a controller knows, and replication."""

from ottla.cli.metrics.kinds import NONE, Section, counter, gauge

CLUSTER_SECTIONS = (
    Section(
        "The quorum, of a node of a KRaft cluster",
        (
            gauge(
                "quorum_state",
                ("state",),
                "1 for the state of this node: leader, follower, observer, candidate, prospective, "
                "resigned or unattached.",
                "raft-metrics current-state",
            ),
            gauge(
                "quorum_leader_id",
                NONE,
                "The node that leads the quorum, -1 if none is known.",
                "raft-metrics current-leader",
            ),
            gauge(
                "quorum_epoch",
                NONE,
                "The epoch of the quorum's leader.",
                "raft-metrics current-epoch",
            ),
            gauge(
                "quorum_voted_id",
                NONE,
                "The candidate that has this node's vote in the epoch, -1 for none.",
                "raft-metrics current-vote",
            ),
            gauge(
                "quorum_high_watermark",
                NONE,
                "The offset of the metadata log below which all is committed.",
                "raft-metrics high-watermark",
            ),
            gauge(
                "quorum_log_end_offset",
                NONE,
                "The offset after the last record of this node's metadata log.",
                "raft-metrics log-end-offset",
            ),
            gauge(
                "quorum_log_end_epoch",
                NONE,
                "The epoch of the last record of this node's metadata log.",
                "raft-metrics log-end-epoch",
            ),
            gauge(
                "quorum_replayed_offset",
                NONE,
                "The offset after the last record that this node's image has.",
                "broker-metadata-metrics last-applied-record-offset",
            ),
            counter(
                "quorum_new_leaders",
                NONE,
                "How often this node has heard of another leader of the quorum, or has become it.",
                "KafkaController NewActiveControllersCount",
            ),
            gauge(
                "quorum_voters",
                NONE,
                "Voters of the quorum.",
                "raft-metrics number-of-voters",
            ),
            gauge(
                "quorum_observers",
                NONE,
                "Nodes that follow the metadata log without a vote; only the leader has it.",
                "raft-metrics number-of-observers",
            ),
            gauge(
                "quorum_election_latency_seconds",
                ("reason",),
                "How long it took until a leader was known in the last election for which this "
                "node stood, and why it stood.",
                "raft-metrics election-latency-max",
            ),
        ),
    ),
    Section(
        "The cluster, of a node of a KRaft cluster",
        (
            gauge(
                "cluster_active_brokers",
                NONE,
                "Brokers that are registered and not fenced.",
                "KafkaController ActiveBrokerCount",
            ),
            gauge(
                "cluster_fenced_brokers",
                NONE,
                "Brokers that are registered and fenced: they are down, or starting.",
                "KafkaController FencedBrokerCount",
            ),
            gauge(
                "cluster_topics",
                NONE,
                "Topics of the cluster, internal ones included.",
                "KafkaController GlobalTopicCount",
            ),
            gauge(
                "cluster_partitions",
                NONE,
                "Partitions of the cluster, internal ones included.",
                "KafkaController GlobalPartitionCount",
            ),
            gauge(
                "cluster_offline_partitions",
                NONE,
                "Partitions of the cluster that have no leader.",
                "KafkaController OfflinePartitionsCount",
            ),
            gauge(
                "cluster_not_preferred_partitions",
                NONE,
                "Partitions that are not led by the first of their replicas.",
                "KafkaController PreferredReplicaImbalanceCount",
            ),
        ),
    ),
    Section(
        "Replication, of a broker in a cluster",
        (
            gauge(
                "active_controllers",
                NONE,
                "1 while this broker is the controller, otherwise 0.",
                "KafkaController ActiveControllerCount",
            ),
            gauge(
                "leader_partitions",
                NONE,
                "Partitions that this broker leads.",
                "ReplicaManager LeaderCount",
            ),
            gauge(
                "under_replicated_partitions",
                NONE,
                "Partitions led here with fewer replicas in sync than they have.",
                "ReplicaManager UnderReplicatedPartitions",
            ),
            gauge(
                "under_min_isr_partitions",
                NONE,
                "Partitions led here with fewer replicas in sync than min.insync.replicas.",
                "ReplicaManager UnderMinIsrPartitionCount",
            ),
            counter(
                "isr_shrinks",
                NONE,
                "Changes by which replicas left the ISR.",
                "ReplicaManager IsrShrinksPerSec",
            ),
            counter(
                "isr_expands",
                NONE,
                "Changes by which replicas came back into the ISR.",
                "ReplicaManager IsrExpandsPerSec",
            ),
            gauge(
                "replica_lag",
                ("topic", "partition", "broker"),
                "Lag of a follower of a partition led here, in offsets; followers without lag are "
                "left out.",
                "FetcherLagMetrics ConsumerLag",
            ),
        ),
    ),
)

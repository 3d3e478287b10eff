"""Every metric that a broker exports: name, kind, labels, meaning, and Kafka's counterpart in JMX.

`docs/metrics.md` is generated from these rows, and the collector exports nothing else.
"""

from ottla.cli.metrics.cluster_names import CLUSTER_SECTIONS
from ottla.cli.metrics.kinds import NONE, Section, counter, gauge, histogram

PARTITION = ("topic", "partition")
TABLE = ("topic", "table")

SECTIONS = (
    Section(
        "Topics",
        (
            counter(
                "topic_messages_in",
                ("topic",),
                "Records appended.",
                "BrokerTopicMetrics MessagesInPerSec",
            ),
            counter(
                "topic_bytes_in",
                ("topic",),
                "Bytes of record batches appended.",
                "BrokerTopicMetrics BytesInPerSec",
            ),
            counter(
                "topic_bytes_out",
                ("topic",),
                "Bytes of record batches sent to consumers.",
                "BrokerTopicMetrics BytesOutPerSec",
            ),
            gauge(
                "topics",
                NONE,
                "Topics, internal ones included.",
                "KafkaController GlobalTopicCount",
            ),
            gauge(
                "partitions",
                NONE,
                "Partitions, internal ones included.",
                "ReplicaManager PartitionCount",
            ),
            gauge(
                "offline_partitions",
                NONE,
                "Partitions that are not served, because their directory is offline or they need "
                "repair.",
                "ReplicaManager OfflineReplicaCount",
            ),
        ),
    ),
    Section(
        "Logs",
        (
            gauge("log_size_bytes", PARTITION, "Bytes in all segments.", "Log Size"),
            gauge("log_segments", PARTITION, "Segments.", "Log NumLogSegments"),
            gauge("log_start_offset", PARTITION, "The first offset.", "Log LogStartOffset"),
            gauge("log_end_offset", PARTITION, "The next offset.", "Log LogEndOffset"),
            gauge(
                "log_recovery_point_offset",
                PARTITION,
                "The durable offset: what comes before it survives a power failure.",
                "LogManager, file recovery-point-offset-checkpoint",
            ),
            gauge(
                "log_last_stable_offset",
                PARTITION,
                "The first offset that read_committed consumers may not read yet.",
                "Partition LastStableOffsetLag",
            ),
            counter(
                "log_rolled_segments",
                NONE,
                "Segments that were rolled, of existing logs.",
            ),
            gauge(
                "log_directory_offline",
                ("directory",),
                "1 when a directory of log.dirs has failed.",
                "LogManager LogDirectoryOffline",
            ),
            gauge("log_directory_total_bytes", ("directory",), "Size of the disk of a directory."),
            gauge(
                "log_directory_free_bytes", ("directory",), "Free bytes on the disk of a directory."
            ),
        ),
    ),
    Section(
        "Requests",
        (
            histogram(
                "request_duration_seconds",
                ("api",),
                "Time from the receipt of a request until its response is sent.",
                "RequestMetrics TotalTimeMs",
            ),
            histogram(
                "request_wait_seconds",
                ("api",),
                "How long responses waited: fetches for records, joins for members.",
                "RequestMetrics RemoteTimeMs",
            ),
            counter(
                "request_queue_seconds",
                ("api",),
                "How long requests waited in receive buffers.",
                "RequestMetrics RequestQueueTimeMs",
            ),
            counter(
                "request_errors",
                ("api", "error"),
                "Error codes in responses; a response can have several.",
                "RequestMetrics ErrorsPerSec",
            ),
            counter(
                "loop_busy_seconds",
                NONE,
                "Time in which the event loop was busy.",
                "SocketServer NetworkProcessorAvgIdlePercent",
            ),
            gauge(
                "fetches_waiting",
                NONE,
                "Fetches that wait for records.",
                "DelayedOperationPurgatory PurgatorySize",
            ),
            gauge(
                "fetch_sessions",
                NONE,
                "Incremental fetch sessions.",
                "FetchSessionCache NumIncrementalFetchSessions",
            ),
        ),
    ),
    Section(
        "Connections",
        (
            gauge(
                "connections", NONE, "Open connections.", "socket-server-metrics connection-count"
            ),
            counter(
                "connections_accepted",
                NONE,
                "Connections accepted.",
                "socket-server-metrics connection-creation-total",
            ),
            counter(
                "connections_refused", ("reason",), "Connections closed before they were served."
            ),
            counter(
                "connections_closed",
                ("reason",),
                "Connections closed.",
                "socket-server-metrics connection-close-total",
            ),
            counter(
                "logins",
                ("outcome",),
                "Logins by SASL that succeeded, succeeded again on their connection, failed, or "
                "expired.",
                "socket-server-metrics successful-authentication-total",
            ),
            gauge(
                "throttled_clients",
                NONE,
                "Clients that are throttled now.",
                "Produce, Fetch and Request queue-size",
            ),
            counter(
                "throttled_requests",
                NONE,
                "Requests after which the client was throttled.",
            ),
        ),
    ),
    Section(
        "Users",
        (
            gauge("user_connections", ("user",), "Open connections by principal."),
            gauge(
                "quota_rate",
                ("quota", "user", "client_id"),
                "Rate of clients under a quota: bytes per second, or for request_percentage "
                "hundredths of a thread's time. Empty labels: the quota applies to all clients. "
                "Of more than 1000 clients the fastest.",
                "Produce, Fetch and Request byte-rate, request-time",
            ),
            counter(
                "denials",
                ("user",),
                "Operations that the authorizer denied, by principal; beyond 1000 principals the "
                "rest are summed up as others.",
            ),
        ),
    ),
    Section(
        "Groups",
        (
            gauge(
                "groups",
                ("protocol",),
                "Groups by protocol, without those that have committed offsets and no members.",
                "group-coordinator-metrics group-count",
            ),
            gauge(
                "group_members",
                ("group", "protocol"),
                "Members of a group.",
            ),
            gauge(
                "group_state",
                ("group", "state"),
                "1 for the state of a group.",
                "GroupMetadataManager NumGroupsStable and others",
            ),
            gauge("group_committed_offset", ("group", *PARTITION), "The committed offset."),
            gauge(
                "group_lag",
                ("group", *PARTITION),
                "Records after the committed offset that are still there.",
                "consumer-fetch-manager-metrics records-lag",
            ),
            gauge(
                "group_uncommitted_partitions",
                ("group", "topic"),
                "Partitions of a topic without a committed offset, of a group that has committed "
                "others: they have no lag.",
            ),
            gauge(
                "group_lag_seconds",
                ("group", *PARTITION),
                "How long ago the log ended at the committed offset, according to earlier scrapes.",
            ),
        ),
    ),
    Section(
        "Share groups",
        (
            counter(
                "share_group_rebalances",
                NONE,
                "How often members of share groups, or the topics that they read, have changed.",
                "group-coordinator-metrics share-group-rebalance-count",
            ),
            gauge(
                "share_sessions",
                NONE,
                "Share sessions: one for each member that fetches from this broker.",
                "ShareSessionCache ShareSessionsCount",
            ),
            gauge(
                "share_group_start_offset",
                ("group", *PARTITION),
                "The first record of a partition that a share group has not finished.",
            ),
            gauge(
                "share_group_lag",
                ("group", *PARTITION),
                "Records of a partition that a share group has not finished.",
            ),
            gauge(
                "share_group_records_in_flight",
                ("group", *PARTITION),
                "Records of a partition that members of a share group have.",
                "SharePartitionMetrics InFlightMessageCount",
            ),
        ),
    ),
    Section(
        "Transactions",
        (
            gauge("transactions", ("state",), "Transactional ids by state."),
            gauge("transactions_open", NONE, "Transactions that are open."),
            gauge(
                "transaction_oldest_age_seconds",
                NONE,
                "How long the oldest open transaction has been open; 0 without one.",
            ),
        ),
    ),
    Section(
        "The remote tier",
        (
            counter(
                "remote_fetch_requests",
                ("topic",),
                "Reads of the tier for fetches.",
                "BrokerTopicMetrics RemoteFetchRequestsPerSec",
            ),
            counter(
                "remote_fetch_bytes",
                ("topic",),
                "Bytes that fetches have read of the tier.",
                "BrokerTopicMetrics RemoteFetchBytesPerSec",
            ),
            counter(
                "remote_fetch_errors",
                ("topic",),
                "Reads of the tier that failed.",
                "BrokerTopicMetrics RemoteFetchErrorsPerSec",
            ),
            gauge(
                "remote_reader_queue_size",
                (),
                "Reads that wait for one of remote.log.reader.threads.",
                "RemoteLogManager RemoteLogReaderTaskQueueSize",
            ),
            counter(
                "remote_copy_requests",
                ("topic",),
                "Segments that were to be copied to the tier.",
                "BrokerTopicMetrics RemoteCopyRequestsPerSec",
            ),
            counter(
                "remote_copy_bytes",
                ("topic",),
                "Bytes of logs that were copied.",
                "BrokerTopicMetrics RemoteCopyBytesPerSec",
            ),
            counter(
                "remote_copy_errors",
                ("topic",),
                "Copies that failed; each is tried again.",
                "BrokerTopicMetrics RemoteCopyErrorsPerSec",
            ),
            counter(
                "remote_delete_requests",
                ("topic",),
                "Segments that were to be deleted from the tier.",
                "BrokerTopicMetrics RemoteDeleteRequestsPerSec",
            ),
            counter(
                "remote_delete_errors",
                ("topic",),
                "Deletions that failed; each is tried again.",
                "BrokerTopicMetrics RemoteDeleteErrorsPerSec",
            ),
            counter(
                "remote_build_requests",
                ("topic",),
                "Replicas of a follower that were to begin with what the tier has.",
                "BrokerTopicMetrics BuildRemoteLogAuxStateRequestsPerSec",
            ),
            counter(
                "remote_build_errors",
                ("topic",),
                "Those that could not; each is tried again.",
                "BrokerTopicMetrics BuildRemoteLogAuxStateErrorsPerSec",
            ),
            gauge(
                "remote_copy_lag_bytes",
                PARTITION,
                "Bytes of rolled segments that the tier does not have.",
                "BrokerTopicMetrics RemoteCopyLagBytes",
            ),
            gauge(
                "remote_copy_lag_segments",
                PARTITION,
                "The number of these segments.",
                "BrokerTopicMetrics RemoteCopyLagSegments",
            ),
            gauge(
                "remote_delete_lag_bytes",
                PARTITION,
                "Bytes in the tier that are due to be deleted.",
                "BrokerTopicMetrics RemoteDeleteLagBytes",
            ),
            gauge(
                "remote_delete_lag_segments",
                PARTITION,
                "The number of these segments.",
                "BrokerTopicMetrics RemoteDeleteLagSegments",
            ),
            gauge(
                "remote_log_size_bytes",
                PARTITION,
                "Bytes of the logs in the tier.",
                "BrokerTopicMetrics RemoteLogSizeBytes",
            ),
            gauge(
                "remote_log_metadata_count",
                PARTITION,
                "Uploads that the metadata names, in any state.",
                "BrokerTopicMetrics RemoteLogMetadataCount",
            ),
            gauge(
                "remote_jobs",
                ("kind",),
                "Jobs that copy segments or delete them, running or waiting for a thread.",
                "RemoteLogManager RemoteLogManagerCopierTasksAvgIdlePercent",
            ),
            counter(
                "remote_copy_throttle_seconds",
                NONE,
                "How long copies have waited for their quota.",
                "remote-copy-throttle-time-avg",
            ),
            gauge(
                "remote_failing_since_timestamp_seconds",
                NONE,
                "Since when the tier has failed what it was asked; 0 while it does not.",
            ),
        ),
    ),
    Section(
        "Retention and the cleaner",
        (
            counter(
                "retention_deleted_segments",
                ("rule",),
                "Segments that were deleted, by the rule.",
            ),
            counter("retention_deleted_bytes", ("rule",), "Bytes of those segments."),
            counter("retention_passes", NONE, "Passes over all logs."),
            gauge(
                "retention_last_pass_timestamp_seconds",
                NONE,
                "When the last pass over all logs ended; 0 before the first.",
            ),
            gauge(
                "cleaner_dirty_ratio",
                PARTITION,
                "The share not compacted yet.",
                "LogCleanerManager max-dirty-percent",
            ),
            gauge(
                "cleaner_backlog_bytes",
                PARTITION,
                "Bytes that could be compacted now.",
            ),
            gauge(
                "cleaner_failures_in_a_row",
                PARTITION,
                "Passes that failed, one after another.",
            ),
            gauge("cleaner_damaged_segments", PARTITION, "Segments set aside, unreadable."),
            counter("cleaner_passes", NONE, "Passes that ended well."),
            counter("cleaner_failures", NONE, "Passes that failed."),
            counter("cleaner_bytes_read", NONE, "Bytes read of logs."),
            counter(
                "cleaner_bytes_written",
                NONE,
                "Bytes kept of them.",
                "LogCleaner cleaner-recopy-percent",
            ),
            gauge(
                "cleaner_last_pass_timestamp_seconds",
                NONE,
                "When the last pass ended well; 0 before the first.",
            ),
            gauge(
                "cleaner_uncleanable_partitions",
                ("directory",),
                "Partitions that the cleaner cannot compact: their last pass failed, or has set "
                "segments aside.",
                "LogCleanerManager uncleanable-partitions-count",
            ),
            gauge(
                "cleaner_uncleanable_bytes",
                ("directory",),
                "Bytes of these partitions that could be compacted now.",
                "LogCleanerManager uncleanable-bytes",
            ),
            gauge(
                "cleaner_last_clean_seconds",
                NONE,
                "How long the last pass that ended well took; 0 before the first.",
            ),
            gauge(
                "cleaner_max_clean_seconds",
                NONE,
                "How long the longest pass took.",
                "LogCleaner max-clean-time-secs",
            ),
            gauge(
                "cleaner_seconds_since_last_run",
                NONE,
                "Time since the cleaner last looked for a log to compact; 0 before the first.",
                "LogCleanerManager time-since-last-run-ms",
            ),
            gauge("moves", NONE, "Partitions that move to another directory."),
        ),
    ),
    Section(
        "The broker",
        (
            gauge("ready", NONE, "1 when clients are served, as /readyz says."),
            gauge(
                "start_seconds",
                NONE,
                "How long opening and recovering the directories took at the start.",
            ),
            gauge(
                "recovery_remaining_logs",
                ("directory",),
                "Logs of a directory that the start has still to load or recover.",
                "LogManager remainingLogsToRecover",
            ),
            gauge(
                "recovery_remaining_segments",
                ("directory",),
                "Segments left in the logs that are being recovered now.",
                "LogManager remainingSegmentsToRecover",
            ),
            counter(
                "events",
                ("event",),
                "Events that are logged at INFO level, including those that were summed up.",
            ),
            gauge("build", ("version",), "1, with the version."),
        ),
    ),
    *CLUSTER_SECTIONS,
    Section(
        "Tables that are followed (`ottla load --follow`, `ottla serve --table`)",
        (
            gauge(
                "table_lag_records",
                TABLE,
                "Offsets of the topic that were not in the table when the log was last checked.",
            ),
            gauge(
                "table_lag_seconds",
                TABLE,
                "Time since the table had all that was in the log; 0 while it has.",
            ),
            gauge("table_up", TABLE, "1 if the last check of topic and table succeeded."),
            counter("table_commits", TABLE, "Commits since the process began."),
            counter("table_rows", TABLE, "Rows that these commits brought."),
            counter("table_errors", TABLE, "Checks that failed; each is retried."),
        ),
    ),
)

METRICS = {one.name: one for section in SECTIONS for one in section.metrics}

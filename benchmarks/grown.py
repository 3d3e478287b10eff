"""The kinds of state that grow with the use of a broker, and what is done when there is much of it.

`GROWTHS` has them all; `benchmarks.growing` makes them, and does what a client or the time does.
"""

from benchmarks import growing
from benchmarks import growing_access as access
from benchmarks import growing_orders as orders
from benchmarks.growth import Growth

GROWTHS = (
    Growth(
        name="committed offsets of a group",
        unit="offsets",
        count=100_000,
        tiny=100,
        fill=growing.offsets(lambda count: 1),
        deeds=(
            ("OffsetFetch of all", growing.fetch_offsets),
            ("DeleteTopics", growing.delete_topic),
            ("Heartbeat of another group", growing.heartbeat),
        ),
    ),
    Growth(
        name="committed offsets of many groups",
        unit="offsets",
        count=100_000,
        tiny=100,
        fill=growing.offsets(lambda count: count // 10),
        deeds=(
            ("ListGroups", growing.list_groups),
            ("DeleteTopics", growing.delete_topic),
            ("Heartbeat of another group", growing.heartbeat),
        ),
    ),
    Growth(
        name="a group to be deleted",
        unit="offsets",
        count=100_000,
        tiny=100,
        fill=growing.offsets(lambda count: 1),
        deeds=(("DeleteGroups", growing.delete_first_group),),
    ),
    Growth(
        name="offsets of a group that expire",
        unit="offsets",
        count=100_000,
        tiny=100,
        fill=growing.offsets(lambda count: 1),
        deeds=(("eight days", growing.days(8)),),
    ),
    Growth(
        name="offsets of many groups that expire",
        unit="offsets",
        count=100_000,
        tiny=100,
        fill=growing.offsets(lambda count: count // 10),
        deeds=(("eight days", growing.days(8)),),
    ),
    Growth(
        name="offsets of one request",
        unit="offsets",
        count=20_000,
        fill=growing.made(),
        deeds=(("OffsetCommit of all", growing.commit_all),),
    ),
    Growth(
        name="producer ids",
        unit="ids",
        count=60_000,
        tiny=100,
        fill=growing.producers(is_transactional=False),
        deeds=(
            ("a segment roll", growing.roll),
            ("DescribeProducers", growing.describe_producers),
            ("two days", growing.days(2)),
            ("DeleteTopics", growing.delete_topic),
        ),
    ),
    Growth(
        name="open transactions of a partition",
        unit="transactions",
        count=60_000,
        tiny=100,
        fill=growing.producers(is_transactional=True),
        deeds=(
            ("a record", growing.produce_one),
            ("a segment roll", growing.roll),
            ("DescribeProducers", growing.describe_producers),
        ),
    ),
    Growth(
        name="open transactions",
        unit="transactions",
        count=5_000,
        fill=growing.transactions(are_open=True),
        deeds=(
            ("ListTransactions", growing.list_transactions),
            ("their timeouts, all at once", growing.minutes(2)),
        ),
    ),
    Growth(
        name="transactional ids",
        unit="ids",
        count=50_000,
        fill=growing.transactions(are_open=False),
        deeds=(
            ("ListTransactions", growing.list_transactions),
            ("eight days", growing.all_of(growing.days(4), growing.days(4))),
        ),
    ),
    Growth(
        name="aborted transactions",
        unit="transactions",
        count=50_000,
        fill=growing.aborted,
        deeds=(
            ("Fetch of all, read_committed", growing.read_committed),
            ("a segment roll", growing.roll),
        ),
    ),
    Growth(
        name="waiting fetches",
        unit="fetches",
        count=3_000,
        fill=growing.waiting_fetches,
        deeds=(("a record", growing.produce_one),),
    ),
    Growth(
        name="waiting fetches",
        unit="fetches",
        count=3_000,
        fill=growing.waiting_fetches,
        deeds=(("their timeouts, all at once", growing.minutes(6)),),
    ),
    Growth(
        name="waiting fetches",
        unit="fetches",
        count=3_000,
        fill=growing.waiting_fetches,
        deeds=(("all closed at once", growing.close_all_at_once),),
    ),
    Growth(
        name="connections",
        unit="connections",
        count=5_000,
        fill=growing.connections,
        deeds=(
            ("a request of each at once", growing.ask_all_at_once),
            ("all closed at once", growing.close_all_at_once),
        ),
    ),
    Growth(
        name="idle connections",
        unit="connections",
        count=5_000,
        fill=growing.connections,
        settings={"connections_max_idle_ms": "600000"},
        deeds=(("their timeouts, all at once", growing.stay_idle),),
    ),
    Growth(
        name="members of a classic group",
        settings={"group_initial_rebalance_delay_ms": str(growing.FIRST_DELAY_MS)},
        unit="members",
        count=2_000,
        fill=growing.classic_members,
        deeds=(
            ("the JoinGroup responses", growing.complete_joins),
            ("SyncGroup of all", growing.sync_all),
            ("a Heartbeat", growing.heartbeat_of_one),
            ("DescribeGroups", growing.describe_group),
            ("LeaveGroup of all but one", growing.leave_all_but_one),
        ),
    ),
    Growth(
        name="members of a classic group",
        settings={"group_initial_rebalance_delay_ms": str(growing.FIRST_DELAY_MS)},
        unit="members",
        count=2_000,
        fill=growing.all_of(growing.classic_members, growing.complete_joins, growing.sync_all),
        deeds=(("their sessions end, all at once", growing.minutes(11)),),
    ),
    Growth(
        name="members of a consumer group",
        unit="members",
        count=1_000,
        tiny=10,
        fill=growing.consumer_members,
        deeds=(
            ("one more", growing.consumer_join),
            ("their sessions end, all at once", growing.minutes(2)),
        ),
    ),
    Growth(
        name="topics",
        unit="topics",
        count=10_000,
        fill=growing.topics,
        deeds=(
            ("the flusher's question", growing.flush),
            ("a scrape of the metrics", growing.scrape),
            ("CreateTopics", growing.create_one),
            ("CreateTopics when the boot note is full", growing.create_when_noted_full),
            ("two minutes: checkpoints", growing.minutes(2)),
            ("another log.retention.ms", growing.change_defaults),
            ("ten minutes of jobs", growing.minutes(10)),
            ("eight days: retention", growing.days(8)),
            ("DeleteTopics", growing.delete_topics),
            ("a minute of removals", growing.minutes(1)),
        ),
    ),
    Growth(
        name="segments of a partition",
        unit="segments",
        count=5_000,
        fill=growing.segments,
        deeds=(
            ("a segment roll", growing.roll),
            ("the flusher's question", growing.flush),
            ("DeleteRecords of all", growing.delete_records),
            ("ten minutes of jobs", growing.minutes(10)),
        ),
    ),
    Growth(
        name="segments of a deleted topic",
        unit="segments",
        count=5_000,
        fill=growing.segments,
        deeds=(
            ("DeleteTopics", growing.delete_topic),
            ("two minutes of removals", growing.minutes(2)),
        ),
    ),
    Growth(
        name="leader epochs of a partition",
        unit="epochs",
        count=5_000,
        fill=growing.epochs,
        deeds=(
            ("OffsetForLeaderEpoch", growing.end_of_epoch),
            ("one more", growing.next_epoch),
            ("a segment roll", growing.roll),
        ),
    ),
    Growth(
        name="access rules",
        unit="rules",
        count=100_000,
        fill=access.rules,
        settings={
            "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        },
        deeds=(
            ("InitProducerId", growing.init_producer),
            ("CreateAcls", access.create_rule),
            ("DescribeAcls", access.describe_rules),
            ("DeleteAcls", access.delete_rules),
        ),
    ),
    Growth(
        name="access rules of a principal without one for the cluster",
        unit="rules",
        count=100_000,
        fill=access.rules_elsewhere,
        settings={
            "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        },
        deeds=(
            ("InitProducerId, of another host", access.init_producer_in_vain),
            ("InitProducerId, all denied", access.init_producer_denied),
        ),
    ),
    Growth(
        name="quotas",
        unit="users",
        count=20_000,
        fill=access.quotas,
        deeds=(
            ("DescribeClientQuotas", access.describe_quotas),
            ("AlterClientQuotas", access.change_quota),
            ("a record", growing.produce_one),
        ),
    ),
    Growth(
        name="fetch sessions",
        unit="sessions",
        count=10_000,
        fill=growing.fetch_sessions,
        settings={"max_incremental_fetch_session_cache_slots": "10000"},
        deeds=(
            ("one more than there is room for", growing.begin_session),
            ("their timeouts, all at once", growing.minutes(10)),
            ("one more after these", growing.begin_session),
        ),
    ),
    Growth(
        name="users",
        unit="users",
        count=20_000,
        fill=access.users,
        deeds=(
            ("DescribeUserScramCredentials", access.describe_users),
            ("AlterUserScramCredentials", access.set_password),
            ("AlterUserScramCredentials of all", access.delete_users),
        ),
    ),
    Growth(
        name="delegation tokens",
        unit="tokens",
        count=20_000,
        fill=access.tokens,
        settings={"delegation_token_secret_key": "secret"},
        deeds=(
            ("CreateDelegationToken", access.create_token),
            ("RenewDelegationToken", access.renew_token),
            ("DescribeDelegationToken", access.describe_tokens),
            ("two days", growing.days(2)),
        ),
    ),
    Growth(
        name="partitions of a member of a cluster",
        unit="partitions",
        count=10_000,
        tiny=100,
        fill=orders.hosted,
        is_of_member=True,
        deeds=(
            ("UpdateMetadata", orders.update_metadata),
            ("Metadata", orders.ask_metadata),
            ("LeaderAndIsr: another leader", orders.follow_all),
            ("LeaderAndIsr: leader again", orders.lead_all),
            ("StopReplica", orders.stop_all),
            ("nine minutes of jobs", growing.minutes(9)),
        ),
    ),
    Growth(
        name="committed offsets that a coordinator loads",
        unit="offsets",
        count=100_000,
        tiny=100,
        fill=orders.coordinated_offsets,
        is_of_member=True,
        settings={"offsets_topic_num_partitions": "1"},
        deeds=(
            ("LeaderAndIsr: another coordinator", orders.give_up_coordinator),
            ("LeaderAndIsr: coordinator again", orders.become_coordinator),
        ),
    ),
)

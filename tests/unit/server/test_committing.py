"""Answers of a member's coordinators, through its handlers."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.membership.marker_requests import Marker, MarkerRequest, SentMarker
from ottla.broker.replication.fetches import Fetch
from ottla.broker.transactions.marker_sender import RETRY_MS
from ottla.codec.schema import Message
from ottla.coordinator.transaction.requests import InitRequest, ProducerClaim
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerTopic,
    WriteTransactionMarkersRequest,
)
from ottla.server.dispatching.dispatch import handler_of
from ottla.server.dispatching.request_context import Client, PendingResponse, RequestContext
from ottla.server.handling.committing import committed
from tests.support.brokers import at, disk
from tests.support.lonely_member import LonelyMember
from tests.support.replicated_brokers import PartitionOrders, open_member, replicas_of

GROUP_PARTITION = TopicPartition(CONSUMER_OFFSETS, 0)
CLIENT = Client(("localhost", 9092), "127.0.0.1")
STATE_PARTITION = TopicPartition(TRANSACTION_STATE, 0)


class Member:
    """A broker that leads both internal topics; another replica fetches when it is told to."""

    def __init__(self, **settings: str) -> None:
        self.broker: Broker = open_member(
            1,
            disk("/d"),
            offsets_topic_num_partitions="1",
            transaction_state_log_num_partitions="1",
            **settings,
        )
        self.groups = PartitionOrders(GROUP_PARTITION, (1, 2))
        self.state = PartitionOrders(STATE_PARTITION, (1, 2), topic_id=self.broker.options.new_id())
        records = PartitionOrders(
            TopicPartition("t", 0), (1,), topic_id=self.broker.options.new_id()
        )
        for orders in (self.groups, self.state, records):
            orders.lead(1, {1: self.broker})
        while self.broker.answers.next_deadline_ms == 0.0:
            self.broker.answers.advance(at(0))

    def ask(self, api_key: ApiKey, request: Message, version: int) -> Any:
        handle = committed(api_key, handler_of(api_key))
        header = RequestHeader(api_key, version, 1, "test")
        context = RequestContext(self.broker, at(0), header, CLIENT, False)
        answer = handle(request, context)
        self.broker.appends.write_out()
        return answer

    def commit(self, version: int = 8) -> Any:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata=None
        )
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        request = OffsetCommitRequest(group_id="g", topics=[topic])
        return self.ask(ApiKey.OFFSET_COMMIT, request, version)

    def replicate(self, orders: PartitionOrders) -> None:
        """The other replica has everything, and says so with its next fetch."""
        end = orders.partition(self.broker).log.log_end_offset
        fetch = Fetch(
            partition=orders.place,
            follower=2,
            broker_epoch=20,
            leader_epoch=orders.leader_epoch,
            fetch_offset=end,
            last_fetched_epoch=-1,
            log_start_offset=0,
        )
        replicas_of(self.broker).fetched(fetch)

    def answered(self, later: Any) -> Any:
        assert isinstance(later, PendingResponse)
        assert later.pending_id in self.broker.answers.take_answered(0)
        return later.finish(at(0))


def markers_of(*topics: WritableTransactionMarkerTopic) -> WriteTransactionMarkersRequest:
    marker = WritableTransactionMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=1,
        topics=[*topics],
    )
    return WriteTransactionMarkersRequest(markers=[marker])


@pytest.fixture
def member() -> Member:
    return Member()


def test_a_commit_is_answered_when_the_other_replica_has_it(member: Member) -> None:
    later = member.commit()
    assert not member.broker.answers.take_answered(0)
    member.replicate(member.groups)
    (topic,) = member.answered(later).topics
    assert [one.error_code for one in topic.partitions] == [0]


def test_a_commit_that_loses_its_leader_is_refused_in_every_partition(member: Member) -> None:
    later = member.commit()
    member.groups.lead(2, {1: member.broker})
    (topic,) = member.answered(later).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.NOT_COORDINATOR]
    (topic,) = member.commit().topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.NOT_COORDINATOR]


def test_what_is_asked_meanwhile_waits_for_what_it_saw(member: Member) -> None:
    member.commit()
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", topics=[wanted])
    request = OffsetFetchRequest(groups=[group])
    later = member.ask(ApiKey.OFFSET_FETCH, request, 8)
    assert isinstance(later, PendingResponse)
    member.replicate(member.groups)
    member.broker.answers.take_answered(0)
    answer: Any = later.finish(at(0))
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 7


def test_an_answer_about_what_is_committed_goes_at_once(member: Member) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
    answer = member.ask(ApiKey.HEARTBEAT, request, 4)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_go_on_while_another_coordinator_reads_their_group(member: Member) -> None:
    """Clients give up at COORDINATOR_LOAD_IN_PROGRESS, which Kafka answers to neither."""
    member.groups.lead(2, {1: member.broker})
    member.groups.lead(1, {1: member.broker})
    assert member.broker.groups.is_loading
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert member.ask(ApiKey.HEARTBEAT, heartbeat, 4).error_code == ErrorCode.NONE
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
    )
    answer = member.ask(ApiKey.SYNC_GROUP, sync, 5)
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_partition_that_takes_no_commits_is_said_once_and_when_it_takes_them_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = Member(min_insync_replicas="2")

    def commit_thrice(*in_sync: int) -> list[str]:
        caplog.clear()
        member.groups.lead(1, {1: member.broker}, isr=in_sync)
        while member.broker.groups.is_loading:
            member.broker.answers.advance(at(0))
        for _ in range(3):
            member.commit()
        return [one.getMessage() for one in caplog.records]

    assert commit_thrice(1) == [
        "cannot write to __consumer_offsets-0 (groups such as g): "
        "There are fewer in-sync replicas than min.insync.replicas."
    ]
    assert commit_thrice(1, 2) == ["__consumer_offsets-0 takes records again"]
    assert not commit_thrice(1, 2)


def test_a_partition_that_takes_no_markers_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = Member(min_insync_replicas="2")
    orders = PartitionOrders(
        TopicPartition("u", 0), (1, 2), topic_id=member.broker.options.new_id()
    )
    marker = Marker(producer_id=7, epoch=0, is_commit=True, coordinator_epoch=1)
    request = MarkerRequest(0, 1, (SentMarker("tx", marker, (orders.place,), False),))
    for in_sync in ((1,), (1, 2)):
        orders.lead(1, {1: member.broker}, isr=in_sync)
        for _ in range(3):
            member.broker.transactions.markers.write_all(request, at(0), lambda errors: None)
    assert [one.getMessage() for one in caplog.records] == [
        "cannot write to u-0 (markers of transactions such as tx): "
        "There are fewer in-sync replicas than min.insync.replicas.",
        "u-0 takes records again",
    ]


def test_a_producer_gets_its_id_when_that_is_committed(member: Member) -> None:
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    first = member.ask(ApiKey.INIT_PRODUCER_ID, request, 4)
    assert first.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no block of ids is here yet"
    later = member.ask(ApiKey.INIT_PRODUCER_ID, request, 4)
    member.replicate(member.state)
    answer = member.answered(later)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)


def test_a_handler_that_is_no_coordinators_stays_as_it_is() -> None:
    handle = handler_of(ApiKey.METADATA)
    assert committed(ApiKey.METADATA, handle) is handle


def test_a_marker_is_answered_for_when_the_other_replica_has_it(member: Member) -> None:
    orders = PartitionOrders(
        TopicPartition("u", 0), (1, 2), topic_id=member.broker.options.new_id()
    )
    orders.lead(1, {1: member.broker})
    request = markers_of(
        WritableTransactionMarkerTopic(name="u", partition_indexes=[0]),
        WritableTransactionMarkerTopic(name="gone", partition_indexes=[0]),
    )
    later = member.ask(ApiKey.WRITE_TXN_MARKERS, request, 1)
    assert not member.broker.answers.take_answered(0)
    member.replicate(orders)
    (answer,) = member.answered(later).markers
    assert [one.partitions[0].error_code for one in answer.topics] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_member_writes_the_markers_of_its_own_partitions_without_a_connection(
    member: Member,
) -> None:
    """Its membership refuses to send any. They count when the other replica has them."""
    transactions = member.broker.transactions
    request = InitRequest(transactional_id="tx", timeout_ms=60_000)
    while (answer := transactions.init_producer(request, at(0))).error:
        pass
    claim = ProducerClaim(transactional_id="tx", producer_id=answer.producer_id, epoch=answer.epoch)
    places = [GROUP_PARTITION, TopicPartition("t", 0)]
    assert not transactions.add_partitions(claim, places, at(0)).error
    assert not transactions.end(claim, at(0), is_commit=True).error

    def look() -> tuple[str, list[int]]:
        member.broker.appends.write_out()
        found = [one for machine in transactions.known if (one := machine.describe("tx"))]
        topics = member.broker.topics
        return found[0].state, [topics.partition(*one).log.log_end_offset for one in places]

    assert look() == ("PrepareCommit", [0, 0]), "the decision is not committed"
    member.replicate(member.state)
    assert look() == ("PrepareCommit", [1, 1])
    member.groups.lead(2, {1: member.broker})
    member.groups.lead(1, {1: member.broker})
    while member.broker.groups.is_loading:
        member.broker.answers.advance(at(0))
    member.broker.answers.advance(at(RETRY_MS))
    assert look() == ("PrepareCommit", [1, 1]), "it is there, and must not be written again"
    member.replicate(member.groups)
    assert look() == ("CompleteCommit", [1, 1])


def test_markers_for_groups_wait_until_the_groups_are_read(member: Member) -> None:
    topic = WritableTransactionMarkerTopic(name=CONSUMER_OFFSETS, partition_indexes=[0])
    marker = WritableTransactionMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=1,
        topics=[topic],
    )
    member.groups.lead(2, {1: member.broker})
    member.groups.lead(1, {1: member.broker})
    request = WriteTransactionMarkersRequest(markers=[marker])
    (answer,) = member.ask(ApiKey.WRITE_TXN_MARKERS, request, 1).markers
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_heartbeat_is_answered_where_access_rules_are_checked_too() -> None:
    """What the authorizer tells the handler, which topics may be seen, gets through."""
    member = LonelyMember(
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        super_users="User:ANONYMOUS",
    )
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = member.request(request, 1)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR

"""What a member of a cluster answers: the controller's orders, and clients by what it has said."""

from collections.abc import Callable
from itertools import count

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS, TopicPartition
from ottla.base.turns import CURRENT, Turn, at_once
from ottla.codec.schema import Message
from ottla.controller.context import LEADER_DURING_DELETE
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages import describe_producers
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    BrokerState,
)
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext
from ottla.server.orders import update_metadata
from ottla.testing import FakeFileSystem
from tests.support.asking import PEER
from tests.support.brokers import at
from tests.support.lonely_member import ME, LonelyMember
from tests.support.replicated_brokers import replicas_of
from tests.support.shortages import ScarceFileSystem

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def member() -> LonelyMember:
    return LonelyMember(2, 3)


def create(member: LonelyMember, *replicas: tuple[int, ...], name: str = "orders") -> int:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(its))
            for index, its in enumerate(replicas)
        ],
        configs=[CreatableTopicConfig(name="retention.ms", value="1000")],
    )
    (result,) = member.request(CreateTopicsRequest(topics=[topic]), 7).topics
    code: int = result.error_code
    return code


def order(member: LonelyMember, **fields: int) -> LeaderAndIsrRequest:
    """To lead a topic that only this request names."""
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=ME, leader_epoch=0, isr=[ME], replicas=[ME], is_new=True
    )
    topic = LeaderAndIsrTopicState(
        topic_name="other", topic_id=member.broker.options.new_id(), partition_states=[state]
    )
    values = {
        "controller_id": ME,
        "controller_epoch": 1,
        "broker_epoch": member.broker_of(ME).epoch,
        **fields,
    }
    return LeaderAndIsrRequest(topic_states=[topic], **values)


def test_a_topic_is_placed_led_and_known_when_its_creation_is_answered(
    member: LonelyMember,
) -> None:
    assert create(member, (1, 2), (2, 3)) == 0
    partition = member.broker.topics.partition("orders", 0)
    assert partition.log.config.retention_ms == 1000
    assert replicas_of(member.broker).manager.leading(ORDERS) is not None
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    answer = member.request(asked, 12)
    assert [(one.node_id, one.port) for one in answer.brokers] == [(1, 9093), (2, 9094), (3, 9095)]
    assert answer.controller_id == ME
    (topic,) = answer.topics
    seen = {one.partition_index: (one.leader_id, one.isr_nodes) for one in topic.partitions}
    assert seen == {0: (1, [1, 2]), 1: (2, [2, 3])}
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic.topic_id)])
    assert member.request(by_id, 12).topics[0].name == "orders"
    # The second partition is not here, though its topic is.
    assert list(member.broker.topics.get("orders").partitions) == [0]
    pages = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
    (page,) = member.request(pages, 0).topics
    assert [one.leader_id for one in page.partitions] == [1, 2]


def test_who_has_no_replica_is_not_the_leader_and_what_nobody_has_is_unknown(
    member: LonelyMember,
) -> None:
    assert create(member, (1, 2), (2, 3)) == 0
    for index, expected in (
        (1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        deletion = DeleteRecordsPartition(partition_index=index, offset=0)
        topic = DeleteRecordsTopic(name="orders", partitions=[deletion])
        deleted = member.request(DeleteRecordsRequest(topics=[topic]), 2).topics[0].partitions[0]
        assert (deleted.error_code, deleted.low_watermark) == (expected, -1)
        producers = describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name="orders", partition_indexes=[index])]
        )
        (described,) = member.request(producers, 0).topics[0].partitions
        assert described.error_code == expected


def test_topics_that_cannot_be_are_refused(member: LonelyMember) -> None:
    assert create(member, (1, 2)) == 0
    assert create(member, (1, 2)) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert create(member, (1, 4), name="b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert create(member, (1, 1), name="b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert create(member, (1, 2), (1,), name="b") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert create(member, (1,), name="or/ders") == ErrorCode.INVALID_TOPIC_EXCEPTION
    member.is_controller = False
    assert create(member, (1,), name="b") == ErrorCode.NOT_CONTROLLER


def test_a_topic_that_clients_name_is_asked_for_once_its_name_may_be(
    member: LonelyMember,
) -> None:
    names = ["new", "not/one"]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=one) for one in names])
    answer = member.request(request, 9)
    assert {one.name: one.error_code for one in answer.topics} == {
        "new": ErrorCode.LEADER_NOT_AVAILABLE,
        "not/one": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert member.named == ["new"]
    request.allow_auto_topic_creation = False
    assert member.request(request, 9).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.named == ["new"]


def test_a_coordinator_is_who_leads_the_partition(member: LonelyMember) -> None:
    request = FindCoordinatorRequest(key="group-7")
    assert member.request(request, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member.named == ["__consumer_offsets"]
    assert create(member, (3,), (3,), name="__consumer_offsets") == 0
    found = member.request(request, 3)
    assert (found.error_code, found.node_id, found.port) == (0, 3, 9095)


def test_orders_of_an_old_controller_or_for_an_old_life_are_refused(member: LonelyMember) -> None:
    for fields, code in (
        ({"controller_epoch": 0}, ErrorCode.STALE_CONTROLLER_EPOCH),
        ({"broker_epoch": 0}, ErrorCode.STALE_BROKER_EPOCH),
    ):
        values = {
            "controller_id": 2,
            "controller_epoch": 1,
            "broker_epoch": member.broker_of(ME).epoch,
            **fields,
        }
        assert member.request(order(member, **fields), 7).error_code == code
        assert member.request(UpdateMetadataRequest(**values), 8).error_code == code
        assert member.request(StopReplicaRequest(**values), 4).error_code == code
    assert member.broker.topics.find("other") is None
    assert replicas_of(member.broker).metadata.controller == ME
    assert member.request(order(member), 7).error_code == 0


class Lacking(ScarceFileSystem):
    """Lacks descriptors for files whose paths have `lacking`, if it is set."""

    lacking: str | None = None

    def check_descriptors(self, path: str | None) -> None:
        self.has_descriptors = self.lacking is None or self.lacking not in (path or "")
        super().check_descriptors(path)


DELETE = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000)


@pytest.fixture
def scarce() -> tuple[LonelyMember, Lacking]:
    there = Lacking(FakeFileSystem())
    return LonelyMember(2, 3, directory=there), there


def test_partitions_without_descriptors_are_made_and_led_when_there_are_some(
    scarce: tuple[LonelyMember, Lacking], caplog: pytest.LogCaptureFixture
) -> None:
    member, there = scarce
    there.lacking = "/orders-"
    assert create(member, *[(ME,)] * 6) == 0
    context = member.controller.machine.context
    assert not context.offline_directories.get(ME), "the controller counts them as online"
    manager = replicas_of(member.broker).manager
    member.broker.scheduler.run_due(at(1500))
    assert not manager.partitions
    assert [one.getMessage() for one in caplog.records if "clients wait" in one.getMessage()] == [
        "orders-0 and 5 more cannot be made here yet, and clients wait: Too many open files "
        "(/d/orders-0/partition.metadata.tmp); raise the process's limit of open files (ulimit -n) "
        "or of memory"
    ]
    there.lacking = None
    for now_ms in (3000, 3001):
        member.broker.scheduler.run_due(at(now_ms))
    assert {place.partition for place in manager.partitions} == set(range(6))
    assert all(manager.leading(place) for place in manager.partitions)
    assert member.broker.topics.partition("orders", 5).log.config.retention_ms == 1000
    assert caplog.messages[-1] == "no partition waits to be made here any more"


def test_a_partition_that_waits_is_not_made_after_its_deletion_or_the_end_of_the_session(
    scarce: tuple[LonelyMember, Lacking],
) -> None:
    member, there = scarce
    replicas = replicas_of(member.broker)
    for name, end in (("orders", lambda: member.request(DELETE, 6)), ("later", replicas.fence)):
        there.lacking = f"/{name}-"
        assert create(member, (ME,), name=name) == 0
        assert replicas.awaited
        end()
        there.lacking = None
        member.broker.scheduler.run_due(at(5000))
        assert not replicas.awaited
        assert not replicas.manager.partitions


def test_another_topic_of_the_same_name_is_not_led(member: LonelyMember) -> None:
    assert member.request(order(member), 7).error_code == 0
    again = order(member)
    again.topic_states[0].partition_states[0].leader_epoch = 1
    (topic,) = member.request(again, 7).topics
    assert topic.partition_errors[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_deleted_topic_is_gone_from_disk_and_metadata(member: LonelyMember) -> None:
    assert create(member, (ME,)) == 0
    topic_id = member.broker.topics.get("orders").topic_id
    wanted = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)])
    (result,) = member.request(wanted, 6).responses
    assert (result.name, result.error_code) == ("orders", 0)
    assert member.broker.topics.find("orders") is None
    assert "orders" not in replicas_of(member.broker).metadata.topics
    (result,) = member.request(wanted, 6).responses
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_groups_forget_what_they_have_committed_in_a_topic_that_is_deleted(
    member: LonelyMember,
) -> None:
    """Also where this broker leads the group and has no replica of the topic."""
    broker = member.broker
    assert create(member, (1,), name=CONSUMER_OFFSETS) == 0
    assert [create(member, (2,), name=one) for one in ("gone", "kept")] == [0, 0]
    broker.groups.advance(at(0))
    gone, kept = TopicPartition("gone", 0), TopicPartition("kept", 0)
    claim = MemberClaim(group_id="g")
    commit = CommitRequest(claim=claim, offsets=dict.fromkeys((gone, kept), NewOffset(offset=5)))
    decision = broker.groups.machine_of("g", at(0)).commit(commit, at(0))
    assert set(broker.groups.carry_out(decision, at(0)).partitions.values()) == {ErrorCode.NONE}
    order = UpdateMetadataPartitionState(
        topic_name="gone", partition_index=0, leader=LEADER_DURING_DELETE, replicas=[2]
    )
    request = UpdateMetadataRequest(
        controller_id=ME,
        controller_epoch=1,
        broker_epoch=member.broker_of(ME).epoch,
        ungrouped_partition_states=[order],
    )
    assert member.request(request, 4).error_code == 0
    found = broker.groups.machine_of("g", at(0)).fetch_offsets(claim, [gone, kept])
    assert found[gone].committed is None
    assert found[kept].committed is not None


def known_count(member: LonelyMember, topic: str) -> int:
    """The number of a topic's partitions that Metadata knows."""
    known = replicas_of(member.broker).metadata.topics.get(topic)
    return 0 if known is None else len(known.partitions)


class Steps:
    """A turn that is suspended at every occasion; `seen` is what Metadata knew each time."""

    def __init__(self, member: LonelyMember, at_step: Callable[[int], None]) -> None:
        self.seen: list[int] = []
        ticks = count()

        def suspend() -> None:
            self.seen.append(known_count(member, "large"))
            with at_once():
                at_step(len(self.seen))

        turn = Turn(suspend, lambda: float(next(ticks)), max_elements=10**9, max_size=10**9)
        token = CURRENT.set(turn)
        try:
            header = RequestHeader(ApiKey.UPDATE_METADATA, 4, 1, "test")
            context = RequestContext(member.broker, at(0), header, PEER, False)
            self.response = update_metadata.handle(large_update(member), context)
        finally:
            CURRENT.reset(token)


LARGE = 300


def large_update(member: LonelyMember, **fields: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        **{
            "controller_id": ME,
            "controller_epoch": 1,
            "broker_epoch": member.broker_of(ME).epoch,
            "ungrouped_partition_states": [
                UpdateMetadataPartitionState(topic_name="large", partition_index=index)
                for index in range(LARGE)
            ],
            **fields,
        }
    )


def test_others_see_all_of_a_large_update_or_nothing(member: LonelyMember) -> None:
    steps = Steps(member, lambda _: None)
    assert steps.response.error_code == 0
    assert set(steps.seen) == {0, LARGE}
    assert steps.seen == sorted(steps.seen)
    assert steps.seen.count(0) > 2 * LARGE


@pytest.mark.parametrize("when", [1, LARGE // 2, LARGE + LARGE // 2])
def test_nothing_of_an_update_is_taken_when_another_controller_has_spoken(
    when: int, member: LonelyMember
) -> None:
    def another(step: int) -> None:
        if step == when:
            empty = large_update(member, controller_epoch=2, ungrouped_partition_states=[])
            assert member.request(empty, 4).error_code == 0

    steps = Steps(member, another)
    assert steps.response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert "large" not in replicas_of(member.broker).metadata.topics


@pytest.mark.parametrize("when", [1, LARGE // 2, LARGE + LARGE // 2])
def test_an_update_holds_also_what_was_taken_while_it_was_made(
    when: int, member: LonelyMember
) -> None:
    def more(step: int) -> None:
        if step == when:
            one = UpdateMetadataPartitionState(topic_name="small", partition_index=0)
            small = large_update(member, ungrouped_partition_states=[one])
            assert member.request(small, 4).error_code == 0

    steps = Steps(member, more)
    assert steps.response.error_code == 0
    topics = replicas_of(member.broker).metadata.topics
    assert [len(topics[one].partitions) for one in ("large", "small")] == [LARGE, 1]


def begin(member: LonelyMember, request: Message, version: int) -> PendingResponse:
    """Asks the controller, and is left waiting for what it sends to the broker."""
    later, _ = member.asker.send(request, version)
    assert later is not None
    assert later.pending_id in member.broker.answers.take_answered(0.0)
    later, _ = member.asker.go_on(later)
    assert later is not None
    return later


def one_topic(timeout_ms: int = 1000) -> CreateTopicsRequest:
    wanted = CreatableTopic(name="orders", num_partitions=3, replication_factor=3, configs=[])
    return CreateTopicsRequest(topics=[wanted], timeout_ms=timeout_ms)


def test_a_client_that_has_made_a_topic_finds_it_here_and_one_that_deleted_it_does_not(
    member: LonelyMember,
) -> None:
    request = one_topic()
    later = begin(member, request, 7)
    known = replicas_of(member.broker).metadata
    assert "orders" not in known.topics
    assert member.broker.answers.take_answered(0.0) == []
    member.deliver()
    assert later.pending_id in member.broker.answers.take_answered(0.0)
    (result,) = member.asker.finish(later, request, 7).topics
    assert (result.error_code, known_count(member, "orders")) == (0, 3)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000)
    later = begin(member, gone, 6)
    member.deliver()
    assert later.pending_id in member.broker.answers.take_answered(0.0)
    assert member.asker.finish(later, gone, 6).responses[0].error_code == 0
    assert "orders" not in replicas_of(member.broker).metadata.topics


def test_a_topic_that_this_broker_does_not_hear_of_in_time_is_answered_so(
    member: LonelyMember,
) -> None:
    request = one_topic(timeout_ms=500)
    later = begin(member, request, 7)
    assert (member.broker.answers.next_deadline_ms or 0) <= 500
    member.broker.scheduler.run_due(at(500))
    assert later.pending_id in member.broker.answers.take_answered(500)
    (result,) = member.asker.finish(later, request, 7).topics
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_partitions_are_added_with_as_many_replicas(member: LonelyMember) -> None:
    create(member, (1, 2))
    topic = CreatePartitionsTopic(name="orders", count=3, assignments=None)
    (result,) = member.request(CreatePartitionsRequest(topics=[topic]), 3).results
    assert result.error_code == 0
    known = replicas_of(member.broker).metadata.topics["orders"].partitions
    assert [len(one.replicas) for one in known.values()] == [2, 2, 2]
    topic.count = 2
    (result,) = member.request(CreatePartitionsRequest(topics=[topic]), 3).results
    assert result.error_code == ErrorCode.INVALID_PARTITIONS


def test_reassignments_are_begun_listed_and_taken_back(member: LonelyMember) -> None:
    create(member, (1, 2))
    partition = ReassignablePartition(partition_index=0, replicas=[1, 3])
    wanted = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="orders", partitions=[partition])]
    )

    def code() -> int:
        (topic,) = member.request(wanted, 0).responses
        found: int = topic.partitions[0].error_code
        return found

    def moving() -> list[object]:
        topics = member.request(ListPartitionReassignmentsRequest(), 0).topics
        return [
            (one.adding_replicas, one.removing_replicas) for it in topics for one in it.partitions
        ]

    assert code() == 0
    assert moving() == [([3], [2])]
    partition.replicas = None
    assert code() == 0
    assert moving() == []
    assert code() == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    partition.replicas = [7]
    assert code() == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    partition.replicas = [1, 2, 3]
    wanted.allow_replication_factor_change = False
    (topic,) = member.request(wanted, 1).responses
    assert topic.partitions[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_an_isr_is_altered_for_who_leads_in_the_epoch(member: LonelyMember) -> None:
    create(member, (1, 2, 3))
    topic_id = member.broker.topics.get("orders").topic_id
    wanted = AlteredPartition(
        partition_index=0,
        leader_epoch=0,
        partition_epoch=0,
        new_isr_with_epochs=[BrokerState(broker_id=one) for one in (1, 2)],
    )
    request = AlterPartitionRequest(
        broker_id=ME,
        broker_epoch=member.broker_of(ME).epoch,
        topics=[AlteredTopic(topic_id=topic_id, partitions=[wanted])],
    )
    ((result,),) = [one.partitions for one in member.request(request, 3).topics]
    assert (result.error_code, result.isr, result.partition_epoch) == (0, [1, 2], 1)
    wanted.leader_epoch = 1
    ((result,),) = [one.partitions for one in member.request(request, 3).topics]
    assert result.error_code == ErrorCode.NOT_CONTROLLER
    request.broker_epoch -= 1
    assert member.request(request, 3).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_is_about_to_stop_is_told_what_it_still_leads(member: LonelyMember) -> None:
    create(member, (1, 2), (2, 1))
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=member.broker_of(2).epoch)
    answer = member.request(request, 3)
    assert (answer.error_code, answer.remaining_partitions) == (0, [])
    known = replicas_of(member.broker).metadata.topics["orders"].partitions
    assert [one.leader for one in known.values()] == [1, 1]
    request.broker_epoch += 1
    assert member.request(request, 3).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_producer_ids_come_in_blocks(member: LonelyMember) -> None:
    request = AllocateProducerIdsRequest(broker_id=2, broker_epoch=member.broker_of(2).epoch)
    blocks = [member.request(request, 0) for _ in range(2)]
    assert [(one.producer_id_start, one.producer_id_len) for one in blocks] == [
        (0, 1000),
        (1000, 1000),
    ]


def test_elections_of_an_unknown_kind_are_refused(member: LonelyMember) -> None:
    request = ElectLeadersRequest(election_type=2, topic_partitions=None)
    assert member.request(request, 2).error_code == ErrorCode.INVALID_REQUEST
    request.election_type = 0
    assert member.request(request, 2).replica_election_results == []


def test_a_member_lists_what_brokers_ask(member: LonelyMember) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")

    def keys() -> set[int]:
        return {one.api_key for one in member.request(request, 3).api_keys}

    assert {ApiKey.LEADER_AND_ISR, ApiKey.ALTER_PARTITION} <= keys()
    assert member.request(DescribeClusterRequest(), 1).controller_id == ME


def test_the_answer_about_many_quotas_is_made_in_turns(member: LonelyMember) -> None:
    """Made in one go, the answer to 170,000 entries took 190 ms."""
    later, _ = member.asker.send(AlterClientQuotasRequest(entries=[]), 1)
    assert later is not None
    assert later.takes_long


def test_a_replica_that_only_others_have_cannot_be_moved_to_another_directory(
    member: LonelyMember,
) -> None:
    assert create(member, (ME, 2), (2, 3)) == ErrorCode.NONE

    def moved(path: str) -> dict[tuple[str, int], int]:
        topics = [
            AlterReplicaLogDirTopic(name="orders", partitions=[0, 1, 2]),
            AlterReplicaLogDirTopic(name="nothing", partitions=[0]),
        ]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
        return {
            (topic.topic_name, one.partition_index): one.error_code
            for topic in member.request(request, 2).results
            for one in topic.partitions
        }

    assert moved("/d") == {
        ("orders", 0): ErrorCode.NONE,
        ("orders", 1): ErrorCode.REPLICA_NOT_AVAILABLE,
        ("orders", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert set(moved("/elsewhere").values()) == {ErrorCode.LOG_DIR_NOT_FOUND}

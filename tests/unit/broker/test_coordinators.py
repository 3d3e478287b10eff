"""Groups and transactions of a broker that leads some partitions of the internal topics."""

from collections.abc import Iterator
from typing import Self

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from ottla.base.timers import AllTimers, Timers
from ottla.broker.broker import Broker
from ottla.broker.coordinators import Coordinators
from ottla.broker.groups.coordinator import GroupCoordinator, offsets_topic
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.topics.topics import Topic
from ottla.broker.transactions.coordinator import TransactionCoordinator, state_topic
from ottla.broker.waiting.rooms import Waiting
from ottla.coordinator.classic.requests import JoinAnswer, JoinRequest
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.placement import partition_for
from ottla.coordinator.requests import MemberClaim
from ottla.coordinator.transaction.requests import InitRequest, ProducerClaim
from ottla.metadata.deciding.topics import NewTopic
from tests.support.brokers import at, disk, id_of, open_broker

COUNT = 3
WHERE = TopicPartition("t", 0)
GROUP = "g"
OURS = TopicPartition(CONSUMER_OFFSETS, partition_for(GROUP, COUNT))
STATE = TopicPartition(TRANSACTION_STATE, partition_for("tx", COUNT))


class Cluster:
    """Two other brokers lead what this one does not; groups need to know no topics."""

    revision = 0

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = {}

    def __iter__(self) -> Iterator[Topic]:
        return iter(())

    def find(self, name: str) -> Topic | None:
        return None

    def partition_count(self, topic: str) -> int | None:
        return COUNT

    # As the replicas of such a broker

    @property
    def topics(self) -> Self:
        return self

    def leader_of(self, partition: TopicPartition) -> int | None:
        return self.leaders.get(partition)

    shards = Replicas.shards
    partition_shards = Replicas.partition_shards
    make_internal = Replicas.make_internal


class Member:
    """A broker whose partitions of internal topics become led, and are committed, by hand."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.cluster = Cluster()
        broker.replicas = self.cluster  # type: ignore[assignment]
        self.timers: AllTimers = Timers()
        self.groups = GroupCoordinator(
            broker,
            broker.settings.config,
            lambda: id_of(1000),
            broker.settings.groups.of,
            self.timers,
        )
        self.transactions = TransactionCoordinator(
            broker, self.groups, broker.settings.config, lambda: True, self.timers
        )
        self.coordinators = Coordinators(self.groups, self.transactions, broker.share_coordinator)
        self._sent: list[MarkerRequest] = []
        broker.membership = self  # type: ignore[assignment]

    def send_markers(self, request: MarkerRequest) -> None:
        self._sent.append(request)

    def lead(self, partition: TopicPartition, epoch: int = 1) -> None:
        self.coordinators.became_leader(partition, epoch)
        self.work()

    def work(self, monotonic_ms: float = 0) -> None:
        """Loads and gives up all that is to be."""
        while any(one.is_busy for one in (self.groups.shards, self.transactions.shards)):
            self.groups.advance(at(monotonic_ms))
            self.transactions.advance(at(monotonic_ms))

    def commit_log(self, partition: TopicPartition) -> None:
        """All in-sync replicas have what was appended."""
        self.broker.appends.write_out()
        self.coordinators.high_watermark_moved(self.broker.topics.partition(*partition))

    def commit(self, offset: int, group_id: str = GROUP) -> ErrorCode:
        request = CommitRequest(
            claim=MemberClaim(group_id=group_id), offsets={WHERE: NewOffset(offset=offset)}
        )
        decision = self.groups.machine_of(group_id, at(0)).commit(request, at(0))
        return self.groups.carry_out(decision, at(0)).partitions[WHERE]

    def committed(self) -> int | None:
        claim = MemberClaim(group_id=GROUP)
        found = self.groups.machine_of(GROUP, at(0)).fetch_offsets(claim, [WHERE])[WHERE].committed
        return None if found is None else found.offset

    def join(self) -> JoinAnswer | Waiting[JoinAnswer]:
        request = JoinRequest(
            group_id=GROUP,
            member_id="",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols={"range": b""},
            requires_member_id=False,
        )
        waiting: Waiting[JoinAnswer] = Waiting()
        decision = self.groups.machine_of(GROUP, at(0)).join(request, waiting, at(0))
        return self.groups.carry_out_or_wait(decision, waiting, at(0))

    def init(self) -> ProducerClaim | ErrorCode:
        request = InitRequest(transactional_id="tx", timeout_ms=60_000)
        answer = self.transactions.init_producer(request, at(0))
        if answer.error:
            return answer.error
        return ProducerClaim(
            transactional_id="tx", producer_id=answer.producer_id, epoch=answer.epoch
        )

    def ended(self) -> ProducerClaim:
        """A producer that has committed a transaction in the partition; nothing is replicated."""
        claim = self.init()
        assert isinstance(claim, ProducerClaim)
        assert not self.transactions.add_partitions(claim, [WHERE], at(0)).error
        assert not self.transactions.end(claim, at(0), is_commit=True).error
        return claim

    def requests(self, monotonic_ms: float = 0) -> list[MarkerRequest]:
        self.transactions.advance(at(monotonic_ms))
        self.transactions.end_decided(lambda: None)
        sent, self._sent = self._sent, []
        return sent

    def answer(self, request: MarkerRequest, code: ErrorCode, monotonic_ms: float = 0) -> None:
        errors = {
            (sent.marker.producer_id, partition): code
            for sent in request.markers
            for partition in sent.partitions
        }
        self.transactions.markers_answered(request.number, errors, at(monotonic_ms))
        self._sent += self.requests(monotonic_ms)

    def state(self) -> str:
        machine = self.transactions.machine_of("tx", at(0))
        assert not isinstance(machine, ErrorCode)
        found = machine.describe("tx")
        assert found is not None
        return found.state


@pytest.fixture
def member() -> Iterator[Member]:
    settings = {
        "offsets_topic_num_partitions": str(COUNT),
        "transaction_state_log_num_partitions": str(COUNT),
        "log_index_size_max_bytes": "120",
        "group_initial_rebalance_delay_ms": "3000",
    }
    broker = open_broker(disk("/d"), **settings)
    broker.admin.create_topic(offsets_topic(broker.settings.config))
    broker.admin.create_topic(state_topic(broker.settings.config))
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    yield Member(broker)
    broker.close()


# Loading and giving up


def test_a_group_whose_partition_another_broker_leads_is_refused(member: Member) -> None:
    assert member.commit(1) is ErrorCode.NOT_COORDINATOR
    answer = member.join()
    assert isinstance(answer, JoinAnswer)
    assert answer.error is ErrorCode.NOT_COORDINATOR
    assert member.init() is ErrorCode.NOT_COORDINATOR


def test_a_group_is_refused_for_now_while_its_partition_is_read(member: Member) -> None:
    member.coordinators.became_leader(OURS, 1)
    assert member.commit(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert member.timers.next_deadline_ms == 0
    member.work()
    assert member.commit(1) is ErrorCode.NONE


def test_a_long_log_is_read_in_steps(member: Member) -> None:
    member.lead(OURS)
    for number in range(40):
        member.commit(number)
    member.commit_log(OURS)
    member.coordinators.became_follower(OURS, 2)
    member.work()
    member.coordinators.became_leader(OURS, 3)
    steps = 0
    while member.commit(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        member.groups.advance(at(0))
        steps += 1
    assert steps >= 40, "one batch in each"


def test_what_was_committed_is_there_when_the_partition_comes_back(member: Member) -> None:
    member.lead(OURS)
    member.commit(7)
    member.commit_log(OURS)
    member.coordinators.became_follower(OURS, 2)
    assert member.commit(8) is ErrorCode.NOT_COORDINATOR
    member.lead(OURS, 3)
    assert member.committed() == 7


def test_members_that_wait_to_join_are_sent_away_when_another_broker_leads(
    member: Member,
) -> None:
    member.lead(OURS)
    waiting = member.join()
    assert isinstance(waiting, Waiting)
    member.coordinators.became_follower(OURS, 2)
    member.work()
    assert member.groups.take_answered() == [waiting]
    assert waiting.result is not None
    assert waiting.result.error is ErrorCode.NOT_COORDINATOR


def test_a_leadership_that_has_ended_before_is_not_given_up_again(member: Member) -> None:
    member.lead(OURS, 5)
    member.coordinators.became_follower(OURS, 4)
    assert member.commit(1) is ErrorCode.NONE
    member.coordinators.became_leader(OURS, 6)
    assert member.commit(2) is ErrorCode.NONE, "nothing is read again"
    member.coordinators.stopped(OURS, delete=False)
    assert member.commit(3) is ErrorCode.NOT_COORDINATOR


def test_a_partition_that_cannot_be_read_is_not_answered_for(
    member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    missing = TopicPartition(CONSUMER_OFFSETS, OURS.partition)
    member.broker.topics.get(CONSUMER_OFFSETS).partitions.pop(OURS.partition)
    member.lead(missing)
    assert member.commit(1) is ErrorCode.NOT_COORDINATOR
    assert "is not at hand" in caplog.text


def test_other_partitions_events_are_nothing_to_coordinators(member: Member) -> None:
    member.coordinators.became_leader(WHERE, 1)
    member.coordinators.became_follower(WHERE, 1)
    member.coordinators.stopped(WHERE, delete=True)
    member.coordinators.high_watermark_moved(member.broker.topics.partition(*WHERE))
    assert member.timers.next_deadline_ms is None


# What is committed


def test_an_answer_waits_until_its_records_are_committed(member: Member) -> None:
    member.lead(OURS)
    assert member.groups.uncommitted(GROUP, at(0)) is None
    member.commit(1)
    waiting = member.groups.uncommitted(GROUP, at(0))
    assert waiting is not None
    assert not member.groups.take_answered()
    member.commit_log(OURS)
    assert member.groups.take_answered() == [waiting]
    assert waiting.result is ErrorCode.NONE
    assert member.groups.uncommitted(GROUP, at(0)) is None


def test_what_waits_too_long_or_loses_its_leader_is_refused(member: Member) -> None:
    member.lead(OURS)
    member.commit(1)
    late = member.groups.uncommitted(GROUP, at(0))
    member.groups.advance(at(5000))
    assert member.groups.take_answered() == [late]
    assert late is not None
    assert late.result is ErrorCode.COORDINATOR_NOT_AVAILABLE
    lost = member.groups.uncommitted(GROUP, at(6000))
    member.coordinators.became_follower(OURS, 2)
    assert member.groups.take_answered() == [lost]
    assert lost is not None
    assert lost.result is ErrorCode.NOT_COORDINATOR


def test_members_get_their_generation_when_it_is_committed(member: Member) -> None:
    member.lead(OURS)
    joining = member.join()
    assert isinstance(joining, Waiting)
    member.groups.advance(at(3000))
    assert member.groups.take_answered() == [joining], "no record is needed for this"
    group = member.groups.machine_of(GROUP, at(0)).groups[GROUP]
    assert group.state is GroupState.COMPLETING_REBALANCE  # type: ignore[union-attr]


# Markers


def test_markers_go_to_the_leader_when_the_decision_is_committed(member: Member) -> None:
    member.lead(STATE, 4)
    member.cluster.leaders[WHERE] = 2
    claim = member.ended()
    assert not member.requests()
    member.commit_log(STATE)
    (request,) = member.requests()
    (sent,) = request.markers
    assert (request.broker, sent.partitions) == (2, (WHERE,))
    marker = sent.marker
    assert (marker.producer_id, marker.coordinator_epoch) == (claim.producer_id, 4)
    assert marker.is_commit
    assert member.state() == "PrepareCommit"
    member.answer(request, ErrorCode.NONE)
    assert member.state() == "CompleteCommit"


def test_a_marker_that_a_broker_refuses_is_sent_again_after_a_pause_to_who_leads_then(
    member: Member,
) -> None:
    member.lead(STATE)
    member.cluster.leaders[WHERE] = 2
    member.ended()
    member.commit_log(STATE)
    (request,) = member.requests()
    assert not member.requests(), "one at a time"
    member.answer(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not member.requests(99)
    member.cluster.leaders[WHERE] = -1
    assert not member.requests(100), "nobody leads"
    member.cluster.leaders[WHERE] = 3
    (again,) = member.requests(201)
    assert again.broker == 3
    member.transactions.markers_answered(again.number, None, at(201))
    (third,) = member.requests(301)
    member.answer(third, ErrorCode.NONE, 301)
    assert member.state() == "CompleteCommit"


def test_a_partition_that_was_deleted_needs_no_marker(member: Member) -> None:
    member.lead(STATE)
    member.ended()
    member.commit_log(STATE)
    assert not member.requests()
    member.transactions.advance(at(0))
    assert member.state() == "CompleteCommit"


def test_a_coordinator_that_was_replaced_sends_no_markers(member: Member) -> None:
    member.lead(STATE)
    member.cluster.leaders[WHERE] = 2
    member.ended()
    member.commit_log(STATE)
    (request,) = member.requests()
    member.coordinators.became_follower(STATE, 2)
    member.work()
    member.answer(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not member.requests(10_000)


def test_the_next_coordinator_sends_what_the_one_before_it_had_decided(member: Member) -> None:
    member.lead(STATE)
    member.cluster.leaders[WHERE] = 2
    member.ended()
    member.commit_log(STATE)
    (lost,) = member.requests()
    member.coordinators.became_follower(STATE, 2)
    member.work()
    member.lead(STATE, 3)
    assert not member.requests(), "one at a time"
    member.transactions.markers_answered(lost.number, None, at(0))
    (request,) = member.requests(100)
    assert request.markers[0].marker.coordinator_epoch == 3
    member.answer(request, ErrorCode.NONE)
    assert member.state() == "CompleteCommit"


def test_a_coordinator_that_is_back_before_all_is_forgotten_sends_what_was_decided(
    member: Member,
) -> None:
    member.cluster.leaders[WHERE] = 2
    member.lead(STATE)
    member.ended()
    member.commit_log(STATE)
    other = (STATE.partition + 1) % COUNT
    for epoch in range(20):
        member.coordinators.became_leader(TopicPartition(TRANSACTION_STATE, other), epoch)
        member.coordinators.became_follower(TopicPartition(TRANSACTION_STATE, other), epoch)
    member.coordinators.became_follower(STATE, 2)
    member.lead(STATE, 3)
    (request,) = member.requests()
    assert request.markers[0].marker.coordinator_epoch == 3


def test_a_coordinator_fenced_by_a_later_one_stops_sending(member: Member) -> None:
    member.lead(STATE)
    member.cluster.leaders[WHERE] = 2
    member.ended()
    member.commit_log(STATE)
    (request,) = member.requests()
    member.answer(request, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert not member.requests(10_000)
    assert member.state() == "PrepareCommit"


def test_a_producer_asks_again_while_its_former_transaction_is_ended(member: Member) -> None:
    member.lead(STATE)
    member.cluster.leaders[WHERE] = 2
    claim = member.init()
    assert isinstance(claim, ProducerClaim)
    member.transactions.add_partitions(claim, [WHERE], at(0))
    assert member.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    member.commit_log(STATE)
    (request,) = member.requests()
    assert not request.markers[0].marker.is_commit
    member.answer(request, ErrorCode.NONE)
    again = member.init()
    assert isinstance(again, ProducerClaim)
    assert again.epoch > claim.epoch

"""Leaders of partitions change: what was not finished is delivered again, and nothing twice at
once. The share coordinator is one for all, and can be away.
"""

from collections.abc import Sequence

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.membership.dead_letter_requests import DeadLetterRequest
from ottla.broker.membership.state_requests import (
    InitializeState,
    ReadState,
    StateRequest,
    WriteState,
)
from ottla.broker.shares.led_partitions import REPEAT_MS
from ottla.broker.shares.states import TakeAnswers
from ottla.cluster.dead_letter_channels import error_of, message_of
from ottla.coordinator.share.coordinator import (
    Answered,
    ShareCoordinatorConfig,
    ShareCoordinatorShard,
    ShareStateAnswer,
)
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.coordinator.share.records_in_flight import AcknowledgeType, ReturnReason
from ottla.protocol.messages.produce import ProduceRequest
from tests.support.brokers import at, id_of
from tests.support.replicated_brokers import (
    TOPIC_ID,
    ClusterInProcess,
    PartitionOrders,
    Unasked,
)
from tests.support.share_asking import Member, acquired, errors

ACCEPT, RELEASE = int(AcknowledgeType.ACCEPT), int(AcknowledgeType.RELEASE)
REJECT = int(AcknowledgeType.REJECT)
PLACE = TopicPartition("t", 0)
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE


class OneCoordinator:
    """The persister of all brokers. While it `is_away` nothing is read or written; what it is asked
    while it `is_slow` is answered by `go_on`; while it `is_mute` it writes, and answers are lost.
    """

    def __init__(self) -> None:
        self.shard = ShareCoordinatorShard(ShareCoordinatorConfig(), lambda key: True)
        self.is_away = self.is_slow = self.is_mute = False
        self._waiting: list[tuple[list[StateRequest], TakeAnswers, Timestamps]] = []

    def ask(self, requests: Sequence[StateRequest], take: TakeAnswers, at: Timestamps) -> None:
        if self.is_slow:
            self._waiting.append((list(requests), take, at))
        else:
            take([self._answer(one, at) for one in requests])

    def go_on(self) -> None:
        self.is_slow = False
        waiting, self._waiting = self._waiting, []
        for asked in waiting:
            self.ask(*asked)

    def _answer(self, request: StateRequest, at: Timestamps) -> ShareStateAnswer:
        if self.is_away:
            return ShareStateAnswer(error=AWAY)
        decision = self._decide(request, at)
        for record in decision.records:
            self.shard.replay(record.key, record.value, 0)
        assert decision.answer is not None
        return ShareStateAnswer(error=AWAY) if self.is_mute else decision.answer

    def _decide(self, request: StateRequest, at: Timestamps) -> Answered:
        match request:
            case InitializeState(key, epoch, start):
                return self.shard.initialize(key, epoch, start, at)
            case ReadState(key, epoch):
                return self.shard.read(key, epoch, at)
            case WriteState(key, change):
                return self.shard.write(key, change, at)
        raise AssertionError(request)


class Leaders:
    """Brokers 1 and 2 of a cluster, of which 1 leads; there are records 0 to 4."""

    def __init__(self) -> None:
        self.coordinator = OneCoordinator()
        begun = InitializeState(SharePartitionKey("g", TOPIC_ID, 0), 1, 0)
        self.coordinator.ask([begun], lambda answers: None, at(0.0))
        self.cluster = ClusterInProcess(PLACE, (1, 2), zookeeper_connect="a:2181")
        for broker in self.cluster.brokers.values():
            broker.shares.led._persister = self.coordinator
        self.cluster.lead(1)
        for _ in range(2):  # Then all replicas know the high watermark.
            self.cluster.replicate(1)
        self.cluster.produce(1, *(b"%d" % one for one in range(5)))
        for _ in range(3):
            self.cluster.replicate(1)

    def member(self, broker_id: int, name: str = "a") -> Member:
        return Member(self.cluster.brokers[broker_id], name)


@pytest.fixture
def leaders() -> Leaders:
    return Leaders()


def test_a_leader_that_leads_no_more_says_who_does_and_answers_who_waits(
    leaders: Leaders,
) -> None:
    a = leaders.member(1)
    assert acquired(a.fetch()) == [(0, 4, 1)]
    waiting = a.wait()
    leaders.cluster.lead(2)
    answer = waiting.answer()
    assert errors(answer) == [(MOVED, 0)]
    (partition,) = answer.responses[0].partitions
    assert partition.current_leader.leader_id == 2
    assert [(one.node_id, one.host) for one in answer.node_endpoints] == [(2, "broker-2")]
    assert errors(a.fetch([(0, 4, ACCEPT)])) == [(MOVED, MOVED)]


def test_the_next_leader_delivers_what_was_not_finished(leaders: Leaders) -> None:
    a, b = leaders.member(1), leaders.member(2, "b")
    a.fetch()
    a.fetch([(0, 1, ACCEPT), (2, 2, RELEASE)], max_records=0)
    leaders.cluster.lead(2)
    assert acquired(b.fetch()) == [(2, 2, 2), (3, 4, 1)]
    (first, _) = b.broker.shares.in_flight("g", (TOPIC_ID, 0), at(0.0))
    assert first.reasons == (ReturnReason.UNKNOWN,)


def test_an_acknowledgement_under_way_counts_as_not_said_where_the_leader_changes(
    leaders: Leaders,
) -> None:
    a, b = leaders.member(1), leaders.member(2, "b")
    a.fetch()
    leaders.coordinator.is_slow = True
    waiting = a.wait(said=[(0, 4, ACCEPT)])
    leaders.cluster.lead(2)
    leaders.coordinator.is_slow = False
    assert acquired(b.fetch()) == [(0, 4, 1)]
    leaders.coordinator.go_on()
    assert errors(waiting.answer()) == [(MOVED, MOVED)]
    assert errors(b.fetch([(0, 4, ACCEPT)])) == [(0, 0)]


def test_a_leader_that_has_missed_an_election_is_fenced_by_what_it_writes(
    leaders: Leaders,
) -> None:
    a = leaders.member(1)
    a.fetch()
    key = SharePartitionKey("g", TOPIC_ID, 0)
    leaders.coordinator.ask([ReadState(key, 9)], lambda answers: None, at(0.0))
    assert errors(a.fetch([(0, 4, ACCEPT)], max_records=0)) == [(0, MOVED)]


def test_what_cannot_be_written_was_not_said_and_stays_its_members(leaders: Leaders) -> None:
    a, b = leaders.member(1), leaders.member(1, "b")
    a.fetch()
    leaders.coordinator.is_away = True
    assert errors(a.fetch([(0, 4, ACCEPT)], max_records=0)) == [(0, AWAY)]
    assert acquired(b.fetch()) == []
    leaders.coordinator.is_away = False
    assert errors(a.fetch([(0, 4, ACCEPT)], max_records=0)) == [(0, 0)]


@pytest.mark.parametrize("wait_ms", [0.0, REPEAT_MS])
def test_the_next_leader_has_what_was_written_though_its_member_was_told_an_error(
    leaders: Leaders, wait_ms: float
) -> None:
    """Only if it comes before the leader could take that back."""
    a, b = leaders.member(1), leaders.member(2, "b")
    a.fetch()
    leaders.coordinator.is_mute = True
    assert errors(a.fetch([(0, 2, ACCEPT)], max_records=0)) == [(0, AWAY)]
    leaders.coordinator.is_mute = False
    a.broker.shares.advance(at(wait_ms))
    leaders.cluster.lead(2)
    assert acquired(b.fetch()) == [(0 if wait_ms else 3, 4, 1)]


def test_a_state_that_cannot_be_read_is_read_by_the_next_fetch(leaders: Leaders) -> None:
    leaders.coordinator.is_away = True
    a = leaders.member(1)
    assert errors(a.fetch()) == [(AWAY, 0)]
    leaders.coordinator.is_away = False
    assert acquired(a.fetch()) == [(0, 4, 1)]


def test_a_deleted_topic_has_nothing_in_flight(leaders: Leaders) -> None:
    a = leaders.member(1)
    a.fetch()
    waiting = a.wait()
    leaders.cluster.orders.delete(leaders.cluster.brokers)
    (answer,) = [waiting.answer()]
    assert errors(answer)[0][0] in (MOVED, ErrorCode.UNKNOWN_TOPIC_ID)
    assert a.broker.shares.led.known("g", (TOPIC_ID, 0)) is None


# Dead letters whose topic another broker leads


class Letters(Unasked):
    """Keeps what is to be sent to other brokers."""

    def __init__(self) -> None:
        self.sent: list[DeadLetterRequest] = []

    def send_dead_letters(self, request: DeadLetterRequest) -> None:
        self.sent.append(request)


def rejected(leaders: Leaders) -> tuple[Member, Letters]:
    """A member whose records were all rejected; broker 2 leads the topic of their dead letters."""
    cluster = leaders.cluster
    orders = PartitionOrders(TopicPartition("dlq.t", 0), (1, 2), topic_id=id_of(80))
    orders.lead(2, cluster.brokers)
    broker = cluster.brokers[1]
    enabled = ConfigChange(name="errors.deadletterqueue.group.enable", value="true")
    broker.admin.alter_topic("dlq.t", Alteration(changes=[enabled]))
    broker.settings.groups.change("g", {"errors.deadletterqueue.topic.name": "dlq.t"})
    letters = Letters()
    broker.membership = letters  # type: ignore[assignment]
    a = leaders.member(1)
    a.fetch()
    a.fetch([(0, 4, REJECT)], max_records=0)
    a.pass_to(1.0)
    return a, letters


def in_flight(member: Member) -> list[str]:
    found = member.broker.shares.in_flight("g", (TOPIC_ID, 0), at(0.0))
    return [one.state.name for one in found]


def test_dead_letters_are_sent_to_the_broker_that_leads_their_topic(leaders: Leaders) -> None:
    a, letters = rejected(leaders)
    (request,) = letters.sent
    assert (request.broker, request.place) == (2, TopicPartition("dlq.t", 0))
    message = message_of(request)
    assert isinstance(message, ProduceRequest)
    message.acks = 1
    response = leaders.cluster.askers[2].ask(message, 9)
    assert error_of(response) is ErrorCode.NONE
    assert in_flight(a) == ["ARCHIVING"]
    a.broker.shares.led.dead_letters.answered(request.number, ErrorCode.NONE, at(2.0))
    assert in_flight(a) == []
    written = leaders.cluster.brokers[2].topics.get("dlq.t").partition(0).log
    assert written.log_end_offset == 5


def test_a_leader_that_does_not_answer_is_asked_again_before_records_are_given_up(
    leaders: Leaders, caplog: pytest.LogCaptureFixture
) -> None:
    a, letters = rejected(leaders)
    for number in range(6):
        (request,) = letters.sent
        letters.sent.clear()
        now_ms = 2000.0 * (number + 1)
        a.broker.shares.led.dead_letters.answered(request.number, None, at(now_ms))
        a.pass_to(now_ms + 999)
        assert letters.sent == []
        a.pass_to(now_ms + 1000)
    assert letters.sent == in_flight(a) == []
    assert "without a dead letter: its leader did not answer" in caplog.text

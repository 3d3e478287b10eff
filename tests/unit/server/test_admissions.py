"""Writes in transactions that another broker coordinates: the leader asks it (KIP-890)."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from ottla.broker.membership.admission_requests import AdmissionRequest, AskedPartitions
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.transactions.admissions import (
    AT_A_TIME,
    RETRIED_FOR_MS,
    RETRY_MS,
    VOUCHED_FOR,
    Admissions,
)
from ottla.cluster import admission_channels
from ottla.cluster.admission_channels import errors_of, message_of
from ottla.codec.schema import Message
from ottla.coordinator.transaction.requests import ProducerClaim
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsToTransactionResponse,
)
from ottla.protocol.messages.produce import (
    ProduceRequest,
)
from ottla.protocol.messages.write_transaction_markers import (
    WritableTransactionMarker,
    WritableTransactionMarkerTopic,
    WriteTransactionMarkersRequest,
)
from tests.support.asking import Asker
from tests.support.brokers import at, disk
from tests.support.replicated_brokers import PartitionOrders, Unasked, open_member
from tests.support.transaction_asking import ProducerAsker

LEADER, COORDINATOR = 1, 2
PLACE = TopicPartition("t", 0)
GROUP = TopicPartition(CONSUMER_OFFSETS, 0)
STATE = TopicPartition(TRANSACTION_STATE, 0)

VERIFIED, ADDED = 11, 12
"""Versions of Produce: what must have been added before, and what is added by itself."""

ONE_PARTITION = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}


class Line(Unasked):
    """A connection to the other broker, over which nothing goes by itself, and no marker at all."""

    def __init__(self) -> None:
        self.requests: list[AdmissionRequest] = []

    def send_markers(self, request: MarkerRequest) -> None:
        """They stay on their way."""

    def ask_for_admission(self, request: AdmissionRequest) -> None:
        self.requests.append(request)


class Sent:
    """A request, whose answer may wait for what a coordinator says, or for a commit."""

    def __init__(self, asker: Asker, request: Any, version: int) -> None:
        self._asker, self._request, self._version = asker, request, version
        self._later, output = asker.send(request, version)
        self._answer = None if self._later else asker.decode(request, version, output)

    @property
    def waits(self) -> bool:
        broker = self._asker.broker
        while self._later is not None:
            if self._later.pending_id not in broker.answers.take_answered(self._asker.monotonic_ms):
                return True
            self._later, output = self._asker.go_on(self._later)
            broker.appends.write_out()
            if self._later is None:
                self._answer = self._asker.decode(self._request, self._version, output)
        return False

    @property
    def answer(self) -> Any:
        assert not self.waits
        return self._answer

    @property
    def error(self) -> ErrorCode:
        if isinstance(self._request, ProduceRequest):
            return ErrorCode(self.answer.responses[0].partition_responses[0].error_code)
        return ErrorCode(self.answer.topics[0].partitions[0].error_code)


class WaitingAsker(Asker):
    """Its answers may wait for a commit."""

    def ask(self, request: Message, version: int) -> Any:
        return Sent(self, request, version).answer


class Two:
    """A leader of "t" and of the offsets of groups, and the coordinator of all transactions."""

    def __init__(self) -> None:
        self.line = Line()
        self.leader = open_member(
            LEADER,
            disk("/d"),
            membership=self.line,
            **ONE_PARTITION,  # type: ignore[arg-type]
        )
        self.coordinator = open_member(
            COORDINATOR,
            disk("/d"),
            membership=Line(),
            **ONE_PARTITION,  # type: ignore[arg-type]
        )
        both = {LEADER: self.leader, COORDINATOR: self.coordinator}
        for place, leads, replicas in (
            (PLACE, LEADER, (LEADER,)),
            (GROUP, LEADER, (LEADER,)),
            (STATE, COORDINATOR, (COORDINATOR,)),
        ):
            topic_id = self.leader.options.new_id()
            PartitionOrders(place, replicas, topic_id=topic_id).lead(leads, both)
        for broker in both.values():
            while broker.transactions.is_loading or broker.groups.is_loading:
                broker.answers.advance(at(0))
        self.at_leader, self.at_coordinator = Asker(self.leader), WaitingAsker(self.coordinator)
        # The first to ask has the controller asked for a block of ids.
        ProducerAsker(self.at_coordinator, "first").init()

    def carry(self) -> None:
        """Takes the next question to the coordinator, and its answer back."""
        request = self.line.requests.pop(0)
        assert request.broker == COORDINATOR
        response = self.at_coordinator.ask(message_of(request), 5)
        self.leader.transactions.admissions.answered(
            request.number, errors_of(request, response), at(self.at_leader.monotonic_ms)
        )

    def lose(self) -> None:
        request = self.line.requests.pop(0)
        self.leader.transactions.admissions.answered(request.number, None, at(0))


class Producer(ProducerAsker):
    """What it asks the leader is answered later."""

    def __init__(self, two: Two, transactional_id: str = "tx") -> None:
        super().__init__(two.at_coordinator, transactional_id)
        self._leader = two.at_leader
        assert self.init() == ErrorCode.NONE

    def send(self, version: int) -> Sent:
        request = self.batch_request(timeout_ms=1000)
        self.sequence += 1
        return Sent(self._leader, request, version)

    def send_offset(self, version: int) -> Sent:
        return Sent(self._leader, self.offset_commit(7), version)


@pytest.fixture
def two() -> Two:
    return Two()


def test_the_coordinator_adds_the_partition_before_the_first_batch_is_appended(two: Two) -> None:
    producer = Producer(two)
    first = producer.send(ADDED)
    assert first.waits
    assert two.leader.topics.partition("t", 0).log.log_end_offset == 0
    two.carry()
    assert first.error is ErrorCode.NONE
    assert producer.send(ADDED).error is ErrorCode.NONE
    assert not two.line.requests
    assert producer.end(version=5) == ErrorCode.NONE


def test_without_an_answer_the_producer_is_to_send_again(two: Two) -> None:
    producer = Producer(two)
    sent = producer.send(ADDED)
    two.lose()
    assert sent.error is ErrorCode.NOT_ENOUGH_REPLICAS
    producer.sequence = 0
    again = producer.send(ADDED)
    two.carry()
    assert again.error is ErrorCode.NONE


def test_an_older_producer_must_have_added_the_partition(two: Two) -> None:
    producer = Producer(two)
    sent = producer.send(VERIFIED)
    two.carry()
    assert sent.error is ErrorCode.TRANSACTION_ABORTABLE
    producer.sequence = 0
    assert producer.add(0) == [ErrorCode.NONE]
    sent = producer.send(VERIFIED)
    two.carry()
    assert sent.error is ErrorCode.NONE


def test_nothing_is_verified_where_that_is_switched_off(two: Two) -> None:
    line = Line()
    settings = ONE_PARTITION | {"transaction_partition_verification_enable": "false"}
    two.leader = open_member(
        LEADER,
        disk("/d"),
        membership=line,
        **settings,  # type: ignore[arg-type]
    )
    both = {LEADER: two.leader, COORDINATOR: two.coordinator}
    PartitionOrders(PLACE, (LEADER,)).lead(LEADER, both)
    two.at_leader = Asker(two.leader)
    assert Producer(two).send(VERIFIED).error is ErrorCode.NONE
    assert not line.requests


def test_an_answer_does_not_count_once_a_marker_has_ended_the_transaction(two: Two) -> None:
    producer = Producer(two)
    assert producer.add(0) == [ErrorCode.NONE]
    first = producer.send(VERIFIED)
    two.carry()
    assert first.error is ErrorCode.NONE
    _write_marker(two, producer)
    late = producer.send(VERIFIED)
    assert late.waits
    two.at_leader.monotonic_ms += 1
    _write_marker(two, producer)
    two.carry()
    assert late.error is ErrorCode.NOT_ENOUGH_REPLICAS


def _write_marker(two: Two, producer: Producer) -> None:
    marker = WritableTransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        coordinator_epoch=0,
        topics=[WritableTransactionMarkerTopic(name="t", partition_indexes=[0])],
    )
    two.at_leader.send(WriteTransactionMarkersRequest(markers=[marker]), 1)


def test_another_ones_open_transaction_takes_nothing_under_ones_own_transactional_id(
    two: Two,
) -> None:
    ana, eve = Producer(two), Producer(two, "eves")
    sent = ana.send(ADDED)
    two.carry()
    assert sent.error is ErrorCode.NONE
    eve.producer_id, eve.epoch, eve.sequence = ana.producer_id, ana.epoch, ana.sequence
    theft = eve.send(ADDED)
    two.carry()
    assert theft.error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_coordinator_that_still_ends_the_last_transaction_is_asked_again(two: Two) -> None:
    producer = Producer(two)
    sent = producer.send(ADDED)
    two.carry()
    assert sent.error is ErrorCode.NONE
    assert producer.end(version=5) == ErrorCode.NONE
    early = producer.send(ADDED)
    two.carry()
    assert early.waits
    assert not two.line.requests
    for number in range(1, 1 + int(RETRIED_FOR_MS / RETRY_MS)):
        two.at_leader.monotonic_ms = number * RETRY_MS
        two.leader.answers.advance(at(number * RETRY_MS))
        assert early.waits
        two.carry()
    assert early.error is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_producer_is_told_what_it_can_do_about_an_answer(
    two: Two, said: ErrorCode, told: ErrorCode
) -> None:
    sent = Producer(two).send(ADDED)
    request = two.line.requests.pop()
    two.leader.transactions.admissions.answered(request.number, {"tx": {PLACE: said}}, at(0))
    assert sent.error is told


@pytest.mark.parametrize("version", [4, 5])
def test_offsets_of_a_group_go_into_a_transaction_of_another_broker(two: Two, version: int) -> None:
    producer = Producer(two)
    sent = producer.send_offset(version)
    assert sent.waits
    two.carry()
    if version == 4:
        assert sent.error is ErrorCode.TRANSACTION_ABORTABLE
    else:
        assert sent.error is ErrorCode.NONE
        assert producer.end(version=5) == ErrorCode.NONE


def claim(number: int, epoch: int = 0) -> ProducerClaim:
    return ProducerClaim(transactional_id=f"tx-{number}", producer_id=number, epoch=epoch)


def asked(number: int, epoch: int = 0) -> AskedPartitions:
    return AskedPartitions(claim(number, epoch), (PLACE,), True)


def test_questions_that_come_while_one_is_on_its_way_go_together() -> None:
    sent: list[AdmissionRequest] = []
    answers: list[object] = []
    admissions = Admissions(sent.append)

    def done(errors: object, _: object) -> None:
        answers.append(errors)

    admissions.ask(2, asked(1), done)
    for number in range(2, 4 + AT_A_TIME):
        admissions.ask(2, asked(number), done)
    admissions.ask(2, asked(2, epoch=1), done)
    admissions.ask(3, asked(2), done)
    assert [(one.broker, len(one.asked)) for one in sent] == [(2, 1), (3, 1)]
    admissions.answered(sent[0].number, {"tx-1": {PLACE: ErrorCode.NONE}}, at(0))
    assert answers == [{PLACE: ErrorCode.NONE}]
    assert admissions.has_vouched(claim(1))
    assert len(sent[2].asked) == AT_A_TIME
    admissions.answered(sent[2].number, {"tx-2": {PLACE: ErrorCode.PRODUCER_FENCED}}, at(0))
    assert answers[1:3] == [{PLACE: ErrorCode.PRODUCER_FENCED}, {}]
    assert not admissions.has_vouched(claim(2))
    assert [one.claim for one in sent[3].asked] == [
        claim(2 + AT_A_TIME), claim(3 + AT_A_TIME), claim(2, epoch=1),
    ]  # fmt: skip


def test_only_so_many_producers_are_remembered() -> None:
    sent: list[AdmissionRequest] = []
    admissions = Admissions(sent.append)
    for number in range(VOUCHED_FOR + 1):
        admissions.ask(2, asked(number), lambda *_: None)
        told = {f"tx-{number}": {PLACE: ErrorCode.NONE}}
        admissions.answered(sent.pop().number, told, at(0))
    assert not admissions.has_vouched(claim(0))
    assert admissions.has_vouched(claim(1))
    assert not admissions.has_vouched(claim(1, epoch=1))


class Old:
    """A broker that knows no questions of brokers."""

    def version_of(self, *_: object) -> int:
        return 3


def test_what_an_older_coordinator_cannot_be_asked_is_not_verified() -> None:
    request = AdmissionRequest(1, 2, (asked(1),))
    answer = admission_channels._ask(request, Old(), None)  # type: ignore[arg-type]
    assert answer == {"tx-1": {PLACE: ErrorCode.NONE}}


def test_a_refusal_of_the_whole_request_is_one_of_each_partition() -> None:
    request = AdmissionRequest(1, 2, (asked(1),))
    response = AddPartitionsToTransactionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    refused = {"tx-1": {PLACE: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}}
    assert errors_of(request, response) == refused

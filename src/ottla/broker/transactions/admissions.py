"""Whether producers may write to partitions in a transaction: its coordinator says it (KIP-890).

A coordinator on another broker is asked once for each producer and transaction: afterwards the log
has the transaction open. One request per coordinator is pending at a time; later questions are sent
with the next one. Kafka's counterparts: `AddPartitionsToTxnManager`, `VerificationGuard`.
"""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.admission_requests import AdmissionRequest, AskedPartitions
from ottla.broker.topics.partition import Partition
from ottla.broker.waiting.rooms import Waiting
from ottla.coordinator.transaction.requests import ProducerClaim

AT_A_TIME: Final = 256
"""The transactions in one request."""

RETRY_MS: Final = 20.0
"""When a coordinator that still ends the last transaction is asked again, as in Kafka."""

RETRIED_FOR_MS: Final = 100.0

VOUCHED_FOR: Final = 10_000
"""The producers of whom it is remembered that a coordinator knows them."""

Errors = Mapping[TopicPartition, ErrorCode]
AnsweredErrors = Mapping[str, Errors]
"""A coordinator's answer, by transactional id."""

NOT_ASKED: Final = ErrorCode.NOT_COORDINATOR
"""For a partition that nobody was asked about, or about which the answer is too old: the producer
tries again, and its coordinator is asked then.
"""


class Standing(NamedTuple):
    """How a producer outside a transaction stands in a log."""

    epoch: int
    last_marker_offset: int


def is_open(partition: Partition, claim: ProducerClaim) -> bool:
    """Whether the log has a transaction open of the producer's id and epoch; not by which
    transactional id, so that a client may have named one of its own with another one's producer.
    """
    entry = partition.log.producers.entries.get(claim.producer_id)
    return (
        entry is not None
        and entry.epoch == claim.epoch
        and entry.transaction_first_offset is not None
    )


def _standing(partition: Partition, claim: ProducerClaim) -> Standing | None:
    entry = partition.log.producers.entries.get(claim.producer_id)
    if entry is None:
        return None
    return Standing(entry.epoch, entry.last_marker_offset)


class Admission:
    """What the coordinator says about the partitions of one request.

    While it `is_pending`, the result of `waiting` must be awaited before `refusal` is called.
    Without `is_needed` the coordinator has no say. `can_add`: the partitions are added to the
    transaction. Until `deadline_ms` a coordinator that still ends the last one is asked again.
    """

    __slots__ = (
        "_before", "_errors", "_open", "can_add", "claim", "deadline_ms", "is_awaited", "is_needed",
        "waiting",
    )  # fmt: skip

    def __init__(
        self, claim: ProducerClaim, *, can_add: bool, is_needed: bool, deadline_ms: float
    ) -> None:
        self.claim = claim
        self.can_add = can_add
        self.is_needed = is_needed
        self.is_awaited = False
        self.deadline_ms = deadline_ms
        self.waiting: Waiting[Errors] = Waiting()
        self._errors: Errors | None = None
        self._before: dict[TopicPartition, Standing | None] = {}
        self._open: set[TopicPartition] = set()

    def take(self, partition: Partition, *, is_vouched: bool) -> None:
        """Adds a partition. If the coordinator has said that the transactional id is the
        producer's, an open transaction in the log suffices.
        """
        if is_vouched and is_open(partition, self.claim):
            self._open.add(place_of(partition))
        else:
            self._before[place_of(partition)] = _standing(partition, self.claim)

    @property
    def asked(self) -> tuple[TopicPartition, ...]:
        """The partitions about which the coordinator is to be asked."""
        return tuple(sorted(self._before))

    @property
    def is_pending(self) -> bool:
        return self.is_needed and bool(self._before) and self._errors is None

    def settle(self, errors: Errors) -> None:
        """Takes the coordinator's answer."""
        self._errors = self.waiting.result = errors

    def refusal(self, partition: Partition, claim: ProducerClaim) -> ErrorCode:
        """Returns NONE if the producer may write to the partition now, or the error."""
        if claim != self.claim:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if not self.is_needed:
            return ErrorCode.NONE
        place = place_of(partition)
        if is_open(partition, claim):
            return ErrorCode.NONE if place in self._open else self._said(place)
        # A marker that came meanwhile has ended the transaction that the answer is about.
        is_as_before = place in self._before and self._before[place] == _standing(partition, claim)
        return self._said(place) if is_as_before else NOT_ASKED

    def _said(self, place: TopicPartition) -> ErrorCode:
        if self._errors is None:
            return NOT_ASKED
        return self._errors.get(place, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def place_of(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.index)


Done = Callable[[Errors, Timestamps], None]
"""Takes an answer; without errors if there is none."""


class _Question(NamedTuple):
    asked: AskedPartitions
    done: Done


class Admissions:
    """Asks other brokers; `send` sends a request."""

    def __init__(self, send: Callable[[AdmissionRequest], None]) -> None:
        self._send = send
        self._numbers = count()
        self._queued: dict[int, list[_Question]] = {}
        self._on_way: dict[int, tuple[AdmissionRequest, list[_Question]]] = {}
        self._busy: set[int] = set()
        self._vouched: dict[int, ProducerClaim] = {}

    def has_vouched(self, claim: ProducerClaim) -> bool:
        """Whether a coordinator has admitted the producer with its id and epoch."""
        return self._vouched.get(claim.producer_id) == claim

    def ask(self, broker: int, asked: AskedPartitions, done: Done) -> None:
        self._queued.setdefault(broker, []).append(_Question(asked, done))
        if broker not in self._busy:
            self._send_next(broker)

    def answered(self, number: int, errors: AnsweredErrors | None, at: Timestamps) -> None:
        """Takes the answer of another broker, or `None` if there is none."""
        request, questions = self._on_way.pop(number)
        self._busy.discard(request.broker)
        for asked, done in questions:
            answer = {} if errors is None else errors.get(asked.claim.transactional_id, {})
            if answer and not any(answer.values()):
                self._vouch(asked.claim)
            done(answer, at)
        if request.broker in self._queued and request.broker not in self._busy:
            self._send_next(request.broker)

    def _vouch(self, claim: ProducerClaim) -> None:
        self._vouched.pop(claim.producer_id, None)
        self._vouched[claim.producer_id] = claim
        if len(self._vouched) > VOUCHED_FOR:
            del self._vouched[next(iter(self._vouched))]

    def _send_next(self, broker: int) -> None:
        """Two questions about one id go in two requests: the answers name only the id."""
        chosen: dict[str, _Question] = {}
        left = []
        for one in self._queued.pop(broker):
            key = one.asked.claim.transactional_id
            if key in chosen or len(chosen) == AT_A_TIME:
                left.append(one)
            else:
                chosen[key] = one
        if left:
            self._queued[broker] = left
        asked = tuple(one.asked for one in chosen.values())
        request = AdmissionRequest(next(self._numbers), broker, asked)
        self._on_way[request.number] = (request, list(chosen.values()))
        self._busy.add(broker)
        self._send(request)

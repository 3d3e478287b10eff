"""Which markers are sent when: a machine."""

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.timers import Timers
from ottla.broker.membership.marker_requests import NO_LEADER, Marker, MarkerRequest
from ottla.broker.transactions.marker_sender import AT_A_TIME, RETRY_MS, MarkerSender

MARKER = Marker(producer_id=1, epoch=0, is_commit=True)
ORDERS = TopicPartition("orders", 0)
OTHERS = TopicPartition("others", 0)


class Sending:
    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = {}
        self.timers: Timers[object] = Timers()
        self.sender = MarkerSender(lambda _, place: self.leaders.get(place, 2), self.timers)

    def add(self, key: str, *places: TopicPartition) -> None:
        self.sender.add(0, key, MARKER, places)

    def requests(self, now_ms: float = 0) -> list[MarkerRequest]:
        self.sender.advance(now_ms)
        return self.sender.take_requests(now_ms) if self.sender.has_news else []

    def answer(self, request: MarkerRequest, error: ErrorCode, now_ms: float = 0) -> None:
        places = [place for sent in request.markers for place in sent.partitions]
        answers = {(MARKER.producer_id, place): error for place in places}
        self.sender.answered(request.number, answers, now_ms)


def test_a_partition_without_a_leader_holds_up_no_other_transaction() -> None:
    sending = Sending()
    sending.leaders[ORDERS] = NO_LEADER
    sending.add("stuck", ORDERS)
    assert not sending.requests()
    sending.add("quick", OTHERS)
    (request,) = sending.requests()
    sending.answer(request, ErrorCode.NONE)
    assert sending.sender.take_complete() == ["quick"]
    sending.leaders[ORDERS] = 2
    assert not sending.requests(RETRY_MS - 1)
    (request,) = sending.requests(RETRY_MS)
    assert (request.broker, request.markers[0].transactional_id) == (2, "stuck")


def test_a_refused_marker_is_named_a_repeated_one_and_holds_up_no_other() -> None:
    sending = Sending()
    sending.add("refused", ORDERS)
    (request,) = sending.requests()
    assert not request.markers[0].is_repeated
    sending.answer(request, ErrorCode.KAFKA_STORAGE_ERROR)
    sending.add("quick", OTHERS)
    (request,) = sending.requests()
    sending.answer(request, ErrorCode.NONE)
    (again,) = sending.requests(RETRY_MS)
    assert again.markers[0].is_repeated


def test_a_request_of_unknown_effect_has_its_broker_left_alone_for_a_while() -> None:
    sending = Sending()
    sending.add("lost", ORDERS)
    (request,) = sending.requests()
    sending.sender.failed(request.number, 0)
    sending.add("quick", OTHERS)
    assert not sending.requests(RETRY_MS - 1)
    (again,) = sending.requests(RETRY_MS)
    repeated = {one.transactional_id: one.is_repeated for one in again.markers}
    assert repeated == {"lost": True, "quick": False}


def test_many_partitions_without_leaders_are_looked_at_a_few_at_a_time() -> None:
    sending = Sending()
    places = [TopicPartition("orders", index) for index in range(3 * AT_A_TIME // 2)]
    sending.leaders = dict.fromkeys(places, NO_LEADER)
    sending.add("stuck", *places)
    assert not sending.requests()
    sending.leaders = dict.fromkeys(places, 2)
    counts = []
    for _ in range(3):
        requests = sending.requests(RETRY_MS)
        counts.append(sum(len(one.markers[0].partitions) for one in requests))
        for request in requests:
            sending.answer(request, ErrorCode.NONE, RETRY_MS)
    assert counts == [AT_A_TIME, AT_A_TIME // 2, 0]
    assert sending.sender.take_complete() == ["stuck"]


def test_what_has_no_more_to_be_sent_needs_no_round() -> None:
    sending = Sending()
    sending.leaders[ORDERS] = NO_LEADER
    sending.add("stuck", ORDERS)
    sending.requests()
    sending.leaders[ORDERS] = None
    assert not sending.requests(RETRY_MS)
    assert sending.sender.take_complete() == ["stuck"]
    assert not sending.sender.has_news
    assert sending.timers.next_deadline_ms is None

"""What a share consumer asks of leaders: by example, and a machine against leaders that lose
connections and sessions, and hand partitions on.
"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.client.connecting.cluster import PartitionLeader
from ottla.client.sharing.exchange import LINGER_MS, Exchange, ExchangeOptions
from ottla.coordinator.share.records_in_flight import (
    Acknowledgement,
    AcknowledgeType,
    DeliveryState,
)
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from tests.support.share_leaders import LOCK_MS, ShareLeader, move, new_led

TOPIC_ID = bytes(range(16))
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = [(first, first + 2) for first in range(0, 60, 3)]
ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)


def options(**given: Any) -> ExchangeOptions:
    return ExchangeOptions(group_id="g", member_id="m", **{"max_records": 6, **given})


class Home:
    """An exchange and its leaders, with one clock."""

    def __init__(self, *places: TopicPartition, leader_count: int = 1, **given: Any) -> None:
        self.exchange = Exchange(options(**given))
        self.leaders = [ShareLeader(node_id, BATCHES) for node_id in range(leader_count)]
        for one in places:
            self.leaders[0].led[TOPIC_ID, one.partition] = new_led()
        self.now_ms = 0.0
        self.exchange.assign(dict.fromkeys(places, TOPIC_ID), 0.0)
        self.exchange.lead({one: PartitionLeader(0, 0) for one in places})

    def ask(self, node_id: int = 0) -> Any:
        """The next request, answered; `None` if there is none."""
        request = self.exchange.next_request(node_id, self.now_ms)
        if request is not None:
            answer = self.leaders[node_id].answer(request, self.now_ms)
            self.exchange.answered(node_id, answer, self.now_ms)
        return request

    def fetch(self, node_id: int = 0) -> list[int]:
        """Offsets of the next chunk."""
        self.exchange.is_hungry = True
        assert isinstance(self.ask(node_id), ShareFetchRequest)
        return self.next_offsets()

    def next_offsets(self) -> list[int]:
        chunk = self.exchange.next_chunk(self.now_ms)
        if chunk is None:
            return []
        return [at for one in chunk.acquired for at in range(one.first, one.last + 1)]

    def say(self, kind: int, *offsets: int, place: TopicPartition = P0) -> None:
        for one in offsets:
            self.exchange.say(self.exchange.by_place[place], one, kind, self.now_ms)

    def results(self) -> list[tuple[list[int], str]]:
        found = [(one.offsets, one.error.name) for one in self.exchange.results]
        self.exchange.results.clear()
        return found


def said_in(request: Any) -> list[tuple[int, int, list[int]]]:
    return [
        (of.first_offset, of.last_offset, of.acknowledge_types)
        for topic in request.topics
        for part in topic.partitions
        for of in part.acknowledgement_batches
    ]


def test_nothing_is_fetched_unless_the_application_waits() -> None:
    home = Home(P0)
    assert home.ask() is None
    assert home.fetch() == [0, 1, 2, 3, 4, 5]
    assert home.ask() is None


def test_acknowledgements_go_with_the_next_fetch_as_ranges() -> None:
    home = Home(P0)
    home.fetch()
    home.say(ACCEPT, 0, 1)
    home.say(RELEASE, 2)
    home.say(ACCEPT, 5, 4)
    home.exchange.is_hungry = True
    request = home.ask()
    assert isinstance(request, ShareFetchRequest)
    assert said_in(request) == [(0, 1, [1]), (2, 2, [2]), (4, 5, [1])]
    assert home.results() == [([0, 1, 2, 4, 5], "NONE")]
    assert home.next_offsets()[0] == 2


def test_acknowledgements_alone_wait_for_a_fetch_but_not_for_long() -> None:
    home = Home(P0)
    home.fetch()
    home.say(ACCEPT, 0)
    assert home.ask() is None
    home.now_ms += LINGER_MS
    request = home.ask()
    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.share_session_epoch == 1
    assert home.ask() is None


def test_a_flush_sends_acknowledgements_at_once() -> None:
    home = Home(P0)
    home.fetch()
    home.say(ACCEPT, 0)
    home.exchange.must_flush = True
    assert isinstance(home.ask(), ShareAcknowledgeRequest)
    assert home.exchange.unanswered() == {}


def test_gaps_are_acknowledged_and_nobody_hears_of_them() -> None:
    home = Home(P0)
    home.fetch()
    home.say(GAP, 1)
    assert home.exchange.unanswered() == {}
    home.exchange.is_hungry = True
    assert said_in(home.ask()) == [(1, 1, [0])]
    assert home.results() == []


def test_a_renewed_lock_lasts_from_now_on_and_is_asked_for_at_once() -> None:
    home = Home(P0)
    home.fetch()
    home.now_ms = 900.0
    home.say(RENEW, 3)
    home.exchange.is_hungry = True
    request = home.ask()
    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.is_renew_ack
    home.now_ms = 1500.0
    home.say(ACCEPT, 0, 3)
    home.exchange.must_flush = True
    assert said_in(home.ask()) == [(3, 3, [1])]
    assert home.results() == [
        ([3], "NONE"),
        ([0], "INVALID_RECORD_STATE"),  # Its lock has surely expired: nobody is asked.
        ([3], "NONE"),
    ]


def test_one_lost_lock_undoes_no_other_acknowledgement() -> None:
    home = Home(P0)
    home.fetch()
    records = home.leaders[0].led[TOPIC_ID, 0].records
    # The broker's clock is ahead, and another member has one of them.
    records.commit(records.acknowledge("m", [Acknowledgement(4, 4, (RELEASE,))], 0.0), 0.0)
    home.say(ACCEPT, 0, 1, 2, 3, 4, 5)
    home.exchange.must_flush = True
    while home.ask() is not None:
        pass
    outcomes = {offset: code for offsets, code in home.results() for offset in offsets}
    assert outcomes == {
        **dict.fromkeys((0, 1, 2, 3, 5), "NONE"),
        4: "INVALID_RECORD_STATE",
    }


def test_a_session_names_partitions_once_and_forgets_those_that_went() -> None:
    home = Home(P0, P1)
    home.exchange.is_hungry = True
    request = home.ask()
    assert [part.partition_index for part in request.topics[0].partitions] == [0, 1]
    home.next_offsets()
    home.exchange.assign({P1: TOPIC_ID}, 0.0)
    home.exchange.is_hungry = True
    request = home.ask()
    assert request.topics == []
    assert request.forgotten_topics_data[0].partitions == [0]
    assert request.share_session_epoch == 1


def test_records_of_a_partition_that_went_are_still_acknowledged() -> None:
    home = Home(P0, P1)
    home.fetch()
    home.exchange.assign({P1: TOPIC_ID}, 0.0)
    home.say(ACCEPT, 0)
    home.exchange.is_hungry = True
    request = home.ask()
    assert isinstance(request, ShareAcknowledgeRequest)
    assert home.results() == [([0], "NONE")]


@pytest.mark.parametrize(
    "code", [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH]
)
def test_after_a_lost_session_another_begins_and_records_are_lost(code: ErrorCode) -> None:
    home = Home(P0)
    home.fetch()
    home.say(ACCEPT, 0)
    home.exchange.is_hungry = True
    request = home.exchange.next_request(0, 0.0)
    assert request is not None
    home.exchange.answered(0, type(home.leaders[0].answer(request, 0.0))(error_code=code), 0.0)
    assert home.results() == [([0], code.name)]
    assert home.exchange.by_place[P0].held == {}
    request = home.exchange.next_request(0, 0.0)
    assert isinstance(request, ShareFetchRequest)
    assert request.share_session_epoch == 0
    assert said_in(request) == []


def test_a_new_leader_is_followed_at_once_if_the_old_one_names_it() -> None:
    home = Home(P0, leader_count=2)
    home.fetch()
    home.say(ACCEPT, 0)
    move((TOPIC_ID, 0), *home.leaders)
    home.exchange.is_hungry = True
    home.ask()
    assert home.results() == [([0], "NOT_LEADER_OR_FOLLOWER")]
    assert home.exchange.without_leader() == []
    assert home.fetch(1) == [0, 1, 2, 3, 4, 5]


def test_a_refusal_for_good_is_for_the_application() -> None:
    home = Home(P0)
    home.exchange.is_hungry = True
    request = home.exchange.next_request(0, 0.0)
    assert isinstance(request, ShareFetchRequest)
    answer = type(home.leaders[0].answer(request, 0.0))(
        error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    home.exchange.answered(0, answer, 0.0)
    assert [one.code for one in home.exchange.refusals] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert home.exchange.next_request(0, 0.0) is None
    assert home.exchange.due_ms(0, 0.0) == 100.0


def test_closing_says_what_is_left_and_releases_the_rest() -> None:
    home = Home(P0)
    home.fetch()
    home.say(ACCEPT, 0, 1)
    request = home.exchange.farewell(0, 0.0)
    assert isinstance(request, ShareAcknowledgeRequest)
    assert request.share_session_epoch == -1
    home.exchange.answered(0, home.leaders[0].answer(request, 0.0), 0.0)
    led = home.leaders[0].led[TOPIC_ID, 0]
    assert led.acquired() == []
    assert led.records.start == 2
    assert home.exchange.farewell(0, 0.0) is None


class ExchangeMachine(RuleBasedStateMachine):
    """Two leaders, two partitions, and a member whose connections, sessions and leaders go."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Home(P0, P1, leader_count=2)
        self.handed: dict[tuple[TopicPartition, int], int] = {}
        """What the application has, and its delivery count."""
        self.said: list[tuple[TopicPartition, int, int]] = []
        """Each final word of the application: place, offset, delivery count."""
        self.renewed: Counter[tuple[TopicPartition, int]] = Counter()

    def _ask(self, node_id: int) -> tuple[Any, Any]:
        home = self.home
        request = home.exchange.next_request(node_id, home.now_ms)
        if request is None:
            return None, None
        return request, home.leaders[node_id].answer(request, home.now_ms)

    @rule(node_id=st.integers(0, 1), is_hungry=st.booleans())
    def ask(self, node_id: int, is_hungry: bool) -> None:
        self.home.exchange.is_hungry |= is_hungry
        self.home.exchange.must_flush = not is_hungry
        request, answer = self._ask(node_id)
        if request is not None:
            self.home.exchange.answered(node_id, answer, self.home.now_ms)

    @rule(node_id=st.integers(0, 1))
    def read(self, node_id: int) -> None:
        """What an application does again and again."""
        self.home.now_ms += 100.0
        self.look_up()
        self.ask(node_id, is_hungry=True)
        self.hand_out()

    @rule(node_id=st.integers(0, 1), is_answered=st.booleans())
    def cut(self, node_id: int, is_answered: bool) -> None:
        """The connection goes, with or without a request that the leader has carried out."""
        home = self.home
        home.exchange.is_hungry = True
        request = home.exchange.next_request(node_id, home.now_ms)
        if request is None:
            return
        if is_answered:
            home.leaders[node_id].answer(request, home.now_ms)
        home.leaders[node_id].disconnect()
        home.exchange.unreachable(node_id, home.now_ms)

    @rule(node_id=st.integers(0, 1))
    def forget_session(self, node_id: int) -> None:
        self.home.leaders[node_id].disconnect()

    @rule()
    def look_up(self) -> None:
        exchange = self.home.exchange
        exchange.lead(
            {
                place: PartitionLeader(leader.node_id, leader.led[TOPIC_ID, place.partition].epoch)
                for place in exchange.without_leader()
                for leader in self.home.leaders
                if (TOPIC_ID, place.partition) in leader.led
            }
        )

    @rule(number=st.integers(0, 1))
    def move(self, number: int) -> None:
        key = TOPIC_ID, number
        old, new = sorted(self.home.leaders, key=lambda one: key not in one.led)
        move(key, old, new)

    @rule(assigned=st.sets(st.sampled_from([P0, P1]), min_size=1))
    def assign(self, assigned: set[TopicPartition]) -> None:
        self.home.exchange.assign(dict.fromkeys(assigned, TOPIC_ID), self.home.now_ms)

    @rule(ms=st.sampled_from([10.0, 200.0, LOCK_MS]))
    def pass_time(self, ms: float) -> None:
        self.home.now_ms += ms

    @rule()
    def hand_out(self) -> None:
        exchange = self.home.exchange
        while (chunk := exchange.next_chunk(self.home.now_ms)) is not None:
            for one in chunk.acquired:
                for offset in range(one.first, one.last + 1):
                    place = chunk.partition.place
                    # Never handed out twice with one count: that would be one delivery.
                    assert self.handed.get((place, offset), 0) != one.delivery_count
                    self.handed[place, offset] = one.delivery_count

    @rule(
        data=st.data(),
        kind=st.sampled_from([ACCEPT, RELEASE, REJECT, RENEW]),
        count=st.integers(1, 4),
    )
    def say(self, data: st.DataObject, kind: AcknowledgeType, count: int) -> None:
        exchange = self.home.exchange
        held = [
            (place, offset, each.delivery_count)
            for place, one in exchange.by_place.items()
            for offset, each in one.held.items()
            if self.handed.get((place, offset)) == each.delivery_count
        ]
        for _ in range(min(count, len(held))):
            one = data.draw(st.sampled_from(held))
            held.remove(one)
            place, offset, _ = one
            if kind is not RENEW:
                assert one not in self.said
                self.said.append(one)
            else:
                self.renewed[place, offset] += 1
            exchange.say(exchange.by_place[place], offset, kind, self.home.now_ms)

    @invariant()
    def is_consistent(self) -> None:
        """What a leader has as accepted was accepted; nothing is held that is final there."""
        accepted = {(place, offset) for place, offset, _ in self.said}
        for leader in self.home.leaders:
            for (_, number), led in leader.led.items():
                place = TopicPartition("t", number)
                for run in led.records.runs():
                    if run.state in (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED):
                        offsets = range(run.first, run.last + 1)
                        assert all((place, at) in accepted for at in offsets)
                assert all((place, at) in accepted for at in range(led.records.start))

    def teardown(self) -> None:
        """A closed consumer holds nothing, and each word has had one answer."""
        home = self.home
        for leader in home.leaders:
            request = home.exchange.farewell(leader.node_id, home.now_ms)
            if request is not None:
                answer = leader.answer(request, home.now_ms)
                home.exchange.answered(leader.node_id, answer, home.now_ms)
                assert not answer.error_code or not leader.sessions
            if request is not None and not answer.error_code:
                assert all(led.acquired() == [] for led in leader.led.values())
        assert home.exchange.unanswered() == {}
        answers = Counter(
            (one.partition, offset) for one in home.exchange.results for offset in one.offsets
        )
        words = Counter((place, offset) for place, offset, _ in self.said)
        assert all(words[one] <= answers[one] <= words[one] + self.renewed[one] for one in words)
        assert answers.keys() <= words.keys() | self.renewed.keys()


TestExchangeMachine = ExchangeMachine.TestCase
TestExchangeMachine.settings = settings(stateful_step_count=40, deadline=None)

"""Heartbeats of brokers, and their sessions."""

from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding.heartbeats import (
    BrokerSessions,
    HeartbeatAnswer,
    HeartbeatRequest,
    fence,
    heartbeat,
)
from ottla.metadata.deciding.registration import RegistrationRequest, register_broker
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.metadata.record_versions import VersionedRecord
from tests.support.kraft_images import CLUSTER, a_broker, an_id, an_image, then

TIMEOUT_MS = 9000


class Cluster:
    """A controller's image and sessions, and the brokers that it has heard."""

    def __init__(self, image: MetadataImage, end_offset: int = 100) -> None:
        self.image = image
        self.end_offset = end_offset
        self.now_ms = 0.0
        self.sessions = BrokerSessions(TIMEOUT_MS)
        self.sessions.begin(image, end_offset, self.now_ms)

    def apply(self, records: list[VersionedRecord]) -> None:
        self.image = then(self.image, records)
        self.end_offset += len(records)

    def beat(self, broker_id: int = 1, **changes: Any) -> HeartbeatAnswer:
        """By default a broker knows the whole log."""
        broker = self.image.brokers.get(broker_id)
        epoch = -1 if broker is None else broker.epoch
        request = HeartbeatRequest(broker_id, epoch, self.end_offset - 1)._replace(**changes)
        records, answer = heartbeat(
            self.image, self.sessions, request, end_offset=self.end_offset, now_ms=self.now_ms
        )
        self.apply(records)
        return answer

    def register(self, broker_id: int, broker: BrokerRegistration, **changes: Any) -> int:
        request = RegistrationRequest(broker_id, CLUSTER, broker)._replace(**changes)
        is_live = self.sessions.is_live(self.image, broker_id, self.now_ms)
        records, epoch = register_broker(
            self.image, CLUSTER, request, end_offset=self.end_offset, is_live=is_live
        )
        self.apply(records)
        self.sessions.registered(broker_id, epoch, self.now_ms)
        return epoch

    def partition(self, index: int = 0) -> PartitionImage:
        return self.image.topics["t"].partitions[index]

    @property
    def ended(self) -> list[int]:
        return self.sessions.ended(self.image, self.now_ms)


def three(**changes: Any) -> Cluster:
    """Three brokers, of which the first leads a partition, and the changes are of the first."""
    brokers = {number: a_broker(number, epoch=number) for number in (1, 2, 3)}
    brokers[1] = a_broker(1, **{"epoch": 1, **changes})
    return Cluster(an_image(brokers=brokers, partitions={0: (1, 2, 3), 1: (2, 3)}))


# Fenced and unfenced


def test_a_broker_is_unfenced_when_it_has_its_own_registration_and_wants_to_be() -> None:
    cluster = Cluster(an_image())
    epoch = cluster.register(1, a_broker())
    behind = cluster.beat(metadata_offset=epoch - 1)
    assert behind == HeartbeatAnswer(is_caught_up=False, is_fenced=True, should_shut_down=False)
    loading = cluster.beat(metadata_offset=epoch, want_fence=True)
    assert loading == HeartbeatAnswer(is_caught_up=True, is_fenced=True, should_shut_down=False)
    ready = cluster.beat(metadata_offset=epoch)
    assert ready == HeartbeatAnswer(is_caught_up=True, is_fenced=False, should_shut_down=False)
    assert not cluster.image.brokers[1].is_fenced
    end_offset = cluster.end_offset
    assert cluster.beat() == ready
    assert cluster.end_offset == end_offset


def test_a_broker_that_is_unfenced_leads_what_nobody_else_can_lead() -> None:
    cluster = Cluster(an_image(brokers={1: a_broker(epoch=1)}, partitions={0: (1,)}))
    cluster.apply(fence(cluster.image, 1))
    assert cluster.partition().leader == -1
    cluster.beat()
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 2)


def test_a_broker_is_fenced_when_it_wants_to_be() -> None:
    cluster = three()
    assert cluster.beat(want_fence=True).is_fenced
    assert cluster.image.brokers[1].is_fenced
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))


@pytest.mark.parametrize(("changes", "code"), [
    ({"broker_id": 9}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ({"epoch": 2}, ErrorCode.STALE_BROKER_EPOCH),
    ({"epoch": -1}, ErrorCode.STALE_BROKER_EPOCH),
])  # fmt: skip
def test_who_is_not_registered_with_its_epoch_is_refused_and_not_taken_for_live(
    changes: dict[str, int], code: ErrorCode
) -> None:
    cluster = three()
    cluster.now_ms = TIMEOUT_MS
    with pytest.raises(ApiError) as refused:
        cluster.beat(**changes)
    assert refused.value.code is code
    assert cluster.ended == [1, 2, 3]


# Controlled shutdown


def test_a_broker_stops_when_its_leaderships_have_moved_and_all_others_know() -> None:
    cluster = three()
    first = cluster.beat(want_shut_down=True)
    moved = cluster.end_offset - 1
    assert first == HeartbeatAnswer(is_caught_up=True, is_fenced=False, should_shut_down=False)
    assert cluster.image.brokers[1].is_shutting_down
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))
    assert not cluster.beat(want_shut_down=True).should_shut_down
    cluster.beat(2)
    cluster.beat(3, metadata_offset=moved - 1)
    assert not cluster.beat(want_shut_down=True).should_shut_down
    cluster.beat(3, metadata_offset=moved)
    last = cluster.beat(want_shut_down=True)
    assert last == HeartbeatAnswer(is_caught_up=True, is_fenced=True, should_shut_down=True)
    assert cluster.image.brokers[1].is_fenced


def test_who_leads_nothing_or_is_fenced_stops_at_once() -> None:
    assert three().beat(3, want_shut_down=True).should_shut_down
    assert three().beat(want_shut_down=True, want_fence=True).should_shut_down
    fenced = three(is_fenced=True)
    end_offset = fenced.end_offset
    assert fenced.beat(want_shut_down=True) == HeartbeatAnswer(True, True, True)
    assert fenced.end_offset == end_offset


def test_the_last_broker_of_a_cluster_can_stop() -> None:
    cluster = Cluster(an_image(brokers={1: a_broker(epoch=1)}, partitions={0: (1,)}))
    assert not cluster.beat(want_shut_down=True).should_shut_down
    assert cluster.beat(want_shut_down=True).should_shut_down
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1,))


def test_a_new_controller_lets_a_broker_stop_when_all_others_know_what_it_began_with() -> None:
    cluster = three(is_shutting_down=True)
    cluster.apply(fence(cluster.image, 1)[:1])
    cluster.sessions.begin(cluster.image, cluster.end_offset, 0)
    assert not cluster.beat(want_shut_down=True).should_shut_down
    cluster.beat(2)
    cluster.beat(3)
    assert cluster.beat(want_shut_down=True).should_shut_down


def test_a_broker_whose_session_has_ended_is_not_waited_for() -> None:
    cluster = three()
    cluster.beat(want_shut_down=True)
    cluster.beat(2)
    cluster.apply(fence(cluster.image, 3))
    assert cluster.beat(want_shut_down=True).should_shut_down


# Directories


def test_replicas_in_a_failed_directory_lead_nothing() -> None:
    cluster = three(directories=(an_id(201), an_id(301)))
    answer = cluster.beat(offline=(an_id(201), an_id(999)))
    assert not answer.is_fenced
    assert cluster.image.brokers[1].directories == (an_id(301),)
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))
    end_offset = cluster.end_offset
    cluster.beat(offline=(an_id(201),))
    assert cluster.end_offset == end_offset


def test_cordoned_directories_are_noted_where_the_level_has_them() -> None:
    cluster = three()
    cluster.beat(cordoned=(an_id(201),))
    assert cluster.image.brokers[1].cordoned == (an_id(201),)
    cluster.beat(cordoned=None)
    assert cluster.image.brokers[1].cordoned == (an_id(201),)
    cluster.beat(cordoned=())
    assert cluster.image.brokers[1].cordoned == ()
    older = Cluster(an_image(29, {1: a_broker(epoch=1)}))
    older.beat(cordoned=(an_id(201),))
    assert older.end_offset == 100


# Sessions


def test_sessions_end_when_nothing_is_heard_the_longest_silent_first() -> None:
    cluster = three()
    cluster.now_ms = 1000
    cluster.beat(2)
    assert cluster.sessions.deadline_ms(cluster.image) == TIMEOUT_MS
    cluster.now_ms = TIMEOUT_MS - 1
    assert cluster.ended == []
    cluster.now_ms = TIMEOUT_MS + 1000
    assert cluster.ended == [1, 3, 2]
    assert not cluster.sessions.is_live(cluster.image, 1, cluster.now_ms)


def test_fenced_brokers_have_no_session() -> None:
    cluster = Cluster(an_image(brokers={1: a_broker(epoch=1, is_fenced=True)}))
    cluster.beat(want_fence=True)
    cluster.now_ms = 1e9
    assert cluster.ended == []
    assert cluster.sessions.deadline_ms(cluster.image) == inf
    assert not cluster.sessions.is_live(cluster.image, 1, 0)


def test_the_session_of_an_earlier_incarnation_does_not_count() -> None:
    cluster = three()
    cluster.now_ms = TIMEOUT_MS
    cluster.apply(fence(cluster.image, 1))
    cluster.register(1, a_broker(incarnation_id=an_id(9)))
    cluster.beat()
    assert cluster.sessions.is_live(cluster.image, 1, 2 * TIMEOUT_MS - 1)
    assert not cluster.sessions.is_live(cluster.image, 1, 2 * TIMEOUT_MS)


class Brokers(RuleBasedStateMachine):
    """Brokers that start, stop, stand still and come back, whose heartbeats may be late."""

    def __init__(self) -> None:
        super().__init__()
        brokers = {number: a_broker(number, epoch=number) for number in (1, 2, 3)}
        partitions = {0: (1, 2, 3), 1: (2, 3), 2: (3,), 3: (3, 1)}
        self.cluster = Cluster(an_image(brokers=brokers, partitions=partitions))
        self.incarnations = 1000
        self.stopped = set[int]()

    numbers = st.sampled_from((1, 2, 3))

    @rule(number=numbers, is_clean=st.booleans())
    def start(self, number: int, is_clean: bool) -> None:
        self.incarnations += 1
        known = self.cluster.image.brokers[number]
        is_live = self.cluster.sessions.is_live(self.cluster.image, number, self.cluster.now_ms)
        broker = a_broker(number, incarnation_id=an_id(self.incarnations))
        if is_live and not known.is_shutting_down:
            with pytest.raises(ApiError) as refused:
                self.cluster.register(number, broker)
            assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            return
        self.cluster.register(number, broker, previous_epoch=known.epoch if is_clean else -1)
        assert self.cluster.image.brokers[number].is_fenced
        self.stopped.discard(number)

    @rule(number=numbers, lag=st.integers(0, 30), fenced=st.booleans(), stop=st.booleans())
    def beat(self, number: int, lag: int, fenced: bool, stop: bool) -> None:
        answer = self.cluster.beat(
            number,
            metadata_offset=self.cluster.end_offset - 1 - lag,
            want_fence=fenced,
            want_shut_down=stop or number in self.stopped,
        )
        after = self.cluster.image.brokers[number]
        assert answer.is_fenced == after.is_fenced
        if answer.should_shut_down:
            self.stopped.add(number)
            assert after.is_fenced

    @rule(passed_ms=st.integers(1, TIMEOUT_MS))
    def wait(self, passed_ms: int) -> None:
        self.cluster.now_ms += passed_ms
        while ended := self.cluster.ended:
            self.cluster.apply(fence(self.cluster.image, ended[0]))

    @rule()
    def elect_another_controller(self) -> None:
        cluster = self.cluster
        cluster.sessions.begin(cluster.image, cluster.end_offset, cluster.now_ms)

    @precondition(lambda self: not self.stopped)
    @rule()
    def all_brokers_beat(self) -> None:
        for number in (1, 2, 3, 1, 2, 3):
            self.cluster.beat(number)
        assert self.cluster.ended == []

    def partitions(self) -> Iterator[PartitionImage]:
        yield from self.cluster.image.topics["t"].partitions.values()

    @invariant()
    def leaders_are_live_and_in_sync(self) -> None:
        brokers = self.cluster.image.brokers
        for one in self.partitions():
            assert one.isr
            assert set(one.isr) <= set(one.replicas)
            assert one.leader == -1 or one.leader in one.isr
            assert one.leader == -1 or not brokers[one.leader].is_fenced

    @invariant()
    def a_fenced_broker_is_in_sync_only_where_nobody_else_is(self) -> None:
        for one in self.partitions():
            fenced = [two for two in one.isr if self.cluster.image.brokers[two].is_fenced]
            assert not fenced or len(one.isr) == 1

    @invariant()
    def whoever_is_not_fenced_has_a_session(self) -> None:
        deadline = self.cluster.sessions.deadline_ms(self.cluster.image)
        assert deadline > self.cluster.now_ms


Brokers.TestCase.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
TestBrokers = Brokers.TestCase

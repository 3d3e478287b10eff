"""One broker's replicas: what each order, fetch and answer makes of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.metadata.log import NoMetadataLog
from ottla.broker.replication.effects import (
    AnswerDelayed,
    AppendAsFollower,
    AssignEpoch,
    BecameFollower,
    BecameLeader,
    MoveHighWatermark,
    RaiseLogStart,
    Stopped,
    TruncateFullyAndStartAt,
    TruncateTo,
)
from ottla.broker.replication.fetches import (
    AskEpochEnd,
    AskOffsets,
    EpochEnded,
    Fetch,
    Fetched,
    Offsets,
)
from ottla.broker.replication.leading import Leading
from ottla.broker.replication.replica_log import EpochEnd
from ottla.broker.replication.replica_manager import (
    Applied,
    ReplicaManager,
    ReplicaOptions,
    Sender,
)
from ottla.controller.events import AlteredAnswer
from ottla.controller.requests import (
    LeaderAndIsr,
    PartitionMetadata,
    PartitionOrder,
    StopOrder,
    StopReplica,
    UpdateMetadata,
)
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.zookeeper.topics import PartitionState, ReplicaAssignment
from tests.simulation.cluster_broker import ModelLog
from tests.support.leader_answers import epoch_ended

ORDERS = TopicPartition("orders", 0)
ME, OTHER, THIRD = 1, 2, 3
LAG_MS = 100
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Broker:
    """A manager with one log; the controller is 9, in epoch 4."""

    def __init__(self, *, truncates_on_fetch: bool = True) -> None:
        self.log: ModelLog | None = ModelLog()
        self.manager = ReplicaManager(
            ReplicaOptions(
                broker_id=ME, lag_time_max_ms=LAG_MS, truncates_on_fetch=truncates_on_fetch
            ),
            self,
            ImageStore(MetadataImage(), NoMetadataLog()),
        )
        self.manager.registered(70)
        brokers = dict.fromkeys((ME, OTHER, THIRD), BrokerRegistration(endpoints=()))
        self.apply(UpdateMetadata(partitions={}, topic_ids={}, brokers=brokers))

    def open(
        self,
        partition: TopicPartition,
        topic_id: Uuid | None,
        settings: Mapping[str, str],
        *,
        is_new: bool,
    ) -> ModelLog:
        if self.log is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return self.log

    @property
    def has(self) -> ModelLog:
        assert self.log is not None
        return self.log

    def apply(self, order: Any, now_ms: float = 0, **sender: int) -> Applied:
        source = {"controller": 9, "controller_epoch": 4, "broker_epoch": 70} | sender
        return self.manager.apply(order, Sender(**source), now_ms)

    def take(
        self, leader: int, epoch: int = 5, isr: tuple[int, ...] = (1, 2, 3), **fields: Any
    ) -> Applied:
        order = PartitionOrder(
            state=PartitionState(leader=leader, leader_epoch=epoch, controller_epoch=4, isr=isr),
            partition_epoch=10,
            assignment=ReplicaAssignment(fields.pop("replicas", (1, 2, 3))),
            is_new=False,
        )
        ids = fields.pop("topic_ids", {})
        return self.apply(
            LeaderAndIsr(orders={ORDERS: order}, topic_ids=ids, live_leaders={}), **fields
        )

    def append(self, count: int = 1, *, waits_until: float | None = None, now_ms: float = 0) -> Any:
        self.has.append(((5, "v"),) * count)
        if waits_until is not None:
            end = self.has.log_end_offset
            self.manager.wait(ORDERS, end, end, waits_until)
        return self.manager.appended(ORDERS, now_ms)

    def fetch(self, follower: int, offset: int, now_ms: float = 0, **fields: Any) -> Any:
        asked = {"leader_epoch": 5, "last_fetched_epoch": 5 if offset else -1} | fields
        return self.manager.fetched(
            Fetch(partition=ORDERS, follower=follower, fetch_offset=offset, **asked), now_ms
        )

    def asked_isr(self) -> tuple[int, ...] | None:
        changes = self.manager.alter_partitions.next_request()
        return changes[0].isr if changes else None

    def answer(self, now_ms: float = 0, **fields: Any) -> Any:
        sent = self.manager.alter_partitions
        answers = [AlteredAnswer(change=one, **fields) for one in sent.in_flight]
        return self.manager.altered(sent.attempt, answers, now_ms)


def high_watermark(broker: Broker) -> int:
    return broker.manager.partitions[ORDERS].local.high_watermark


# Orders


def test_a_leader_begins_its_epoch_at_the_end_of_its_log() -> None:
    broker = Broker()
    broker.has.append(((3, "a"),))
    applied = broker.take(ME)
    assert applied.errors == {ORDERS: ErrorCode.NONE}
    assert applied.effects == (AssignEpoch(ORDERS, 5, 1), BecameLeader(ORDERS, 5))


@pytest.mark.parametrize(
    ("sender", "error"),
    [
        ({"broker_epoch": 69}, ErrorCode.STALE_BROKER_EPOCH),
        ({"controller_epoch": 3}, ErrorCode.STALE_CONTROLLER_EPOCH),
        ({"broker_epoch": 71}, ErrorCode.NONE),
        ({"broker_epoch": -1}, ErrorCode.NONE),
    ],
)
def test_orders_of_old_controllers_and_for_former_lives_are_refused(
    sender: dict[str, int], error: ErrorCode
) -> None:
    broker = Broker()
    assert broker.take(ME, **sender).error is error
    assert (broker.manager.leading(ORDERS) is not None) == (error is ErrorCode.NONE)


@pytest.mark.parametrize("epoch", [4, 5])
def test_an_order_with_no_later_leader_epoch_is_refused(epoch: int) -> None:
    broker = Broker()
    broker.take(ME)
    assert broker.take(OTHER, epoch).errors == {ORDERS: ErrorCode.STALE_CONTROLLER_EPOCH}
    assert broker.manager.leading(ORDERS) is not None


@pytest.mark.parametrize("epoch", [-1, -(2**31)])
def test_an_order_with_a_leader_epoch_that_nobody_can_have_is_refused(epoch: int) -> None:
    broker = Broker()
    assert broker.take(ME, epoch).errors == {ORDERS: ErrorCode.STALE_CONTROLLER_EPOCH}
    assert ORDERS not in broker.manager.partitions


def test_a_fenced_broker_leads_nothing_and_takes_the_same_epoch_again() -> None:
    broker = Broker()
    broker.take(ME)
    broker.append(waits_until=50)
    assert broker.manager.fence() == [
        AnswerDelayed(1, ORDERS, NOT_LEADER),
        BecameFollower(ORDERS, 5),
    ]
    assert broker.manager.error_before_append(ORDERS, waits_for_all=False) is NOT_LEADER
    assert broker.take(ME).error is ErrorCode.STALE_BROKER_EPOCH
    broker.manager.registered(80)
    assert broker.take(ME, broker_epoch=80).errors == {ORDERS: ErrorCode.NONE}
    assert broker.manager.leading(ORDERS) is not None


def test_what_is_not_for_this_broker_or_has_no_log_is_refused() -> None:
    broker = Broker()
    not_mine = broker.take(OTHER, replicas=(2, 3))
    assert not_mine.errors == {ORDERS: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    broker.log = None
    assert broker.take(ME).errors == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_replica_in_a_failed_directory_is_neither_assumed_nor_deleted() -> None:
    """If its deletion were confirmed, it could be made again in another directory."""
    broker = Broker()
    broker.take(ME)
    assert Stopped(ORDERS, delete=False) in broker.manager.went_offline([ORDERS])
    storage_error = {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
    gone = broker.apply(StopReplica(orders={ORDERS: StopOrder(leader_epoch=-2, delete=True)}))
    assert (gone.errors, gone.effects) == (storage_error, ())
    assert broker.take(ME, 6).errors == storage_error


def test_a_topic_of_another_id_is_refused() -> None:
    broker = Broker()
    broker.take(ME, topic_ids={"orders": Uuid(bytes(15) + b"1")})
    again = broker.take(ME, 6, topic_ids={"orders": Uuid(bytes(15) + b"2")})
    assert again.errors == {ORDERS: ErrorCode.INCONSISTENT_TOPIC_ID}


def test_a_replica_is_stopped_by_its_epoch_or_with_its_topic() -> None:
    broker = Broker()
    broker.take(ME)
    broker.append(waits_until=50)
    late = broker.apply(StopReplica(orders={ORDERS: StopOrder(leader_epoch=4, delete=True)}))
    assert late.errors == {ORDERS: ErrorCode.FENCED_LEADER_EPOCH}
    gone = broker.apply(StopReplica(orders={ORDERS: StopOrder(leader_epoch=-2, delete=True)}))
    assert gone.errors == {ORDERS: ErrorCode.NONE}
    assert gone.effects == (
        AnswerDelayed(1, ORDERS, NOT_LEADER),
        Stopped(ORDERS, delete=True),
    )
    answer, _ = broker.fetch(OTHER, 0)
    assert answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Leading


def test_what_all_in_sync_replicas_have_is_committed_and_answered() -> None:
    broker = Broker()
    broker.take(ME)
    assert broker.append(2, waits_until=50) == []
    assert broker.fetch(OTHER, 2)[1] == []
    _, effects = broker.fetch(THIRD, 2)
    assert effects == [MoveHighWatermark(ORDERS, 2), AnswerDelayed(2, ORDERS, ErrorCode.NONE)]


def test_a_produce_that_waits_too_long_is_answered_and_its_records_stay() -> None:
    broker = Broker()
    broker.take(ME)
    broker.append(waits_until=50)
    assert broker.manager.tick(49) == []
    assert broker.manager.tick(50) == [AnswerDelayed(1, ORDERS, ErrorCode.REQUEST_TIMED_OUT)]
    broker.fetch(OTHER, 1)
    assert broker.fetch(THIRD, 1)[1] == [MoveHighWatermark(ORDERS, 1)]


def test_a_leader_that_is_replaced_answers_that_it_leads_no_more() -> None:
    broker = Broker()
    broker.take(ME)
    broker.append(waits_until=50)
    assert broker.take(OTHER, 6).effects[0] == AnswerDelayed(1, ORDERS, NOT_LEADER)
    assert broker.manager.error_before_append(ORDERS, waits_for_all=True) is NOT_LEADER


def in_step() -> tuple[Broker, Leading, Fetch]:
    """A leader whose followers have everything, and the fetch that one of them repeats."""
    broker = Broker()
    broker.take(ME)
    broker.append(2)
    for follower in (OTHER, THIRD, OTHER):
        broker.fetch(follower, 2, broker_epoch=7)
    leading = broker.manager.leading(ORDERS)
    assert leading is not None
    fetch = Fetch(
        partition=ORDERS,
        follower=OTHER,
        fetch_offset=2,
        leader_epoch=5,
        last_fetched_epoch=5,
        broker_epoch=7,
    )
    return broker, leading, fetch


def test_a_follower_that_repeats_its_fetch_stays_in_sync() -> None:
    broker, leading, fetch = in_step()
    assert leading.fetched_again(fetch, 10 * LAG_MS)
    assert leading.fetched_again(replace(fetch, follower=THIRD), 10 * LAG_MS)
    broker.append()
    broker.manager.tick(10 * LAG_MS + 1)
    assert broker.asked_isr() is None
    assert not leading.fetched_again(fetch, 10 * LAG_MS)  # there is something to fetch
    assert broker.fetch(OTHER, 3, 10 * LAG_MS)[0].high_watermark == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"fetch_offset": 1},
        {"leader_epoch": 4},
        {"leader_epoch": -1},
        {"last_fetched_epoch": 4},
        {"log_start_offset": 1},
        {"broker_epoch": 8},
        {"follower": 9},
    ],
)
def test_a_fetch_that_says_something_else_is_no_repetition(fields: dict[str, int]) -> None:
    _, leading, fetch = in_step()
    assert not leading.fetched_again(replace(fetch, **fields), 0)


def test_while_an_isr_is_asked_for_no_fetch_is_a_repetition() -> None:
    broker, leading, fetch = in_step()
    broker.append()
    broker.fetch(OTHER, 3)
    broker.manager.tick(10 * LAG_MS)
    assert broker.asked_isr() == (1, 2)
    assert not leading.fetched_again(replace(fetch, fetch_offset=3, broker_epoch=7), 0)


def test_too_few_replicas_in_sync_take_no_records_that_all_must_have() -> None:
    broker = Broker()
    broker.take(ME, isr=(1,))
    ask = broker.manager.error_before_append
    assert ask(ORDERS, waits_for_all=True) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert ask(ORDERS, waits_for_all=False) is ErrorCode.NONE
    assert broker.append() == []  # and commit nothing


def test_a_repeated_produce_of_committed_records_needs_enough_replicas_too() -> None:
    broker = Broker()
    broker.take(ME, isr=(1, 2))
    broker.append()
    broker.fetch(OTHER, 1)
    broker.take(ME, 6, isr=(1,))
    broker.manager.wait(ORDERS, "again", 1, 500)
    error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert broker.manager.appended(ORDERS, 0) == [AnswerDelayed("again", ORDERS, error)]


def test_a_lagging_follower_leaves_the_isr_when_the_controller_has_said_so() -> None:
    broker = Broker()
    broker.take(ME)
    broker.append(waits_until=500)
    broker.fetch(OTHER, 1, LAG_MS)
    broker.manager.tick(LAG_MS + 1)
    assert broker.asked_isr() == (1, 2)
    assert broker.asked_isr() is None  # until there is an answer
    assert high_watermark(broker) == 0
    state = PartitionState(leader=ME, leader_epoch=5, controller_epoch=4, isr=(1, 2))
    assert broker.answer(LAG_MS + 1, state=state, partition_epoch=11) == [
        MoveHighWatermark(ORDERS, 1),
        AnswerDelayed(1, ORDERS, ErrorCode.NONE),
    ]


def test_a_follower_that_is_caught_up_joins_and_counts_while_it_is_asked_for() -> None:
    broker = Broker()
    broker.take(ME, isr=(1, 2))
    broker.append()
    broker.fetch(OTHER, 1)
    assert high_watermark(broker) == 1
    broker.fetch(THIRD, 0)
    assert broker.asked_isr() is None
    broker.fetch(THIRD, 1)
    assert broker.asked_isr() == (1, 2, 3)
    broker.append(now_ms=LAG_MS + 5)
    assert broker.fetch(OTHER, 2, LAG_MS + 5)[1] == []


def test_a_follower_joins_only_after_it_has_seen_where_the_leader_began() -> None:
    """What the leader before has committed is before that, known as committed here or not."""
    broker = Broker()
    broker.has.append(((3, "a"), (3, "b")))
    broker.take(ME, isr=(1, 2))
    broker.fetch(THIRD, 1, last_fetched_epoch=3)
    assert high_watermark(broker) == 0
    assert broker.asked_isr() is None
    broker.fetch(THIRD, 2, last_fetched_epoch=3)
    assert broker.asked_isr() == (1, 2, 3)


def test_changes_that_were_asked_for_in_a_session_that_is_over_are_forgotten() -> None:
    broker = Broker()
    broker.take(ME, isr=(1, 2))
    broker.fetch(THIRD, 0)
    broker.asked_isr()
    broker.manager.fence()
    sent = broker.manager.alter_partitions
    assert (sent.in_flight, sent.next_request(), sent.attempt) == ((), (), 2)


def test_a_member_of_the_isr_that_is_no_replica_is_not_enough() -> None:
    broker = Broker()
    broker.take(ME, isr=(1, 8))
    error = broker.manager.error_before_append(ORDERS, waits_for_all=True)
    assert error is ErrorCode.NOT_ENOUGH_REPLICAS
    broker.manager.tick(0)
    assert broker.asked_isr() == (1,)


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_after_an_answer_that_says_little_the_asked_isr_stays_pending(error: ErrorCode) -> None:
    broker = Broker()
    broker.take(ME, isr=(1, 2))
    broker.fetch(THIRD, 0)
    assert broker.asked_isr() == (1, 2, 3)
    broker.answer(error=error)
    leading = broker.manager.leading(ORDERS)
    assert leading is not None
    assert leading.isr.maximal == {1, 2, 3}
    broker.manager.tick(0)
    assert broker.asked_isr() is None


def test_a_refused_isr_is_taken_back_and_another_error_asked_again() -> None:
    broker = Broker()
    broker.take(ME, isr=(1, 2))
    broker.fetch(THIRD, 0)
    broker.asked_isr()
    broker.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert broker.asked_isr() == (1, 2, 3)
    broker.answer(error=ErrorCode.INELIGIBLE_REPLICA)
    leading = broker.manager.leading(ORDERS)
    assert leading is not None
    assert leading.isr.maximal == {1, 2}


def test_an_answer_to_a_former_attempt_says_nothing() -> None:
    broker = Broker()
    broker.take(ME, isr=(1, 2))
    broker.fetch(THIRD, 0)
    broker.asked_isr()
    sent = broker.manager.alter_partitions
    (change,) = sent.again()
    refused = AlteredAnswer(change=change, error=ErrorCode.INELIGIBLE_REPLICA)
    broker.manager.altered(1, [refused], 0)
    assert sent.in_flight == (change,)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"follower": 8}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"follower": 8, "leader_epoch": -1}, NOT_LEADER),
        ({"offset": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 9, "last_fetched_epoch": 7}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 0}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_fetch_is_refused_with_kafkas_code(fields: dict[str, int], error: ErrorCode) -> None:
    broker = Broker()
    broker.take(ME)
    broker.append(4)
    broker.has.delete_before(1)
    asked = {"follower": OTHER, "offset": 2, "last_fetched_epoch": -1} | fields
    answer, effects = broker.fetch(**asked)
    assert (answer.error, effects) == (error, [])


def test_a_fetch_from_before_the_followers_restart_does_not_count() -> None:
    broker = Broker()
    broker.take(ME)
    broker.fetch(OTHER, 0, broker_epoch=30)
    assert broker.fetch(OTHER, 0, broker_epoch=29)[0].error is NOT_LEADER


def test_where_logs_diverge_the_leader_says_where_its_epoch_ended() -> None:
    broker = Broker()
    broker.has.append(((2, "a"), (2, "b"), (4, "c")))
    broker.take(ME)
    answer, effects = broker.fetch(OTHER, 3, last_fetched_epoch=3)
    assert (answer.error, answer.diverging) == (ErrorCode.NONE, EpochEnd(2, 2))
    assert effects == []
    asked = AskEpochEnd(partition=ORDERS, leader_epoch=5, epoch=3)
    assert epoch_ended(broker.manager, asked).end == EpochEnd(2, 2)


# Following


def following(**options: bool) -> Broker:
    """Three records, one of them committed, of epochs 2 and 3."""
    broker = Broker(**options)
    broker.has.append(((2, "a"), (2, "b"), (3, "c")))
    broker.has.recorded_high_watermark = 1
    return broker


def fetched(offset: int, **fields: Any) -> Fetched:
    return Fetched(partition=ORDERS, leader_epoch=5, fetch_offset=offset, **fields)


def test_a_follower_fetches_from_its_end_with_its_last_epoch() -> None:
    broker = following()
    assert broker.take(OTHER).effects == (BecameFollower(ORDERS, 5),)
    assert broker.manager.requests() == [
        (
            OTHER,
            Fetch(
                partition=ORDERS,
                follower=ME,
                leader_epoch=5,
                fetch_offset=3,
                last_fetched_epoch=3,
                broker_epoch=70,
            ),
        )
    ]


def test_a_follower_appends_and_then_knows_what_is_committed_and_where_the_log_begins() -> None:
    broker = following()
    broker.take(OTHER)
    answer = fetched(3, records=((5, "d"),), high_watermark=9, log_start_offset=2)
    assert broker.manager.take(answer) == [AppendAsFollower(ORDERS, answer)]
    broker.has.append(answer.records)
    assert broker.manager.appended_as_follower(answer) == [
        MoveHighWatermark(ORDERS, 4),
        RaiseLogStart(ORDERS, 2),
    ]


@pytest.mark.parametrize(
    "late", [{"leader_epoch": 4}, {"fetch_offset": 2}, {"partition": TopicPartition("other", 0)}]
)
def test_an_answer_to_what_was_asked_before_is_dropped(late: dict[str, Any]) -> None:
    broker = following()
    broker.take(OTHER)
    assert broker.manager.take(replace(fetched(3, records=((5, "d"),)), **late)) == []


@pytest.mark.parametrize(
    ("diverging", "end"),
    [(EpochEnd(2, 1), 1), (EpochEnd(2, 9), 2), (EpochEnd(3, 3), 3), (EpochEnd(0, 0), 0)],
)
def test_a_follower_truncates_to_where_both_logs_are_equal(diverging: EpochEnd, end: int) -> None:
    broker = following()
    broker.take(OTHER)
    assert broker.manager.take(fetched(3, diverging=diverging)) == [TruncateTo(ORDERS, end)]
    assert high_watermark(broker) == min(1, end)


@pytest.mark.parametrize("diverging", [EpochEnd(2, 1), EpochEnd(3, 2), EpochEnd(1, 1)])
def test_a_log_that_begins_after_where_it_diverges_begins_again_at_its_start(
    diverging: EpochEnd,
) -> None:
    """The leader had deleted as much, and a crash has taken that back."""
    broker = following()
    broker.has.delete_before(3)
    broker.has.recorded_high_watermark = 3
    broker.take(OTHER)
    assert broker.manager.take(fetched(3, diverging=diverging)) == [
        TruncateFullyAndStartAt(ORDERS, 3)
    ]
    assert high_watermark(broker) == 3


def test_an_older_leader_is_asked_for_the_epochs_end_until_both_know_the_epoch() -> None:
    broker = following(truncates_on_fetch=False)
    broker.take(OTHER)
    ask = AskEpochEnd(partition=ORDERS, leader_epoch=5, epoch=3)
    assert broker.manager.requests() == [(OTHER, ask)]
    ended = EpochEnded(partition=ORDERS, leader_epoch=5, epoch=3, end=EpochEnd(1, 1))
    assert broker.manager.take(ended) == [TruncateTo(ORDERS, 0)]
    broker = following(truncates_on_fetch=False)
    broker.take(OTHER)
    assert broker.manager.take(replace(ended, end=EpochEnd(2, 2))) == [TruncateTo(ORDERS, 2)]
    broker.has.truncate_to(2)
    assert isinstance(broker.manager.requests()[0][1], Fetch)


def test_a_leader_without_the_epoch_leaves_what_is_committed() -> None:
    broker = following(truncates_on_fetch=False)
    broker.take(OTHER)
    broker.manager.requests()
    ended = EpochEnded(partition=ORDERS, leader_epoch=5, epoch=3)
    assert broker.manager.take(ended) == [TruncateTo(ORDERS, 1)]


@pytest.mark.parametrize(
    ("start", "end", "effects"),
    [
        (8, 20, [TruncateFullyAndStartAt(ORDERS, 8)]),
        (0, 2, [TruncateTo(ORDERS, 2)]),
        (1, 20, []),
    ],
)
def test_out_of_range_a_follower_asks_where_the_leaders_log_begins_and_ends(
    start: int, end: int, effects: list[Any]
) -> None:
    broker = following()
    broker.take(OTHER)
    assert broker.manager.take(fetched(3, error=ErrorCode.OFFSET_OUT_OF_RANGE)) == []
    assert broker.manager.requests() == [(OTHER, AskOffsets(partition=ORDERS, leader_epoch=5))]
    offsets = Offsets(partition=ORDERS, leader_epoch=5, log_start_offset=start, log_end_offset=end)
    assert broker.manager.take(offsets) == effects
    assert isinstance(broker.manager.requests()[0][1], Fetch)


def test_a_fenced_follower_waits_for_the_controller_and_others_ask_again() -> None:
    broker = following()
    broker.take(OTHER)
    broker.manager.take(fetched(3, error=ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert len(broker.manager.requests()) == 1
    broker.manager.take(fetched(3, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert broker.manager.requests() == []
    broker.take(OTHER, 6)
    assert len(broker.manager.requests()) == 1


def test_who_leads_nothing_says_which_epoch_it_knows() -> None:
    broker = following()
    broker.take(OTHER)
    for epoch, error in ((4, ErrorCode.FENCED_LEADER_EPOCH), (5, NOT_LEADER)):
        assert broker.manager.error_of_leader(ORDERS, epoch) is error
        assert broker.fetch(THIRD, 0, leader_epoch=epoch)[0].error is error


def test_a_partition_without_a_leader_is_not_fetched() -> None:
    broker = following()
    assert broker.take(-1).effects == (BecameFollower(ORDERS, 5),)
    assert broker.manager.requests() == []


def test_a_partition_that_others_have_is_not_unknown() -> None:
    broker = Broker()
    image = PartitionImage(replicas=(2,), isr=(2,), leader=2, leader_epoch=1, partition_epoch=0)
    elsewhere = PartitionMetadata(image=image, controller_epoch=4)
    broker.apply(UpdateMetadata(partitions={ORDERS: elsewhere}, topic_ids={}, brokers={}))
    ask = broker.manager.error_before_append
    assert ask(ORDERS, waits_for_all=True) is NOT_LEADER
    unknown = TopicPartition("unknown", 0)
    assert ask(unknown, waits_for_all=True) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

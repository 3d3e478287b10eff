"""The share coordinator: what it keeps, whom it refuses, and that a replay gives the same."""

import random
from itertools import pairwise

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.timestamps import Timestamps
from ottla.base.turns import result_of
from ottla.codec.versioned import decode_versioned
from ottla.coordinator.share.coordinator import (
    Answered,
    ShareCoordinatorConfig,
    ShareCoordinatorShard,
    ShareStateAnswer,
    StateWrite,
)
from ottla.coordinator.share.persisted_state import SharePartitionKey, merge
from ottla.coordinator.share.records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla.coordinator.share.records_in_flight import (
    Acknowledgement,
    DeliveryState,
    Limits,
    Offer,
    RecordsInFlight,
    StateBatch,
    Wanted,
)

TOPIC = Uuid(bytes(range(16)))
KEY = SharePartitionKey("jobs", TOPIC, 3)
AVAILABLE, ACKNOWLEDGED = DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED


class Log:
    """A shard, and the records that it has written, as bytes."""

    def __init__(self, config: ShareCoordinatorConfig | None = None) -> None:
        self.config = config or ShareCoordinatorConfig()
        self.gone: set[SharePartitionKey] = set()
        self.shard = self.new_shard()
        self.records: list[tuple[bytes, bytes | None]] = []
        self.now = 1000

    def new_shard(self) -> ShareCoordinatorShard:
        return ShareCoordinatorShard(self.config, lambda key: key not in self.gone)

    def at(self) -> Timestamps:
        return Timestamps(now_ms=self.now, monotonic_ms=0.0)

    def adopt(self, decision: Answered) -> ShareStateAnswer:
        assert decision.answer is not None
        for record in decision.records:
            value = None if record.value is None else encode_value(record.value)
            self.records.append((encode_key(record.key), value))
            self.shard.replay(record.key, record.value, len(self.records) - 1)
        return decision.answer

    def initialize(self, epoch: int = 1, start: int = 0) -> ShareStateAnswer:
        return self.adopt(self.shard.initialize(KEY, epoch, start, self.at()))

    def write(self, *batches: StateBatch, start: int = -1, leader: int = 0) -> ShareStateAnswer:
        return self.adopt(self.shard.write(KEY, StateWrite(1, leader, start, batches), self.at()))

    def replayed(self, first: int = 0) -> ShareCoordinatorShard:
        shard = self.new_shard()
        for offset, (key_bytes, value_bytes) in enumerate(self.records):
            if offset >= first:
                key = decode_key(key_bytes)
                assert key is not None
                value = None if value_bytes is None else decode_value(key, value_bytes)
                shard.replay(key, value, offset)
        return shard


def test_the_coordinator_of_a_partition_is_found_by_group_topic_id_and_partition() -> None:
    assert KEY.coordinator_key == "jobs:AAECAwQFBgcICQoLDA0ODw:3"


def test_what_leaders_write_is_merged_and_outlives_a_restart() -> None:
    log = Log()
    assert log.initialize(start=5).error is ErrorCode.NONE
    log.write(StateBatch(5, 9, ACKNOWLEDGED, 1), StateBatch(10, 19, AVAILABLE, 1))
    log.write(StateBatch(12, 14, ACKNOWLEDGED, 2), start=8)
    state = log.shard.states[KEY]
    assert state.start_offset == 8
    assert state.batches == (
        StateBatch(8, 9, ACKNOWLEDGED, 1),
        StateBatch(10, 11, AVAILABLE, 1),
        StateBatch(12, 14, ACKNOWLEDGED, 2),
        StateBatch(15, 19, AVAILABLE, 1),
    )
    assert log.replayed().states == log.shard.states


def test_a_leader_of_a_later_epoch_fences_those_before_it() -> None:
    log = Log()
    log.initialize()
    assert log.adopt(log.shard.read(KEY, 4, log.at())).state.leader_epoch == 0
    assert log.write(leader=3).error is ErrorCode.FENCED_LEADER_EPOCH
    assert log.adopt(log.shard.read(KEY, 3, log.at())).error is ErrorCode.FENCED_LEADER_EPOCH
    assert log.write(leader=4).error is ErrorCode.NONE
    before = len(log.records)
    log.adopt(log.shard.read(KEY, 4, log.at()))
    assert len(log.records) == before, "the same leader reads without a record"


def test_a_state_that_is_begun_anew_fences_those_who_knew_the_earlier_one() -> None:
    log = Log()
    log.initialize(epoch=1)
    log.write(StateBatch(0, 9, ACKNOWLEDGED, 1))
    assert log.initialize(epoch=0).error is ErrorCode.FENCED_STATE_EPOCH
    assert log.initialize(epoch=2, start=100).error is ErrorCode.NONE
    assert log.write().error is ErrorCode.FENCED_STATE_EPOCH
    assert log.shard.states[KEY].batches == ()
    assert log.shard.summary(KEY).state.start_offset == 100


@pytest.mark.parametrize(
    "key", [KEY._replace(topic_id=ZERO_UUID), KEY._replace(partition=-1), KEY._replace(group_id="")]
)
def test_what_names_no_partition_is_refused(key: SharePartitionKey) -> None:
    log = Log()
    answers = [
        log.shard.initialize(key, 1, 0, log.at()).answer,
        log.shard.read(key, 0, log.at()).answer,
        log.shard.write(key, StateWrite(1, 0, 0, ()), log.at()).answer,
        log.shard.summary(key),
        log.shard.delete(key, log.at()).answer,
    ]
    assert {one and one.error for one in answers} == {ErrorCode.INVALID_REQUEST}


def test_nothing_is_kept_of_what_was_not_initialized_or_is_not_there() -> None:
    log = Log()
    assert log.write().error is ErrorCode.INVALID_REQUEST
    assert log.shard.read(KEY, 0, log.at()).answer == ShareStateAnswer(
        error=ErrorCode.INVALID_REQUEST, message="The state of the partition was not initialized."
    )
    assert log.shard.summary(KEY).state.start_offset == -1
    assert log.adopt(log.shard.delete(KEY, log.at())).error is ErrorCode.NONE
    log.gone.add(KEY)
    assert log.initialize().error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert log.records == []


@pytest.mark.parametrize(
    "batches",
    [
        [StateBatch(5, 4, 0, 1)],
        [StateBatch(-1, 4, 0, 1)],
        [StateBatch(0, 4, 1, 1)],
        [StateBatch(0, 4, 5, 1)],
        [StateBatch(0, 4, 0, -1)],
        [StateBatch(3, 4, 0, 1), StateBatch(4, 5, 0, 1)],
    ],
)
def test_states_that_make_no_sense_are_refused(batches: list[StateBatch]) -> None:
    log = Log()
    log.initialize()
    assert log.write(*batches).error is ErrorCode.INVALID_REQUEST


def test_a_summary_begins_with_the_first_record_that_is_not_finished() -> None:
    log = Log()
    log.initialize()
    batches = [
        StateBatch(0, 3, DeliveryState.ACKNOWLEDGED, 1),
        StateBatch(4, 5, DeliveryState.ARCHIVED, 5),
        StateBatch(6, 6, AVAILABLE, 1),
        StateBatch(7, 9, DeliveryState.ACKNOWLEDGED, 1),
    ]
    log.adopt(log.shard.write(KEY, StateWrite(1, 1, 0, batches, 9), log.at()))
    state = log.shard.summary(KEY).state
    assert (state.start_offset, state.complete_count) == (6, 3)
    assert log.shard.states[KEY].start_offset == 0, "as it was written"


def test_a_snapshot_follows_so_many_updates_and_earlier_records_are_needed_no_more() -> None:
    log = Log(ShareCoordinatorConfig(updates_per_snapshot=3))
    log.initialize()
    for number in range(9):
        log.write(StateBatch(2 * number, 2 * number, ACKNOWLEDGED, 1))
    kinds = [key[1] for key, _ in log.records]
    assert kinds == [0, 1, 1, 1, 0, 1, 1, 1, 0, 1]
    needed = result_of(log.shard.first_needed_in_steps(len(log.records)))
    assert needed == 8
    assert log.replayed(needed).states == log.shard.states


def test_what_a_write_makes_final_counts_at_once() -> None:
    log = Log()
    log.initialize(start=10)
    log.write(StateBatch(12, 14, ACKNOWLEDGED, 1), StateBatch(17, 19, ACKNOWLEDGED, 1))
    assert log.shard.summary(KEY).state.complete_count == 6
    log.write(start=15)
    assert log.shard.summary(KEY).state.complete_count == 3
    assert log.replayed().states == log.shard.states


def test_what_is_cold_gets_a_snapshot_and_what_is_gone_an_end() -> None:
    log = Log()
    log.initialize()
    other = KEY._replace(partition=4)
    log.adopt(log.shard.initialize(other, 1, 0, log.at()))
    log.now += 299_999
    assert [*filter(None, log.shard.cold(log.at()))] == []
    log.now += 1
    log.gone.add(other)
    for decision in filter(None, log.shard.cold(log.at())):
        log.adopt(decision)
    assert [*log.shard.states] == [KEY]
    assert result_of(log.shard.first_needed_in_steps(3)) == 2
    (key, value), (_, end) = log.records[2:]
    assert value is not None
    assert end is None
    snapshot = decode_versioned(ShareSnapshotValue, value)
    assert (snapshot.snapshot_epoch, snapshot.create_timestamp_ms) == (2, 1000)
    assert decode_key(key) == ShareSnapshotKey(group_id="jobs", topic_id=TOPIC, partition=3)


def test_a_decision_that_is_not_adopted_changes_nothing() -> None:
    log = Log()
    log.initialize()
    before = dict(log.shard.states)
    log.shard.write(KEY, StateWrite(1, 5, 9, [StateBatch(9, 9, AVAILABLE, 1)]), log.at())
    log.shard.read(KEY, 9, log.at())
    log.shard.delete(KEY, log.at())
    assert log.shard.states == before


@pytest.mark.parametrize("seed", range(20))
def test_merging_is_as_writing_each_offset(seed: int) -> None:
    chance = random.Random(seed)
    known: tuple[StateBatch, ...] = ()
    model: dict[int, tuple[int, int]] = {}
    start = 0
    for _ in range(30):
        offset, changed = start, []
        while offset < start + 40:
            offset += chance.randrange(6)
            last = offset + chance.randrange(5)
            state = (chance.choice([0, 2, 3, 4]), chance.randrange(3))
            changed.append(StateBatch(offset, last, *state))
            model |= dict.fromkeys(range(offset, last + 1), state)
            offset = last + 1
        start += chance.randrange(4)
        known = merge(known, changed, start)
        shown = {at: one[2:] for one in known for at in range(one.first, one.last + 1)}
        assert shown == {at: one for at, one in model.items() if at >= start}
        assert all(
            one.first > before.last + 1 or one[2:] != before[2:] for before, one in pairwise(known)
        ), "neighbours in one state are one batch"


def test_a_new_leader_goes_on_from_what_the_earlier_one_wrote() -> None:
    log = Log()
    log.initialize(start=10)
    records = RecordsInFlight(10, Limits())
    records.acquire("a", Offer(10, [(10, 29)]), Wanted(100), 0.0)
    done = records.acknowledge("a", [Acknowledgement(10, 14, [1]), Acknowledgement(20, 24, [2])], 0)
    log.write(*done.batches, start=records.start)
    records.commit(done, 0.0)
    state = log.replayed().states[KEY]
    again = RecordsInFlight(state.start_offset, Limits(), state.batches)
    assert (again.start, again.next_offset()) == (15, 15)
    found = again.acquire("b", Offer(15, [(10, 29)]), Wanted(100), 0.0)
    assert [(one.first, one.last, one.delivery_count) for one in found] == [
        (15, 19, 1),
        (20, 24, 2),
        (25, 29, 1),
    ]

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.controlling.pending_records import MAX_ATOMIC_COUNT, MAX_TEXT_SIZE, PendingRecords
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.log_writing import RECORDS_PER_BATCH
from ottla.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    ZkMigrationStateRecord,
)
from ottla.metadata.replay import MetadataReplay
from tests.support.active_controllers import AloneInQuorum, levels


def _types(batch):
    return [type(record) for record, _ in batch]


def test_a_new_log_begins_with_what_its_directory_was_formatted_with_in_a_transaction():
    quorum = AloneInQuorum(levels(metadata_version=21, group_version=1))

    (batch,) = quorum.commit()

    assert _types(batch) == [
        BeginTransactionRecord,
        FeatureLevelRecord,
        FeatureLevelRecord,
        ZkMigrationStateRecord,
        EndTransactionRecord,
    ]
    assert quorum.controller.image.features == {METADATA_VERSION: 21, "group.version": 1}
    assert quorum.controller.end_offset == 1 + len(batch)


def test_a_new_log_of_an_old_level_begins_without_a_transaction():
    (batch,) = AloneInQuorum(levels(metadata_version=7)).commit()

    assert _types(batch) == [FeatureLevelRecord]


def test_a_leader_of_a_log_with_records_writes_nothing_first():
    first = AloneInQuorum()
    first.commit()

    second = first.elected(replace(first.controller.image, end_offset=9), 2)

    assert second.take_batches() == []
    assert second.end_offset == 10


def test_a_leader_aborts_the_transaction_that_the_leader_before_has_left_open():
    replay = MetadataReplay()
    for record, _ in [*levels(metadata_version=21), (BeginTransactionRecord(name="a"), 0)]:
        replay.replay(record)
    replay.replay(ConfigRecord(resource_type=2, resource_name="t", name="a", value="b"))

    quorum = AloneInQuorum(image=replay.image())

    (batch,) = quorum.commit()
    assert _types(batch) == [AbortTransactionRecord]
    assert not quorum.controller.image.has_open_transaction
    for record, _ in batch:
        replay.replay(record)
    assert replace(replay.image(), epoch=0, end_offset=0) == replace(
        quorum.controller.image, epoch=0, end_offset=0
    )


def _configs(number):
    return [
        (ConfigRecord(resource_type=4, resource_name="1", name=f"n{one}", value="v"), 0)
        for one in range(number)
    ]


def _pending(level):
    return PendingRecords(MetadataImage(features={METADATA_VERSION: level}), 5, 1)


@pytest.mark.parametrize("level", [7, 25])
def test_what_fits_into_one_batch_is_one(level):
    pending = _pending(level)

    pending.write(_configs(MAX_ATOMIC_COUNT))

    (batch,) = pending.take_batches()
    assert len(batch) == MAX_ATOMIC_COUNT
    assert pending.end_offset == 5 + MAX_ATOMIC_COUNT
    assert pending.take_batches() == []


def test_what_does_not_fit_is_a_metadata_transaction():
    pending = _pending(25)

    pending.write(_configs(MAX_ATOMIC_COUNT + 1))

    batches = pending.take_batches()
    assert max(map(len, batches)) == RECORDS_PER_BATCH
    assert isinstance(batches[0][0][0], BeginTransactionRecord)
    assert isinstance(batches[-1][-1][0], EndTransactionRecord)
    assert len(pending.image.configs_of(4, "1")) == MAX_ATOMIC_COUNT + 1


def test_a_level_without_transactions_refuses_what_does_not_fit_and_changes_nothing():
    pending = _pending(12)

    with pytest.raises(ApiError) as refused:
        pending.write(_configs(MAX_ATOMIC_COUNT + 1))

    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert pending.take_batches() == []
    assert pending.end_offset == 5


def test_settings_that_no_batch_could_hold_are_refused_before_they_are_decided():
    pending = _pending(25)
    text = "v" * (MAX_TEXT_SIZE + 1)
    record = ConfigRecord(resource_type=2, resource_name="t", name="n", value=text)

    with pytest.raises(ApiError) as refused:
        pending.write([(record, 0)])

    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert pending.take_batches() == []

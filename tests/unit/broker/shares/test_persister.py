"""States of share groups in a broker alone: what is asked of them, and what a restart finds."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import SHARE_GROUP_STATE
from ottla.broker.broker import Broker
from ottla.broker.membership.state_requests import (
    DeleteState,
    InitializeState,
    ReadState,
    SummarizeState,
)
from ottla.broker.shares.persister import GIVE_UP_MS
from ottla.coordinator.share.records_in_flight import DeliveryState, StateBatch
from ottla.storage.files.filenames import log_file_name
from ottla.testing import FakeFileSystem
from tests.support.brokers import at, disk, open_broker
from tests.support.share_states import (
    STATE_SETTINGS,
    accepted,
    ask,
    key_of,
    make_topic,
    states_of,
)

ONE_PARTITION = {**STATE_SETTINGS, "share_coordinator_state_topic_num_partitions": "1"}
TAKEN = StateBatch(4, 4, DeliveryState.ACKNOWLEDGED, 1)


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d")


@pytest.fixture
def broker(file_system: FakeFileSystem) -> Broker:
    broker = open_broker(file_system, **STATE_SETTINGS)
    make_topic(broker)
    return broker


def test_a_state_is_begun_written_read_and_deleted(broker: Broker) -> None:
    key = key_of(broker)
    assert [one.error for one in ask(broker, InitializeState(key, 1, 3))] == [ErrorCode.NONE]
    assert ask(broker, accepted(key, 4, 7))[0].error is ErrorCode.NONE
    (found,) = ask(broker, ReadState(key, 0))
    assert (found.state.state_epoch, found.state.start_offset) == (1, 3)
    assert found.state.batches == (StateBatch(4, 7, DeliveryState.ACKNOWLEDGED, 1),)
    assert ask(broker, DeleteState(key))[0].error is ErrorCode.NONE
    assert ask(broker, SummarizeState(key))[0].state.start_offset == -1


def test_several_keys_are_answered_in_the_order_in_which_they_were_asked(broker: Broker) -> None:
    keys = [key_of(broker, index) for index in (5, 2, 8)]
    ask(broker, *(InitializeState(key, 1, 10 + key.partition) for key in keys))
    answers = ask(broker, *map(SummarizeState, keys), accepted(keys[0]._replace(partition=99), 1))
    assert [one.state.start_offset for one in answers[:3]] == [15, 12, 18]
    assert answers[3].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_nothing_asked_is_answered_at_once(broker: Broker) -> None:
    assert ask(broker) == []
    assert broker.topics.find(SHARE_GROUP_STATE) is None


def test_a_state_that_was_not_begun_is_refused(broker: Broker) -> None:
    assert ask(broker, accepted(key_of(broker), 1))[0].error is ErrorCode.INVALID_REQUEST


def test_the_next_start_replays_all_changes_of_a_state(file_system: FakeFileSystem) -> None:
    broker = open_broker(file_system, **STATE_SETTINGS)
    make_topic(broker)
    key, gone = key_of(broker), key_of(broker, 1)
    ask(broker, InitializeState(key, 1, 0), InitializeState(gone, 1, 0))
    for offset in (4, 6, 5):
        ask(broker, accepted(key, offset))
    ask(broker, DeleteState(gone))
    live = states_of(broker)
    broker.close()
    again = open_broker(file_system, **STATE_SETTINGS)
    replayed, without = ask(again, ReadState(key, 0), SummarizeState(gone))
    assert replayed.state.batches == (StateBatch(4, 6, DeliveryState.ACKNOWLEDGED, 1),)
    assert without.state.start_offset == -1
    assert states_of(again) == live


def test_only_partitions_that_are_asked_for_are_read(broker: Broker) -> None:
    ask(broker, InitializeState(key_of(broker), 1, 0))
    assert len(list(broker.share_coordinator.shards)) == 1


def test_a_topic_that_cannot_be_created_is_said_after_some_seconds(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    key = key_of(broker)
    broker.directories[0].health.fail(OSError("broken"))
    waiting = broker.share_persister.wait([SummarizeState(key)], at(0))
    for monotonic_ms in range(0, int(GIVE_UP_MS), 500):
        assert waiting.result is None
        broker.answers.advance(at(monotonic_ms))
    broker.answers.advance(at(GIVE_UP_MS))
    assert waiting.result is not None
    assert waiting.result[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "cannot create __share_group_state" in caplog.text


def test_a_disk_that_fails_refuses_a_write_and_its_state_stays(broker: Broker) -> None:
    key = key_of(broker)
    ask(broker, InitializeState(key, 1, 0))
    before = states_of(broker)
    broker.directories[0].health.fail(OSError("broken"))
    answers = broker.share_persister.wait([accepted(key, 1)], at(0))
    broker.answers.advance(at(GIVE_UP_MS))
    assert answers.result is not None
    assert answers.result[0].error is ErrorCode.NOT_COORDINATOR
    assert states_of(broker) == before


def test_a_long_log_is_read_in_slices_of_several_batches(file_system: FakeFileSystem) -> None:
    broker = open_broker(file_system, **STATE_SETTINGS)
    make_topic(broker)
    key = key_of(broker)
    ask(broker, InitializeState(key, 1, 0), *(accepted(key, offset) for offset in range(100)))
    broker.close()
    again = open_broker(file_system, **STATE_SETTINGS)
    waiting = again.share_persister.wait([SummarizeState(key)], at(0))
    rounds = 0
    while waiting.result is None:
        again.answers.advance(at(0))
        rounds += 1
    assert 3 < rounds < 10


def with_states(file_system: FakeFileSystem) -> Broker:
    """Two groups whose last records are changes of their states, and a clean stop."""
    broker = open_broker(file_system, **ONE_PARTITION)
    make_topic(broker)
    keys = [key_of(broker), key_of(broker, group_id="mails")]
    ask(broker, *(InitializeState(key, 1, 0) for key in keys))
    ask(broker, *(accepted(key, 4) for key in keys))
    broker.close()
    return broker


def test_of_a_damaged_partition_sound_states_are_served_and_the_error_names_its_groups(
    file_system: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    broker = with_states(file_system)
    key, other = key_of(broker), key_of(broker, group_id="mails")
    path = broker.topics.partition(SHARE_GROUP_STATE, 0).log.directory + "/" + log_file_name(0)
    file = file_system.open(path, writable=True)
    file.pwrite(bytes([file.pread(1, file.size() - 5)[0] ^ 1]), file.size() - 5)
    again = open_broker(file_system, **ONE_PARTITION)
    first, second = ask(again, SummarizeState(key), SummarizeState(other))
    assert (first.state.batches, second.state.batches) == ((TAKEN,), ())
    assert "last written for these share groups" in caplog.text
    assert ": jobs, mails; records that their members have accepted may be" in caplog.text


def test_a_partition_of_which_nothing_is_left_has_no_coordinator(
    file_system: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    broker = with_states(file_system)
    key = key_of(broker)
    path = broker.topics.partition(SHARE_GROUP_STATE, 0).log.directory + "/" + log_file_name(0)
    file = file_system.open(path, writable=True)
    file.pwrite(bytes(file.size()), 0)
    again = open_broker(file_system, **ONE_PARTITION)
    waiting = again.share_persister.wait([SummarizeState(key)], at(0))
    for monotonic_ms in (0, 100, GIVE_UP_MS):
        again.answers.advance(at(monotonic_ms))
    assert waiting.result is not None
    assert waiting.result[0].error is ErrorCode.NOT_COORDINATOR
    assert "is not served" in caplog.text
    assert not again.share_coordinator.is_available(key.coordinator_key)

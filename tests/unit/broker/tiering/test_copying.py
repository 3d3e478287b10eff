"""Rolled segments are copied to the tier, each once; what fails is tried again with another id."""

from contextlib import closing

import pytest

from ottla.broker.tiering.tier_jobs import ADVANCES_PER_CALL
from ottla.storage.files.filenames import REMOTE_LOG_METADATA, FileKind, FileName
from ottla.storage.remote.remote_storage import TierError
from tests.support.brokers import disk
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    index_of,
    objects_of,
    remote_logs,
    states,
    steps_of,
    store_of,
    tiered_topic,
    work,
)

DONE = "COPY_SEGMENT_FINISHED"


def test_rolled_segments_are_copied_in_order_and_the_active_one_is_not() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        partition = tiered_topic(broker)
        fill(broker, partition, 35, moment=moment)
        work(broker, moment)
        assert states(broker) == [(0, 9, DONE), (10, 19, DONE), (20, 29, DONE)]
        assert partition.log.offsets.highest_remote_offset == 29
        assert work(broker, moment) == 0
        counts = remote_logs(broker).counts.of("orders")
        assert (counts.copies, counts.copy_errors) == (3, 0)
        assert counts.copied_bytes == index_of(broker).size


def test_a_restart_knows_what_was_known() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        partition = tiered_topic(broker)
        fill(broker, partition, 35, moment=moment)
        work(broker, moment)
        before = index_of(broker).segments()
    with closing(broker_with_tier(file_system)) as broker:
        assert work(broker, moment) == 0
        assert index_of(broker).segments() == before
        log = broker.topics.partition("orders", 0).log
        assert log.offsets.highest_remote_offset == 29


def test_nothing_may_be_deleted_locally_before_the_upload_is_recorded_durably() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        partition = tiered_topic(broker)
        fill(broker, partition, 15, moment=moment)
        highest = [partition.log.offsets.highest_remote_offset for _ in steps_of(broker, moment)]
        # Creates the topic, reads the files, syncs the record, copies, syncs the other record.
        assert highest == [-1] * 5
        assert partition.log.offsets.highest_remote_offset == 9


def test_no_segment_is_copied_before_all_of_it_is_stable() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        partition = tiered_topic(broker)
        fill(broker, partition, 25, moment=moment)
        partition.log.offsets.first_unstable_offset = 15
        work(broker, moment)
        assert states(broker) == [(0, 9, DONE)]
        partition.log.offsets.first_unstable_offset = None
        work(broker, moment)
        assert states(broker) == [(0, 9, DONE), (10, 19, DONE)]


def test_a_copy_may_lag_by_a_time() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        partition = tiered_topic(broker, remote_copy_lag_ms="60000", remote_copy_lag_bytes="-1")
        fill(broker, partition, 15, moment=moment)
        assert work(broker, moment) == 0
        moment.pass_ms(60_000)
        work(broker, moment)
        assert states(broker) == [(0, 9, DONE)]


def test_nothing_is_copied_where_copying_is_turned_off() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        partition = tiered_topic(broker, remote_log_copy_disable="true")
        fill(broker, partition, 15, moment=moment)
        assert work(broker, moment) == 0


def test_a_topic_without_a_tier_is_left_alone() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        partition = tiered_topic(broker, remote_storage_enable="false")
        fill(broker, partition, 15, moment=moment)
        assert work(broker, moment) == 0


@pytest.mark.parametrize("is_retriable", [True, False])
def test_a_store_that_fails_is_tried_again_later_and_then_longer(
    is_retriable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        partition, store = tiered_topic(broker), store_of(broker)
        counts = remote_logs(broker).counts
        fill(broker, partition, 15, moment=moment)
        store.fault = TierError("no answer", is_retriable=is_retriable)
        work(broker, moment)
        since_ms = moment.now_ms
        assert store.calls == ["copy"]
        assert counts.failing_since_ms == since_ms
        waits = []
        for _ in range(8):
            tries, waited_ms = len(store.calls), 0
            while len(store.calls) == tries:
                moment.pass_ms(500)
                waited_ms += 500
                work(broker, moment)
            waits.append(waited_ms)
        assert waits == [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]
        assert counts.failing_since_ms == since_ms
        assert partition.log.offsets.highest_remote_offset == -1
        store.fault = None
        moment.pass_ms(30_000)
        work(broker, moment)
        assert counts.failing_since_ms is None
        moment.pass_ms(1_000)
        work(broker, moment)
        assert states(broker) == [(0, 9, DONE)]
        assert len(objects_of(file_system)) == 5
    lines = [one.getMessage() for one in caplog.records if "/tier" in one.getMessage()]
    assert len(lines) == 2
    assert "fails: TierError: no answer" in lines[0]
    assert "answers again after 122 s" in lines[1]


def test_one_job_at_a_time_tries_a_store_that_fails() -> None:
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        tiered_topic(broker, count=5)
        for partition in broker.topics.get("orders").partitions.values():
            fill(broker, partition, 15, moment=moment)
        store = store_of(broker)
        store.fault = TierError("no answer", is_retriable=True)
        work(broker, moment)
        first = len(store.calls)
        assert first <= 5  # those that ran at the same time
        for number in range(1, 4):
            moment.pass_ms(30_000)
            work(broker, moment)
            assert len(store.calls) == first + number
        store.fault = None
        moment.pass_ms(30_000)
        work(broker, moment)
        moment.pass_ms(30_000)
        work(broker, moment)
        for number in range(5):
            ranges = [one.start_offset for one in index_of(broker, "orders", number).segments()]
            assert ranges == [0]


@pytest.mark.parametrize(("kind", "at"), [(FileKind.LOG, 100), (FileKind.OFFSET_INDEX, 16)])
def test_a_damaged_segment_is_named_and_neither_copied_nor_deleted(
    kind: FileKind, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system, log_index_interval_bytes="70")) as broker:
        partition = tiered_topic(broker, local_retention_ms="1000", retention_ms="600000")
        fill(broker, partition, 35, moment=moment)
        partition.log.writer.flush()
        segment = partition.log.segments.values[1]
        path = f"{partition.log.directory}/{FileName(offset=segment.base_offset, kind=kind).text}"
        file = file_system.open(path, writable=True)
        whole = file.pread(file.size(), 0)
        file.pwrite(bytes([whole[at] ^ 64]), at)
        moment.pass_ms(60_000)
        work(broker, moment)
        broker.scheduler.run_due(moment())
        assert states(broker) == [(0, 9, DONE)]
        assert len(objects_of(file_system)) == 5
        assert file_system.status(path) is not None
        assert partition.log.local_start_offset <= 10
        (trouble,) = remote_logs(broker).jobs.take_troubles() or ()
        assert trouble.reason.startswith(path)
        lines = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
        assert [path in one for one in lines] == [True]
        file.pwrite(whole, 0)
        moment.pass_ms(60_000)
        work(broker, moment)
        assert states(broker)[1:] == [(10, 19, DONE), (20, 29, DONE)]


def test_copies_keep_to_the_quota() -> None:
    moment = Moment()
    settings = {"remote_log_manager_copy_max_bytes_per_second": "100"}
    with closing(broker_with_tier(disk("/d"), **settings)) as broker:
        partition = tiered_topic(broker)
        fill(broker, partition, 35, moment=moment)
        size = partition.log.segments.values[0].size
        work(broker, moment)
        assert len(states(broker)) == 1 + (100 * 10 // size)
        for _ in range(40):
            moment.pass_ms(1_000)
            work(broker, moment)
        assert len(states(broker)) == 3
        assert remote_logs(broker).counts.throttled_ms >= 1_000


def test_custom_metadata_above_the_limit_ends_the_copying_of_a_partition() -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        partition, store = tiered_topic(broker), store_of(broker)
        fill(broker, partition, 25, moment=moment)
        store.custom = bytes(128)
        (job, *_) = list(steps_of(broker, moment))
        assert "orders-0" in job.name
        assert [one.custom_metadata for one in index_of(broker).segments()] == [bytes(128)] * 2
        store.custom = bytes(129)
        fill(broker, partition, 20, moment=moment)
        work(broker, moment)
        assert [one.start_offset for one in index_of(broker).segments()] == [0, 10]
        assert len(objects_of(file_system)) == 2 * 5
        assert work(broker, moment) == 0


@pytest.mark.parametrize("number", range(6))
def test_nothing_stays_of_a_topic_that_is_deleted_during_a_copy(number: int) -> None:
    moment, file_system = Moment(), disk("/d")
    with closing(broker_with_tier(file_system)) as broker:
        partition = tiered_topic(broker)
        fill(broker, partition, 25, moment=moment)
        for done, job in enumerate(steps_of(broker, moment)):
            assert "orders-0" in job.name
            if done == number:
                broker.admin.delete_topics([broker.topics.get("orders")])
        work(broker, moment)
        assert not list(remote_logs(broker).metadata.indexes())
        assert objects_of(file_system) == []


def test_a_job_that_is_ended_before_its_thread_comes_to_it_does_nothing() -> None:
    moment, file_system = Moment(), disk("/d")
    broker = broker_with_tier(file_system)
    fill(broker, tiered_topic(broker), 15, moment=moment)
    work_steps = steps_of(broker, moment)
    job = next(work_steps)
    broker.close()
    remote_logs(broker).jobs.close()
    job.carry_out()
    assert job.error is None
    assert not remote_logs(broker).jobs.resume(job, moment())
    assert objects_of(file_system) == []


def test_one_call_begins_few_jobs_and_the_next_goes_on_at_once() -> None:
    moment, count = Moment(), ADVANCES_PER_CALL + 2
    with closing(broker_with_tier(disk("/d"))) as broker:
        tiered_topic(broker, count=count)
        for partition in broker.topics.get("orders").partitions.values():
            fill(broker, partition, 15, moment=moment)
        jobs = remote_logs(broker).jobs
        jobs.look_again()
        assert len(jobs.begin(moment())) == ADVANCES_PER_CALL
        assert jobs.next_due_ms == moment.monotonic_ms
        assert len(jobs.begin(moment())) == 2


def test_a_round_passes_few_topics_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.tiering.tier_jobs.TOPICS_PER_CALL", 2)
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        for number in range(5):
            fill(broker, tiered_topic(broker, f"t{number}"), 15, moment=moment)
        jobs, calls = remote_logs(broker).jobs, 0
        jobs.look_again()
        while not calls or jobs.next_due_ms <= moment.monotonic_ms:
            jobs.begin(moment())
            calls += 1
        assert (calls, len(list(jobs.partitions)), len(jobs)) == (3, 5, 5)


def test_a_log_of_the_metadata_that_is_still_being_made_is_waited_for() -> None:
    """A broker alone has nobody to ask."""
    moment = Moment()
    with closing(broker_with_tier(disk("/d"))) as broker:
        tiered_topic(broker)
        topic_id = broker.topics.get("orders").topic_id
        metadata = remote_logs(broker).metadata
        metadata.prepare()
        made = broker.topics.get(REMOTE_LOG_METADATA).partitions
        place = metadata.place_of(topic_id, 0)
        log = made.pop(place)
        metadata.watch(topic_id, 0)
        metadata.advance(moment())
        assert not metadata.is_ready(topic_id, 0)
        made[place] = log
        metadata.advance(moment())
        assert metadata.is_ready(topic_id, 0)

"""What a running broker exports to Prometheus."""

import gc
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from time import thread_time

import pytest

from benchmarks.stretches import host_millisecond
from ottla.base.errors import UserError
from ottla.base.principal import Principal
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.authorizer import MAX_COUNTED, OTHERS, Authorizer
from ottla.broker.waiting.fetch_queries import FetchQuery, PartitionQuery
from ottla.broker.waiting.rooms import WaitingFetch
from ottla.cli.metrics.names import METRICS
from ottla.cli.serve.metrics import collector
from ottla.cli.serve.metrics.serving import ServedMetrics
from ottla.cli.serve.recovery_progress import RecoveryProgress
from ottla.config.listeners import Listener
from ottla.config.security import STANDARD_AUTHORIZER
from ottla.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.record.builder import RecordBatchBuilder
from ottla.server.dispatching.request_context import Client
from ottla.server.network.listener import Server
from ottla.storage.compaction.compaction import DamagedSegmentError, Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.directory.open_options import StartStep
from ottla.testing import FakeClock
from tests.support.altering import alter_quota
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import NOW_MS, at, disk, open_broker

pytest.importorskip("prometheus_client")
ANY = ("127.0.0.1", 0)
LONGEST_S = 0.005
"""On a host of the usual speed; a slice is over after 2 ms."""

MOST_TRIES = 5
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "400"}


@pytest.fixture
def broker() -> Broker:
    broker = open_broker(disk("/d", "/e"), "/d", "/e")
    broker.admin.create_topic(NewTopic(name="t", partition_count=1, overrides=COMPACTED))
    for number in range(20):
        builder = RecordBatchBuilder()
        builder.append(b"key", b"%d" % number, NOW_MS)
        broker.appends.append(
            broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=NOW_MS
        )
    broker.appends.write_out()
    broker.topics.partition("t", 0).log.writer.flush()
    return broker


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def server(broker: Broker, clock: FakeClock) -> Iterator[Server]:
    server = Server(broker, [Listener(name="PLAINTEXT", address=("127.0.0.1", 0))], clock=clock)
    yield server
    server.close()


@pytest.fixture
def metrics(broker: Broker, server: Server, clock: FakeClock) -> Iterator[ServedMetrics]:
    served = ServedMetrics(ANY, clock, str)
    served.serve(broker, server)
    yield served
    served.close()


def exported(metrics: ServedMetrics) -> dict[str, float]:
    lines = page(metrics, "metrics").splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def page(metrics: ServedMetrics, name: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/{name}") as answer:
        text: str = answer.read().decode()
    return text


def test_sizes_offsets_and_directories_are_exported(broker: Broker, metrics: ServedMetrics) -> None:
    found = exported(metrics)
    assert found['ottla_log_end_offset{partition="0",topic="t"}'] == 20
    assert found['ottla_log_size_bytes{partition="0",topic="t"}'] > 1000
    assert found['ottla_log_directory_offline{directory="/d"}'] == 0
    broker.directories[0].health.fail(OSError(5, "Input/output error"))
    assert exported(metrics)['ottla_log_directory_offline{directory="/d"}'] == 1


def test_a_cleaner_that_is_stuck_shows(broker: Broker, metrics: ServedMetrics) -> None:
    found = exported(metrics)
    assert found['ottla_cleaner_dirty_ratio{partition="0",topic="t"}'] == 1
    assert found['ottla_cleaner_uncleanable_partitions{directory="/d"}'] == 0
    backlog = found['ottla_cleaner_backlog_bytes{partition="0",topic="t"}']
    for number in range(3):
        task = broker.log_jobs.cleaner.next_task(at(0))
        assert task is not None
        path = task.log.segments.first.log.path
        broker.log_jobs.cleaner.fail(task, DamagedSegmentError(path, 7, "a bad CRC", 0), at(0))
        if number == 0:
            found = exported(metrics)
            assert found['ottla_cleaner_failures_in_a_row{partition="0",topic="t"}'] == 1
        broker.log_jobs.cleaner._troubles[task.key] = _long_ago(broker, task.key)
    found = exported(metrics)
    assert found["ottla_cleaner_failures_total"] == 3
    assert found['ottla_cleaner_uncleanable_partitions{directory="/d"}'] == 1
    assert found['ottla_cleaner_uncleanable_bytes{directory="/d"}'] == backlog > 0
    assert found['ottla_cleaner_uncleanable_partitions{directory="/e"}'] == 0
    assert found['ottla_cleaner_damaged_segments{partition="0",topic="t"}'] == 1


def test_how_long_passes_took_and_when_the_cleaner_last_looked(
    broker: Broker, metrics: ServedMetrics, clock: FakeClock
) -> None:
    found = exported(metrics)
    assert found["ottla_cleaner_seconds_since_last_run"] == 0
    assert found["ottla_cleaner_max_clean_seconds"] == 0
    begin_ms = clock.now_ms()
    task = broker.log_jobs.cleaner.next_task(Timestamps(now_ms=begin_ms, monotonic_ms=1000.0))
    assert task is not None
    key_filter = PlainKeyFilter(task.plan.map_bytes, task.plan.load_factor)
    surroundings = Surroundings(file_system=broker.log_jobs.cleaner._file_system)
    result = compact(task.plan, key_filter, surroundings)
    broker.log_jobs.cleaner.finish(task, result, Timestamps(now_ms=begin_ms, monotonic_ms=3500.0))
    broker.log_jobs.cleaner.totals.max_clean_ms += 500
    clock.advance(7000)
    found = exported(metrics)
    assert found["ottla_cleaner_passes_total"] == 1
    assert found["ottla_cleaner_last_clean_seconds"] == 2.5
    assert found["ottla_cleaner_max_clean_seconds"] == 3
    assert found["ottla_cleaner_seconds_since_last_run"] == 7


def _long_ago(broker: Broker, key: tuple[str, int]) -> object:
    from dataclasses import replace

    return replace(broker.log_jobs.cleaner.trouble_of(key), failed_ms=0)


def test_an_address_that_is_taken_is_one_line(metrics: ServedMetrics, clock: FakeClock) -> None:
    with pytest.raises(
        UserError, match=f"--metrics 127.0.0.1:{metrics.port}: Address already in use"
    ):
        ServedMetrics(("127.0.0.1", metrics.port), clock, str)


def test_what_goes_in_and_out_of_a_topic_is_counted(broker: Broker, metrics: ServedMetrics) -> None:
    found = exported(metrics)
    assert found['ottla_topic_messages_in_total{topic="t"}'] == 20
    size = found['ottla_log_size_bytes{partition="0",topic="t"}']
    assert found['ottla_topic_bytes_in_total{topic="t"}'] == size
    assert found['ottla_topic_bytes_out_total{topic="t"}'] == 0
    waits = FetchQuery([PartitionQuery("t", 0, 0, 1 << 20)], 1 << 20, min_size=1 << 20)
    waiting = broker.fetches.fetch_or_wait(waits, deadline_ms=10.0)
    assert isinstance(waiting, WaitingFetch)
    assert exported(metrics)['ottla_topic_bytes_out_total{topic="t"}'] == 0
    assert broker.answers.take_answered(10.0) == [waiting]
    assert waiting.result is not None
    out = exported(metrics)['ottla_topic_bytes_out_total{topic="t"}']
    assert out == waiting.result.size > 0


def test_requests_are_counted_with_their_durations_and_errors(
    server: Server, metrics: ServedMetrics
) -> None:
    counts = server.request_counts
    offset_commit = counts.of(8)
    offset_commit.take_errors([25, 25])
    counts.begin_round(0.0)
    counts.answered_late(offset_commit, 0.0)
    counts.end_round(3.0)
    found = exported(metrics)
    bucket = 'ottla_request_duration_seconds_bucket{api="OffsetCommit",le="%s"}'
    assert found[bucket % "0.0025"] == 0
    assert found[bucket % "0.005"] == found[bucket % "+Inf"] == 1
    assert found['ottla_request_duration_seconds_sum{api="OffsetCommit"}'] == 0.003
    errors = 'ottla_request_errors_total{api="OffsetCommit",error="UNKNOWN_MEMBER_ID"}'
    assert found[errors] == 2


def test_a_group_that_lags_says_by_how_many_records_and_seconds(
    broker: Broker, clock: FakeClock, metrics: ServedMetrics
) -> None:
    committed = OffsetCommitValue(offset=18, commit_timestamp_ms=NOW_MS)
    broker.groups.machines(at(0))[0].offsets.replay(
        OffsetCommitKey(group="readers", topic="t", partition=0), committed, 0
    )
    labels = '{group="readers",partition="0",topic="t"}'
    found = exported(metrics)
    assert found[f"ottla_group_committed_offset{labels}"] == 18
    assert found[f"ottla_group_lag{labels}"] == 2
    clock.advance(5000)
    assert exported(metrics)[f"ottla_group_lag_seconds{labels}"] == 5.0


def test_deleted_records_are_no_lag_and_partitions_that_were_not_committed_are_counted(
    broker: Broker, metrics: ServedMetrics
) -> None:
    broker.admin.create_topic(NewTopic(name="u", partition_count=3, overrides={}))
    for number in range(4):
        builder = RecordBatchBuilder()
        builder.append(b"key", b"%d" % number, NOW_MS)
        broker.appends.append(
            broker.topics.partition("u", 1), bytearray(builder.build()), now_ms=NOW_MS
        )
    broker.appends.write_out()
    broker.topics.partition("u", 1).log.maintenance.delete_records_before(3)
    committed = OffsetCommitValue(offset=1, commit_timestamp_ms=NOW_MS)
    broker.groups.machines(at(0))[0].offsets.replay(
        OffsetCommitKey(group="readers", topic="u", partition=1), committed, 0
    )
    found = exported(metrics)
    assert found['ottla_group_lag{group="readers",partition="1",topic="u"}'] == 1
    assert found['ottla_group_uncommitted_partitions{group="readers",topic="u"}'] == 2


def test_internal_topics_are_left_out_unless_they_are_asked_for(
    broker: Broker, server: Server, clock: FakeClock, metrics: ServedMetrics
) -> None:
    broker.admin.create_topic(NewTopic(name="__consumer_offsets", partition_count=1))
    name = 'ottla_log_end_offset{partition="0",topic="__consumer_offsets"}'
    assert name not in exported(metrics)
    all_metrics = ServedMetrics(ANY, clock, str, has_internal_topics=True)
    all_metrics.serve(broker, server)
    assert name in exported(all_metrics)
    all_metrics.close()


def test_every_metric_of_the_table_keeps_its_name_kind_and_labels(metrics: ServedMetrics) -> None:
    for line in page(metrics, "metrics").splitlines():
        if line.startswith("# TYPE ottla_"):
            _, _, name, kind = line.split()
            assert METRICS[name.removesuffix("_total")].kind.value == kind


def test_a_broker_is_alive_before_it_is_ready(
    broker: Broker, server: Server, clock: FakeClock
) -> None:
    served = ServedMetrics(ANY, clock, lambda: "loading /d: 3 of 4 logs left")
    try:
        assert page(served, "healthz") == "alive\n"
        assert not_ready(served) == "not ready: loading /d: 3 of 4 logs left\n"
        served.serve(broker, server)
        assert not_ready(served) == "not ready: starting, or stopping\n"
        server.start()
        assert page(served, "readyz") == "ready\n"
        server.stop()
        assert not_ready(served) == "not ready: starting, or stopping\n"
        for directory in broker.directories:
            directory.health.fail(OSError(5, "Input/output error"))
        assert not_ready(served) == "not ready: every log directory is offline\n"
    finally:
        served.close()


def test_what_is_left_to_recover_shows_before_there_is_a_broker(clock: FakeClock) -> None:
    progress = RecoveryProgress(clock)
    served = ServedMetrics(ANY, clock, str, left=lambda: progress.left)
    progress(StartStep.of("recovering", "/d", 3, 7))
    found = exported(served)
    assert found['ottla_recovery_remaining_logs{directory="/d"}'] == 3
    assert found['ottla_recovery_remaining_segments{directory="/d"}'] == 7
    progress(StartStep.of("loading", "/d", 0, 0))
    assert exported(served)['ottla_recovery_remaining_logs{directory="/d"}'] == 0
    served.close()


def test_others_have_the_broker_between_the_slices_of_a_scrape(
    broker: Broker, server: Server, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = 0

    class Counting:
        def __enter__(self) -> None:
            nonlocal held
            held += 1

        def __exit__(self, *_: object) -> None: ...

    server.lock = Counting()
    monkeypatch.setattr(collector, "SLICE_S", 0.0)
    served = ServedMetrics(ANY, clock, str)
    served.serve(broker, server)
    page(served, "metrics")
    served.close()
    assert held > 10


@pytest.mark.slow
def test_a_scrape_of_ten_thousand_partitions_holds_up_nobody_for_long(
    broker: Broker, server: Server, clock: FakeClock
) -> None:
    """Each of a topic's logs stands for a hundred; what is done for each in one go takes more."""
    topic = broker.topics.find("t")
    assert topic is not None
    logs = list(topic.partitions.values())
    topic.partitions.update({index: logs[index % len(logs)] for index in range(10_000)})
    held_s: list[float] = []
    imported: set[str] = set()

    class Timed:
        def __enter__(self) -> None:
            self.known = set(sys.modules)
            self.began_s = thread_time()

        def __exit__(self, *_: object) -> None:
            held_s.append(thread_time() - self.began_s)
            imported.update(sys.modules.keys() - self.known)

    server.lock = Timed()
    served = ServedMetrics(ANY, clock, str)
    served.serve(broker, server)
    try:
        longest_s = []
        gc.disable()  # A broker that serves collects between requests: `runtime/collector.py`.
        for _ in range(MOST_TRIES):
            held_s.clear()
            assert 'partition="9999"' in page(served, "metrics")
            assert not imported
            longest_s.append(max(held_s) / max(1.0, host_millisecond()))
            if longest_s[-1] < LONGEST_S:
                return
    finally:
        gc.enable()
        served.close()
        for index in range(len(logs), 10_000):
            del topic.partitions[index]
    raise AssertionError(f"slices of {longest_s} s")


def not_ready(metrics: ServedMetrics) -> str:
    with pytest.raises(urllib.error.HTTPError) as caught:
        page(metrics, "readyz")
    assert caught.value.code == 503
    with caught.value as answer:
        text: str = answer.read().decode()
    return text


def test_users_show_by_their_connections_quota_rates_and_denials(clock: FakeClock) -> None:
    broker = open_broker(
        disk("/d"), authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:admin"
    )
    limits = {"producer_byte_rate": 1e6}
    alter_quota(broker, QuotaAlteration(names=(("user", "ana"),), limits=limits))
    client = Client(ADDRESS, "h", Principal("User", "ana"))
    for _ in range(3):
        Asker(broker, client=client).ask(DescribeAclsRequest(), 2)
    broker.quotas.produced("app", 500, clock.monotonic_ms(), "ana")
    server = Server(broker, [Listener(name="PLAINTEXT", address=ANY)], clock=clock)
    served = ServedMetrics(ANY, clock, str)
    served.serve(broker, server)
    try:
        found = exported(served)
    finally:
        served.close()
        server.close()
    assert found['ottla_denials_total{user="User:ana"}'] == 3
    assert found['ottla_quota_rate{client_id="",quota="producer_byte_rate",user="ana"}'] > 0


def test_of_clients_without_end_under_a_quota_the_fastest_show(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "MAX_COUNTED", 3)
    broker = open_broker(disk("/d"))
    limits = {"producer_byte_rate": 1e6}
    alter_quota(broker, QuotaAlteration(names=(("user", None),), limits=limits))
    for number in range(50):
        broker.quotas.produced("app", 1000 * number, clock.monotonic_ms(), f"user {number}")
    server = Server(broker, [Listener(name="PLAINTEXT", address=ANY)], clock=clock)
    served = ServedMetrics(ANY, clock, str)
    served.serve(broker, server)
    try:
        found = exported(served)
    finally:
        served.close()
        server.close()
    shown = {name for name in found if name.startswith("ottla_quota_rate")}
    assert len(shown) == 3
    assert all(any(f'"user {number}"' in name for name in shown) for number in (47, 48, 49))


def test_principals_without_end_are_counted_together() -> None:
    authorizer = Authorizer([], frozenset(), allows_without_acls=False)
    for number in range(2 * MAX_COUNTED):
        authorizer.note_denial(Principal("User", f"u{number}"))
    assert len(authorizer.denials) == MAX_COUNTED + 1
    assert authorizer.denials[OTHERS] == MAX_COUNTED

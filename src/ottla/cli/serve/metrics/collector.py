"""Collects one scrape of a running broker, in slices between which clients are served.

The counters are plain integers that the loop maintains. A scrape reads them in its own thread,
under the broker's lock for 2 ms at a time; topics and groups may appear or disappear between two
slices.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from heapq import heappush, heappushpop
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from ottla.base.clock import Clock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import StorageError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.quotas.client_quotas import CLIENT_ID, USER, QuotaKind
from ottla.broker.replicas.only_replicas import OnlyReplicas
from ottla.broker.security.authorizer import MAX_COUNTED
from ottla.broker.topics.topics import Topic
from ottla.cli.metrics.families import Families
from ottla.cli.serve.metrics.lag_times import LagTimes
from ottla.cli.serve.metrics.share_groups import collect_share_groups
from ottla.client.administration.descriptions import count_from
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS
from ottla.metadata.quotas import QuotaEntity
from ottla.server.network.listener import Server

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SLICE_S = 0.002
PAUSE_S = 0.001

IMPORTED_LATE = (
    "ottla.broker.records.fetch_sessions",
    "ottla.broker.groups.coordinator",
    "ottla.broker.transactions.coordinator",
    "ottla.storage.compaction.cleanable",
)
"""Parts of a broker that are imported at their first use, which may be the first scrape."""

Steps = Iterator[None]
"""Work that may be interrupted at each yield."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A broker that is served. `has_internal_topics`: whether those are exported too."""

    broker: Broker
    server: Server
    clock: Clock
    lock: AbstractContextManager[object]
    has_internal_topics: bool
    start_s: float
    events: Callable[[], dict[str, int]]
    is_ready: Callable[[], bool]


class BrokerCollector:
    """A collector for `prometheus_client`."""

    def __init__(self, collected: Collected) -> None:
        self._of = collected
        self._broker = collected.broker
        self._lag_times = LagTimes()
        self._version = version("ottla")

    def collect(self) -> Iterator["Metric"]:
        for name in IMPORTED_LATE:
            import_module(name)  # 50 modules: too many under the lock
        families = Families()
        for steps in (
            self._topics(families),
            self._directories(families),
            self._requests(families),
            self._connections(families),
            self._groups(families),
            collect_share_groups(self._broker, families),
            self._transactions(families),
            self._replication(families),
            self._retention(families),
            self._cleaner(families),
            self._remote_tier(families),
            self._process(families),
        ):
            self._run(steps)
        yield from families.metrics()

    def _run(self, steps: Steps) -> None:
        while True:
            with self._of.lock:
                until_s = time.perf_counter() + SLICE_S
                for _ in steps:
                    if time.perf_counter() >= until_s:
                        break
                else:
                    return
            time.sleep(PAUSE_S)

    # Topics and logs

    def _topics(self, families: Families) -> Steps:
        topics = list(self._broker.topics)
        partitions = offline = rolled = 0
        for topic in topics:
            partitions += topic.partition_count
            offline += len(topic.offline_indexes)
            for index, one in list(topic.partitions.items()):
                is_lost = (topic.name, index) in self._broker.replicas.lost
                is_offline = one.directory.is_offline or is_lost
                offline += is_offline and index not in topic.offline_indexes
                rolled += one.log.roll_count
                yield
            if not topic.is_internal or self._of.has_internal_topics:
                yield from self._topic(topic, families)
            yield
        families.add("ottla_topics", (), len(topics))
        families.add("ottla_partitions", (), partitions)
        families.add("ottla_offline_partitions", (), offline)
        families.add("ottla_log_rolled_segments", (), rolled)

    def _topic(self, topic: Topic, families: Families) -> Steps:
        add = families.add
        messages_in = bytes_in = bytes_out = 0
        for index, partition in sorted(topic.partitions.items()):
            labels, log = (topic.name, str(index)), partition.log
            messages_in += partition.messages_in
            bytes_in += partition.bytes_in
            bytes_out += partition.bytes_out
            add("ottla_log_size_bytes", labels, log.size)
            add("ottla_log_segments", labels, log.segment_count)
            add("ottla_log_start_offset", labels, log.log_start_offset)
            add("ottla_log_end_offset", labels, log.log_end_offset)
            add("ottla_log_recovery_point_offset", labels, log.offsets.recovery_point)
            add("ottla_log_last_stable_offset", labels, log.last_stable_offset)
            yield
        add("ottla_topic_messages_in", (topic.name,), messages_in)
        add("ottla_topic_bytes_in", (topic.name,), bytes_in)
        add("ottla_topic_bytes_out", (topic.name,), bytes_out)

    def _directories(self, families: Families) -> Steps:
        for directory in self._broker.directories:
            labels = (directory.path,)
            families.add("ottla_log_directory_offline", labels, directory.is_offline)
            with suppress(StorageError):
                space = directory.disk_space()
                families.add("ottla_log_directory_total_bytes", labels, space.total)
                families.add("ottla_log_directory_free_bytes", labels, space.usable)
            yield

    # Clients

    def _requests(self, families: Families) -> Steps:
        server = self._of.server
        for counts in server.request_counts:
            api = counts.name
            families.add_histogram("ottla_request_duration_seconds", api, counts.durations)
            if counts.waits.sum_ms:
                families.add_histogram("ottla_request_wait_seconds", api, counts.waits)
            families.add("ottla_request_queue_seconds", (api,), counts.queued_ms / 1000)
            for code, count in counts.errors.items():
                families.add("ottla_request_errors", (api, ErrorCode(code).name), count)
            yield
        families.add("ottla_loop_busy_seconds", (), server.busy_ms / 1000)
        families.add("ottla_fetches_waiting", (), len(self._broker.fetches.waiting))
        families.add("ottla_fetch_sessions", (), len(self._broker.fetch_sessions))

    def _connections(self, families: Families) -> Steps:
        counts = self._of.server.connection_counts
        families.add("ottla_connections", (), counts.open)
        families.add("ottla_connections_accepted", (), counts.accepted)
        for refusal, count in counts.refused.items():
            families.add("ottla_connections_refused", (refusal.name.lower(),), count)
        for reason, count in counts.closed.items():
            families.add("ottla_connections_closed", (reason.name.lower(),), count)
        for outcome, count in counts.logins.items():
            families.add("ottla_logins", (outcome.name.lower(),), count)
        throttled = self._broker.throttled_clients
        families.add("ottla_throttled_clients", (), len(throttled))
        families.add("ottla_throttled_requests", (), throttled.total)
        yield
        for user, count in self._of.server.connections_by_user().items():
            families.add("ottla_user_connections", (user,), count)
        yield
        now_ms = self._of.clock.monotonic_ms()
        fastest: list[tuple[float, int, QuotaKind, QuotaEntity]] = []
        for number, (kind, entity, per_second) in enumerate(self._broker.quotas.rates(now_ms)):
            keep = heappush if number < MAX_COUNTED else heappushpop
            keep(fastest, (per_second, number, kind, entity))
            yield
        for per_second, _, kind, entity in fastest:
            names = dict(entity)
            labels = (kind.value, names.get(USER) or "", names.get(CLIENT_ID) or "")
            families.add("ottla_quota_rate", labels, per_second)
        authorizer = self._broker.security.authorizer
        for user, count in list(authorizer.denials.items()) if authorizer else ():
            families.add("ottla_denials", (user,), count)
        yield

    # Groups and transactions

    def _groups(self, families: Families) -> Steps:
        machines = self._broker.groups.known
        protocols = Counter[str]()
        for group_id, group in (one for each in machines for one in list(each.groups.items())):
            listing = group.listing()
            protocols[listing.group_type] += 1
            families.add("ottla_group_members", (group_id, listing.group_type), len(group.members))
            families.add("ottla_group_state", (group_id, listing.state), 1)
            yield
        for protocol, count in protocols.items():
            families.add("ottla_groups", (protocol,), count)
        known: set[TopicPartition] = set()
        offsets = (
            (each.offsets, one) for each in machines for one in list(each.offsets.group_ids())
        )
        for committed_offsets, group_id in offsets:
            committed_by_topic = Counter[str]()
            for where, committed in list(committed_offsets.of(group_id).items()):
                known.add(where)
                committed_by_topic[where.topic] += 1
                self._lag((group_id, where.topic, str(where.partition)), committed.offset, families)
                yield
            for name, count in committed_by_topic.items():
                self._uncommitted(group_id, name, count, families)
                yield
        self._lag_times.keep_only(known)

    def _lag(self, labels: tuple[str, str, str], offset: int, families: Families) -> None:
        _, name, index = labels
        topic = self._broker.topics.find(name)
        partition = None if topic is None else topic.partitions.get(int(index))
        if partition is None or (name in INTERNAL_TOPICS and not self._of.has_internal_topics):
            return
        where, end = TopicPartition(name, int(index)), partition.log.high_watermark
        now_s = self._of.clock.monotonic_ms() / 1000
        self._lag_times.note(where, end, now_s)
        families.add("ottla_group_committed_offset", labels, offset)
        lag = count_from(offset, partition.log.log_start_offset, end)
        families.add("ottla_group_lag", labels, lag)
        families.add("ottla_group_lag_seconds", labels, self._lag_times.lag_s(where, offset, now_s))

    def _uncommitted(self, group_id: str, name: str, committed: int, families: Families) -> None:
        topic = self._broker.topics.find(name)
        if topic is not None and (self._of.has_internal_topics or name not in INTERNAL_TOPICS):
            left = max(0, topic.partition_count - committed)
            families.add("ottla_group_uncommitted_partitions", (group_id, name), left)

    def _transactions(self, families: Families) -> Steps:
        states: Counter[str] = Counter()
        now_ms = self._of.clock.now_ms()
        oldest_ms, open_count = now_ms, 0
        machines = self._broker.transactions.known
        for one in (one for each in machines for one in list(each.transactions.values())):
            states[one.state.title] += 1
            if one.is_ongoing:
                open_count += 1
                oldest_ms = min(oldest_ms, one.start_ms)
            yield
        for state, count in states.items():
            families.add("ottla_transactions", (state,), count)
        families.add("ottla_transactions_open", (), open_count)
        families.add("ottla_transaction_oldest_age_seconds", (), (now_ms - oldest_ms) / 1000)

    # Replication

    def _replication(self, families: Families) -> Steps:
        replicas = self._broker.replicas
        if isinstance(replicas, OnlyReplicas):
            return
        manager, counts = replicas.manager, Counter[str]()
        for place in list(manager.partitions):
            leading = manager.leading(place)
            if leading is not None:
                in_sync = leading.in_sync_count
                counts["leader"] += 1
                counts["under_replicated"] += in_sync < len(leading.assigned)
                counts["under_min_isr"] += in_sync < leading.min_isr
                for broker, lag in leading.lags():
                    labels = (place.topic, str(place.partition), str(broker))
                    families.add("ottla_replica_lag", labels, lag)
            yield
        from ottla.cli.serve.metrics.quorum import collect_quorum  # a broker alone needs none

        is_controller = self._broker.membership.is_controller
        families.add("ottla_active_controllers", (), int(is_controller))
        yield from collect_quorum(self._broker, families)
        families.add("ottla_leader_partitions", (), counts["leader"])
        families.add("ottla_under_replicated_partitions", (), counts["under_replicated"])
        families.add("ottla_under_min_isr_partitions", (), counts["under_min_isr"])
        families.add("ottla_isr_shrinks", (), manager.isr_shrinks)
        families.add("ottla_isr_expands", (), manager.isr_expands)

    # Jobs

    def _retention(self, families: Families) -> Steps:
        totals = self._broker.log_jobs.retention.totals
        for rule, count in totals.segments.items():
            families.add("ottla_retention_deleted_segments", (rule.value,), count)
            families.add("ottla_retention_deleted_bytes", (rule.value,), totals.bytes[rule])
        families.add("ottla_retention_passes", (), totals.passes)
        families.add("ottla_retention_last_pass_timestamp_seconds", (), totals.last_pass_ms / 1000)
        families.add("ottla_moves", (), len(self._broker.log_jobs.moves))
        yield

    def _remote_tier(self, families: Families) -> Steps:
        remote_logs = self._broker.remote_logs
        if remote_logs is None:
            return
        counts = remote_logs.counts
        since_ms = counts.failing_since_ms or 0
        families.add("ottla_remote_failing_since_timestamp_seconds", (), since_ms / 1000)
        families.add("ottla_remote_copy_throttle_seconds", (), counts.throttled_ms / 1000)
        for kind, count in remote_logs.jobs.counts.items():
            families.add("ottla_remote_jobs", (kind.value,), count)
        for topic, one in list(counts.topics.items()):
            families.add("ottla_remote_copy_requests", (topic,), one.copies)
            families.add("ottla_remote_copy_bytes", (topic,), one.copied_bytes)
            families.add("ottla_remote_copy_errors", (topic,), one.copy_errors)
            families.add("ottla_remote_delete_requests", (topic,), one.deletions)
            families.add("ottla_remote_delete_errors", (topic,), one.deletion_errors)
            families.add("ottla_remote_build_requests", (topic,), one.builds)
            families.add("ottla_remote_build_errors", (topic,), one.build_errors)
            yield
        reads = self._broker.fetches.tier
        if reads is not None:
            waiting = 0 if reads.threads is None else reads.threads.queue_size
            families.add("ottla_remote_reader_queue_size", (), waiting)
            for topic, read in list(reads.counts.items()):
                families.add("ottla_remote_fetch_requests", (topic,), read.reads)
                families.add("ottla_remote_fetch_bytes", (topic,), read.read_bytes)
                families.add("ottla_remote_fetch_errors", (topic,), read.errors)
            yield
        for tiered in list(remote_logs.jobs.partitions):
            labels, facts = (tiered.id.topic, str(tiered.id.partition)), tiered.facts
            families.add("ottla_remote_copy_lag_bytes", labels, facts.copy_lag_bytes)
            families.add("ottla_remote_copy_lag_segments", labels, facts.copy_lag_segments)
            families.add("ottla_remote_delete_lag_bytes", labels, facts.delete_lag_bytes)
            families.add("ottla_remote_delete_lag_segments", labels, facts.delete_lag_segments)
            families.add("ottla_remote_log_size_bytes", labels, facts.remote_bytes)
            families.add("ottla_remote_log_metadata_count", labels, facts.uploads)
            yield

    def _cleaner(self, families: Families) -> Steps:
        cleaner = self._broker.log_jobs.cleaner
        now_ms = self._of.clock.now_ms()
        uncleanable = {key: 0 for key, one in cleaner.troubles.items() if not one.is_over}
        for key, one in cleaner.each_range(now_ms):
            topic, index = key
            is_wanted = topic not in INTERNAL_TOPICS or self._of.has_internal_topics
            if one is not None and key in uncleanable:
                uncleanable[key] = one.cleanable_bytes
            if one is not None and is_wanted:
                labels = (topic, str(index))
                families.add("ottla_cleaner_dirty_ratio", labels, one.ratio)
                families.add("ottla_cleaner_backlog_bytes", labels, one.cleanable_bytes)
            yield
        for (topic, index), trouble in sorted(cleaner.troubles.items()):
            labels = (topic, str(index))
            families.add("ottla_cleaner_failures_in_a_row", labels, trouble.failure_count)
            families.add("ottla_cleaner_damaged_segments", labels, len(trouble.damaged))
            yield
        for directory in self._broker.directories:
            sizes = [size for key, size in uncleanable.items() if key in directory.logs]
            path = (directory.path,)
            families.add("ottla_cleaner_uncleanable_partitions", path, len(sizes))
            families.add("ottla_cleaner_uncleanable_bytes", path, sum(sizes))
            yield
        totals = cleaner.totals
        since_ms = max(0, now_ms - totals.last_run_ms) if totals.last_run_ms else 0
        families.add("ottla_cleaner_seconds_since_last_run", (), since_ms / 1000)
        families.add("ottla_cleaner_last_clean_seconds", (), totals.last_clean_ms / 1000)
        families.add("ottla_cleaner_max_clean_seconds", (), totals.max_clean_ms / 1000)
        families.add("ottla_cleaner_passes", (), totals.passes)
        families.add("ottla_cleaner_failures", (), totals.failures)
        families.add("ottla_cleaner_bytes_read", (), totals.bytes_read)
        families.add("ottla_cleaner_bytes_written", (), totals.bytes_written)
        families.add("ottla_cleaner_last_pass_timestamp_seconds", (), totals.last_pass_ms / 1000)

    def _process(self, families: Families) -> Steps:
        families.add("ottla_ready", (), self._of.is_ready())
        families.add("ottla_start_seconds", (), self._of.start_s)
        for kind, count in self._of.events().items():
            families.add("ottla_events", (kind,), count)
        families.add("ottla_build", (self._version,), 1)
        yield

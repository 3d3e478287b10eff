"""Three brokers with a tier, from a seed: leaders change, also uncleanly and in the middle of
uploads, brokers are killed and lose disks, the store fails, records are deleted.

What is held against them is the history of the leader: each of its records is readable once, from
the tier or from a segment, whatever lies in the tier of other histories.
"""

from collections import Counter
from itertools import pairwise
from random import Random

from ottla.base.partitions import TopicPartition
from ottla.broker.tiering.tier_jobs import Job
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.metadata_reader import read_remote_log_metadata
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.remote.remote_storage import TierError
from ottla.storage.remote.segment_metadata import SegmentState
from ottla.testing import CrashMode
from tests.support.brokers import disk
from tests.support.tier_cluster import PLACE, TierCluster

BROKERS = (1, 2, 3)
HOLDER = 1
"""It has the metadata, of which there is one replica: it loses nothing that it has written."""

ACTIONS = {
    "produce": 12,
    "replicate": 10,
    "look": 12,
    "do": 25,
    "answer": 15,
    "pass_time": 8,
    "flush": 6,
    "elect": 3,
    "kill": 2,
    "start": 5,
    "fail_store": 2,
    "mend_store": 5,
    "delete_records": 1,
}
STEPS = 250


class TierWorld:
    """`counts` say what has happened."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.counts: Counter[str] = Counter()
        # KIP-1023, with local segments that are in the tier too: otherwise it changes nothing.
        starts_after_tier = seed % 2 == 1
        setting = {"follower_fetch_last_tiered_offset_enable": "true"} if starts_after_tier else {}
        self._cluster = TierCluster(BROKERS, **setting)
        if starts_after_tier:
            self._cluster.topic_settings["local.retention.bytes"] = "2000"
        self._written: dict[tuple[int, int], bytes] = {}
        """By leader epoch and offset: what a leader has written there, and nobody else."""
        self._leader: int | None = None
        self._doing: list[tuple[int, Job]] = []
        """Jobs whose deeds are to be carried out, by broker."""

    def run(self) -> None:
        self._elect()
        names, weights = list(ACTIONS), list(ACTIONS.values())
        for _ in range(STEPS):
            (name,) = self._random.choices(names, weights)
            getattr(self, f"_{name}")()
            self.counts[name] += 1
        self._settle()
        self._check()

    # What happens

    def _produce(self) -> None:
        if self._leader is None:
            return
        log, epoch = self._cluster.log(self._leader), self._cluster.orders.leader_epoch
        for _ in range(self._random.randint(1, 12)):
            offset = log.log_end_offset
            value = b"%04d by %d in %d" % (offset, self._leader, epoch)
            assert (epoch, offset) not in self._written
            self._written[epoch, offset] = value
            self._cluster.produce(self._leader, value, acks=1)

    def _replicate(self) -> None:
        self._cluster.replicate(1)

    def _look(self) -> None:
        broker_id = self._random.choice(list(self._cluster.brokers))
        jobs = self._cluster.remote_logs(broker_id).jobs
        self._doing += [(broker_id, one) for one in jobs.begin(self._cluster.orders.at)]
        self._cluster.brokers[broker_id].appends.write_out()

    def _do(self) -> None:
        """Carries out a deed; a kill may come before its job goes on."""
        if not self._doing:
            return
        number = self._random.randrange(len(self._doing))
        broker_id, job = self._doing[number]
        job.carry_out()
        if self._random.random() < 0.05:
            self._kill_one(broker_id)
            return
        jobs = self._cluster.remote_logs(broker_id).jobs
        if not jobs.resume(job, self._cluster.orders.at):
            del self._doing[number]
        self._cluster.brokers[broker_id].appends.write_out()

    def _answer(self) -> None:
        self._cluster.answer_asks(3)

    def _pass_time(self) -> None:
        self._cluster.let_pass(self._random.choice([10, 200, 1000, 3000]))

    def _flush(self) -> None:
        for broker_id in self._cluster.brokers:
            self._log_of(broker_id, lambda log: log.writer.flush())

    def _log_of(self, broker_id: int, deed) -> None:  # type: ignore[no-untyped-def]
        if self._cluster.brokers[broker_id].topics.is_online(PLACE):
            deed(self._cluster.log(broker_id))

    def _elect(self) -> None:
        """Another leader, or the same in another epoch; often one that lacks records."""
        if self._random.random() < 0.5:
            self._cluster.replicate(4)
        up = list(self._cluster.brokers)
        ends = {one: self._end_of(one) for one in up}
        if self._random.random() < 0.2:
            self._leader = self._random.choice(up)
            self.counts["unclean elections"] += ends[self._leader] < max(ends.values())
        else:
            longest = max(ends.values())
            self._leader = self._random.choice([one for one in up if ends[one] == longest])
        self._cluster.lead(self._leader, isr=(self._leader,))

    def _end_of(self, broker_id: int) -> int:
        broker = self._cluster.brokers[broker_id]
        return self._cluster.log(broker_id).log_end_offset if broker.topics.is_online(PLACE) else 0

    def _kill(self) -> None:
        self._kill_one(self._random.choice(list(self._cluster.brokers)))

    def _kill_one(self, broker_id: int) -> None:
        if len(self._cluster.brokers) == 1:
            return
        can_lose = broker_id != HOLDER and self._random.random() < 0.5
        self.counts["power failures" if can_lose else "kills"] += 1
        self._doing = [one for one in self._doing if one[0] != broker_id]
        self._cluster.kill(broker_id, CrashMode.STRICT if can_lose else CrashMode.KEEP)
        if broker_id not in (HOLDER, self._leader) and self._random.random() < 0.3:
            self._cluster.disks[broker_id] = disk("/d")
            self.counts["lost disks"] += 1
        if broker_id == self._leader:
            self._elect()

    def _start(self) -> None:
        down = [one for one in BROKERS if one not in self._cluster.brokers]
        if down:
            self._cluster.start(self._random.choice(down))
            self._elect()

    def _fail_store(self) -> None:
        fault = TierError("no answer", is_retriable=self._random.random() < 0.5)
        for one in self._cluster.stores.values():
            one.fault = fault

    def _mend_store(self) -> None:
        for one in self._cluster.stores.values():
            one.fault = None

    def _delete_records(self) -> None:
        if self._leader is not None:
            log = self._cluster.log(self._leader)
            offset = self._random.randint(log.log_start_offset, log.high_watermark)
            place = TopicPartition(*PLACE)
            self._cluster.brokers[self._leader].admin.delete_records({place: offset})

    # The end

    def _settle(self) -> None:
        self._mend_store()
        for one in BROKERS:
            if one not in self._cluster.brokers:
                self._cluster.start(one)
        self._finish_deeds()
        self._elect()
        for _ in range(8):
            self._cluster.replicate(6)
            self._cluster.let_pass(31_000)
            self._cluster.work(2)

    def _finish_deeds(self) -> None:
        while self._doing:
            broker_id, job = self._doing.pop()
            jobs, is_more = self._cluster.remote_logs(broker_id).jobs, True
            while is_more:
                job.carry_out()
                is_more = jobs.resume(job, self._cluster.orders.at)

    def _check(self) -> None:
        cluster, leader = self._cluster, self._leader
        assert leader is not None
        for broker_id in (leader, *(one for one in BROKERS if one != leader)):
            log = cluster.log(broker_id)
            assert log.log_end_offset == cluster.log(leader).log_end_offset, broker_id
            assert cluster.values(broker_id) == self._history_of(log), broker_id
        log = cluster.log(leader)
        self.counts["offsets in the tier only"] += log.local_start_offset - log.log_start_offset
        metadata = cluster.remote_logs(leader).metadata
        live = {one.partition: one.segments() for one in metadata.indexes() if len(one)}
        stored = read_remote_log_metadata([ReadOnlyLogDirectory("/d", cluster.disks[HOLDER])])
        assert {one.partition: one.segments() for one in stored.indexes if len(one)} == live
        for one in (one for some in live.values() for one in some):
            is_ours = one.broker_id == leader
            assert one.state is SegmentState.COPY_SEGMENT_FINISHED or not is_ours, one
            self.counts["uploads"] += 1

    def _history_of(self, log: PartitionLog) -> list[bytes]:
        """The values that a log has by its leader epochs."""
        end = EpochEntry(-1, log.high_watermark)
        return [
            self._written[entry.epoch, offset]
            for entry, following in pairwise([*log.epochs.entries, end])
            for offset in range(
                max(entry.start_offset, log.log_start_offset),
                min(following.start_offset, log.high_watermark),
            )
        ]

"""Nodes of a metadata quorum, from a seed: messages are lost, doubled, reordered and delayed, nodes
crash at any write and stand still, disks forget what was not synced, files are lost, clocks jump,
voters come and go. `Invariants` says what must hold after each step.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.timestamps import Timestamps
from ottla.quorum.effects import (
    AppendRecords,
    Effect,
    HighWatermarkMoved,
    LeaderChanged,
    LoadSnapshot,
    Reply,
    ReplyRecords,
    ReplySnapshot,
    Send,
    SyncLog,
    WriteElectionState,
)
from ottla.quorum.election_state import encode_election_state, parse_election_state
from ottla.quorum.log import carry_out, lineage_of, take_history
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import (
    AddVoter,
    RemoveVoter,
    Request,
    Response,
    SnapshotId,
    UpgradeVersion,
    Vote,
    VoteAnswer,
)
from ottla.quorum.options import QuorumOptions
from ottla.quorum.roles import Leader
from ottla.quorum.voters import (
    Endpoint,
    ReplicaKey,
    Voter,
    VoterHistory,
    VoterSet,
)
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from tests.simulation.quorum_disk import MemoryDirectory, snapshot_content
from tests.simulation.quorum_invariants import Append, Invariants

CHAOS_MS = 25_000
SETTLING_MS = 120_000
CLUSTER_ID = "a-cluster-for-tests-01"
FIRST_PORT = 9000


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", f"n{node_id}", FIRST_PORT + node_id)


class Process:
    """A node's process and its disk. `life` counts its starts."""

    def __init__(self, world: "World", node_id: int, *, is_old: bool, joins: bool) -> None:
        self.world = world
        self.id = node_id
        self.is_old = is_old
        self.joins = joins
        self.life = 0
        self.is_up = False
        self.appends: list[Append] = []
        self.clock_ms = world.chance.random() * 1e6
        """What its clock is ahead of the world's."""
        self.busy_until_ms = 0.0
        self.endpoints = (endpoint_of(node_id),)
        self.format()

    def format(self) -> None:
        """A new directory, with an id of its own."""
        self.disk = MemoryDirectory()
        self.key = ReplicaKey(self.id, self.world.new_id())

    # The process

    def start(self) -> None:
        """Also in place of a process that is killed, of which the disk loses nothing."""
        world = self.world
        self._end()
        self.is_up = True
        options = QuorumOptions(
            key=self.key,
            cluster_id=CLUSTER_ID,
            endpoints=self.endpoints,
            bootstrap=tuple(endpoint_of(one) for one in world.initial),
            auto_join=self.joins,
            fetch_max_bytes=world.fetch_max_bytes,
        )
        history = VoterHistory(0, world.settings_voters)
        take_history(self.disk, history)
        self.quorum = Quorum(options, lineage_of(self.disk), history, world.chance.randrange)
        self.read_offset = self.disk.log_start_offset
        self.seen_high_watermark = self.disk.log_start_offset
        self.wake_ms = float("inf")
        world.invariants.begins_to_read(self.reader, self.read_offset)
        self.act(lambda at: self.quorum.start(self.disk.election, at))

    @property
    def reader(self) -> str:
        return f"{self.id}.{self.life}"

    def crash(self, name: str = "crashes") -> None:
        world = self.world
        world.counts[name] += 1
        self._end()
        self.disk.crash(world.chance)

    def _end(self) -> None:
        self.is_up = False
        self.life += 1
        self._leave_appends()

    def _leave_appends(self) -> None:
        """Nobody will know whether they were committed."""
        for one in self.appends:
            self.world.invariants.sent(one, None)
        self.appends = []

    @property
    def at(self) -> Timestamps:
        now_ms = self.world.now_ms + self.clock_ms
        wall_ms = int(now_ms) + self.world.wall_shifts[self.id]
        return Timestamps(now_ms=1_700_000_000_000 + wall_ms, monotonic_ms=now_ms)

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Unless it has ended meanwhile; not while it stands still."""
        life = self.life

        def guarded() -> None:
            if life != self.life or not self.is_up:
                return
            if self.busy_until_ms > self.world.now_ms:
                self.world.at(self.busy_until_ms - self.world.now_ms, guarded)
            else:
                action()

        self.world.at(delay_ms, guarded)

    def act(self, call: Callable[[Timestamps], list[Effect]]) -> None:
        """One input; its effects are carried out, or some of them, if it crashes meanwhile."""
        life = self.life
        for effect in call(self.at):
            self._carry_out(effect)
            if life != self.life:
                return
        complaint = self.quorum.take_complaint()
        assert complaint is None, complaint
        self._check()
        self._wake_at(self.quorum.deadline_ms - self.clock_ms)

    def _wake_at(self, due_ms: float) -> None:
        if due_ms < self.wake_ms:
            self.wake_ms = due_ms
            delay_ms = max(due_ms - self.world.now_ms, 0) + 0.1
            self.later(delay_ms, lambda: self.wake() if due_ms == self.wake_ms else None)

    def wake(self) -> None:
        self.wake_ms = float("inf")
        self.act(self.quorum.advance)

    # Effects

    def _carry_out(self, effect: Effect) -> None:
        if self.world.crashes_at_write():
            self.crash()
            return
        if carry_out(effect, self.disk):
            if isinstance(effect, AppendRecords):
                self.world.counts["appends"] += 1
            return
        match effect:
            case WriteElectionState():
                self._write(effect)
            case SyncLog():
                self.later(self.world.sync_ms(), lambda: self._sync(effect))
            case Send():
                self._send(effect)
            case Reply():
                self._reply(effect.pending_id, effect.response)
            case ReplyRecords():
                records = self.disk.read(effect.offset, effect.max_bytes)
                self._reply(effect.pending_id, effect.response._replace(records=records))
            case ReplySnapshot():
                self._reply_snapshot(effect)
            case LeaderChanged():
                self._leader_changed(effect)
            case HighWatermarkMoved():
                self._committed(effect.offset)
            case LoadSnapshot():
                self._load(effect.snapshot)
            case _:
                raise AssertionError(effect)

    def _write(self, effect: WriteElectionState) -> None:
        before = self.disk.election
        assert before is None or effect.state.epoch >= before.epoch, "an epoch went back"
        content = encode_election_state(effect.state, effect.kraft_version, effect.voters)
        self.disk.election = parse_election_state(content, "quorum-state")
        if self.world.crashes_at_write():
            self.crash()

    def _sync(self, effect: SyncLog) -> None:
        """What was appended since the effect is synced too, but nobody says so."""
        history = self.quorum.node.log.history
        self.disk.sync(effect.end_offset if history == effect.history else 0)
        self.act(lambda at: self.quorum.synced(effect, at))

    def _send(self, effect: Send) -> None:
        endpoint = effect.endpoint
        to_id = effect.node_id if endpoint is None else endpoint.port - FIRST_PORT
        to, life, request = self.world.processes[to_id], self.life, effect.request
        self.world.counts[type(request).__name__] += 1

        def answered(response: Response | None) -> None:
            if life == self.life:
                self.later(0, lambda: self.act(self._answer(effect.number, response)))

        self.world.request(self, to, request, answered)

    def _answer(self, number: int, response: Response | None) -> Any:
        return lambda at: self.quorum.answered(number, response, at)

    def serve(self, request: Request, reply: Callable[[Response], None]) -> None:
        if isinstance(request, Vote) and request.is_pre_vote and self.is_old:
            error = ErrorCode.UNSUPPORTED_VERSION
            reply(VoteAnswer(error, self.quorum.node.known()))
            return
        pending_id = (request, reply)
        self.act(lambda at: self.quorum.receive(pending_id, request, at))

    def _reply(self, pending_id: Any, response: Response) -> None:
        request, reply = pending_id
        is_granted = isinstance(response, VoteAnswer) and response.is_granted
        if is_granted and not request.is_pre_vote:
            self.world.invariants.voted(self.key, request)
            self.world.counts["votes"] += 1
        reply(response)

    def _reply_snapshot(self, effect: ReplySnapshot) -> None:
        answer = effect.response
        if answer.snapshot not in self.disk.complete:
            self._reply(effect.pending_id, answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND))
            return
        content = self.disk.read_snapshot(answer.snapshot, answer.position, effect.max_bytes)
        size = self.disk.snapshot_size(answer.snapshot)
        self._reply(effect.pending_id, answer._replace(size=size, content=content))

    def _leader_changed(self, effect: LeaderChanged) -> None:
        world = self.world
        if effect.leader_id == self.id:
            world.counts["leaders"] += 1
            own_vote = Vote(None, self.key, self.key, effect.epoch, self.quorum.node.log.end, False)
            world.invariants.voted(self.key, own_vote)
            world.invariants.leads(self.key, effect.epoch, self.disk)
        self._leave_appends()

    # What is committed

    def _committed(self, offset: int) -> None:
        invariants = self.world.invariants
        assert offset > self.seen_high_watermark, "the high watermark went back"
        self.seen_high_watermark = offset
        self._read_until(offset)
        for one in [one for one in self.appends if one.offset < offset]:
            invariants.sent(one, one.offset)
            self.appends.remove(one)
            self.world.counts["acknowledged"] += 1

    def _read_until(self, offset: int) -> None:
        invariants = self.world.invariants
        records = invariants.committed_until(self.disk, self.read_offset, offset)
        invariants.read(self.reader, records)
        self.read_offset = offset

    def _load(self, snapshot: SnapshotId) -> None:
        self.world.counts["loads"] += 1
        content = self.disk.complete[snapshot]
        *_, last = iter_batches(content)
        (record,) = read_records(last)
        assert record.value is not None
        self.world.invariants.loaded(snapshot, record.value.decode())
        self.read_offset = max(self.read_offset, snapshot.end_offset)
        self.seen_high_watermark = max(self.seen_high_watermark, snapshot.end_offset)
        self.world.invariants.begins_to_read(self.reader, self.read_offset)

    def make_snapshot(self) -> None:
        """Of what is committed; later the log before it goes."""
        end = self.read_offset
        if end <= self.disk.log_start_offset or end not in self.world.invariants.digests:
            return
        snapshot = SnapshotId(end, self.quorum.node.log.epoch_at(end - 1))
        if snapshot in self.disk.complete:
            return
        version, voters = self.quorum.snapshot_voters(end)
        digest = self.world.invariants.digests[end]
        self.disk.complete[snapshot] = snapshot_content(version, voters, digest)
        self.quorum.snapshot_made(snapshot)
        self.world.counts["snapshots"] += 1
        if self.world.chance.random() < 0.7:
            self.act(lambda at: self.quorum.delete_before(snapshot))

    def append(self, value: str) -> None:
        """A client's record, if this node thinks that it leads."""
        if not self.quorum.is_leader:
            return
        epoch = self.quorum.epoch
        try:
            began = self.world.invariants.tick()
            offset, effects = self.quorum.append([value.encode()], epoch, self.at)
        except ApiError:
            return
        self.appends.append(Append(value, offset, epoch, began))
        self.act(lambda at: effects)

    # What must hold of one node

    def _check(self) -> None:
        node = self.quorum.node
        log = node.log
        assert log.end_offset == self.disk.log_end_offset
        assert log.start_offset == self.disk.log_start_offset
        assert log.synced_offset <= log.end_offset
        assert node.high_watermark <= log.end_offset, "more is committed than there is"
        if self.disk.election is not None and not node.unheard:
            assert self.disk.election.epoch == node.epoch, "an epoch that is not written"


class World:
    """Five nodes, of which three are voters at first."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.counts: Counter[str] = Counter()
        self.now_ms = 0.0
        self.invariants = Invariants()
        self.is_dynamic = seed % 3 != 0
        self.upgrades = seed % 2 == 0
        self.fetch_max_bytes = self.chance.choice((150, 400, 1 << 20))
        self.loss = self.chance.choice((0, 0.01, 0.1))
        self.slowness = self.chance.choice((1, 5, 40))
        self.crash_rate = self.chance.choice((0, 0.002, 0.01))
        self.sync_times_ms = self.chance.choice(((0,), (0, 0, 1, 20), (0, 5, 50, 500)))
        self.hurry_ms = self.chance.choice((150, 400, 1000))
        """Something happens about every half of it."""
        self.rest_ms = 1500
        """About twice the time between two changes of the voters."""
        self.deeds: tuple[Callable[[Process], None], ...] = (
            self._crash,
            self._crash_and_start,
            self._black_out,
            self._start,
            self._start,
            self._start,
            self._pause,
            self._isolate_leader,
            self._cut,
            self._heal,
            self._heal,
            self._jump,
            self._snapshot,
            self._lose_state,
            self._shut_down,
            self._move,
        )
        self.is_calm = False
        self.cut: set[frozenset[int]] = set()
        self.one_way: set[tuple[int, int]] = set()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._ids = count(1)
        self.initial = (1, 2, 3)
        self.wall_shifts: Counter[int] = Counter()
        has_old = self.chance.random() < 0.3
        self.processes = {
            node_id: Process(
                self,
                node_id,
                is_old=has_old and self.chance.random() < 0.5,
                joins=self.is_dynamic and node_id == 5,
            )
            for node_id in range(1, 6 if self.is_dynamic else 5)
        }
        self.settings_voters = self._first_voters()

    def _first_voters(self) -> VoterSet:
        keys = [self.processes[one].key for one in self.initial]
        if not self.is_dynamic:
            keys = [ReplicaKey(one.id, ZERO_UUID) for one in keys]
            return VoterSet.of(Voter(one, (endpoint_of(one.id),)) for one in keys)
        voters = VoterSet.of(Voter(one, (endpoint_of(one.id),)) for one in keys)
        for one in self.initial:
            first = snapshot_content(1, voters, "")
            self.processes[one].disk.complete[SnapshotId(0, 0)] = first
        return VoterSet({})

    def new_id(self) -> Uuid:
        return Uuid(next(self._ids).to_bytes(16, "big"))

    # Time and network

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._numbers), action))

    def _run_until(self, until_ms: float, is_done: Callable[[], bool] = lambda: False) -> None:
        while self._events and self._events[0][0] <= until_ms and not is_done():
            self.now_ms, _, action = heapq.heappop(self._events)
            action()

    def crashes_at_write(self) -> bool:
        return not self.is_calm and self.chance.random() < self.crash_rate

    def sync_ms(self) -> int:
        return 0 if self.is_calm else self.chance.choice(self.sync_times_ms)

    def request(
        self,
        source: Process,
        to: Process,
        request: Request,
        answered: Callable[[Response | None], None],
    ) -> None:
        def arrive() -> None:
            if not to.is_up:
                self.transmit(to, source, lambda: answered(None))
                return
            to.later(0, lambda: to.serve(request, reply))

        def reply(response: Response) -> None:
            self.transmit(to, source, lambda: answered(response))

        self.transmit(source, to, arrive)

    def transmit(self, source: Process, to: Process, action: Callable[[], None]) -> None:
        is_cut = frozenset((source.id, to.id)) in self.cut or (source.id, to.id) in self.one_way
        if is_cut or (not self.is_calm and self.chance.random() < self.loss):
            self.counts["lost"] += 1
            return
        copies = 1 if self.is_calm or self.chance.random() > self.loss else 2
        for _ in range(copies):
            delay_ms = self.chance.random() * self.slowness
            if not self.is_calm and self.chance.random() < 0.01:
                delay_ms += self.chance.random() * 4000
            self.at(delay_ms, action)

    # A run

    def run(self) -> None:
        for one in self.processes.values():
            self.at(self.chance.random() * 500, one.start)
        self.at(100, self._chaos)
        self.at(100, self._write)
        self.at(3000, self._administer)
        self._run_until(CHAOS_MS)
        self._calm_down()
        self._run_until(self.now_ms + SETTLING_MS, self._is_settled)
        assert self._is_settled(), self._what_is_left()
        for one in self.processes.values():
            one.crash("stops")
        self.invariants.check_history()

    def _write(self) -> None:
        one = self.chance.choice(list(self.processes.values()))
        if one.is_up and one.busy_until_ms <= self.now_ms:
            for _ in range(self.chance.randint(1, 3)):
                if one.is_up:
                    one.append(f"v{next(self._ids)}")
        if not self.is_calm:
            self.at(self.chance.random() * 100, self._write)

    def _chaos(self) -> None:
        if self.is_calm:
            return
        self.at(self.chance.random() * self.hurry_ms, self._chaos)
        one = self.chance.choice(list(self.processes.values()))
        self.chance.choice(self.deeds)(one)

    def _crash(self, one: Process) -> None:
        if one.is_up:
            one.crash()

    def _crash_and_start(self, one: Process) -> None:
        if one.is_up:
            one.crash()
            if self.chance.random() < 0.3:
                self._lose_state(one)
            self.at(self.chance.choice((1, 50, 500)), lambda: self._start(one))

    def _black_out(self, _: Process) -> None:
        """All are without power, and come back one after another."""
        if self.chance.random() < 0.5:
            self.counts["blackouts"] += 1
            for one in self.processes.values():
                self._crash(one)
                self.at(self.chance.random() * 600, lambda one=one: self._start(one))

    def _isolate_leader(self, _: Process) -> None:
        leader = self._leader()
        if leader is not None:
            self._cut(leader)

    def _start(self, one: Process) -> None:
        if not one.is_up and not self.is_calm:
            one.start()

    def _pause(self, one: Process) -> None:
        self.counts["pauses"] += 1
        one.busy_until_ms = self.now_ms + self.chance.choice((50, 1000, 5000))

    def _cut(self, one: Process) -> None:
        self.counts["cuts"] += 1
        others = [other for other in self.processes if other != one.id]
        for other in self.chance.sample(others, self.chance.randint(1, len(others))):
            if self.chance.random() < 0.3:
                self.one_way.add((one.id, other))
            else:
                self.cut.add(frozenset((one.id, other)))

    def _heal(self, _: Process) -> None:
        self.cut.clear()
        self.one_way.clear()

    def _jump(self, one: Process) -> None:
        self.counts["jumps"] += 1
        one.clock_ms += self.chance.choice((100, 2000, 100_000))
        self.wall_shifts[one.id] += self.chance.choice((-3_600_000, -1000, 1000, 3_600_000))
        if one.is_up:
            one.later(0, one.wake)

    def _snapshot(self, one: Process) -> None:
        if one.is_up and one.busy_until_ms <= self.now_ms:
            one.make_snapshot()

    def _lose_state(self, one: Process) -> None:
        """`quorum-state` is lost, of one node at a time."""
        if one.is_up or any(self._lacks_state(other) for other in self.processes.values()):
            return
        self.counts["lost states"] += 1
        one.disk.election = None
        others = [other for other in self.processes.values() if other is not one]
        seen = max(other.disk.election.epoch for other in others if other.disk.election)
        self.invariants.forget_candidacies(one.key, seen)

    def _lacks_state(self, one: Process) -> bool:
        return one.disk.election is None

    def _shut_down(self, one: Process) -> None:
        if one.is_up and one.busy_until_ms <= self.now_ms:
            self.counts["resignations"] += 1
            one.act(one.quorum.resign)

    def _move(self, one: Process) -> None:
        """A node comes back with another listener."""
        if self.is_dynamic and not one.is_up and self.chance.random() < 0.5:
            self.counts["moves"] += 1
            own = endpoint_of(one.id)
            one.endpoints = (own._replace(host=f"{own.host}-{self.chance.randrange(3)}"),)

    # Voters

    def _administer(self) -> None:
        if self.is_calm:
            return
        self.at(200 + self.chance.random() * self.rest_ms, self._administer)
        leader = self._leader()
        if leader is None:
            return
        if leader.quorum.node.history.kraft_version == 0:
            self._upgrade(leader)
            return
        voters = leader.quorum.node.voters
        dead = [one.key for one in voters if self.processes[one.key.id].key != one.key]
        outside = [one for one in self.processes.values() if one.id not in voters.ids]
        request: Request
        if dead:
            request = RemoveVoter(CLUSTER_ID, dead[0])
        elif outside and (len(voters) < 3 or self.chance.random() < 0.5):
            one = self.chance.choice(outside)
            is_named = one.id in self.settings_voters.ids  # who would vote with an empty disk
            if self.chance.random() < 0.5 and not one.is_up and not is_named:
                self.counts["new disks"] += 1
                one.format()
                return
            added = Voter(one.key, one.endpoints)
            acks = self.chance.random() < 0.8
            request = AddVoter(None, added, 5000, acks)
        elif len(voters) > 3 or (len(voters) > 1 and self.chance.random() < 0.3):
            request = RemoveVoter(CLUSTER_ID, self.chance.choice([one.key for one in voters]))
        elif self._may_lose_a_voter(voters):
            self._lose_disk(voters)
            return
        else:
            return
        self.at(0, lambda: leader.later(0, lambda: leader.serve(request, self._changed)))

    def _upgrade(self, leader: Process) -> None:
        """From voters of the settings to voters of the log, in some worlds."""
        if self.upgrades and self.chance.random() < 0.3:
            self.counts["upgrades"] += 1
            request = UpgradeVersion(1, 3000)
            self.at(0, lambda: leader.later(0, lambda: leader.serve(request, self._changed)))

    def _may_lose_a_voter(self, voters: VoterSet) -> bool:
        """Only where all voters live and agree, and a majority keeps its disks."""
        is_agreed = all(
            one.is_up and one.quorum.node.voters == voters for one in self.processes.values()
        )
        return self.is_dynamic and len(voters) >= 3 and is_agreed and self.chance.random() < 0.3

    def _lose_disk(self, voters: VoterSet) -> None:
        one = self.processes[self.chance.choice(sorted(voters.ids))]
        self.counts["lost disks"] += 1
        one.crash()
        one.format()

    def _changed(self, answer: Any) -> None:
        self.counts[f"change: {answer.error.name}"] += 1

    def _leader(self) -> Process | None:
        found = [
            one
            for one in self.processes.values()
            if one.is_up and one.quorum.is_leader and one.busy_until_ms <= self.now_ms
        ]
        return max(found, key=lambda one: one.quorum.epoch, default=None)

    # The end

    def _calm_down(self) -> None:
        self.is_calm = True
        self.cut.clear()
        self.one_way.clear()
        for one in self.processes.values():
            one.busy_until_ms = 0
            if not one.is_up:
                one.start()
        self._keep_mending()

    def _keep_mending(self) -> None:
        """Voters that will never come back are removed, while the quorum settles."""
        leader = self._leader()
        if leader is not None and leader.quorum.node.history.kraft_version > 0:
            voters = leader.quorum.node.voters
            dead = [one.key for one in voters if self.processes[one.key.id].key != one.key]
            if dead and len(voters) > 1:
                leader.serve(RemoveVoter(CLUSTER_ID, dead[0]), self._changed)
        self.at(1000, self._keep_mending)

    def _is_settled(self) -> bool:
        leader = self._leader()
        if leader is None:
            return False
        node = leader.quorum.node
        role = node.role
        assert isinstance(role, Leader)
        wanted = (node.epoch, node.own_id, node.log.end_offset, node.log.end_offset)
        return role.change is None and all(
            one.is_up
            and (
                one.quorum.epoch,
                one.quorum.role.leader_id,
                one.disk.log_end_offset,
                one.quorum.high_watermark,
            )
            == wanted
            and not one.quorum.node.unheard
            for one in self.processes.values()
        )

    def _what_is_left(self) -> list[str]:
        return [
            f"{one.id} {type(one.quorum.role).__name__} {one.quorum.epoch} "
            f"{one.quorum.role.leader_id} {one.quorum.high_watermark}/{one.disk.log_end_offset} "
            f"voters {[(v.key.id, v.key.directory_id[-1]) for v in one.quorum.node.voters]} "
            f"key {one.key.directory_id[-1]} unheard {one.quorum.node.unheard}"
            for one in self.processes.values()
        ]

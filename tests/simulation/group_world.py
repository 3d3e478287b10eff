"""A world of group members that join, die, lag, restart and repeat themselves, from one seed.

Requests and answers take their time, some of them very long, and overtake each other; the
coordinator crashes, and its log refuses records for a while. `World.check_*` are the invariants.
"""

import itertools
import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.classic.requests import JoinRequest, SyncRequest
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from tests.simulation.group_client import PARTITION_COUNT, Client
from tests.support.groups import GROUP, Runner

SESSION_MS = 10_000
REBALANCE_MS = 30_000
CHAOS_MS = 600_000
CALM_MS = 700_000
"""Longer than anything that chaos may have left behind: a join of nobody waits for 300 s."""

Deed = Callable[[], None]


class World:
    """`now_ms` is the coordinator's elapsed time; deeds happen in order of their time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        delay_ms = self.chance.choice([0, 3000])
        self.runner = Runner(GroupCoordinatorConfig(group_initial_rebalance_delay_ms=delay_ms))
        self.is_calm = False
        self.clients: dict[str, Client] = {}
        self.given: dict[tuple[int, int], str] = {}
        self.newest_generation = 0
        self.committed: dict[int, int] = {}
        self.counts = dict.fromkeys(("synced", "commits", "refused commits", "crashes"), 0)
        self._deeds: list[tuple[int, int, Deed]] = []
        self._numbers = itertools.count(1)
        self._waiting: dict[Any, Callable[[Any], None]] = {}

    @property
    def now_ms(self) -> int:
        return self.runner.elapsed_ms

    def after(self, delay_ms: int, deed: Deed) -> None:
        heappush(self._deeds, (self.now_ms + delay_ms, next(self._numbers), deed))

    # A run

    def run(self) -> None:
        """Chaos, then calm; the invariants are checked on the way, and settling at the end."""
        for _ in range(self.chance.randrange(2, 7)):
            self.begin_client()
        self.after(5000, self._chaos)
        self._run_until(CHAOS_MS)
        self.is_calm = True
        self.runner.refuses = None
        self.begin_client()
        self.begin_client()
        self._run_until(CHAOS_MS + CALM_MS)
        self.check_settled()
        self.check_restart()

    def _run_until(self, end_ms: int) -> None:
        """Goes from one thing that happens to the next, be it a deed or a deadline."""
        while self.now_ms < end_ms:
            times = [end_ms, self.runner.timers.next_deadline_ms or end_ms]
            if self._deeds:
                times.append(self._deeds[0][0])
            self.runner.advance(max(0, int(min(times)) - self.now_ms))
            self._deliver()
            while self._deeds and self._deeds[0][0] <= self.now_ms:
                heappop(self._deeds)[2]()
                self._deliver()

    def _chaos(self) -> None:
        """Something happens to somebody, and something else a little later."""
        if self.is_calm:
            return
        self.after(self.chance.randrange(100, 30_000), self._chaos)
        living = [one for one in self.clients.values() if one.is_alive]
        deeds: list[Deed] = [self.begin_client, self._crash, self._refuse, self.check_restart]
        if living:
            one = self.chance.choice(living)
            deeds += [one.die, one.leave, one.restart, one.freeze, one.change_mind] * 2
        self.chance.choice(deeds)()

    def begin_client(self) -> None:
        number = next(self._numbers)
        name = f"client-{number}"
        instance_id = self.chance.choice([None, None, f"static-{number % 4}"])
        if any(one.instance_id == instance_id for one in self.clients.values() if instance_id):
            instance_id = None
        client = self.clients[name] = Client(self, name, instance_id)
        client.begin()

    def _crash(self) -> None:
        self.counts["crashes"] += 1
        self.runner.restart()
        self._waiting.clear()
        self.check_committed()

    def _refuse(self) -> None:
        self.runner.refuses = self.chance.choice([None, ErrorCode.NOT_COORDINATOR])

    # The network

    def latency_ms(self) -> int:
        if self.is_calm or self.chance.random() < 0.98:
            return self.chance.randrange(1, 50)
        return self.chance.randrange(1, 40_000)

    def is_lost(self) -> bool:
        return not self.is_calm and self.chance.random() < 0.01

    def _deliver(self) -> None:
        """Sends answers that the machine has given since on their way."""
        for pending_id in [one for one in self._waiting if one in self.runner.answers]:
            self._send_back(self._waiting.pop(pending_id), self.runner.answers.pop(pending_id))

    def _send_back(self, receive: Callable[[Any], None], answer: Any) -> None:
        if not self.is_lost():
            self.after(self.latency_ms(), lambda: receive(answer))

    def _send(self, deed: Deed) -> None:
        if not self.is_lost():
            self.after(self.latency_ms(), deed)

    def _ask(self, decide: Callable[[], Any], receive: Callable[[Any], None]) -> None:
        """A request that is answered at once when it comes to the coordinator."""
        self._send(lambda: self._send_back(receive, self.runner.run(decide())))

    def join(
        self, client: Client, protocols: dict[str, bytes], receive: Callable[[Any], None]
    ) -> None:
        request = JoinRequest(
            group_id=GROUP,
            member_id=client.member_id,
            instance_id=client.instance_id,
            client_id=client.name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=protocols,
            can_skip_assignment=client.can_skip_assignment,
        )

        def decide(pending_id: int) -> Any:
            return self.runner.machine.join(request, pending_id, self.runner.at)

        self._wait(decide, receive)

    def sync(
        self, claim: MemberClaim, assignments: dict[str, bytes], receive: Callable[[Any], None]
    ) -> None:
        request = SyncRequest(claim=claim, assignments=assignments)

        def decide(pending_id: int) -> Any:
            return self.runner.machine.sync(request, pending_id, self.runner.at)

        self._wait(decide, receive)

    def _wait(self, decide: Callable[[Any], Any], receive: Callable[[Any], None]) -> None:
        pending_id = next(self._numbers)

        def arrive() -> None:
            self._waiting[pending_id] = receive
            answer = self.runner.run(decide(pending_id))
            if answer is not None:
                self._send_back(self._waiting.pop(pending_id), answer)

        self._send(arrive)

    def heartbeat(self, claim: MemberClaim, receive: Callable[[Any], None]) -> None:
        self._ask(lambda: self.runner.machine.heartbeat(claim, self.runner.at), receive)

    def leave(self, member_id: str) -> None:
        self._send(lambda: self._leave(member_id))

    def _leave(self, member_id: str) -> None:
        self.runner.leave(member_id)

    def commit(
        self, claim: MemberClaim, partition: int, receive: Callable[[ErrorCode], None]
    ) -> None:
        offset = next(self._numbers)
        request = CommitRequest(claim=claim, offsets={("t", partition): NewOffset(offset=offset)})

        def arrive() -> None:
            answer = self.runner.run(self.runner.machine.commit(request, self.runner.at))
            assert answer is not None
            code = answer.partitions["t", partition]
            self._note_commit(code, claim, partition, offset)
            self._send_back(receive, code)

        self._send(arrive)

    # What is known from outside, and must hold

    def _note_commit(
        self, code: ErrorCode, claim: MemberClaim, partition: int, offset: int
    ) -> None:
        if code is not ErrorCode.NONE:
            self.counts["refused commits"] += 1
            return
        self.counts["commits"] += 1
        assert claim.generation >= self.newest_generation, "a commit from an old generation"
        self.committed[partition] = offset

    def note_assignment(self, client: Client, generation: int, partitions: list[int]) -> None:
        """Somebody was given partitions: nobody else ever has them in that generation."""
        self.counts["synced"] += 1
        who = client.instance_id or client.member_id
        for partition in partitions:
            owner = self.given.setdefault((generation, partition), who)
            assert owner == who, f"{partition} in {generation} belongs to {owner} and {who}"

    def note_generation(self, generation: int) -> None:
        """An assignment has been made: all that is older is over."""
        self.newest_generation = max(self.newest_generation, generation)

    def check_committed(self) -> None:
        found = self.runner.machine.fetch_offsets(MemberClaim(group_id=GROUP), None)
        offsets = {index: one.committed for (_, index), one in found.items()}
        assert {index: one and one.offset for index, one in offsets.items()} == self.committed

    def check_restart(self) -> None:
        """What the log makes of the groups is what the machine holds of them."""
        booted = Runner(self.runner.config, list(self.runner.log)).machine
        for group_id, group in self.runner.machine.groups.items():
            if group.stored is not None:
                assert booted.groups[group_id].stored == group.stored
        stored = {one.group_id for one in self.runner.machine.groups.values() if one.stored}
        assert set(booted.groups) == stored
        self.check_committed()

    def check_settled(self) -> None:
        """Everybody who lives is in the group, nobody else is, and every partition is read."""
        living = [one for one in self.clients.values() if one.is_alive]
        group = self.runner.machine.groups.get(GROUP)
        if not living:
            assert group is None or not group.members
            return
        assert group is not None
        assert group.state is GroupState.STABLE
        assert set(group.members) == {one.member_id for one in living}
        assert {one.generation for one in living} == {group.generation}
        owned = sorted(partition for one in living for partition in one.partitions)
        assert owned == list(range(PARTITION_COUNT))

"""A consumer as the clients' libraries have it: it joins, syncs, commits, and recovers."""

import json
from typing import TYPE_CHECKING, Any

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.requests import JoinAnswer, SyncAnswer
from ottla.coordinator.requests import MemberClaim

if TYPE_CHECKING:
    from tests.simulation.group_world import World

PARTITION_COUNT = 7
HEARTBEAT_MS = 3000
PATIENCE_MS = 45_000
"""After so long without an answer a client gives a request up and sends it again."""

RETRY_MS = 100

BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
"""Errors after which a member has no id any more; who was fenced has been started again."""


class Client:
    """`attempt` is the number of its current try: answers to earlier ones are skipped."""

    def __init__(self, world: "World", name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.can_skip_assignment = world.chance.random() < 0.7
        self.is_alive = True
        self.member_id = ""
        self.generation = -1
        self.partitions: list[int] = []
        self._attempt = 0
        self._is_waiting = False
        self._is_frozen = False
        self._protocols = ["range", "sticky"]

    @property
    def claim(self) -> MemberClaim:
        return MemberClaim(
            group_id="g",
            member_id=self.member_id,
            generation=self.generation,
            instance_id=self.instance_id,
        )

    # What happens to it

    def begin(self) -> None:
        self.world.after(self.world.chance.randrange(2000), self._join)

    def die(self) -> None:
        """Killed: it says nothing, and nothing reaches it."""
        self.is_alive = False
        self._attempt += 1

    def leave(self) -> None:
        """Goes as a client should; static members do not say so, and come back at once."""
        if self.instance_id is not None:
            self.restart()
            return
        self.world.leave(self.member_id)
        self.die()

    def restart(self) -> None:
        """Killed and started again, under the same name if it is static."""
        self._attempt += 1
        self.member_id = ""
        self.generation = -1
        self.partitions = []
        self.begin()

    def freeze(self) -> None:
        """Stands still for a while; what reaches it meanwhile waits."""
        self._is_frozen = True
        self.world.after(self.world.chance.randrange(40_000), self._thaw)

    def _thaw(self) -> None:
        self._is_frozen = False

    def change_mind(self) -> None:
        """Wants something else, and so joins again."""
        self._protocols.reverse()
        self._join()

    # Joining

    def _begin_attempt(self) -> int:
        self._attempt += 1
        self._is_waiting = True
        attempt = self._attempt
        self.world.after(PATIENCE_MS, lambda: self._give_up(attempt))
        return attempt

    def _give_up(self, attempt: int) -> None:
        if attempt == self._attempt and self._is_waiting:
            self._join()

    def _join(self) -> None:
        if not self.is_alive:
            return
        self.partitions = []
        attempt = self._begin_attempt()
        protocols = dict.fromkeys(self._protocols, b"")
        self.world.join(self, protocols, lambda answer: self._on_join(attempt, answer))

    def _join_later(self, code: ErrorCode) -> None:
        if code in BEGIN_ANEW:
            self.member_id = ""
        self.generation = -1
        self.partitions = []
        self._attempt += 1
        self.world.after(RETRY_MS, self._join)

    def _is_stale(self, attempt: int) -> bool:
        return attempt != self._attempt or not self.is_alive

    def _on_join(self, attempt: int, answer: JoinAnswer) -> None:
        if self._is_stale(attempt):
            return
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._join()
            return
        if answer.error:
            self._join_later(answer.error)
            return
        self.member_id = answer.member_id
        self.generation = answer.generation
        self._sync(answer)

    def _sync(self, joined: JoinAnswer) -> None:
        attempt = self._begin_attempt()
        is_leader = joined.leader == self.member_id and not joined.skip_assignment
        assignments = assign(joined) if is_leader else {}
        self.world.sync(self.claim, assignments, lambda answer: self._on_sync(attempt, answer))

    def _on_sync(self, attempt: int, answer: SyncAnswer) -> None:
        if answer.error is ErrorCode.NONE and self.is_alive and attempt == self._attempt:
            self.world.note_generation(self.generation)
        if self._is_stale(attempt):
            return
        if answer.error:
            self._join_later(answer.error)
            return
        self._is_waiting = False
        self.partitions = json.loads(answer.assignment or b"[]")
        self.world.note_assignment(self, self.generation, self.partitions)
        self._beat(attempt)

    # Being a member

    def _beat(self, attempt: int) -> None:
        if self._is_stale(attempt):
            return
        self.world.after(HEARTBEAT_MS, lambda: self._beat(attempt))
        if self._is_frozen:
            return
        self.world.heartbeat(self.claim, lambda answer: self._on_beat(attempt, answer))
        for partition in self.partitions:
            self.world.commit(self.claim, partition, lambda code: self._on_code(attempt, code))

    def _on_beat(self, attempt: int, answer: Any) -> None:
        self._on_code(attempt, answer.error)

    def _on_code(self, attempt: int, code: ErrorCode) -> None:
        """Any error but a passing one has a member join again."""
        if not self._is_stale(attempt) and code and code is not ErrorCode.NOT_COORDINATOR:
            self._join_later(code)


def assign(joined: JoinAnswer) -> dict[str, bytes]:
    """The leader's assignment: partitions dealt out in turn."""
    member_ids = sorted(one.member_id for one in joined.members)
    dealt: dict[str, list[int]] = {one: [] for one in member_ids}
    for partition in range(PARTITION_COUNT):
        dealt[member_ids[partition % len(member_ids)]].append(partition)
    return {one: json.dumps(partitions).encode() for one, partitions in dealt.items()}

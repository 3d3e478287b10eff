"""A consumer of the new protocol: it sends heartbeats, and follows the assignment it is told."""

from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.consumer.partitions import NOTHING, Assignment
from ottla.coordinator.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.requests import MemberClaim
from tests.support.groups import GROUP

if TYPE_CHECKING:
    from tests.simulation.consumer_world import ConsumerWorld

BEAT_MS = 5000
PATIENCE_MS = 12_000
RETRY_MS = 500
REVOCATION_MS = 30_000

ENTER_ANEW = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
"""Errors after which a member gives everything up and enters again."""

SUBSCRIPTIONS: tuple[tuple[str, str], ...] = (("a", ""), ("ab", ""), ("b", ""), ("", "[ab]"))
"""Topics by name, and an expression."""


class ConsumerClient:
    """`partitions` is what it reads; `attempt` the number of its life: older answers are not for
    it."""

    def __init__(self, world: "ConsumerWorld", name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.is_alive = True
        self.epoch = 0
        self.partitions: Assignment = NOTHING
        self.names, self.regex = world.chance.choice(SUBSCRIPTIONS)
        self.number_of_lives = 0
        self._attempt = 0
        self._target: Assignment = NOTHING
        self._told: Assignment | None = None
        self._asked = 0
        self._is_waiting = False
        self._is_frozen = False
        self._tells_all = True

    @property
    def member_id(self) -> str:
        return f"{self.name}.{self.number_of_lives}"

    def claim(self) -> MemberClaim:
        return MemberClaim(group_id=GROUP, member_id=self.member_id, generation=self.epoch)

    # What happens to it

    def begin(self) -> None:
        self._new_attempt()
        self._forget()
        attempt = self._attempt
        self.world.after(self.world.chance.randrange(2000), lambda: self._beat(attempt))

    def _new_attempt(self) -> None:
        self._attempt += 1
        self._is_waiting = False

    def _forget(self) -> None:
        """It reads nothing, and is nobody."""
        self.epoch = 0
        self.partitions = self._target = NOTHING
        self._told = None
        self._tells_all = True

    def die(self) -> None:
        """Killed: it says nothing, and nothing reaches it."""
        self.is_alive = False
        self._new_attempt()
        self._forget()

    def leave(self) -> None:
        """Closes as a client should; a static member comes back at once, or for good goes."""
        epoch, member_id = self.epoch, self.member_id
        is_back_soon = self.instance_id is not None and self.world.chance.random() < 0.7
        self.die()
        if epoch > 0:
            self.world.beat(
                self,
                HeartbeatRequest(
                    group_id=GROUP,
                    member_id=member_id,
                    epoch=-2 if is_back_soon else -1,
                    instance_id=self.instance_id,
                ),
                lambda _: None,
            )
        if is_back_soon:
            self.restart()

    def restart(self) -> None:
        """A new process, under the same name if it is static."""
        self.is_alive = True
        self.number_of_lives += 1
        self.begin()

    def freeze(self) -> None:
        """Stands still for a while; it neither gives up nor takes on anything meanwhile."""
        self._is_frozen = True
        self.world.after(self.world.chance.randrange(70_000), self._thaw)

    def _thaw(self) -> None:
        self._is_frozen = False

    def change_mind(self) -> None:
        """Wants to read something else."""
        self.names, self.regex = self.world.chance.choice(SUBSCRIPTIONS)
        self._tells_all = True

    # Heartbeats

    def _beat(self, attempt: int) -> None:
        if attempt != self._attempt or not self.is_alive:
            return
        self.world.after(BEAT_MS, lambda: self._beat(attempt))
        if not self._is_waiting and not self._is_frozen:
            self._ask(attempt)
            self._commit_all()

    def _ask(self, attempt: int) -> None:
        self._is_waiting = True
        self._asked += 1
        asked, owned = self._asked, self.partitions
        says_all = self._tells_all or self.epoch == 0
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REVOCATION_MS if says_all else -1,
            topic_names=frozenset(self.names) if says_all else None,
            topic_regex=self.regex if says_all else None,
            owned=owned if says_all or owned != self._told else None,
        )
        self._tells_all = False
        self._told = owned
        self.world.beat(self, request, lambda answer: self._on_answer(attempt, asked, answer))
        self.world.after(PATIENCE_MS, lambda: self._give_up(attempt, asked))

    def _give_up(self, attempt: int, asked: int) -> None:
        """No answer has come: it is asked again, and everything is said again."""
        if attempt == self._attempt and self._is_waiting and asked == self._asked:
            self._is_waiting = False
            self._tells_all = True

    def _on_answer(self, attempt: int, asked: int, answer: HeartbeatAnswer) -> None:
        if attempt != self._attempt or not self.is_alive or asked != self._asked:
            return
        self._is_waiting = False
        if answer.error is ErrorCode.FENCED_INSTANCE_ID:
            self.restart()
        elif answer.error in ENTER_ANEW:
            self._forget()
            self._beat_soon(RETRY_MS)
        elif answer.error:
            self._tells_all = True
        else:
            self.epoch = answer.epoch
            if answer.assigned is not None:
                self._target = answer.assigned
                self._follow()

    def _beat_soon(self, delay_ms: int) -> None:
        attempt = self._attempt

        def beat() -> None:
            if attempt == self._attempt and self.is_alive and not self._is_waiting:
                self._ask(attempt)

        self.world.after(delay_ms, beat)

    # Following the assignment

    def _follow(self) -> None:
        """Gives up what it is not to have, commits before, then takes on what is new."""
        if self._target == self.partitions:
            return
        attempt, target = self._attempt, self._target
        self._commit_all()

        def finish() -> None:
            if attempt != self._attempt or not self.is_alive or target != self._target:
                return
            if self._is_frozen:
                self.world.after(1000, finish)
                return
            self.partitions = target
            if not self._is_waiting:
                self._ask(attempt)

        needs_time = bool(self.partitions - target)
        self.world.after(self.world.chance.randrange(3000) if needs_time else 0, finish)

    def _commit_all(self) -> None:
        for place in sorted(self.partitions):
            self.world.commit_as(self, place)

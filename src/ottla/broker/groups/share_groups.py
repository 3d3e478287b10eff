"""Carries out what is decided about share groups: what share coordinators are to begin or to delete
is asked of them, and noted in the group when they have answered.

Kafka's counterpart: the methods for share groups of `GroupCoordinatorService`.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.base.turns import Budget, parts_of, yield_turn
from ottla.broker.groups.coordinator import GroupCoordinator
from ottla.broker.membership.state_requests import (
    DeleteState,
    InitializeState,
    StateRequest,
    SummarizeState,
)
from ottla.broker.shares.states import SharePersister, TakeAnswers
from ottla.broker.waiting.rooms import Waiting
from ottla.coordinator.catalog import CatalogTopic
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.events import RebalanceBegan
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.coordinator.share.requests import (
    ShareHeartbeatAnswer,
    ShareHeartbeatRequest,
    StatesToChange,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE: Final = 32
"""States that are asked for without letting others have their turn."""

MOST_ASSIGNED_AT_ONCE: Final = 256
"""Partitions times members for which an assignment is made without letting others have their turn.
"""

StateAnswers = Mapping[TopicIdPartition, ShareStateAnswer]


class ShareGroups:
    """The share groups of this broker, for handlers."""

    def __init__(
        self,
        groups: GroupCoordinator,
        find_persister: Callable[[], SharePersister],
        budget: Budget,
    ) -> None:
        self._groups = groups
        self._find_persister = find_persister
        self._budget = budget
        self.rebalance_count = 0

    # Members

    def may_assign_much(self, request: ShareHeartbeatRequest, at: Timestamps) -> bool:
        """Whether a heartbeat may lead to an assignment that takes long."""
        group = self._groups.machine_of(request.group_id, at).groups.get(request.group_id)
        if not isinstance(group, ShareGroup):
            return False
        if not request.is_full and group.epoch == group.assignment_epoch:
            return False
        count = sum(len(one.partitions) for one in group.initialized.values())
        return count * (1 + len(group.members)) > MOST_ASSIGNED_AT_ONCE

    def heartbeat(self, request: ShareHeartbeatRequest, at: Timestamps) -> ShareHeartbeatAnswer:
        """Handles a heartbeat. If the states of partitions begin at once, the member has the
        partitions at once too; otherwise with a later heartbeat.
        """
        answer = self._beat(request, at)
        if not answer.to_initialize or not self._begin_states(request.group_id, answer, at):
            return answer
        return self._beat(replace(request, epoch=answer.epoch), at)

    def _beat(self, request: ShareHeartbeatRequest, at: Timestamps) -> ShareHeartbeatAnswer:
        with self._groups.changing(request.group_id, at) as machine:
            decision = machine.shares.heartbeat(request, at)
            self.rebalance_count += sum(isinstance(one, RebalanceBegan) for one in decision.events)
            return self._groups.carry_out(decision, at)

    def _begin_states(self, group_id: str, asked: ShareHeartbeatAnswer, at: Timestamps) -> bool:
        """Returns whether states have begun at once."""
        requests = [
            InitializeState(
                SharePartitionKey(group_id, one.topic_id, one.partition),
                asked.state_epoch,
                one.start_offset,
            )
            for one in asked.to_initialize
        ]
        has_begun = False

        def take(answers: Sequence[ShareStateAnswer]) -> None:
            if self._groups.is_being_changed(group_id):  # an assignment is being made, in turns
                self._budget.run_in_turns(lambda: note(answers))
            else:
                note(answers)

        def note(answers: Sequence[ShareStateAnswer]) -> None:
            nonlocal has_begun
            noted = self._note_begun(group_id, requests, answers)
            has_begun = any(not one.error for one in noted.values())

        if len(requests) <= AT_ONCE:
            self._find_persister().ask(requests, take, at)
        else:
            self._budget.run_in_turns(partial(self._ask, requests, take, at))
        return has_begun

    def _note_begun(
        self,
        group_id: str,
        requests: Iterable[InitializeState],
        answers: Iterable[ShareStateAnswer],
    ) -> StateAnswers:
        """Notes the states that have begun, and returns the answers."""
        found = _by_partition(requests, answers)
        begun = [place for place, answer in found.items() if not answer.error]
        for answer in [one for one in found.values() if one.error][:1]:
            logger.warning(
                "share group %s: the states of %d partitions have not begun: %s",
                group_id, len(found) - len(begun), answer.message or answer.error.description,
            )  # fmt: skip
        if not begun:
            return found
        at = self._groups.latest
        with self._groups.changing(group_id, at) as machine:
            decision = machine.shares.states_have_begun(group_id, begun, at)
            noted = self._groups.carry_out(decision, at)
        return _refused(found, noted.error)

    # Administrators

    def begin_again(
        self,
        group_id: str,
        wanted: Sequence[tuple[CatalogTopic, Mapping[int, int]]],
        at: Timestamps,
    ) -> StatesToChange | Waiting[StateAnswers]:
        """Has the states of partitions begin at given start offsets; returns the refusal of all, or
        a wait for the answers.
        """
        places = [(topic, list(starts)) for topic, starts in wanted]
        machine = self._groups.machine_of(group_id, at)
        begun = self._groups.carry_out(machine.shares.begin_again(group_id, places, at), at)
        if begun.error:
            return begun
        requests = [
            InitializeState(
                SharePartitionKey(group_id, topic.topic_id, index), begun.state_epoch, start
            )
            for topic, starts in wanted
            for index, start in starts.items()
        ]
        return self._wait(requests, partial(self._note_begun, group_id, requests), at)

    def delete_offsets(
        self, group_id: str, topic_ids: Collection[Uuid], at: Timestamps
    ) -> StatesToChange | Waiting[StateAnswers]:
        """Has the states of topics deleted; returns the refusal of all, or a wait for the answers,
        which name the partitions that had states.
        """
        machine = self._groups.machine_of(group_id, at)
        begun = self._groups.carry_out(machine.shares.begin_deletion(group_id, topic_ids, at), at)
        if begun.error:
            return begun
        requests = _deletions(group_id, begun)
        return self._wait(requests, partial(self._note_deleted, group_id, requests), at)

    def delete_states(
        self, group_ids: Iterable[str], at: Timestamps
    ) -> Waiting[Mapping[str, ErrorCode]] | None:
        """Has all states of those groups deleted that are share groups, and may be deleted; returns
        a wait for the errors, or `None` if there are no such states.
        """
        requests: list[DeleteState] = []
        for group_id in group_ids:
            machine = self._groups.machine_of(group_id, at)
            if isinstance(machine.groups.get(group_id), ShareGroup):
                decision = machine.shares.begin_deletion(group_id, None, at)
                requests += _deletions(group_id, self._groups.carry_out(decision, at))

        def note(answers: Sequence[ShareStateAnswer]) -> Mapping[str, ErrorCode]:
            return {
                request.key.group_id: deletion_error(answer)
                for request, answer in zip(requests, answers, strict=True)
                if deletion_error(answer)
            }

        return self._wait(requests, note, at) if requests else None

    def _note_deleted(
        self,
        group_id: str,
        requests: Sequence[DeleteState],
        answers: Sequence[ShareStateAnswer],
    ) -> StateAnswers:
        found = _by_partition(requests, answers)
        left = {topic_id for (topic_id, _), one in found.items() if deletion_error(one)}
        gone = {topic_id for topic_id, _ in found} - left
        at = self._groups.latest
        machine = self._groups.machine_of(group_id, at)
        noted = self._groups.carry_out(machine.shares.states_are_deleted(group_id, gone, at), at)
        return _refused(found, noted.error)

    def summarize(
        self, keys: Iterable[SharePartitionKey], at: Timestamps
    ) -> Waiting[Mapping[SharePartitionKey, ShareStateAnswer]]:
        """Where groups are in partitions."""
        requests = [SummarizeState(key) for key in keys]

        def by_key(
            answers: Sequence[ShareStateAnswer],
        ) -> Mapping[SharePartitionKey, ShareStateAnswer]:
            return {one.key: answer for one, answer in zip(requests, answers, strict=True)}

        return self._wait(requests, by_key, at)

    # Requests

    def _wait(
        self,
        requests: Sequence[StateRequest],
        make: Callable[[Sequence[ShareStateAnswer]], T],
        at: Timestamps,
    ) -> Waiting[T]:
        """What `make` makes of the answers."""
        waiting: Waiting[T] = Waiting()

        def take(answers: Sequence[ShareStateAnswer]) -> None:
            waiting.result = make(answers)
            self._groups.queue_answer(waiting)

        self._ask(requests, take, at)
        return waiting

    def _ask(self, requests: Sequence[StateRequest], take: TakeAnswers, at: Timestamps) -> None:
        """Asks for many states in turns."""
        parts = list(parts_of(requests, AT_ONCE))
        found: dict[int, Sequence[ShareStateAnswer]] = {}

        def take_part(number: int, answers: list[ShareStateAnswer]) -> None:
            found[number] = answers
            if len(found) == len(parts):
                take([one for number in range(len(parts)) for one in found[number]])

        persister = self._find_persister()
        for number, part in enumerate(parts):
            yield_turn()
            persister.ask(part, partial(take_part, number), at)
        if not parts:
            take([])


def _deletions(group_id: str, begun: StatesToChange) -> list[DeleteState]:
    return [DeleteState(SharePartitionKey(group_id, *one)) for one in begun.partitions]


def deletion_error(answer: ShareStateAnswer) -> ErrorCode:
    """The state of a topic that has been deleted meanwhile is gone, too."""
    is_gone = answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if is_gone else answer.error


def _by_partition(
    requests: Iterable[StateRequest], answers: Iterable[ShareStateAnswer]
) -> StateAnswers:
    return {
        (one.key.topic_id, one.key.partition): answer
        for one, answer in zip(requests, answers, strict=True)
    }


def _refused(found: StateAnswers, code: ErrorCode) -> StateAnswers:
    """The answers if their outcome could be noted, else that error."""
    return dict.fromkeys(found, ShareStateAnswer(error=code)) if code else found

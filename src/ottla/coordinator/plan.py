"""A decision about a group, under construction.

A plan works on a copy of the group, made at its first change. Every record is replayed into the
copy at once, so that later steps see earlier ones. The group itself is unchanged until the records
are in the log.
"""

from typing import Generic, TypeVar

from ottla.codec.schema import Message
from ottla.coordinator.deadlines import Due, TimerKey
from ottla.coordinator.decision import AnswerT, Decision, Draft
from ottla.coordinator.offsets.group import Group

GroupT = TypeVar("GroupT", bound=Group)


class Plan(Generic[GroupT]):
    """`group` is the group with the changes planned so far."""

    def __init__(self, group: GroupT, draft: Draft) -> None:
        self.group = group
        self.draft = draft
        self._is_copy = False

    def change(self) -> GroupT:
        """Returns the copy of the group, which may be changed."""
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        return self.group

    def record(self, key: Message, value: Message | None) -> None:
        self.change().replay(key, value)
        self.draft.record(key, value)

    def set_timer(self, due: Due, delay_ms: float, member_id: str = "") -> None:
        key = TimerKey(due, self.group.group_id, member_id)
        self.draft.deadlines[key] = self.draft.at.monotonic_ms + delay_ms

    def cancel_timer(self, due: Due, member_id: str = "") -> None:
        self.draft.deadlines[TimerKey(due, self.group.group_id, member_id)] = None

    def decide(self, answer: AnswerT | None = None) -> Decision[AnswerT]:
        return self.draft.decide(answer, self.group if self._is_copy else None)

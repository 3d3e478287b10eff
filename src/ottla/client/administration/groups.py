"""Groups of all protocols: members, committed offsets, and deletion."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnknownNameError, UnreachableError
from ottla.base.partitions import CONSUMER_OFFSETS, TopicPartition, by_topic
from ottla.client.administration.asking import Asking, check_all, refused
from ottla.client.administration.descriptions import GroupDescription, GroupMember, ListedGroup
from ottla.client.administration.group_members import CLASSIC, CONSUMER, SHARE, classic_members
from ottla.client.administration.group_offsets import Committed, commit_from_outside, committed_by
from ottla.client.bulk.reading import by_partition
from ottla.client.connecting.cluster import CoordinatorKind, check
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import RefusedError, refusals
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    Member,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.share_group_describe import Assignment as ShareAssignment
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest

FIRST_VERSION_WITH_STATES = 4
"""Of ListGroups (KIP-518)."""
DEAD = "Dead"
"""The state that older versions report for a group that does not exist."""


class GroupAdmin(Asking):
    """Reads and changes groups; each request goes to the group's coordinator."""

    def list_groups(
        self,
        *,
        states: Collection[str] = (),
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> list[ListedGroup]:
        """The groups of all brokers, in order; only those in some states, if any are named. Raises
        `RefusedError`, and `UnreachableError` if a broker does not answer; with `on_unreachable`
        that is called instead, also for partitions of groups that no broker leads, and what is not
        known is left out.

        >>> admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 2})
        >>> [one.group for one in admin.list_groups()]
        ['billing']
        """
        found = self._of_brokers(partial(_groups_of, states), on_unreachable)
        if on_unreachable is not None and (error := self._leaderless(CONSUMER_OFFSETS)):
            on_unreachable(error)
        return sorted((one for each in found for one in each), key=lambda one: one.group)

    def describe_groups(self, groups: Iterable[str | ListedGroup]) -> list[GroupDescription]:
        """Groups with their members; those that `list_groups` has returned are not listed again.

        Raises `UnknownNameError`, `RefusedError`.

        >>> admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 2})
        >>> group, = admin.describe_groups(["billing"])
        >>> group.state
        'Empty'
        """
        wanted = list(groups)
        names = [one for one in wanted if isinstance(one, str)]
        named = iter(self._listed(names) if names else ())
        listed = [next(named) if isinstance(one, str) else one for one in wanted]
        return [self._describe_group(one.group, one) for one in listed]

    def describe_all_groups(self, *, states: Collection[str] = ()) -> list[GroupDescription]:
        """All groups with their members; a group that is deleted meanwhile is left out.

        >>> admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 2})
        >>> groups = admin.describe_all_groups(states=["Empty"])
        >>> [one.group for one in groups]
        ['billing']
        """
        found = []
        for one in self.list_groups(states=states):
            try:
                found.append(self._describe_group(one.group, one))
            except UnknownNameError:
                continue
        return found

    def group_offsets(self, group: str) -> dict[TopicPartition, Committed]:
        """What a group has committed. Raises `UnknownNameError`, `RefusedError`.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> admin.alter_group_offsets("billing", {place: 2})
        >>> committed = admin.group_offsets("billing")
        >>> committed[place].offset
        2
        """
        with refusals(f"group {group}"):
            found = self._cluster.ask_coordinator(
                CoordinatorKind.GROUP, group, lambda broker: list(committed_by(broker, group))
            )
        if not found:  # A coordinator answers the same for a group that does not exist.
            self._listed([group])
        return {TopicPartition(one.topic, one.partition): one for one in found}

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | Committed]
    ) -> None:
        """Commits offsets for a group without members; creates the group if it does not exist.

        Raises `RefusedError`.

        >>> admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 2})
        """
        commits = [
            replace(one, group=group, topic=place.topic, partition=place.partition)
            if isinstance(one, Committed)
            else Committed(group=group, topic=place.topic, partition=place.partition, offset=one)
            for place, one in offsets.items()
        ]
        if not commits:
            return
        with refusals(f"group {group}"):
            self._cluster.ask_coordinator(
                CoordinatorKind.GROUP, group, lambda broker: commit_from_outside(broker, commits)
            )

    def delete_group_offsets(self, group: str, places: Collection[TopicPartition]) -> None:
        """Deletes committed offsets of partitions to which no member subscribes.

        Raises `UnknownNameError`, `RefusedError`.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> admin.alter_group_offsets("billing", {place: 2})
        >>> admin.delete_group_offsets("billing", [place])
        >>> admin.list_groups()
        []
        """
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in numbers],
            )
            for topic, numbers in by_topic(places).items()
        ]
        request = OffsetDeleteRequest(group_id=group, topics=topics)
        try:
            answer = self._ask_coordinator(group, lambda broker: _checked(broker.ask(request)))
        except RefusedError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                self._listed([group])
            raise
        check_all(
            {f"group {group}, {place}": one for place, one in by_partition(answer.topics).items()}
        )

    def delete_groups(self, groups: Collection[str]) -> None:
        """Deletes groups without members, with their offsets.

        Raises `UnknownNameError`, before any is deleted, and `RefusedError`.

        >>> admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 2})
        >>> admin.delete_groups(["billing"])
        >>> admin.list_groups()
        []
        """
        for one in self._listed(groups):
            self._ask_coordinator(one.group, partial(_delete, one.group))

    def _listed(self, groups: Iterable[str]) -> list[ListedGroup]:
        """A broker that does not answer only affects the groups that it may have."""
        unreachable: list[UnreachableError] = []
        known = {one.group: one for one in self.list_groups(on_unreachable=unreachable.append)}
        wanted = list(groups)
        for group in wanted:
            if group not in known:
                raise unreachable[0] if unreachable else UnknownNameError("group", group, known)
        return [known[group] for group in wanted]

    def _describe_group(self, group: str, listed: ListedGroup) -> GroupDescription:
        def ask(broker: Connection) -> GroupDescription:
            if listed.kind == CONSUMER and broker.answers(ApiKey.CONSUMER_GROUP_DESCRIBE):
                return _consumer_group(broker, listed)
            if listed.kind == SHARE and broker.answers(ApiKey.SHARE_GROUP_DESCRIBE):
                return _share_group(broker, listed)
            return _classic_group(broker, listed)

        try:
            return self._cluster.ask_coordinator(CoordinatorKind.GROUP, group, ask)
        except ApiError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                raise UnknownNameError("group", group, ()) from error
            raise refused(f"group {group}", error.code, error.message) from error

    def _ask_coordinator(self, group: str, question: Callable[[Connection], Any]) -> Any:
        with refusals(f"group {group}"):
            return self._cluster.ask_coordinator(CoordinatorKind.GROUP, group, question)


def _groups_of(states: Collection[str], node_id: int, broker: Connection) -> list[ListedGroup]:
    can_filter = broker.version_of(ApiKey.LIST_GROUPS) >= FIRST_VERSION_WITH_STATES
    wanted = list(states) if can_filter else []
    answer = broker.ask(ListGroupsRequest(states_filter=wanted))
    if answer.error_code:
        raise refused("groups", answer.error_code)
    return [
        ListedGroup(
            group=one.group_id,
            state=one.group_state,
            kind=one.group_type.lower(),
            coordinator=node_id,
        )
        for one in answer.groups
    ]


def _checked(answer: Any) -> Any:
    check(answer.error_code)
    return answer


def _delete(group: str, broker: Connection) -> None:
    _checked(broker.ask(DeleteGroupsRequest(groups_names=[group])).results[0])


def _classic_group(broker: Connection, listed: ListedGroup) -> GroupDescription:
    (found,) = broker.ask(DescribeGroupsRequest(groups=[listed.group])).groups
    check(found.error_code, found.error_message)
    if found.group_state == DEAD:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    return GroupDescription(
        group=listed.group,
        kind=listed.kind or CLASSIC,
        state=found.group_state,
        assignor=found.protocol_data,
        coordinator=listed.coordinator,
        members=classic_members(found.protocol_type, found.members),
    )


def _consumer_group(broker: Connection, listed: ListedGroup) -> GroupDescription:
    (found,) = broker.ask(ConsumerGroupDescribeRequest(group_ids=[listed.group])).groups
    check(found.error_code, found.error_message)
    return GroupDescription(
        group=listed.group,
        kind=CONSUMER,
        state=found.group_state,
        assignor=found.assignor_name,
        coordinator=listed.coordinator,
        members=tuple(_consumer_member(one) for one in found.members),
        epoch=found.group_epoch,
    )


def _consumer_member(one: Member) -> GroupMember:
    pattern = (f"/{one.subscribed_topic_regex}/",) if one.subscribed_topic_regex else ()
    return GroupMember(
        member_id=one.member_id,
        instance_id=one.instance_id,
        client_id=one.client_id,
        host=one.client_host,
        topics=(*one.subscribed_topic_names, *pattern),
        assigned=_places(one.assignment),
        epoch=one.member_epoch,
    )


def _share_group(broker: Connection, listed: ListedGroup) -> GroupDescription:
    (found,) = broker.ask(ShareGroupDescribeRequest(group_ids=[listed.group])).groups
    check(found.error_code, found.error_message)
    return GroupDescription(
        group=listed.group,
        kind=SHARE,
        state=found.group_state,
        assignor=found.assignor_name,
        coordinator=listed.coordinator,
        members=tuple(
            GroupMember(
                member_id=one.member_id,
                instance_id=None,
                client_id=one.client_id,
                host=one.client_host,
                topics=tuple(one.subscribed_topic_names),
                assigned=_places(one.assignment),
                epoch=one.member_epoch,
            )
            for one in found.members
        ),
        epoch=found.group_epoch,
    )


def _places(assignment: Assignment | ShareAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )

"""What members and administrators do with share groups, each as a decision.

Kafka's counterparts: the methods for share groups of `GroupCoordinatorShard`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.base.turns import PART_SIZE
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.coordinator.catalog import CatalogTopic, GroupConfigLookup, TopicCatalog
from ottla.coordinator.consumer.member import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.consumer.partitions import TopicIdPartition
from ottla.coordinator.decision import Answer, Decision, Draft
from ottla.coordinator.requests import Acknowledgement
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.heartbeats import ShareHeartbeats, check_share_heartbeat
from ottla.coordinator.share.plan import SharePlan
from ottla.coordinator.share.requests import (
    ShareGroupDescription,
    ShareHeartbeatAnswer,
    ShareHeartbeatRequest,
    StatesToChange,
)
from ottla.coordinator.share.states import (
    begin_again,
    begin_deletion,
    forget_gone,
    states_are_deleted,
    states_have_begun,
)

FindGroup = Callable[[str], object | None]
"""Returns the group of any kind; raises `ApiError` if its state is not available."""


class ShareGroupOperations:
    """`has_offsets` says whether offsets are committed under the name of a group, which is then no
    share group.
    """

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        catalog: TopicCatalog,
        group_configs: GroupConfigLookup,
        find: FindGroup,
        has_offsets: Callable[[str], bool],
    ) -> None:
        self.heartbeats = ShareHeartbeats(config, catalog, group_configs)
        self._catalog = catalog
        self._find = find
        self._has_offsets = has_offsets

    # Members

    def heartbeat(
        self, request: ShareHeartbeatRequest, at: Timestamps
    ) -> Decision[ShareHeartbeatAnswer]:
        """Handles ShareGroupHeartbeat: a member joins, stays or leaves."""
        try:
            check_share_heartbeat(request)
            may_create = request.epoch == JOIN_EPOCH
            group = self._find_or_create(request.group_id, may_create=may_create)
            plan = SharePlan(group, Draft(request.group_id, at))
            if request.epoch == LEAVE_EPOCH:
                return plan.decide(self.heartbeats.leave(plan, request))
            return plan.decide(self.heartbeats.heartbeat(plan, request))
        except ApiError as error:
            answer = ShareHeartbeatAnswer(error=error.code, message=error.message)
            return Draft(request.group_id, at).decide(answer)

    def find(self, group_id: str) -> ShareGroup:
        """Raises `ApiError`."""
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self._find_or_create(group_id, may_create=False)

    def _find_or_create(self, group_id: str, *, may_create: bool) -> ShareGroup:
        group = self._find(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is not None or self._has_offsets(group_id):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if may_create:
            return ShareGroup(group_id)
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    # States at the share coordinators

    def states_have_begun(
        self, group_id: str, partitions: Iterable[TopicIdPartition], at: Timestamps
    ) -> Decision[Acknowledgement]:
        """The share coordinators have begun the states of partitions, which may be assigned now."""
        return self._note(group_id, lambda plan: states_have_begun(plan, partitions), at)

    def states_are_deleted(
        self, group_id: str, topic_ids: Iterable[Uuid], at: Timestamps
    ) -> Decision[Acknowledgement]:
        """The share coordinators have deleted the states of topics."""
        return self._note(group_id, lambda plan: states_are_deleted(plan, topic_ids), at)

    def _note(
        self, group_id: str, note: Callable[[SharePlan], None], at: Timestamps
    ) -> Decision[Acknowledgement]:
        draft = Draft(group_id, at)
        try:
            plan = SharePlan(self.find(group_id), draft)
            note(plan)
        except ApiError as error:
            return draft.decide(Acknowledgement(error=error.code))
        return plan.decide(Acknowledgement())

    def begin_again(
        self,
        group_id: str,
        partitions: Collection[tuple[CatalogTopic, Collection[int]]],
        at: Timestamps,
    ) -> Decision[StatesToChange]:
        """Handles AlterShareGroupOffsets: the states of partitions are to begin anew. There need be
        no group yet.
        """

        def begin(plan: SharePlan) -> StatesToChange:
            begin_again(plan, partitions)
            places = [(topic.topic_id, index) for topic, its in partitions for index in its]
            return StatesToChange(partitions=places, state_epoch=plan.group.epoch)

        return self._change(group_id, begin, at, may_create=True)

    def begin_deletion(
        self, group_id: str, topic_ids: Collection[Uuid] | None, at: Timestamps
    ) -> Decision[StatesToChange]:
        """Handles DeleteShareGroupOffsets, and the deletion of a group, with all topics: `None`."""

        def begin(plan: SharePlan) -> StatesToChange:
            found = begin_deletion(plan, topic_ids, self._catalog)
            return StatesToChange(partitions=found, state_epoch=plan.group.epoch)

        return self._change(group_id, begin, at, may_create=False)

    def _change(
        self,
        group_id: str,
        begin: Callable[[SharePlan], StatesToChange],
        at: Timestamps,
        *,
        may_create: bool,
    ) -> Decision[StatesToChange]:
        try:
            if not group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            group = self._find_or_create(group_id, may_create=may_create)
            plan = SharePlan(group, Draft(group_id, at))
            return plan.decide(begin(plan))
        except ApiError as error:
            answer = StatesToChange(error=error.code, message=error.message)
            return Draft(group_id, at).decide(answer)

    def forget_topics(
        self, groups: Iterable[object], now: Callable[[], Timestamps]
    ) -> Iterator[Decision[Answer] | None]:
        """Forgets deleted topics of all groups, in short steps; `None` is a step without a
        decision.
        """
        for number, group in enumerate(groups, 1):
            if isinstance(group, ShareGroup):
                plan = SharePlan(group, Draft(group.group_id, now()))
                forget_gone(plan, self._catalog)
                if plan.draft.records:
                    yield plan.decide()
            if not number % PART_SIZE:
                yield None

    def describe(self, group_id: str) -> ShareGroupDescription:
        """Raises `ApiError`."""
        return self.find(group_id).describe()

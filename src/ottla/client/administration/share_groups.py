"""Where share groups are in partitions (KIP-932): described, set anew, and forgotten."""

from collections.abc import Collection, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition, by_topic
from ottla.client.administration.asking import check_all
from ottla.client.administration.descriptions import ShareGroupOffset
from ottla.client.administration.groups import GroupAdmin
from ottla.client.connecting.cluster import check
from ottla.client.connecting.connection import Connection
from ottla.client.refusals import RefusedError
from ottla.protocol.messages import alter_share_group_offsets as altering
from ottla.protocol.messages import delete_share_group_offsets as deleting
from ottla.protocol.messages import describe_share_group_offsets as describing


class ShareGroupAdmin(GroupAdmin):
    """Each request goes to the group's coordinator."""

    def share_group_offsets(self, group: str) -> dict[TopicPartition, ShareGroupOffset]:
        """Where a share group is in each partition that it reads. Raises `UnknownNameError`,
        `RefusedError`.

        >>> admin.alter_share_group_offsets("jobs", {ottla.TopicPartition("orders", 0): 1})
        >>> found = admin.share_group_offsets("jobs")
        >>> [(one.topic, one.partition, found[one].start_offset, found[one].lag) for one in found]
        [('orders', 0, 1, 2)]
        """
        wanted = describing.WantedGroup(group_id=group, topics=None)
        request = describing.DescribeShareGroupOffsetsRequest(groups=[wanted])

        def ask(broker: Connection) -> describing.DescribedGroup:
            (found,) = broker.ask(request).groups
            check(found.error_code, found.error_message)
            described: describing.DescribedGroup = found
            return described

        try:
            found = self._ask_coordinator(group, ask)
        except RefusedError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                self._listed([group])
            raise
        partitions = {
            TopicPartition(topic.topic_name, one.partition_index): one
            for topic in found.topics
            for one in topic.partitions
        }
        check_all({f"group {group}, {place}": one for place, one in partitions.items()})
        return {
            place: ShareGroupOffset(
                start_offset=None if one.start_offset < 0 else one.start_offset,
                lag=None if one.lag < 0 else one.lag,
            )
            for place, one in sorted(partitions.items())
        }

    def alter_share_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Has a share group without members begin elsewhere; creates the group if it does not
        exist. Raises `RefusedError`.

        >>> admin.alter_share_group_offsets("jobs", {ottla.TopicPartition("orders", 0): 1})
        """
        if not offsets:
            return
        request = altering.AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                altering.WantedTopic(
                    topic_name=topic,
                    partitions=[
                        altering.WantedPartition(
                            partition_index=index,
                            start_offset=offsets[TopicPartition(topic, index)],
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )
        answer = self._ask_coordinator(group, lambda broker: _checked(broker.ask(request)))
        check_all(
            {
                f"group {group}, {topic.topic_name}-{one.partition_index}": one
                for topic in answer.responses
                for one in topic.partitions
            }
        )

    def delete_share_group_offsets(self, group: str, topics: Collection[str]) -> None:
        """Has a share group without members forget topics: it begins anew in them, by its
        `share.auto.offset.reset`. Raises `UnknownNameError`, `RefusedError`.

        >>> admin.alter_share_group_offsets("jobs", {ottla.TopicPartition("orders", 0): 1})
        >>> admin.delete_share_group_offsets("jobs", ["orders"])
        >>> admin.share_group_offsets("jobs")
        {}
        """
        request = deleting.DeleteShareGroupOffsetsRequest(
            group_id=group, topics=[deleting.WantedTopic(topic_name=one) for one in topics]
        )
        try:
            answer = self._ask_coordinator(group, lambda broker: _checked(broker.ask(request)))
        except RefusedError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                self._listed([group])
            raise
        check_all({f"group {group}, {one.topic_name}": one for one in answer.responses})


def _checked(
    answer: altering.AlterShareGroupOffsetsResponse | deleting.DeleteShareGroupOffsetsResponse,
) -> altering.AlterShareGroupOffsetsResponse | deleting.DeleteShareGroupOffsetsResponse:
    check(answer.error_code, answer.error_message)
    return answer

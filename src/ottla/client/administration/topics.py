"""Topics: create, describe, extend and delete them; their offsets, and deleting records."""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ottla.base.arguments import check_settings, check_topic_names
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.base.ids import ZERO_UUID
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.base.values import dataclass
from ottla.client.administration.asking import TIMEOUT_MS, Asking, check_all, refused
from ottla.client.administration.descriptions import PartitionDescription, TopicDescription
from ottla.client.bulk.reading import (
    EARLIEST,
    LATEST,
    READ_UNCOMMITTED,
    by_partition,
    offsets_request,
)
from ottla.client.connecting.connection import Connection
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from ottla.config.typed_settings import TopicSettings

    Configs = TopicSettings | Mapping[str, Any]
else:
    Configs = Mapping[str, Any]  # Which arguments are checked by at run time.

DEFAULT = -1
LAST_VERSION_WITH_NAMES = 5
"""Of DeleteTopics, which then also takes ids."""
PREFERRED, UNCLEAN = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An offset and the timestamp of its record; both -1 if no record matches."""

    offset: int
    timestamp_ms: int


class TopicAdmin(Asking):
    """Questions about topics, and changes to them."""

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, in order; internal ones only if requested.

        >>> admin.list_topics()
        ['orders']
        """
        return [one.name for one in self.describe_topics(internal=internal)]

    def describe_topics(
        self,
        topics: Collection[str] | None = None,
        *,
        internal: bool = False,
        broker: int | None = None,
    ) -> list[TopicDescription]:
        """Topics with their partitions, leaders and replicas: those named, or all, in order.
        Brokers learn of a change at different times: `broker` is the id of the broker to ask.
        Raises `UnknownNameError` for a missing topic.

        >>> topic, = admin.describe_topics(["orders"])
        >>> [one.leader for one in topic.partitions]
        [1, 1]
        """
        names = None if topics is None else check_topic_names(topics)
        asked = None if names is None else [MetadataRequestTopic(name=one) for one in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        cluster = self._cluster
        if broker is None:
            answer = cluster.ask_any(lambda anyone: anyone.ask(request))
        else:
            answer = cluster.again(lambda: cluster.broker(broker).ask(request))
        found = []
        for one in answer.topics:
            if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise self.unknown_topic(one.name)
            if one.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                raise refused(f"topic {one.name}", one.error_code)
            if topics is not None or internal or not one.is_internal:
                found.append(_described(one))
        return sorted(found, key=lambda one: one.name)

    @answers_unknown_arguments
    def create_topic(
        self,
        name: str,
        *,
        partitions: int = DEFAULT,
        replication_factor: int = DEFAULT,
        configs: Configs | None = None,
        validate_only: bool = False,
        exist_ok: bool = False,
    ) -> None:
        """Creates a topic; the broker has defaults for what is not given. With `exist_ok` a topic
        that exists is left as it is. Raises `RefusedError`.

        >>> admin.create_topic("teas", partitions=6, configs={"retention.ms": 3_600_000})
        >>> admin.create_topic("teas", exist_ok=True)
        """
        self.create_topics(
            {name: partitions},
            replication_factor=replication_factor,
            configs=configs,
            validate_only=validate_only,
            exist_ok=exist_ok,
        )

    @answers_unknown_arguments
    def create_topics(
        self,
        topics: Mapping[str, int],
        *,
        replication_factor: int = DEFAULT,
        configs: Configs | None = None,
        validate_only: bool = False,
        exist_ok: bool = False,
    ) -> None:
        """Creates topics by one request, each with its partition count; -1 is the broker's default.
        With `exist_ok` topics that exist are left as they are. Raises `RefusedError`; the topics
        that are not refused exist then.

        >>> admin.create_topics({"teas": 6, "cakes": 1}, configs={"retention.ms": "3600000"})
        >>> admin.list_topics()
        ['cakes', 'orders', 'teas']
        """
        from ottla.config.setting import value_text  # Only for those that create.

        texts = {key: value_text(value) for key, value in check_settings(configs).items()}
        wanted = [
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                configs=[CreatableTopicConfig(name=key, value=text) for key, text in texts.items()],
            )
            for name, partitions in topics.items()
        ]
        request = CreateTopicsRequest(
            topics=wanted, timeout_ms=TIMEOUT_MS, validate_only=validate_only
        )
        answer = self._cluster.ask_controller(lambda broker: broker.ask(request))
        accepted = (ErrorCode.TOPIC_ALREADY_EXISTS,) if exist_ok else ()
        check_all(
            {f"topic {one.name}": one for one in answer.topics if one.error_code not in accepted}
        )

    def delete_topics(self, topics: Collection[str]) -> None:
        """Deletes topics with all their records.

        Raises `UnknownNameError`, before anything is deleted, and `RefusedError`.

        >>> admin.delete_topics(["orders"])
        >>> admin.list_topics()
        []
        """
        self.partitions(topics)
        request = DeleteTopicsRequest(topic_names=list(topics), timeout_ms=TIMEOUT_MS)
        answer = self._cluster.ask_controller(
            lambda broker: broker.ask(request, newest=LAST_VERSION_WITH_NAMES)
        )
        check_all({f"topic {one.name}": one for one in answer.responses})

    def create_partitions(self, topic: str, count: int, *, validate_only: bool = False) -> None:
        """Increases a topic's partitions to `count`. Raises `RefusedError`. Keys may then map to
        other partitions than before.

        >>> admin.create_partitions("orders", 4)
        >>> admin.partitions(["orders"])
        {'orders': [0, 1, 2, 3]}
        """
        self.partitions([topic])
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = CreatePartitionsRequest(
            topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=validate_only
        )
        answer = self._cluster.ask_controller(lambda broker: broker.ask(request))
        check_all({f"topic {one.name}": one for one in answer.results})

    def list_offsets(
        self,
        places: Iterable[TopicPartition],
        timestamp_ms: int = LATEST,
        *,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListedOffset]:
        """The first offset at a time or later, for each partition; -1 if there is none.

        Times below zero are `LATEST`, `EARLIEST` and `MAX_TIMESTAMP`. Raises `RefusedError`, and
        `UnknownNameError` for a missing partition.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> found = admin.list_offsets([place], timestamp_ms=1_767_225_602_000)
        >>> found[place].offset
        1
        """
        found = self._ask_leaders(
            places, lambda leader, several: _listed(leader, several, timestamp_ms, isolation_level)
        )
        return {
            place: ListedOffset(offset=one.offset, timestamp_ms=one.timestamp)
            for place, one in found.items()
        }

    def bounds(
        self,
        places: Collection[TopicPartition],
        *,
        on_unreachable: Callable[[UnreachableError], object] | None = None,
    ) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset of each partition, and its end offset. Raises `UnreachableError` if a
        leader does not answer; with `on_unreachable` that is called instead, and its partitions
        are left out, as are those without a leader.

        >>> place = ottla.TopicPartition("orders", 0)
        >>> bounds = admin.bounds([place])
        >>> bounds[place]
        (0, 3)
        """

        def ask(some: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
            starts, ends = self.list_offsets(some, EARLIEST), self.list_offsets(some, LATEST)
            return {one: (starts[one].offset, ends[one].offset) for one in some}

        return self._of_leaders(places, ask, on_unreachable)

    def existing(self, places: Collection[TopicPartition]) -> list[TopicPartition]:
        """The partitions that exist, in order.

        >>> admin.existing([ottla.TopicPartition("orders", 0), ottla.TopicPartition("orders", 7)])
        [TopicPartition(topic='orders', partition=0)]
        """
        known = self._cluster.look_up({one.topic for one in places})
        return sorted(
            one
            for one in places
            if one.topic in known and one.partition in known[one.topic].leaders
        )

    def existing_of(self, topics: Collection[str]) -> list[TopicPartition]:
        """All partitions of those of the topics that exist, in order.

        >>> admin.existing_of(["orders", "gone"])
        [TopicPartition(topic='orders', partition=0), TopicPartition(topic='orders', partition=1)]
        """
        known = self._cluster.look_up(set(topics))
        return sorted(
            TopicPartition(name, index) for name, one in known.items() for index in one.leaders
        )

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before an offset of each partition; returns the new log start
        offsets. The offset -1 deletes all records. Raises `RefusedError`.

        >>> admin.delete_records({ottla.TopicPartition("orders", 0): 2})
        {TopicPartition(topic='orders', partition=0): 2}
        """
        found = self._ask_leaders(before, lambda leader, several: _deleted(leader, several, before))
        return {place: one.low_watermark for place, one in found.items()}

    def elect_leaders(
        self, places: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> list[TopicPartition]:
        """Elects the preferred replica of partitions, or of all, as leader again. Raises
        `RefusedError`. `unclean` elects a replica that is not in sync if no other is available,
        which loses records. A partition that needs no election is not an error.

        Returns those that got another leader, which counts as alive: one that stands still does
        until its session ends.

        >>> admin.elect_leaders([ottla.TopicPartition("orders", 0)])
        []
        """
        wanted = None
        if places is not None:
            wanted = [
                TopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(places).items()
            ]
        request = ElectLeadersRequest(
            election_type=UNCLEAN if unclean else PREFERRED,
            topic_partitions=wanted,
            timeout_ms=TIMEOUT_MS,
        )
        answer = self._cluster.ask_controller(lambda broker: broker.ask(request))
        if answer.error_code:
            raise refused("election", answer.error_code)
        decided = {
            TopicPartition(topic.topic, one.partition_id): one
            for topic in answer.replica_election_results
            for one in topic.partition_result
            if one.error_code != ErrorCode.ELECTION_NOT_NEEDED
        }
        check_all({str(place): one for place, one in decided.items()})
        return list(decided)


def _described(one: MetadataResponseTopic) -> TopicDescription:
    assert one.name is not None
    partitions = sorted(one.partitions, key=lambda each: each.partition_index)
    return TopicDescription(
        name=one.name,
        topic_id=None if one.topic_id == ZERO_UUID else one.topic_id,
        is_internal=one.is_internal,
        partitions=tuple(
            PartitionDescription(
                partition=each.partition_index,
                leader=each.leader_id,
                leader_epoch=each.leader_epoch,
                replicas=tuple(each.replica_nodes),
                in_sync=tuple(each.isr_nodes),
                offline=tuple(each.offline_replicas),
            )
            for each in partitions
        ),
    )


def _listed(
    leader: Connection, places: list[TopicPartition], timestamp_ms: int, isolation_level: int
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    wanted = dict.fromkeys(places, timestamp_ms)
    request = offsets_request(wanted, isolation_level=isolation_level)
    return by_partition(leader.ask(request).topics)


def _deleted(
    leader: Connection, places: list[TopicPartition], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, DeleteRecordsPartitionResult]:
    topics = [
        DeleteRecordsTopic(
            name=topic,
            partitions=[
                DeleteRecordsPartition(partition_index=one.partition, offset=before[one])
                for one in same
            ],
        )
        for topic, same in groupby(sorted(places), lambda one: one.topic)
    ]
    answer = leader.ask(DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
    return by_partition(answer.topics)


def check_new_topic(name: str) -> None:
    """Raises `UserError` for a name that no topic may have, before a directory is made for it."""
    from ottla.metadata.deciding.topic_rules import check_name

    try:
        check_name(name)
    except ApiError as error:
        hint = f"; a setting of the topics is -o {name}" if "=" in name else ""
        raise UserError(f"topic {name}: {str(error).removesuffix('.')}{hint}") from error

"""Creates, extends, configures and deletes topics of a broker alone, each durably or not at all.

A change is decided on the image, and its records are in the metadata log before the disks follow
(`topic_store`), so that after a crash the next start completes it. A topic that is on the disks
without a record is not written until a user has confirmed its settings (`Unconfirmed`); the image
shows it nevertheless, since it is served.

Kafka's counterparts: `ReplicationControlManager`, and `BrokerMetadataPublisher`, by which its
brokers follow.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.turns import in_turns, kept, turn_list, yield_turn
from ottla.broker.metadata.image_store import Decision, ImageStore
from ottla.broker.topics.on_disk import OpenedDirectories
from ottla.broker.topics.storage_failures import storage_failures_answered, storage_refusal
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.topics.topics import Topic
from ottla.metadata.deciding.topic_rules import changed_settings, new_topic_config
from ottla.metadata.deciding.topics import (
    Defaults,
    NewTopic,
    TopicGrowth,
    added_placing,
    check_new_name,
    new_placing,
)
from ottla.metadata.image import (
    NO_TOPIC,
    Configs,
    MetadataImage,
    PartitionImage,
    TopicImage,
)

if TYPE_CHECKING:
    from ottla.metadata.image_changes import VersionedRecord

TopicImages = Mapping[str, TopicImage]

Changes = Mapping[str, TopicImage | None]
"""Topics as they are to be, `None` for one that goes."""


class TopicChanges:
    """Changes that raise `ApiError` have no effect."""

    def __init__(
        self,
        node_id: int,
        directory_id: Uuid | None,
        image: ImageStore,
        store: TopicStore,
        new_id: Callable[[], Uuid],
    ) -> None:
        """`directory_id` is that of the only log directory; of several, Kafka's broker reports
        to its controller where each partition is.
        """
        self._replicas = (node_id,)
        self._directory_id = directory_id or ZERO_UUID
        self._metadata = image
        self.store = store
        self._topics = store.topics
        self._new_id = new_id
        self._unconfirmed = store.unconfirmed
        self.under_way: set[str] = set()
        """Topics whose files are being created or deleted while other requests have their turn."""
        self.before_deletion: Callable[[Sequence[Topic]], None] = _pass
        """Called with topics that are about to be deleted."""
        self._growing: set[str] = set()
        self._partitions: dict[int, PartitionImage] = {}
        """By leader epoch: partitions with the same one share an image."""

    # At a start

    def reconcile(self, opened: OpenedDirectories) -> None:
        """Takes what the disks have otherwise than the metadata log into the log where its settings
        are known, as those of internal topics, and else into the image alone.
        """
        known = self._metadata.image.topics
        if not opened.has_all_partitions:
            self._await_image(opened, known)
            return
        recorded: dict[str, TopicImage | None] = {}
        for topic in self._topics:
            before = known.get(topic.name)
            if before is None or before.topic_id != topic.topic_id:
                self._unconfirmed.hold(topic.name, opened.unknown)
                if before is not None:
                    recorded[topic.name] = None
            elif before.partition_count < topic.partition_count:
                recorded[topic.name] = self._on_disk(topic)
            if opened.is_damaged:
                self._unconfirmed.hold(topic.name, opened.unknown)
        if opened.may_be_changed:
            with contextlib.suppress(StorageError):  # logged where the directory went offline
                self._write(recorded)
                self._write(self._unrecorded(one for one in self._topics if one.is_internal))
        for topic in self._topics:
            if topic.is_internal:
                self._unconfirmed.forget(topic.name)
        self._show_disks()

    def _await_image(self, opened: OpenedDirectories, known: TopicImages) -> None:
        """Of a member of a cluster: what its disks have is what the cluster will say that it is."""
        for topic in self._topics:
            before = known.get(topic.name, NO_TOPIC)
            if before.topic_id == topic.topic_id:
                self.store.configure(topic, before.configs)
            if not topic.is_internal:
                self._unconfirmed.hold(topic.name, opened.unknown)

    def _unrecorded(self, topics: Iterable[Topic]) -> TopicImages:
        is_unknown = self._unconfirmed.is_unknown
        return {one.name: self._on_disk(one) for one in topics if is_unknown(one.name)}

    def _write(self, changes: Changes) -> None:
        """Records topics as they are on the disks; raises `StorageError`."""
        if changes:
            self._metadata.change(lambda image: self._decision(image, changes, image.topics))

    def _show_disks(self) -> None:
        known = self._metadata.image.topics
        on_disk = ((one.name, self._on_disk(one)) for one in self._topics)
        differing = [(name, one) for name, one in on_disk if known.get(name) is not one]
        if differing:
            self._metadata.show_topics(differing)

    def _on_disk(self, topic: Topic) -> TopicImage:
        """The topic as this broker leads it: that of the image, if nothing differs.

        Kafka leaves partitions without a leader when it stops, and an epoch of the log that is
        later than the record's is that of a log that was copied here.
        """
        known = self._metadata.image.topics.get(topic.name, NO_TOPIC)
        if known.topic_id != topic.topic_id:
            known = NO_TOPIC
        partitions = {}
        is_same = known is not NO_TOPIC and known.configs == topic.overrides
        for index in range(topic.partition_count):
            before, here = known.partitions.get(index), topic.partitions.get(index)
            epoch = 0 if here is None else here.leader_epoch
            if before is not None:
                epoch = max(epoch, before.leader_epoch)
                if before.isr == self._replicas and self._is_led(before, epoch):
                    partitions[index] = before
                    continue
            partitions[index], is_same = self._partition(epoch), False
        if is_same and len(partitions) == len(known.partitions):
            return known
        return TopicImage(topic.name, topic.topic_id, partitions, topic.overrides)

    def _is_led(self, partition: PartitionImage, epoch: int) -> bool:
        """Whether this broker is its only replica, and leads in this epoch."""
        is_only = partition.replicas == self._replicas
        return is_only and (partition.leader, partition.leader_epoch) == (*self._replicas, epoch)

    def _partition(self, epoch: int = 0) -> PartitionImage:
        image = self._partitions.get(epoch)
        if image is None:
            image = self._partitions[epoch] = PartitionImage(
                replicas=self._replicas,
                isr=self._replicas,
                leader=self._replicas[0],
                leader_epoch=epoch,
                partition_epoch=0,
                directories=(self._directory_id,),
            )
        return image

    # The metadata log

    def _decision(self, image: MetadataImage, changes: Changes, recorded: TopicImages) -> Decision:
        """Another image, and the records that make it: `recorded` are the topics of the log."""
        return image.with_topics(changes.items()), self._records(changes, recorded)

    def _records(self, changes: Changes, recorded: TopicImages) -> "Iterator[VersionedRecord]":
        from ottla.metadata.image_changes import topic_records  # Lazy, as in `MetadataLog`.

        for name, after in changes.items():
            yield from topic_records(recorded.get(name), after, self._metadata.level)

    def _change(
        self,
        decide: Callable[[MetadataImage], Changes],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Changes topics, and records it for those that have records; raises `ApiError` or
        `StorageError` without an effect.
        """
        changes: Changes = {}
        before: TopicImages = {}

        def decided(image: MetadataImage) -> Decision | None:
            nonlocal changes, before
            before, changes = image.topics, decide(image)
            if not changes:
                return None
            unknown = self._unconfirmed.unknown
            recorded = {name: one for name, one in changes.items() if name not in unknown}
            return image.with_topics(changes.items()), self._records(recorded, before)

        try:
            self._metadata.change(decided, then)
        except BaseException:
            self._take_back(changes, before)
            raise

    def _take_back(self, changes: Changes, before: TopicImages) -> None:
        """Shows the topics of a failed change as before: others may have changed the image."""
        now = self._metadata.image.topics
        made = [name for name, one in changes.items() if now.get(name) is one]
        if made and now is not before:
            self._metadata.show_topics((name, before.get(name)) for name in made)

    # Creation

    def create(self, new: NewTopic, defaults: Defaults, *, validate_only: bool = False) -> Topic:
        """Creates a topic."""
        if validate_only:
            image = self._metadata.image
            return self._topic(new, self._decided(new, image.topics, image, defaults))
        (result,) = self.create_all([new], defaults)
        if isinstance(result, ApiError):
            raise result
        return result

    def create_all(self, wanted: Sequence[NewTopic], defaults: Defaults) -> list[Topic | ApiError]:
        """Creates topics; returns each topic, or its error."""
        results: list[Topic | ApiError] = turn_list()
        made: list[Topic] = turn_list()

        def decide(image: MetadataImage) -> Changes:
            self._end(made)
            results.clear()
            made.clear()
            changes: dict[str, TopicImage] = {}
            taken = dict(image.topics) if len(wanted) > 1 else {}
            for new in in_turns(wanted):
                try:
                    decided = self._decided(new, taken or image.topics, image, defaults)
                    topic = self._topic(new, decided)
                except ApiError as error:
                    results.append(error.without_traceback())
                    continue
                results.append(topic)
                made.append(topic)
                changes[new.name] = decided
                if taken:
                    taken[new.name] = decided
                self.under_way.add(new.name)
                if new.unknown is not None:
                    self._unconfirmed.hold(new.name, new.unknown)
            # Before the records: checkpoints may name an earlier log of the name, which a start
            # after a crash would miss.
            self.store.forget_earlier((topic, range(topic.partition_count)) for topic in made)
            return changes

        with kept():
            try:
                refusal = self._made(decide, made)
            finally:
                self._end(made)
        if refusal is None:
            return results
        for topic in made:
            self._unconfirmed.forget(topic.name)
        return [one if isinstance(one, ApiError) else refusal for one in results]

    def _decided(
        self, new: NewTopic, topics: TopicImages, image: MetadataImage, defaults: Defaults
    ) -> TopicImage:
        """Returns the topic to create; raises `ApiError`. `topics` has those of the request too."""
        if new.name in self.under_way and new.name not in topics:
            raise ApiError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' is being made or deleted."
            )
        check_new_name(new.name, topics)
        assignment = dict(new_placing(new, image.racks, defaults, lambda: 0))
        with storage_failures_answered():
            self._metadata.check()
        self.store.logs.check_room_for(new.name, range(len(assignment)))
        partitions = dict.fromkeys(assignment, self._partition())
        return TopicImage(new.name, self._id_for(new, image), partitions, new.settings)

    def _topic(self, new: NewTopic, topic: TopicImage) -> Topic:
        config = new_topic_config(new.name, self.store.configs.defaults, new.overrides)
        return Topic(topic, config)

    def _id_for(self, new: NewTopic, image: MetadataImage) -> Uuid:
        if new.topic_id is None:
            while (candidate := self._new_id()) in image.topic_names:
                pass
            return candidate
        other = image.topic_names.get(new.topic_id)
        if other is not None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Topic '{other}' has the id that '{new.name}' is to have.",
            )
        return new.topic_id

    def _made(
        self, decide: Callable[[MetadataImage], Changes], made: Sequence[Topic]
    ) -> ApiError | None:
        """Creates all topics, with one write for their records; returns the error if one fails."""
        try:
            self._change(decide)
            # What the image has now is not served before its files are there (`ImageView`).
            self.store.create(made)
        except ApiError as error:
            return error.without_traceback()
        except StorageError as error:
            self._undo(made)
            return storage_refusal(error)
        return None

    def _undo(self, made: Iterable[Topic]) -> None:
        """Removes topics that could not be created; the next start removes what a failing disk has
        kept.
        """
        names = [one.name for one in made if one.name in self._metadata.image.topics]
        with contextlib.suppress(StorageError, ApiError):
            self._change(lambda _: dict.fromkeys(names))
            return
        # The records stay: the next start creates what this one could not.
        self._metadata.show_topics((name, None) for name in names)

    def _end(self, topics: Iterable[Topic]) -> None:
        self.under_way.difference_update([topic.name for topic in topics])

    # Growth

    def grow_all(self, wanted: Sequence[TopicGrowth]) -> list[ApiError | None]:
        """Adds partitions up to the given counts; returns one error, or `None`, for each topic.

        Partitions that have records and cannot be created are offline until the next start, as of a
        broker of Kafka's.
        """
        results: list[ApiError | None] = turn_list()
        growing: dict[str, int] = {}

        def decide(image: MetadataImage) -> Changes:
            self._growing.difference_update(growing)
            results.clear()
            growing.clear()
            changes: dict[str, TopicImage] = {}
            for growth in wanted:
                if results:
                    yield_turn()
                try:
                    topic = self.grown(growth, image)
                except ApiError as error:
                    results.append(error.without_traceback())
                    continue
                results.append(None)
                growing[growth.name] = growth.partition_count
                changes[growth.name] = topic
                self._growing.add(growth.name)
            # Before the records, as in a creation.
            self.store.forget_earlier(
                (topic, range(topic.partition_count, count)) for topic, count in self._of(growing)
            )
            return changes

        refusal: ApiError | None = None
        with kept():
            try:
                self._change(decide)
                self.store.grow(self._of(growing))
            except ApiError as error:
                refusal = error.without_traceback()
            except StorageError as error:
                refusal = storage_refusal(error)
            finally:
                self._growing.difference_update(growing)
        if refusal is not None:
            return [refusal if one is None else one for one in results]
        return results

    def _of(self, counts: Mapping[str, int]) -> list[tuple[Topic, int]]:
        return [(self._topics.get(name), count) for name, count in counts.items()]

    def grown(self, growth: TopicGrowth, image: MetadataImage | None = None) -> TopicImage:
        """Returns the topic as it would be; raises `ApiError` if it cannot be extended so."""
        image = image or self._metadata.image
        known = image.topics.get(growth.name)
        added = dict(added_placing(growth, known, image.racks))
        assert known is not None
        self._check_is_free(self._topics.get(growth.name))
        self.store.logs.check_room_for(growth.name, range(min(added), growth.partition_count))
        partitions = {**known.partitions, **dict.fromkeys(added, self._partition())}
        return known._replace(partitions=partitions)

    def _check_is_there(self, topic: Topic) -> None:
        """Raises `ApiError` for a topic that is deleted, or is being deleted."""
        if self._topics.find(topic.name) is not topic or topic.name in self.under_way:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _check_is_free(self, topic: Topic) -> None:
        """Raises `ApiError` for a topic that another request is deleting or extending."""
        self._check_is_there(topic)
        if topic.name in self._growing:
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"Topic '{topic.name}' is being given more partitions.",
            )

    # Settings

    def configure(
        self,
        topic: Topic,
        altered: Callable[[Configs], Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> tuple[Configs, Configs]:
        """Replaces a topic's overridden settings; its logs use them from now on. Returns them as
        they were and as they are.
        """
        before: Configs = {}
        after: Configs = {}

        def decide(image: MetadataImage) -> Changes:
            nonlocal before, after
            self._check_is_there(topic)
            known = image.topics[topic.name]
            before, after = (
                known.configs,
                self._checked(topic, known.configs, altered(known.configs)),
            )
            if validate_only or before == after:
                return {}
            self._unconfirmed.check_known(topic.name)
            return {topic.name: known._replace(configs=after)}

        with storage_failures_answered():
            self._change(decide, lambda: self._follow(topic))
        return before, after

    def _checked(self, topic: Topic, before: Configs, after: Configs) -> Configs:
        """Returns the settings to record; raises `ApiError`."""
        return changed_settings(topic.name, self.store.configs.defaults, before, after)

    def _follow(self, topic: Topic) -> None:
        known = self._metadata.image.topics.get(topic.name)
        if known is not None and self._topics.find(topic.name) is topic:
            self.store.configure(topic, known.configs)

    def confirm(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Records topics of which a user has confirmed the settings; raises `ApiError`."""
        topics = [self._topics.get(name) for name in settings]

        def decide(image: MetadataImage) -> Decision:
            changes = {}
            for topic in topics:
                # They are those of another broker: a topic that it has tiered stays so.
                confirmed = settings[topic.name]
                configs = self._checked(topic, confirmed, confirmed)
                changes[topic.name] = image.topics[topic.name]._replace(configs=configs)
            return self._decision(image, changes, {})

        with storage_failures_answered():
            self._metadata.change(decide)
        for topic in topics:
            self._unconfirmed.forget(topic.name)
            self._follow(topic)

    # Deletion

    def delete(self, topics: Sequence[Topic]) -> None:
        """Deletes topics; the names of their directories are free from now on."""
        for topic in topics:
            self._check_is_free(topic)
        with kept(), storage_failures_answered():
            # From here on nobody else changes them.
            self.under_way.update(topic.name for topic in topics)
            try:
                self.before_deletion(topics)
                self._change(lambda _: {topic.name: None for topic in topics})
                for topic in in_turns(topics):
                    self._unconfirmed.forget(topic.name)
                self.store.take_away(topics)
            finally:
                self._end(topics)


def _pass(_: Sequence[Topic]) -> None:
    """What is done at first before a deletion."""

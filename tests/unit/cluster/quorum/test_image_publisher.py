"""The thread that applies images: the newest, when all that is committed is known, and in steps."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import pytest

from ottla.base.errors import ProtocolError
from ottla.base.partitions import TopicPartition
from ottla.base.principal import Principal
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.broker import Broker
from ottla.cluster.place import Place
from ottla.cluster.quorum.image_publisher import Counterparts, ImagePublisher
from ottla.cluster.quorum.quorum_thread import Published
from ottla.metadata.acls import Operation, PatternType, Permission, ResourceType
from ottla.metadata.changes import ImageChanges
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import AccessControlEntryRecord
from ottla.quorum.messages import Known
from ottla.testing import FakeFileSystem
from ottla.testing.clock import FakeClock
from ottla.testing.recording import IoCall, IoKind, RecordingFileSystem
from tests.support.brokers import id_of
from tests.support.patience import wait_until
from tests.support.replicated_brokers import replicas_of
from tests.support.scripted_images import ScriptedImages, open_quorum_member
from tests.support.shortages import ScarceFileSystem

FIRST_EPOCH = 1
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

ALICE_READS = AccessControlEntryRecord(
    id=id_of(90),
    resource_type=ResourceType.TOPIC,
    resource_name="orders",
    pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)


class NotingLock:
    """The broker's lock; notes how many partitions have a role whenever it is released."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = threading.RLock()
        self.roles: list[int] = []

    @property
    def is_held(self) -> bool:
        """By the thread that asks."""
        return self._lock._is_owned()  # type: ignore[attr-defined,no-any-return]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.roles.append(len(replicas_of(self._broker).manager.partitions))
        self._lock.release()


class Publishing:
    """Of a broker that is registered as the first of `ScriptedImages`."""

    def __init__(self, broker: Broker) -> None:
        replicas_of(broker).registered(FIRST_EPOCH)
        self._known = broker.image_store.image
        self.lock = NotingLock(broker)
        self.wakes: list[None] = []
        self.applied: list[int] = []
        self.complaints: list[str] = []
        place = Place(
            lock=self.lock,
            wake=lambda: self.wakes.append(None),
            connect=_nobody,
            listener="PLAINTEXT",
            control_connect=_nobody,
            control_listener="CONTROLLER",
            endpoints=(),
        )
        told = Counterparts(
            self.complaints.append,
            lambda: self.applied.append(self.publisher.image.end_offset),
        )
        self.publisher = ImagePublisher(broker, place, FakeClock(), told)

    def publish(self, image: MetadataImage) -> None:
        end = image.end_offset
        changes = ImageChanges.between(self._known, image)
        self._known = image
        self.publisher.publish(Published(image, changes, Known(1), end, is_whole=False))


def failing_before(deed: Callable[..., None], times: int = 1) -> Callable[..., None]:
    """Fails so often in the same way, and then does it."""
    failures = iter([OSError("again") for _ in range(times)])

    def failing(*arguments: object) -> None:
        for one in failures:
            raise one
        deed(*arguments)

    return failing


def _nobody(*_: object) -> None:
    raise AssertionError("nobody is asked")


@contextmanager
def running(publishing: Publishing) -> Iterator[ImagePublisher]:
    publishing.publisher.start()
    try:
        yield publishing.publisher
    finally:
        publishing.publisher.stop()


def test_the_first_image_is_one_that_has_the_brokers_own_registration() -> None:
    """An earlier one does not name what was created meanwhile, which would be put aside."""
    images = ScriptedImages()
    broker = open_quorum_member(FakeFileSystem())
    publishing = Publishing(broker)
    old = images.image
    images.create("orders", 70, (1,))
    newest = images.register(1, fenced=False)
    epoch = newest.brokers[1].epoch
    replicas_of(broker).registered(epoch)
    with running(publishing) as publisher:
        publishing.publish(old)
        publishing.publish(newest)
        wait_until(lambda: publishing.applied)
        assert publisher.is_caught_up
    assert publishing.applied == [newest.end_offset]
    assert TopicPartition("orders", 0) in replicas_of(broker).manager.partitions
    assert publishing.wakes


def test_rules_are_followed_before_the_broker_is_registered_and_disks_are_not_touched() -> None:
    """Who registers brokers may be this very node, and must know who may do so."""
    images = ScriptedImages()
    broker = open_quorum_member(
        FakeFileSystem(), authorizer_class_name=AUTHORIZER, super_users="User:node"
    )
    publishing = Publishing(broker)
    replicas_of(broker).registered(-1)
    authorizer = broker.security.authorizer
    assert authorizer is not None
    question = (Principal("User", "alice"), "h", Operation.READ, ResourceType.TOPIC, "orders")
    with pytest.raises(ProtocolError, match="access rules are not known yet"):
        authorizer.allows(*question)
    images.create("orders", 70, (1,))
    with running(publishing) as publisher:
        publishing.publish(images.commit(ALICE_READS))
        wait_until(lambda: authorizer.is_complete)
        assert authorizer.allows(*question)
        assert (publishing.applied, publisher.is_caught_up) == ([], False)
        assert not replicas_of(broker).manager.partitions
        replicas_of(broker).registered(FIRST_EPOCH)
        wait_until(lambda: publishing.applied)
    assert TopicPartition("orders", 0) in replicas_of(broker).manager.partitions


def test_an_image_that_comes_before_the_answer_to_the_registration_waits_for_it() -> None:
    images = ScriptedImages()
    broker = open_quorum_member(FakeFileSystem())
    publishing = Publishing(broker)
    replicas_of(broker).registered(-1)
    with running(publishing):
        publishing.publish(images.create("orders", 70, (1,)))
        replicas_of(broker).registered(FIRST_EPOCH)
        wait_until(lambda: publishing.applied)
    assert TopicPartition("orders", 0) in replicas_of(broker).manager.partitions


def test_what_is_published_later_is_applied_with_all_that_waited() -> None:
    images = ScriptedImages()
    broker = open_quorum_member(FakeFileSystem())
    publishing = Publishing(broker)
    with running(publishing) as publisher:
        publishing.publish(images.create("orders", 70, (1,), (1,)))
        wait_until(lambda: publisher.is_caught_up)
        with publishing.lock:
            publishing.publish(images.change(70, 0, isr=[1, 2]))
            publishing.publish(images.change(70, 1, isr=[1, 2]))
            publishing.publish(images.create("paid", 71, (1,)))
        end = images.image.end_offset
        wait_until(lambda: publishing.applied and publishing.applied[-1] == end)
    manager = replicas_of(broker).manager
    epochs = {place: one.partition_epoch for place, one in manager.partitions.items()}
    assert epochs == {
        TopicPartition("orders", 0): 1,
        TopicPartition("orders", 1): 1,
        TopicPartition("paid", 0): 0,
    }


def test_of_several_images_that_wait_only_the_newest_is_applied() -> None:
    images = ScriptedImages()
    publishing = Publishing(open_quorum_member(FakeFileSystem()))
    for number in range(5):
        publishing.publish(images.create(f"topic-{number}", 70 + number, (1,)))
    with running(publishing):
        wait_until(lambda: publishing.applied)
    assert publishing.applied == [images.image.end_offset]


@pytest.mark.slow
def test_the_lock_is_let_go_again_and_again_while_many_partitions_are_made() -> None:
    images = ScriptedImages()
    publishing = Publishing(open_quorum_member(FakeFileSystem()))
    with running(publishing):
        publishing.publish(images.create("orders", 70, *([(1, 2)] * 300)))
        wait_until(lambda: publishing.applied)
    assert len(publishing.lock.roles) > 10
    assert publishing.lock.roles[-1] == 300


def test_an_image_that_cannot_be_applied_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    images = ScriptedImages()
    broker = open_quorum_member(FakeFileSystem())
    publishing = Publishing(broker)
    monkeypatch.setattr("ottla.cluster.quorum.image_publisher.RETRY_S", 0.001)
    replicas = replicas_of(broker)
    monkeypatch.setattr(replicas, "make_logs", failing_before(replicas.make_logs, 3))
    images.configure("", "message.max.bytes", "2000", ResourceKind.BROKER)
    monkeypatch.setattr(broker.admin, "follow_broker", failing_before(broker.admin.follow_broker))
    with running(publishing):
        publishing.publish(images.create("orders", 70, (1,)))
        wait_until(lambda: publishing.applied)
    assert TopicPartition("orders", 0) in replicas_of(broker).manager.partitions
    assert broker.settings.config.topic_defaults.max_message_bytes == 2000
    assert [one.message for one in caplog.records if one.levelname == "ERROR"] == [
        "could not apply the cluster's metadata; it is tried again"
    ], "of a failure that lasts people are told once"


def test_partitions_that_wait_for_descriptors_are_made_though_nothing_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.cluster.quorum.image_publisher.RETRY_S", 0.001)
    images, files = ScriptedImages(), ScarceFileSystem(FakeFileSystem())
    broker = open_quorum_member(files)
    publishing = Publishing(broker)
    files.has_descriptors = False
    with running(publishing):
        publishing.publish(images.create("orders", 70, (1,), (1,)))
        wait_until(lambda: publishing.applied and files.refused > 3)
        assert not replicas_of(broker).manager.partitions
        files.has_descriptors = True
        wait_until(lambda: len(replicas_of(broker).manager.partitions) == 2)
    assert len(publishing.complaints) == 2, "that they wait, and that none does any more"


class Syncs(RecordingFileSystem):
    """Notes for each sync of the names in the log directory whether the broker's lock is held."""

    brokers_lock: NotingLock | None = None

    def __init__(self) -> None:
        super().__init__(FakeFileSystem())
        self.held: list[bool] = []

    def perform(
        self, call: IoCall, deed: Callable[[], Any], fall_short: Callable[[], None] | None = None
    ) -> Any:
        if (
            call.kind is IoKind.SYNC_DIRECTORY
            and call.path == "/d"
            and self.brokers_lock is not None
        ):
            self.held.append(self.brokers_lock.is_held)
        return deed()


def test_nobody_waits_while_the_names_of_deleted_partitions_are_synced() -> None:
    images, files = ScriptedImages(), Syncs()
    broker = open_quorum_member(files)
    publishing = Publishing(broker)
    images.create("orders", 70, *[(1,)] * 9)
    newest = images.register(1, fenced=False)
    replicas_of(broker).registered(newest.brokers[1].epoch)
    with running(publishing):
        publishing.publish(newest)
        wait_until(lambda: publishing.applied)
        files.brokers_lock = publishing.lock
        gone = images.delete(70)
        publishing.publish(gone)
        wait_until(lambda: publishing.applied[-1] == gone.end_offset)
        files.brokers_lock = None
    assert not list(broker.topics)
    assert len(files.held) >= 2
    # One write of the checkpoints for all of them follows.
    assert not any(files.held[:2])

"""Changes of the image, and the topics that it shows beside them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from ottla.base.errors import StorageError
from ottla.broker.metadata.image_store import Decision, ImageStore
from ottla.broker.metadata.log import NO_CHANGE, Change
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.metadata.image_changes import VersionedRecord
from tests.support.brokers import id_of

ORDERS = TopicImage("orders", id_of(1), {})
PAID = TopicImage("paid", id_of(2), {})


@dataclass
class Log:
    """A log at whose steps something else happens."""

    level: int = 21
    at_preparing: list[Callable[[], None]] = field(default_factory=list)
    at_syncing: list[Callable[[], None]] = field(default_factory=list)

    def check(self) -> None: ...

    def prepare(self, records: Iterable[VersionedRecord]) -> Change:
        if self.at_preparing:
            self.at_preparing.pop(0)()
        return NO_CHANGE

    def append(self, change: Change) -> None: ...

    def sync(self) -> None:
        if self.at_syncing:
            self.at_syncing.pop(0)()


def with_feature(level: int, decided: list[int]) -> Callable[[MetadataImage], Decision]:
    def decide(image: MetadataImage) -> Decision:
        decided.append(len(image.topics))
        return replace(image, features={"group.version": level}), ()

    return decide


def show(store: ImageStore, *topics: TopicImage, gone: Sequence[str] = ()) -> None:
    changes = [(one.name, one) for one in topics]
    store.show_topics([*changes, *((name, None) for name in gone)])


def test_topics_that_are_shown_meanwhile_stay() -> None:
    log, decided = Log(), list[int]()
    store = ImageStore(MetadataImage(), log)
    log.at_preparing.append(lambda: show(store, ORDERS))
    log.at_syncing.append(lambda: show(store, PAID))
    store.change(with_feature(1, decided))
    assert (list(store.image.topics), decided) == (["orders", "paid"], [0, 1])
    assert store.image.features == {"group.version": 1}
    show(store, gone=["orders"])
    assert (list(store.image.topics), store.image.topic_names) == (["paid"], {id_of(2): "paid"})


def test_a_decision_is_made_again_after_another_one() -> None:
    log, decided = Log(), list[int]()
    store = ImageStore(MetadataImage(), log)

    def other() -> None:
        show(store, ORDERS)
        store.change(with_feature(2, decided))

    log.at_preparing.append(other)
    store.change(with_feature(1, decided))
    assert (store.image.features, decided) == ({"group.version": 1}, [0, 1, 1])


def test_what_could_not_be_made_durable_goes() -> None:
    log = Log()
    store = ImageStore(MetadataImage(), log)
    show(store, ORDERS)

    def fail() -> None:
        raise StorageError("/d", "the disk is broken")

    log.at_syncing.append(fail)
    with pytest.raises(StorageError):
        store.change(with_feature(1, []))
    assert (list(store.image.topics), store.image.features) == (["orders"], {})

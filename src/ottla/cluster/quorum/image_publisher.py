"""The thread `ottla-image`: applies what the quorum has committed to the broker, under its lock.

It holds the lock for a few milliseconds at a time, and lets the server go on between. Images that
come meanwhile are applied as one. Kafka's counterpart: `MetadataLoader`, with its publishers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock
from time import perf_counter
from typing import Final, NamedTuple

from ottla.base.clock import Clock, read_clock
from ottla.base.turns import CURRENT, Turn
from ottla.broker.broker import Broker
from ottla.broker.control.image_following import ImageFollower
from ottla.broker.replicas.replicas import Replicas
from ottla.cluster.place import Place
from ottla.cluster.quorum.quorum_thread import Published
from ottla.cluster.worker import Repeated, Worker
from ottla.metadata.changes import ImageChanges
from ottla.metadata.image import MetadataImage

SLICE_S: Final = 0.002
"""How long the broker's lock is held, but for what is not done in turns."""

PAUSE_S: Final = 0.001
"""How long others have the lock: without a pause this thread would take it again at once."""

IDLE_S: Final = 60.0
"""How long the thread sleeps at most while nothing is published."""

RETRY_S: Final = 1.0

START_S: Final = 0.02
"""How soon an image that came before the broker's registration is looked at again."""

UNLIMITED: Final = 1 << 62


class StoppedError(BaseException):
    """Ends the application of an image when the broker stops."""


class Counterparts(NamedTuple):
    """Who is told: `complain` gets lines for people; `applied` is called after each image."""

    complain: Callable[[str], None]
    applied: Callable[[], None]


class ImagePublisher:
    def __init__(self, broker: Broker, place: Place, clock: Clock, told: Counterparts) -> None:
        assert isinstance(broker.replicas, Replicas), "assembled as one of a cluster"
        self._broker = broker
        self._replicas = broker.replicas
        self._place = place
        self._told = told
        self._known = broker.image_store.image
        """The last image that was applied."""
        self._follower = ImageFollower(broker, lambda: read_clock(clock), told.complain)
        self._lock = Lock()
        self._waiting: Published | None = None
        self._is_caught_up = False
        self._failure = Repeated("could not apply the cluster's metadata; it is tried again")
        self._stopping = Event()
        self._turn = Turn(
            self._let_others, perf_counter, max_elements=UNLIMITED, max_size=UNLIMITED
        )
        self._turn.leave, self._turn.come_back = self._leave, self._enter
        self._worker = Worker("ottla-image", self._work)

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        """Must not be called under the broker's lock, for which the thread may wait."""
        self._stopping.set()
        self._worker.stop()

    # From any thread

    def publish(self, published: Published) -> None:
        """Has an image applied soon: the newest, if several wait."""
        with self._lock:
            earlier, self._waiting = self._waiting, published
            if earlier is not None:
                self._waiting = _together(earlier, published)
        self._worker.wake()

    @property
    def image(self) -> MetadataImage:
        """The last image that was applied; its end is the offset for heartbeats."""
        return self._known

    @property
    def is_caught_up(self) -> bool:
        """Whether an image was applied that had all that was committed before the start."""
        return self._is_caught_up

    # The thread

    def _work(self) -> float:
        with self._lock:
            published, self._waiting = self._waiting, None
        if published is None:
            return self._make_awaited()
        may_begin = self._may_begin(published)
        try:
            # Rules and settings are not waited for: a broker may need them to be registered.
            if may_begin or published.image is not self._known:
                self._apply(published, touches_disks=may_begin)
        except StoppedError:
            return IDLE_S
        except Exception as error:
            self._failure.happened(error)
            self._put_back(published)
            return RETRY_S
        self._failure.is_over()
        if not may_begin:
            self._put_back(published)
            return START_S
        self._told.applied()
        return RETRY_S if self._follower.awaits else 0.0

    def _make_awaited(self) -> float:
        """Tries again what lacked descriptors, at times when nothing is published too."""
        if not self._follower.awaits:
            return IDLE_S
        with suppress(StoppedError), self._in_turns():
            self._follower.make_awaited()
        return RETRY_S if self._follower.awaits else IDLE_S

    def _put_back(self, published: Published) -> None:
        with self._lock:
            later = self._waiting
            self._waiting = published if later is None else _together(published, later)

    def _may_begin(self, published: Published) -> bool:
        """Whether the disks may be touched: not by an image of the past, as what it does
        not name would be put aside.

        The high watermark does not tell: that of a leader that was voted out, or has led for a
        moment only, may be of any time. What has this broker's registration has all that was
        committed before this process began (`BrokerLifecycleManager.initialCatchUpFuture`).
        """
        if self._is_caught_up or not self._broker.settings.config.has_broker_role:
            return True
        known = published.image.brokers.get(self._broker.node_id)
        return known is not None and known.epoch == self._replicas.manager.broker_epoch

    def _apply(self, published: Published, *, touches_disks: bool) -> None:
        image, changes = published.image, published.changes
        if published.is_whole or not self._is_caught_up:
            changes = ImageChanges.between(self._known, image)
        with self._in_turns():
            self._follower.follow(image, changes, touches_disks=touches_disks)
        self._known, self._is_caught_up = image, touches_disks

    @contextmanager
    def _in_turns(self) -> Iterator[None]:
        """Under the broker's lock, which others have in between; raises `StoppedError`."""
        self._turn.is_kept = False
        self._enter()
        token = CURRENT.set(self._turn)
        try:
            yield
            self._turn.free()
        finally:
            CURRENT.reset(token)
            self._leave()

    def _enter(self) -> None:
        self._place.lock.__enter__()
        self._turn.until_s = perf_counter() + SLICE_S

    def _leave(self) -> None:
        """Also has the server answer those who waited."""
        self._place.lock.__exit__(None, None, None)
        self._place.wake()

    def _let_others(self) -> None:
        self._leave()
        is_stopping = self._stopping.wait(PAUSE_S)
        self._enter()
        if is_stopping and not self._turn.is_kept:
            raise StoppedError


def _together(earlier: Published, later: Published) -> Published:
    return later._replace(
        changes=earlier.changes.then(later.changes),
        is_whole=earlier.is_whole or later.is_whole,
    )

"""The image that a broker's parts ask, and through which they change the cluster's metadata.

A change is decided on the present image, its records are appended to the metadata log, and it is in
effect when they are durable. Changes by requests are made in turns: 100,000 rules take a while, and
other requests are served meanwhile.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import chain, count
from typing import TYPE_CHECKING, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import OneAtATime, at_once, in_a_turn, kept
from ottla.metadata.image import MetadataImage, TopicImage

if TYPE_CHECKING:
    from ottla.broker.metadata.log import Change
    from ottla.metadata.image_changes import VersionedRecord

MOST_ATTEMPTS_IN_TURNS: Final = 3

Decision = tuple[MetadataImage, "Iterable[VersionedRecord]"]
"""Another image, and the records that make it of the present one."""


class Log(Protocol):
    """The part of `MetadataLog` through which images change."""

    @property
    def level(self) -> int: ...

    def check(self) -> None: ...

    def prepare(self, records: "Iterable[VersionedRecord]") -> "Change": ...

    def append(self, change: "Change") -> None: ...

    def sync(self) -> None: ...


class Images(Protocol):
    """An image, and the way to change it."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def level(self) -> int:
        """The `metadata.version` by which records have their versions."""

    def check_level(self, what: str, least: int) -> None:
        """Raises `ApiError` if the log's metadata.version is too old for a change."""

    def change(
        self,
        decide: Callable[[MetadataImage], Decision | None],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Replaces the image by the one that `decide` returns, whose records are kept; without one
        nothing changes. `decide` may be called again, and `then` is called at the end.
        """


def check_level(level: int, what: str, least: int) -> None:
    """Raises `ApiError` if a log of a metadata.version is too old for a change."""
    if level < least:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The metadata log has metadata.version {level}, and has {what} from {least} on; raise "
            "it with kafka-features.",
        )


class ImageStore:
    """`image` is what the log holds, but for entries that `leave_out` has removed, and topics that
    are on the disks without a record (`show_topics`); or it is what ZooKeeper has.
    """

    def __init__(self, image: MetadataImage, log: Log) -> None:
        self.image = image
        self._log = log
        self._left_out: list[VersionedRecord] = []
        self._changing = OneAtATime()

    @property
    def level(self) -> int:
        """The `metadata.version` by which records have their versions."""
        return self._log.level

    def check(self) -> None:
        """Raises `ApiError` or `StorageError` if nothing can be changed."""
        self._log.check()

    def check_level(self, what: str, least: int) -> None:
        """Raises `ApiError` if the log's metadata.version is too old for a change."""
        check_level(self._log.level, what, least)

    def replace(self, image: MetadataImage, records: "Iterable[VersionedRecord]") -> None:
        """Writes a change immediately; raises `StorageError` and then keeps the old image."""
        self._write(image, self._prepare(records))

    def leave_out(self, image: MetadataImage, records: "Iterable[VersionedRecord]") -> None:
        """Removes entries that are no longer needed, from the log with the next change."""
        self._left_out += records
        self.image = image

    def follow(self, image: MetadataImage) -> None:
        """Applies what ZooKeeper has; nothing is written."""
        self.image = image

    def show_topics(self, topics: Iterable[tuple[str, TopicImage | None]]) -> None:
        """Shows topics as the log does not have them, `None` for one that is not there; at once."""
        with at_once():
            self.image = self.image.with_topics(topics)

    def change(
        self,
        decide: Callable[[MetadataImage], Decision | None],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Replaces the image by the one that `decide` returns, in turns; raises `StorageError`.

        If another change came in between, `decide` is called again. If it returns `None`, nothing
        is written. `then` is called before the next change in turns.
        """
        if not in_a_turn():
            self._change(decide)
            then()
            return
        with self._changing, kept():
            self._change(decide)
            then()

    def _change(self, decide: Callable[[MetadataImage], Decision | None]) -> None:
        for attempt in count():
            # Requests that are not in turns do not wait for this one: it must end nevertheless.
            with at_once() if attempt >= MOST_ATTEMPTS_IN_TURNS else nullcontext():
                base = self.image
                decision = decide(base)
                change = None if decision is None else self._prepare(decision[1])
            if self.image is not base:
                continue  # replaced meanwhile
            if decision is not None and change is not None:
                self._write(decision[0], change)
            return

    def _prepare(self, records: "Iterable[VersionedRecord]") -> "Change":
        return self._log.prepare(chain(self._left_out, records))

    def _write(self, new: MetadataImage, change: "Change") -> None:
        known = self.image
        self._log.append(change)
        self._left_out.clear()
        # In effect from here on, as other changes may be decided while this one becomes durable.
        self.image = new
        try:
            self._log.sync()
        except BaseException:
            if self.image is new:
                self.image = known
            raise

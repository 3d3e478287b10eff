"""What the active controller has decided: an image, and the records that have led to it.

The image is made by replaying these records, as every other node makes its own, so that what the
controller decides on is what the cluster will know. Nothing is undone: a controller that loses its
leadership is dropped, and the next one begins with an image of the log. Kafka's counterpart:
`QuorumController`, `ControllerWriteEvent`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.controlling.staging import Staged
from ottla.broker.controlling.warnings import unclean_line
from ottla.broker.metadata.image_store import Decision, check_level
from ottla.metadata.image import FIRST_WITH_TRANSACTIONS, MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.log_writing import RECORDS_PER_BATCH, Batch, in_transaction
from ottla.metadata.records import ConfigRecord
from ottla.metadata.replay import MetadataReplay
from ottla.quorum.options import MAX_BATCH_SIZE

MAX_ATOMIC_COUNT: Final = 10_000
"""The most records of one batch (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""

MAX_TEXT_SIZE: Final = 1_000_000
"""Characters of all settings in one change: a batch has 8 MiB (`KafkaRaftClient`)."""


class PendingRecords:
    """`image` has all that was decided, and `end_offset` is the offset of the next record.

    `complain` gets a line for people.
    """

    def __init__(
        self,
        image: MetadataImage,
        end_offset: int,
        epoch: int,
        complain: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._image: MetadataImage | None = image
        self.end_offset = end_offset
        self._replay = MetadataReplay.of(image)
        self._replay.epoch = epoch
        self._complain = complain
        self._batches: list[Batch] = []

    @property
    def image(self) -> MetadataImage:
        """Made when it is asked for: each costs a copy of all topics' names."""
        if self._image is None:
            self._image = self._replay.image()
        return self._image

    @property
    def level(self) -> int:
        """The cluster's `metadata.version`, by which records have their versions."""
        return self.image.level

    def check_level(self, what: str, least: int) -> None:
        check_level(self.level, what, least)

    def change(
        self,
        decide: Callable[[MetadataImage], Decision | None],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Takes over the records of what is decided (`Images.change`)."""
        decision = decide(self.image)
        if decision is not None:
            self.write(decision[1])
        then()

    def write(self, records: Iterable[VersionedRecord]) -> None:
        """Decides records that readers apply all together; raises `ApiError` for too many."""
        every = [*records]
        if not every:
            return
        _check_size(every)
        if len(every) <= MAX_ATOMIC_COUNT:
            self._take(every)
            return
        if self.level < FIRST_WITH_TRANSACTIONS:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"One change makes at most {MAX_ATOMIC_COUNT} records, not {len(every)}, before "
                f"metadata.version {FIRST_WITH_TRANSACTIONS}.",
            )
        self.write_parts(in_transaction("A change of many records", every))

    def write_parts(self, records: list[VersionedRecord]) -> None:
        """Decides records in batches of moderate size; a transaction holds them together."""
        for first in range(0, len(records), RECORDS_PER_BATCH):
            self._batches.append(records[first : first + RECORDS_PER_BATCH])
        self._apply(records)

    def _take(self, records: list[VersionedRecord]) -> None:
        self._batches.append(records)
        self._apply(records)

    def write_staged(self, staged: Staged) -> None:
        """Decides what was decided on in parts; raises `ApiError` if it is too large."""
        _check_size(staged.new.head)
        if (size := staged.packed.size) > MAX_BATCH_SIZE:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"The partitions of one change take {size} bytes of the metadata log, and may take "
                f"{MAX_BATCH_SIZE}: make fewer of them at a time.",
            )
        self._batches.append(staged.packed)
        for record, _ in staged.new.head:
            self._replay.replay(record)
        self._replay.add_partitions(staged.new.name, staged.partitions)
        self._applied(len(staged.packed))

    def _apply(self, records: list[VersionedRecord]) -> None:
        for record, _ in records:
            self._replay.replay(record)
        self._applied(len(records))
        line = unclean_line(lambda: self.image, records)
        if line is not None:
            self._complain(line)

    def _applied(self, count: int) -> None:
        self.end_offset += count
        self._replay.end_offset = self.end_offset
        self._image = None
        self._replay.forget_changes()  # which nobody here asks about

    def take_batches(self) -> list[Batch]:
        """The batches since the last call, in the log's order; each is appended as one."""
        batches, self._batches = self._batches, []
        return batches


def _check_size(records: list[VersionedRecord]) -> None:
    """Raises `ApiError` for texts of clients that could be larger than a batch of the log."""
    size = sum(
        len(record.name) + len(record.value or "")
        for record, _ in records
        if isinstance(record, ConfigRecord)
    )
    if size > MAX_TEXT_SIZE:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"The settings of one change have {size} characters, and may have {MAX_TEXT_SIZE}.",
        )

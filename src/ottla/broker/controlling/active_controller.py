"""The leader of the quorum decides about the cluster's metadata.

It is a machine without I/O or clock, in the quorum's thread: verbs take typed values, decide on the
image, and leave records to be appended. They return a result, or raise `ApiError` and have changed
nothing. Kafka's counterpart: `QuorumController`.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeVar

from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.configs.config_changes import ResourceAlteration
from ottla.broker.controlling.access_verbs import AccessVerbs
from ottla.broker.controlling.activation import activation_records
from ottla.broker.controlling.outcomes import Outcome
from ottla.broker.controlling.pending_records import PendingRecords
from ottla.broker.controlling.setting_changes import SettingChanges
from ottla.broker.quotas.quota_changes import QuotaAlteration, altered_quotas, with_quotas
from ottla.broker.security.access_changes import AccessChanges
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParts:
    """What an active controller is given by its node.

    `bootstrap` is what a new log begins with, `chance` returns a large random number, and
    `complain` takes a line for people.
    """

    node_id: int
    config: Callable[[], BrokerConfig]
    new_id: Callable[[], Uuid]
    chance: Callable[[], int]
    bootstrap: Sequence[VersionedRecord]
    complain: Callable[[str], None]


class ActiveController(AccessVerbs):
    """It begins with the `image` of the whole log, whose next record gets `end_offset`.

    What is to be appended must be taken after each verb and before anything else is appended; if
    others append, such as a change of voters, `end_offset` is set to where the log then ends.
    """

    def __init__(
        self,
        parts: ControllerParts,
        image: MetadataImage,
        end_offset: int,
        epoch: int,
        at: Timestamps,
    ) -> None:
        self._parts = parts
        self._at = at
        self._pending = PendingRecords(image, end_offset, epoch)
        super().__init__(AccessChanges(self._pending, parts.new_id))
        self._settings = SettingChanges(self._pending, parts.config)
        for records in activation_records(image, parts.bootstrap):
            self._pending.write_parts(records)

    # What was decided

    @property
    def image(self) -> MetadataImage:
        """With all that was decided, committed or not."""
        return self._pending.image

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._pending.end_offset

    @end_offset.setter
    def end_offset(self, offset: int) -> None:
        self._pending.end_offset = offset

    def take_batches(self) -> list[list[VersionedRecord]]:
        """What is to be appended since the last call, in order, each of them atomically."""
        return self._pending.take_batches()

    # Time

    @property
    def deadline_ms(self) -> float:
        """The monotonic time at which `advance` has something to do."""
        return inf

    def advance(self, at: Timestamps) -> None:
        """Notes the time, which the next verbs have, and does what is due."""
        self._at = at

    # Settings and quotas

    def alter_configs(
        self, wanted: Sequence[ResourceAlteration], *, validate_only: bool
    ) -> Sequence[Outcome]:
        """Changes the settings of resources, each named once; returns the outcome of each."""
        return self._settings.alter(wanted, validate_only=validate_only)

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: Callable[[T], QuotaAlteration],
        *,
        validate_only: bool,
    ) -> Sequence[Outcome]:
        """Changes the quotas of entities, each named in one entry; returns the outcome of each."""
        image = self._pending.image
        of_entities, outcomes = altered_quotas(image.quotas, entries, alteration_of)
        if not validate_only:
            self._pending.write(with_quotas(image, of_entities)[1])
        return outcomes

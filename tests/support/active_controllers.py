"""An active controller without a quorum, and the image that others make of its records."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from ottla.base.timestamps import Timestamps
from ottla.base.turns import InParts, result_of
from ottla.broker.controlling.active_controller import ActiveController, ControllerParts
from ottla.codec.api_messages import decode_api_message
from ottla.config.broker import broker_config
from ottla.metadata.deciding.features import Quorum
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.log_writing import Batch
from ottla.metadata.records import BY_KEY, FeatureLevelRecord
from ottla.metadata.replay import MetadataReplay
from ottla.record.batch import RecordBatch
from ottla.record.builder import PackedRecords
from ottla.record.record import read_records

BEGUN = Timestamps(now_ms=1_000_000, monotonic_ms=1000.0)
LEVEL = 25
CLUSTER_ID = "a-cluster-for-tests-01"


def levels(**features: int) -> list[VersionedRecord]:
    """The records of features, named with underscores."""
    return [
        (FeatureLevelRecord(name=name.replace("_", "."), feature_level=level), 0)
        for name, level in features.items()
    ]


class PromptController(ActiveController):
    """Decides on many things in one go."""


def _in_one_go(verb: Callable[..., InParts[Any]]) -> Callable[..., Any]:
    return lambda *args, **named: result_of(verb(*args, **named))


for _verb in (
    ActiveController.create_topics,
    ActiveController.create_partitions,
    ActiveController.delete_topics,
    ActiveController.elect_leaders,
    ActiveController.alter_reassignments,
    ActiveController.list_reassignments,
    ActiveController.alter_partition,
    ActiveController.assign_replicas_to_dirs,
    ActiveController.register_broker,
    ActiveController.unregister_broker,
    ActiveController.create_acls,
    ActiveController.delete_acls,
    ActiveController.alter_users,
    ActiveController.alter_configs,
    ActiveController.alter_quotas,
):
    setattr(PromptController, _verb.__name__, _in_one_go(_verb))


class AloneInQuorum:
    """A controller whose records are committed when they are taken: `log` has their batches."""

    def __init__(
        self,
        bootstrap: Sequence[VersionedRecord] = (),
        image: MetadataImage | None = None,
        kind: type[ActiveController] = PromptController,
        **settings: str,
    ) -> None:
        ids = count(1)
        self._kind = kind
        self.complaints: list[str] = []
        self.config = broker_config(settings)
        self.parts = ControllerParts(
            node_id=1,
            cluster_id=CLUSTER_ID,
            config=lambda: self.config,
            new_id=lambda: next(ids).to_bytes(16, "big"),
            chance=lambda: 0,
            bootstrap=bootstrap or levels(metadata_version=LEVEL),
            complain=self.complaints.append,
            quorum=lambda: Quorum(1, [1]),
        )
        self.begun_with = MetadataImage() if image is None else image
        self.log: list[list[VersionedRecord]] = []
        self.controller = self.elected(self.begun_with, 1)

    def elected(self, image: MetadataImage, epoch: int) -> Any:
        """Another controller, that begins with an image, after its LeaderChange."""
        return self._kind(self.parts, image, image.end_offset + 1, epoch, BEGUN)

    @property
    def level(self) -> int:
        return self.controller.image.features[METADATA_VERSION]

    def commit(self) -> list[list[VersionedRecord]]:
        """The batches since the last call, which are in `log` from now on."""
        batches = [*map(records_in, self.controller.take_batches())]
        self.log += batches
        return batches

    def replayed(self) -> MetadataImage:
        """The image that a node makes of all records."""
        self.commit()
        replay = MetadataReplay()
        for batch in self.log:
            for record, _ in batch:
                replay.replay(record)
        return replay.image()


def records_in(batch: Batch) -> list[VersionedRecord]:
    """The records of a batch, also of one that was encoded while it was decided on."""
    if not isinstance(batch, PackedRecords):
        return [*batch]
    content = batch.batch(0, leader_epoch=0, timestamp_ms=0)
    read = read_records(RecordBatch(content))
    return [decode_api_message(one.value or b"", BY_KEY) for one in read]

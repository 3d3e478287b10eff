"""What a new leader writes before anything else.

Kafka's counterpart: `ActivationRecordsGenerator`.
"""

from collections.abc import Iterator, Sequence

from ottla.metadata.image import FIRST_WITH_TRANSACTIONS, METADATA_VERSION, MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.log_writing import abort, formatting
from ottla.metadata.records import FeatureLevelRecord


def activation_records(
    image: MetadataImage, bootstrap: Sequence[VersionedRecord]
) -> Iterator[list[VersionedRecord]]:
    """A transaction that the leader before has not ended is aborted, and a log that has no records
    gets those that its directory was formatted with.
    """
    if image.has_open_transaction:
        yield [abort()]
    if not image.features:
        has_transactions = _level_of(bootstrap) >= FIRST_WITH_TRANSACTIONS
        yield formatting(bootstrap) if has_transactions else [*bootstrap]


def _level_of(records: Sequence[VersionedRecord]) -> int:
    return next(
        (
            record.feature_level
            for record, _ in records
            if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION
        ),
        0,
    )

"""What a new leader writes before anything else.

Kafka's counterpart: `ActivationRecordsGenerator`.
"""

from collections.abc import Iterator, Sequence

from ottla.metadata.deciding.features import min_isr_records
from ottla.metadata.image import FIRST_WITH_TRANSACTIONS, METADATA_VERSION, MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.levels import ELR_VERSION
from ottla.metadata.log_writing import abort, formatting
from ottla.metadata.replay import MetadataReplay


def activation_records(
    image: MetadataImage, bootstrap: Sequence[VersionedRecord], min_isr: int
) -> Iterator[list[VersionedRecord]]:
    """A transaction that the leader before has not ended is aborted, and a log that has no records
    gets those that its directory was formatted with. `min_isr` is the setting
    `min.insync.replicas` of this node.
    """
    if image.has_open_transaction:
        yield [abort()]
    if image.features:
        return
    replay = MetadataReplay()
    for record, _ in bootstrap:
        replay.replay(record)
    new = replay.image()
    records = [*bootstrap]
    if new.features.get(ELR_VERSION):
        records += min_isr_records(new, min_isr)
    has_transactions = new.features.get(METADATA_VERSION, 0) >= FIRST_WITH_TRANSACTIONS
    yield formatting(records) if has_transactions else records

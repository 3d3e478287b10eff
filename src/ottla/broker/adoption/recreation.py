"""Re-creates a metadata log, with this broker as the only node.

That is needed for the log of a cluster with other nodes, which no node may continue alone, and for
a damaged one, of which what lies before the damage counts. The log is written aside, and replaces
the old one, which is kept as a stray directory. Kafka has no counterpart.
"""

from dataclasses import replace
from typing import Final

from ottla.base.errors import UserError
from ottla.base.files import FileSystem, join, make_durable_directory
from ottla.broker.adoption.found_metadata import FoundMetadata
from ottla.broker.adoption.handover import HandoverOptions
from ottla.broker.metadata.log import LogOptions, MetadataLog
from ottla.metadata.image import METADATA_VERSION, MetadataImage, PartitionImage
from ottla.metadata.image_changes import image_changes
from ottla.storage.directory.stopped_directory import StoppedDirectory
from ottla.storage.files.boot_note import note_end
from ottla.storage.files.filenames import (
    BOOTSTRAP_CHECKPOINT,
    CLUSTER_METADATA,
    CLUSTER_METADATA_DIRECTORY,
    stray_directory_name,
)
from ottla.storage.files.meta_properties import properties_of
from ottla.storage.files.metadata_files import has_metadata_log, metadata_folder
from ottla.storage.snapshots.copying import remove_tree

ASIDE: Final = "ottla-recreating"


def recreate(found: FoundMetadata, file_system: FileSystem, options: HandoverOptions) -> str:
    """Replaces the log; returns a line about it. The caller has the directories' locks.

    Raises `UserError`.
    """
    assert found.path is not None
    properties = properties_of(file_system, found.path)
    if properties is None or properties.node_id is None:
        raise UserError(f"{found.path} has no meta.properties with a node; restore the file")
    aside = join(found.path, ASIDE)
    if file_system.status(aside) is not None:
        remove_tree(file_system, aside)
    make_durable_directory(file_system, aside)
    image = _alone(found, properties.node_id)
    with StoppedDirectory(aside, file_system, properties, options.now_ms) as directory:
        own = LogOptions(node_id=properties.node_id, now_ms=options.now_ms)
        log = MetadataLog(directory, file_system, None, own)
        log.begin()
        formatted = MetadataImage(features={METADATA_VERSION: log.level})
        log.commit(image_changes(formatted, image))
    folder = metadata_folder(found.path)
    kept = join(found.path, stray_directory_name(CLUSTER_METADATA, 0, options.new_id()))
    # Before the renames: a crash in between must not make the shorter log look cut.
    note_end(file_system, found.path, CLUSTER_METADATA_DIRECTORY, 0)
    file_system.rename(folder, kept)
    file_system.rename(metadata_folder(aside), folder)
    file_system.rename(join(aside, BOOTSTRAP_CHECKPOINT), join(found.path, BOOTSTRAP_CHECKPOINT))
    file_system.sync_directory(found.path)
    remove_tree(file_system, aside)
    return (
        f"{folder}: re-created with node {properties.node_id} as the only one and "
        f"{len(image.topics)} topics; the former log is kept as {kept}"
    )


def finish(path: str, file_system: FileSystem) -> None:
    """Puts a log in its place that a crash has left aside."""
    aside = join(path, ASIDE)
    if has_metadata_log(file_system, aside) and not has_metadata_log(file_system, path):
        file_system.rename(metadata_folder(aside), metadata_folder(path))
        file_system.sync_directory(path)
        remove_tree(file_system, aside)


def _alone(found: FoundMetadata, node_id: int) -> MetadataImage:
    """The image with the topics that are here, and without other nodes."""
    return replace(
        found.image,
        topics={
            name: topic._replace(
                partitions={
                    index: _led_by(one, node_id) for index, one in topic.partitions.items()
                },
            )
            for name, topic in found.image.topics.items()
            if name in found.known.entries
        },
        brokers={},
        controllers={},
    )


def _led_by(one: PartitionImage, node_id: int) -> PartitionImage:
    return replace(
        one,
        replicas=(node_id,),
        isr=(node_id,),
        leader=node_id,
        leader_epoch=one.leader_epoch + 1,
        partition_epoch=one.partition_epoch + 1,
        directories=one.directories[:1],
    )

"""The metadata log of a directory in tests: what it holds, what others wrote into it, its loss."""

from collections.abc import Iterable, Mapping

from ottla.base.files import FileSystem, join
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.broker import Broker
from ottla.broker.metadata.image_store import Decision
from ottla.broker.metadata.log import LogOptions, MetadataLog
from ottla.codec.schema import Message
from ottla.metadata.acls import Acl
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.metadata.image_changes import config_records
from ottla.metadata.log_files import ReadLog
from ottla.metadata.records import ConfigRecord
from ottla.storage.directory.stopped_directory import StoppedDirectory
from ottla.storage.files.filenames import CLUSTER_METADATA_DIRECTORY, METADATA_MARK, log_file_name
from ottla.storage.files.known_topics import read_known_topics
from ottla.storage.files.meta_properties import properties_of
from ottla.storage.files.metadata_files import has_metadata_log, read_metadata_log
from ottla.testing.clock import DEFAULT_NOW_MS


def log_of(files: FileSystem, directory: str = "/d") -> ReadLog:
    """A log without damage, or nothing without one."""
    if not has_metadata_log(files, directory):
        return ReadLog(content=MetadataImage())
    log = read_metadata_log(files, directory)
    assert log.damage is None, log.damage
    return log


def image_of(files: FileSystem, directory: str = "/d") -> MetadataImage:
    return log_of(files, directory).content


def record_settings(broker: Broker, topic: str, settings: Mapping[str, str]) -> None:
    """Gives a topic settings more, whether or not they may be."""

    def decide(image: MetadataImage) -> Decision:
        known = image.topics[topic]
        configured = known._replace(configs={**known.configs, **settings})
        records = config_records(ResourceKind.TOPIC, topic, known.configs, configured.configs)
        return image.with_topics([(topic, configured)]), records

    broker.image_store.change(decide)
    broker.topic_store.configure(
        broker.topics.get(topic), broker.image_store.image.topics[topic].configs
    )


def topics_of(files: FileSystem, directory: str = "/d") -> Mapping[str, TopicImage]:
    return read_known_topics(files, directory).entries


def acls_of(files: FileSystem, directory: str = "/d") -> list[Acl]:
    return list(image_of(files, directory).all_acls())


def segment(directory: str = "/d", offset: int = 0) -> str:
    return join(directory, CLUSTER_METADATA_DIRECTORY, log_file_name(offset))


def lose_metadata(files: FileSystem, directory: str = "/d", *, with_mark: bool = True) -> None:
    """Removes the log, as a person might."""
    folder = join(directory, CLUSTER_METADATA_DIRECTORY)
    for name in files.list(folder):
        files.remove(join(folder, name))
    files.remove_directory(folder)
    if with_mark:
        files.remove(join(directory, METADATA_MARK))


def write_records(files: FileSystem, *records: Message, directory: str = "/d") -> None:
    """Adds records to the log of a directory that was stopped in order, as its leader did."""
    properties = properties_of(files, directory)
    assert properties is not None
    assert properties.node_id is not None
    found = log_of(files, directory)
    with StoppedDirectory(directory, files, properties, DEFAULT_NOW_MS) as stopped:
        options = LogOptions(node_id=properties.node_id, now_ms=DEFAULT_NOW_MS)
        log = MetadataLog(stopped, files, found, options)
        log.commit([(record, 0) for record in records])


def settings(kind: int, resource: str, values: Mapping[str, str]) -> Iterable[ConfigRecord]:
    """Records of settings, as if they had once been accepted."""
    return [
        ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
        for name, value in values.items()
    ]

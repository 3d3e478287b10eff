"""Facts about topics that their directories do not contain: settings, partition counts, and
unfinished deletions.

Format page: docs/format/ottla-topics.md. Kafka keeps this in its controller; Ottla in one small
file per log directory, which Kafka ignores. It is replaced atomically, so a crash leaves the old
or the new content. A topic's entry is written before its first partition is created, and marked
before its first partition is removed, so `Broker.open` can finish either after a crash. If
directories disagree, the highest revision wins. If a topic is deleted while a directory is
missing, its id is kept to recognize its partitions when that directory returns.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, join, replace_file
from ottla.base.ids import ZERO_UUID, Uuid, parse_uuid, uuid_text
from ottla.base.json_files import texts
from ottla.base.turns import sorted_in_turns
from ottla.base.values import dataclass
from ottla.storage.files.summed_json import read_summed_json, summed_json

TOPIC_FILE_NAME = "ottla-topics.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """One topic; `overrides` are the settings that differ from the broker's defaults, as texts."""

    name: str
    topic_id: Uuid
    partition_count: int
    overrides: Mapping[str, str]
    revision: int = 0
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFile:
    """The entries by name, and the ids of deleted topics that a directory may still contain."""

    entries: Mapping[str, TopicEntry]
    gone: frozenset[Uuid] = frozenset()
    is_found: bool = True
    """Whether there is a file at all."""

    def still_has(self, topic: str, partition: int) -> bool:
        """Whether a partition in a checkpoint belongs to a topic that was not deleted.

        A deleted topic is marked in the file, or has no entry. Without a file all partitions count.
        """
        if not self.is_found:
            return True
        entry = self.entries.get(topic)
        return entry is not None and not entry.is_deleted and partition < entry.partition_count

    def owner(self, topic_id: Uuid, name: str) -> str | None:
        """The topic with an id, `name` if that topic has it; `None` if there is none."""
        here = self.entries.get(name)
        if topic_id == ZERO_UUID or (here is not None and here.topic_id == topic_id):
            return name
        entries = self.entries.values()
        return next((entry.name for entry in entries if entry.topic_id == topic_id), None)


def read_topic_file(file_system: FileSystem, directory: str) -> TopicFile:
    """Returns an empty `TopicFile` if there is no file; raises `CorruptionError`."""
    path = join(directory, TOPIC_FILE_NAME)
    found = read_summed_json(file_system, path, _parse, "a list of topics")
    return TopicFile(entries={}, is_found=False) if found is None else found


def topics_if_whole(file_system: FileSystem, directory: str) -> TopicFile:
    """Like `read_topic_file`, but also empty if the file is damaged, which a start reports."""
    try:
        return read_topic_file(file_system, directory)
    except CorruptionError:
        return TopicFile(entries={}, is_found=False)


def write_topic_file(
    file_system: FileSystem,
    directory: str,
    entries: Iterable[TopicEntry],
    gone: Collection[Uuid] = (),
) -> None:
    """Replaces the file; a topic without an entry is completely deleted."""
    content = b"".join(topic_file_parts(entries, gone))
    replace_file(file_system, join(directory, TOPIC_FILE_NAME), content)


def topic_file_parts(entries: Iterable[TopicEntry], gone: Collection[Uuid] = ()) -> Iterator[bytes]:
    """Yields the file's content, one topic per line, in turns, since there may be thousands."""
    fields: dict[str, Any] = {"topics": map(_entry_fields, sorted_in_turns(entries, key=_name))}
    if gone:
        fields["gone"] = sorted(map(uuid_text, gone))
    return summed_json(fields)


def _name(entry: TopicEntry) -> str:
    return entry.name


def merge_topic_files(files: Iterable[TopicFile]) -> TopicFile:
    """One entry per topic from all directories, the highest revision of each."""
    all_files = list(files)
    gone = frozenset[Uuid]().union(*(one.gone for one in all_files))
    merged: dict[str, TopicEntry] = {}
    for one in all_files:
        for name, entry in one.entries.items():
            known = merged.get(name)
            if entry.topic_id in gone:
                continue
            if known is None or entry.revision > known.revision:
                merged[name] = entry
    is_found = any(one.is_found for one in all_files)
    return TopicFile(entries=merged, gone=gone, is_found=is_found)


def _parse(content: Any) -> TopicFile:
    entries = (_parse_entry(fields) for fields in content["topics"])
    return TopicFile(
        entries={entry.name: entry for entry in entries},
        gone=frozenset(parse_uuid(text) for text in content.get("gone", ())),
    )


def _parse_entry(fields: Any) -> TopicEntry:
    partition_count, revision = fields["partition_count"], fields["revision"]
    if not isinstance(partition_count, int) or not isinstance(revision, int):
        raise TypeError("partition_count and revision must be numbers")
    return TopicEntry(
        name=str(fields["name"]),
        topic_id=parse_uuid(fields["topic_id"]),
        partition_count=partition_count,
        overrides=texts(fields["configs"]),
        revision=revision,
        is_deleted=bool(fields["is_deleted"]),
    )


def _entry_fields(entry: TopicEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "topic_id": uuid_text(entry.topic_id),
        "partition_count": entry.partition_count,
        "revision": entry.revision,
        "is_deleted": entry.is_deleted,
        "configs": dict(sorted(entry.overrides.items())),
    }
